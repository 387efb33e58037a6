"""What needs every value of a group: COUNT(DISTINCT), SUM and AVG of DISTINCT, percentiles and collect_set.

A tuple's partial is its value's code `v` and the number `n` of tuples that it stands for (0: the input is NULL). How
these are kept and combined is in `bags`. Here is what one tuple gives, and what results are made of a group's values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from headrace.model.plan import OutputAggregate
from headrace.model.types import BIGINT, DOUBLE, Kind, SqlType
from headrace.operators.common.arrays import Array, Floats, Ints
from headrace.operators.common.encode import Physical, canonical_floats, from_ordered, to_arrow, to_ordered
from headrace.operators.windows.lanes.base import Lowered, Partials, RowPartials, Values, group_ints
from headrace.operators.windows.lanes.sums import FloatSumLogic, IntSumLogic, finish_average, finish_sum


class ValueLogic:
    """Codes of values. Values that Spark takes for equal have one code: 0.0 and -0.0, and all NaN."""

    def __init__(self, type_: SqlType) -> None:
        self._type = type_

    def lift(self, column: Physical | None, rows: int) -> Partials:
        assert column is not None
        values = column.values
        if self._type.kind is Kind.FLOATING:
            values = to_ordered(Physical(canonical_floats(values), None), self._type)
        if column.valid is None:
            return {"v": values, "n": np.ones(rows, np.int64)}
        return {"v": np.where(column.valid, values, 0), "n": column.valid.astype(np.int64)}

    def group(self, partials: Partials, bins: Ints, size: int) -> Partials:
        """Combine the partials that share a bin; all of these have one value."""
        values = np.zeros(size, np.int64)
        values[bins] = partials["v"]
        return {"v": values, "n": group_ints(partials["n"], bins, size)}


def lower_count_distinct(rows: RowPartials, index: int) -> Lowered:
    return to_arrow(rows.bags(index).distinct(), None, BIGINT), None


def lower_sum_distinct(rows: RowPartials, index: int, type_: SqlType) -> Lowered:
    return _by_block(rows, index, lambda block: _sum(block, rows.output.aggregates[index], type_))


def lower_average_distinct(rows: RowPartials, index: int, type_: SqlType) -> Lowered:
    return _by_block(rows, index, lambda block: (finish_average(*_total(block, type_)), None))


def lower_percentile(rows: RowPartials, index: int, type_: SqlType) -> Lowered:
    """Spark's exact percentile: linear between the two values next to the place `fraction * (tuples - 1)`."""
    aggregate = rows.output.aggregates[index]
    return _by_block(rows, index, lambda block: (_percentiles(block, aggregate, type_), None))


def lower_set(rows: RowPartials, index: int, type_: SqlType, vocabulary: pa.Array | None) -> Lowered:
    """The values as an array, ascending; Spark leaves their order open."""
    aggregate = rows.output.aggregates[index]
    return _by_block(rows, index, lambda block: (_set(block, aggregate, type_, vocabulary), None))


def _by_block(rows: RowPartials, index: int, lower: Callable[[Values], Lowered]) -> Lowered:
    """The results of all rows, block by block."""
    found = [lower(block) for block in rows.bags(index).blocks()]
    results = pa.concat_arrays([result for result, _ in found])
    if all(broken is None for _, broken in found):
        return results, None
    flags = [np.zeros(len(result), bool) if broken is None else broken for result, broken in found]
    return results, np.concatenate(flags)


def _sum(block: Values, aggregate: OutputAggregate, type_: SqlType) -> Lowered:
    partials, count = _total(block, type_)
    return finish_sum(partials, count > 0, aggregate)


def _total(block: Values, type_: SqlType) -> tuple[Partials, Ints]:
    """(the sum of each row's values, how many it has)."""
    logic = FloatSumLogic() if type_.kind is Kind.FLOATING else IntSumLogic()
    lifted = logic.lift(Physical(from_ordered(block.values, type_), None), len(block.values))
    return logic.group(lifted, block.rows, block.size), np.bincount(block.rows, minlength=block.size)


def _percentiles(block: Values, aggregate: OutputAggregate, type_: SqlType) -> pa.Array:
    until = np.cumsum(block.counts)
    tuples = group_ints(block.counts, block.rows, block.size)
    before = np.cumsum(tuples) - tuples
    some = tuples > 0
    numbers = _doubles(block.values, type_)
    places = [
        _between(numbers, block.values, until, before[some], fraction * (tuples[some] - 1))
        for fraction in aggregate.fractions
    ]
    if aggregate.type.kind is not Kind.NESTED:
        found = np.zeros(block.size)
        found[some] = places[0]
        return to_arrow(found, some, DOUBLE)
    flat = np.stack(places, axis=1).ravel()
    return _lists(pa.array(flat, pa.float64()), some * len(places), aggregate, nulls=~some)


def _between(numbers: Floats, values: Ints, until: Ints, before: Ints, place: Floats) -> Floats:
    """The value at a place among the tuples of each row, which are those after `before`."""
    low, high = np.floor(place), np.ceil(place)
    lower = np.searchsorted(until, before + low.astype(np.int64), "right")
    higher = np.searchsorted(until, before + high.astype(np.int64), "right")
    with np.errstate(invalid="ignore"):
        mixed = numbers[lower] + (place - low) * (numbers[higher] - numbers[lower])
    return np.where(values[lower] == values[higher], numbers[lower], mixed)


def _doubles(values: Ints, type_: SqlType) -> Floats:
    numbers = from_ordered(values, type_).astype(np.float64)
    return numbers / 10.0**type_.scale if type_.kind is Kind.DECIMAL else numbers


def _set(block: Values, aggregate: OutputAggregate, type_: SqlType, vocabulary: pa.Array | None) -> pa.Array:
    if type_.kind is Kind.STRING:
        items = pa.array([], pa.string()) if vocabulary is None else vocabulary.take(pa.array(block.values))
    else:
        items = to_arrow(from_ordered(block.values, type_), None, type_)
    return _lists(items, np.bincount(block.rows, minlength=block.size), aggregate, nulls=None)


def _lists(items: pa.Array, sizes: Ints, aggregate: OutputAggregate, nulls: Array | None) -> pa.Array:
    offsets = np.append(0, np.cumsum(sizes)).astype(np.int32)
    mask = None if nulls is None or not nulls.any() else pa.array(nulls)
    lists = pa.ListArray.from_arrays(pa.array(offsets), items, mask=mask)
    return lists.cast(aggregate.type.arrow)
