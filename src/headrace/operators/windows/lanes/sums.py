"""SUM and AVG."""

from __future__ import annotations

import numpy as np

from headrace.model.plan import LaneKind, OutputAggregate
from headrace.model.types import DOUBLE, Kind
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.encode import Array, Bools, Ints, Physical, decimals, to_arrow
from headrace.operators.common.matching import Matches
from headrace.operators.compiled.matches import add_values
from headrace.operators.windows.folds import Fold, fold_floats, fold_ints
from headrace.operators.windows.lanes.base import (
    Lowered,
    Parts,
    RowParts,
    each_range,
    group_ints,
    int_ranges,
    present,
    somewhere,
)

WIDE = 2**31
"""Integer inputs from this magnitude on carry a float shadow of their sum, which tells overflow from wrap-around."""


class IntSumLogic:
    """Exact sums of integers: `v` modulo 2**64 and, once inputs are WIDE, `f` close enough to tell which multiple."""

    def lift(self, column: Physical | None, rows: int) -> Parts:
        assert column is not None
        values = column.values if column.valid is None else np.where(column.valid, column.values, 0)
        parts: Parts = {"v": values}
        if len(values) and (values.max() >= WIDE or values.min() <= -WIDE):
            parts["f"] = values.astype(np.float64)
        return parts

    def zeros(self, shape: tuple[int, ...]) -> Parts:
        return {"v": np.zeros(shape, np.int64)}

    def group(self, parts: Parts, bins: Ints, size: int) -> Parts:
        grouped: Parts = {"v": group_ints(parts["v"], bins, size)}
        if "f" in parts:
            grouped["f"] = np.bincount(bins, weights=parts["f"], minlength=size)
        return grouped

    def fold(self, parts: Parts, fold: Fold) -> Parts:
        folded: Parts = {"v": fold_ints(parts["v"], fold)}
        if "f" in parts:
            folded["f"] = fold_floats(parts["f"], fold)
        return folded

    def update(self, into: Parts, parts: Parts, matches: Matches) -> None:
        for name, part in parts.items():
            add_values(*matches.arguments, as_given(part), into[name])

    def combine(self, left: Parts, right: Parts) -> Parts:
        with np.errstate(over="ignore"):
            parts: Parts = {"v": left["v"] + right["v"]}
        if "f" in left or "f" in right:
            parts["f"] = left.get("f", left["v"]) + right.get("f", right["v"])
        return parts

    def total(self, parts: Parts, axis: int) -> Parts:
        return {name: part.sum(axis=axis) for name, part in parts.items()}

    def runs(self, parts: Parts, starts: Ints) -> Parts:
        return {name: np.add.reduceat(part, starts, axis=-1) for name, part in parts.items()}

    def ranges(self, parts: Parts, lows: Ints, highs: Ints) -> Parts:
        return (
            each_range(self, parts, lows, highs)
            if "f" in parts
            else {"v": int_ranges(parts["v"], lows, highs)}
        )


class FloatSumLogic:
    """Sums of FLOAT and DOUBLE inputs, in double as Spark sums them."""

    def lift(self, column: Physical | None, rows: int) -> Parts:
        assert column is not None
        return {"v": column.values if column.valid is None else np.where(column.valid, column.values, 0.0)}

    def zeros(self, shape: tuple[int, ...]) -> Parts:
        return {"v": np.zeros(shape)}

    def group(self, parts: Parts, bins: Ints, size: int) -> Parts:
        return {"v": np.bincount(bins, weights=parts["v"], minlength=size)}

    def fold(self, parts: Parts, fold: Fold) -> Parts:
        return {"v": fold_floats(parts["v"], fold)}

    def update(self, into: Parts, parts: Parts, matches: Matches) -> None:
        for name, part in parts.items():
            add_values(*matches.arguments, as_given(part), into[name])

    def combine(self, left: Parts, right: Parts) -> Parts:
        return {"v": left["v"] + right["v"]}

    def total(self, parts: Parts, axis: int) -> Parts:
        return {"v": parts["v"].sum(axis=axis)}

    def runs(self, parts: Parts, starts: Ints) -> Parts:
        return {"v": np.add.reduceat(parts["v"], starts, axis=-1)}

    def ranges(self, parts: Parts, lows: Ints, highs: Ints) -> Parts:
        return each_range(self, parts, lows, highs)


def lower_sum(part: RowParts, index: int) -> Lowered:
    return finish_sum(part.lane(LaneKind.SUM, index), somewhere(part, index), part.output.aggregates[index])


def lower_average(part: RowParts, index: int) -> Lowered:
    total, count = part.lane(LaneKind.SUM, index), present(part, index)
    if part.certain(index):
        return to_arrow(total.get("f", total["v"]) / count, None, DOUBLE), None
    return finish_average(total, count), None


def finish_average(parts: Parts, count: Ints) -> Array:
    total = parts["f"] if "f" in parts else parts["v"]
    return to_arrow(total / np.maximum(count, 1), count > 0, DOUBLE)


def finish_sum(parts: Parts, some: Bools | None, aggregate: OutputAggregate) -> Lowered:
    """Sums in the type of the result, and where they do not fit it. They are NULL where `some` (None: all) is false."""
    if aggregate.type.kind is Kind.MONTHS:
        fits = parts["v"].astype(np.int32) == parts["v"]
        return to_arrow(parts["v"], some, aggregate.type), ~fits if some is None else ~fits & some
    if aggregate.type.kind is Kind.FLOATING or "f" not in parts:
        return to_arrow(parts["v"], some, aggregate.type), None
    carry = np.rint((parts["f"] - parts["v"]) / 2.0**64).astype(np.int64)
    if aggregate.type.kind is Kind.DECIMAL:
        return decimals(
            parts["v"], carry, None if some is None or some.all() else ~some, aggregate.type
        ), None
    return to_arrow(parts["v"], some, aggregate.type), carry != 0 if some is None else (carry != 0) & some
