"""SUM and AVG."""

from __future__ import annotations

import numpy as np

from headrace.model.plan import LaneKind, OutputAggregate
from headrace.model.types import DOUBLE, Kind
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.encode import Physical, decimals, to_arrow
from headrace.operators.windows.folds import Fold, fold_floats, fold_ints
from headrace.operators.windows.lanes.added import AddedLogic
from headrace.operators.windows.lanes.base import (
    Lowered,
    Partials,
    RowPartials,
    each_range,
    group_ints,
    int_ranges,
    present,
    put_int_ranges,
    somewhere,
)

WIDE = 2**31
"""Integer inputs from this magnitude on carry a float shadow of their sum, which tells overflow from wrap-around."""


class IntSumLogic(AddedLogic):
    """Exact sums of integers: `v` modulo 2**64 and, once inputs are WIDE, `f` close enough to tell which multiple."""

    def lift(self, column: Physical | None, rows: int) -> Partials:
        assert column is not None
        values = column.values if column.valid is None else np.where(column.valid, column.values, 0)
        partials: Partials = {"v": values}
        if len(values) and (values.max() >= WIDE or values.min() <= -WIDE):
            partials["f"] = values.astype(np.float64)
        return partials

    def zeros(self, shape: tuple[int, ...]) -> Partials:
        return {"v": np.zeros(shape, np.int64)}

    def group(self, partials: Partials, bins: Ints, size: int) -> Partials:
        grouped: Partials = {"v": group_ints(partials["v"], bins, size)}
        if "f" in partials:
            grouped["f"] = np.bincount(bins, weights=partials["f"], minlength=size)
        return grouped

    def fold(self, partials: Partials, fold: Fold) -> Partials:
        folded: Partials = {"v": fold_ints(partials["v"], fold)}
        if "f" in partials:
            folded["f"] = fold_floats(partials["f"], fold)
        return folded

    def combine(self, left: Partials, right: Partials) -> Partials:
        with np.errstate(over="ignore"):
            partials: Partials = {"v": left["v"] + right["v"]}
        if "f" in left or "f" in right:
            partials["f"] = left.get("f", left["v"]) + right.get("f", right["v"])
        return partials

    def ranges(self, partials: Partials, lows: Ints, highs: Ints) -> Partials:
        return (
            each_range(self, partials, lows, highs)
            if "f" in partials
            else {"v": int_ranges(partials["v"], lows, highs)}
        )

    def put_ranges(self, array: Ints, lows: Ints, highs: Ints, into: Ints) -> None:
        """Make `into` [column, range, key] the sums over ranges of the middle axis, where there is no shadow."""
        put_int_ranges(array, lows, highs, into)


class FloatSumLogic(AddedLogic):
    """Sums of FLOAT and DOUBLE inputs, in double as Spark sums them."""

    def lift(self, column: Physical | None, rows: int) -> Partials:
        assert column is not None
        return {"v": column.values if column.valid is None else np.where(column.valid, column.values, 0.0)}

    def zeros(self, shape: tuple[int, ...]) -> Partials:
        return {"v": np.zeros(shape)}

    def group(self, partials: Partials, bins: Ints, size: int) -> Partials:
        return {"v": np.bincount(bins, weights=partials["v"], minlength=size)}

    def fold(self, partials: Partials, fold: Fold) -> Partials:
        return {"v": fold_floats(partials["v"], fold)}

    def ranges(self, partials: Partials, lows: Ints, highs: Ints) -> Partials:
        return each_range(self, partials, lows, highs)


def lower_sum(rows: RowPartials, index: int) -> Lowered:
    return finish_sum(rows.lane(LaneKind.SUM, index), somewhere(rows, index), rows.output.aggregates[index])


def lower_average(rows: RowPartials, index: int) -> Lowered:
    total, count = rows.lane(LaneKind.SUM, index), present(rows, index)
    if rows.certain(index):
        return to_arrow(total.get("f", total["v"]) / count, None, DOUBLE), None
    return finish_average(total, count), None


def finish_average(partials: Partials, count: Ints) -> Array:
    total = partials["f"] if "f" in partials else partials["v"]
    return to_arrow(total / np.maximum(count, 1), count > 0, DOUBLE)


def finish_sum(partials: Partials, some: Bools | None, aggregate: OutputAggregate) -> Lowered:
    """Sums in the type of the result, and where they do not fit it. They are NULL where `some` (None: all) is false."""
    if aggregate.type.kind is Kind.MONTHS:
        fits = partials["v"].astype(np.int32) == partials["v"]
        return to_arrow(partials["v"], some, aggregate.type), ~fits if some is None else ~fits & some
    if aggregate.type.kind is Kind.FLOATING or "f" not in partials:
        return to_arrow(partials["v"], some, aggregate.type), None
    carry = np.rint((partials["f"] - partials["v"]) / 2.0**64).astype(np.int64)
    if aggregate.type.kind is Kind.DECIMAL:
        return decimals(
            partials["v"], carry, None if some is None or some.all() else ~some, aggregate.type
        ), None
    return to_arrow(partials["v"], some, aggregate.type), carry != 0 if some is None else (carry != 0) & some
