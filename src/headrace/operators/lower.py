"""Lower: closed windows to result rows, `(query, window_start, window_end, k0.., a0..)`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.plan import AggregationOperator, LaneKind, Output, OutputAggregate
from headrace.model.query import AggregateFunction
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, Kind
from headrace.operators.encode import Array, Bools, Ints, decimals, from_ordered, to_arrow
from headrace.operators.lanes import Parts

_LANE_OF = {
    AggregateFunction.SUM: LaneKind.SUM,
    AggregateFunction.AVG: LaneKind.SUM,
    AggregateFunction.MIN: LaneKind.MIN,
    AggregateFunction.MAX: LaneKind.MAX,
    AggregateFunction.VAR_POP: LaneKind.MOMENTS,
    AggregateFunction.VAR_SAMP: LaneKind.MOMENTS,
    AggregateFunction.STDDEV_POP: LaneKind.MOMENTS,
    AggregateFunction.STDDEV_SAMP: LaneKind.MOMENTS,
}


@dataclass(slots=True)
class Closed:
    """The windows of one `Window` that closed, for a block of keys: partials are [column, window, key].

    `columns[lane]` are the state columns (ascending) whose partials `lanes[lane]` holds; a lane that is absent is zero.
    """

    starts: Ints
    range_us: int
    lanes: dict[int, Parts]
    columns: dict[int, Ints]


@dataclass(slots=True)
class Lowered:
    """Result rows of one output, and the queries that failed on the way with the reason."""

    table: pa.Table | None
    failures: dict[int, str]


def lower_output(
    operator: AggregationOperator, output: Output, closed: Closed, keys: pa.Table, words: dict[int, pa.Array]
) -> Lowered:
    """Rows of all queries of an output, ordered by query, window, key; groups without a tuple have none."""
    picker = _Picker(operator, output, closed)
    if picker.rows == 0:
        return Lowered(None, {})
    columns: dict[str, pa.Array] = {
        "query": pa.array(np.repeat(np.array(output.queries, np.int64), picker.per_query)),
        "window_start": to_arrow(picker.window_starts, None, TIMESTAMP),
        "window_end": to_arrow(picker.window_starts + closed.range_us, None, TIMESTAMP),
    }
    if operator.keys:
        taken = keys.take(pa.array(picker.keys))
        for i in range(len(operator.keys)):
            columns[f"k{i}"] = taken.column(f"k{i}")
    failed = np.zeros(picker.rows, bool)
    for i, aggregate in enumerate(output.aggregates):
        columns[f"a{i}"], broken = _lower(picker, i, aggregate, words)
        if broken is not None:
            failed |= broken
    table = pa.table(columns)
    if not failed.any():
        return Lowered(table, {})
    bad = np.unique(table.column("query").to_numpy()[failed])
    kept = ~np.isin(table.column("query").to_numpy(), bad)
    reason = "ARITHMETIC_OVERFLOW: a SUM does not fit its BIGINT result"
    return Lowered(table.filter(pa.array(kept)), {int(query): reason for query in bad})


class _Picker:
    """Which (query, window, key) entries have a row, and the partials found there."""

    def __init__(self, operator: AggregationOperator, output: Output, closed: Closed) -> None:
        self._operator, self._closed = operator, closed
        self._wanted = np.array(output.columns, np.int64)
        counts = self._of(0, self._wanted[:, 0])["v"]
        mask = counts > 0
        self.flat: Ints | None = None if mask.all() else np.flatnonzero(mask)
        queries, windows, keys = mask.shape
        self.rows = mask.size if self.flat is None else len(self.flat)
        per_window = mask.sum(axis=2)
        self.per_query = per_window.sum(axis=1)
        self.window_starts = np.repeat(np.tile(closed.starts, queries), per_window.ravel())
        ids = np.arange(keys)
        self.keys = np.tile(ids, queries * windows) if self.flat is None else self.flat % max(keys, 1)

    def _of(self, lane: int, columns: Ints) -> Parts:
        at = np.searchsorted(self._closed.columns[lane], columns)
        return {name: part[at] for name, part in self._closed.lanes[lane].items()}

    def lane(self, kind: LaneKind, input_: int | None, aggregate: int) -> Parts:
        """Partials of a lane at every row, from each query's own column for that aggregate."""
        lanes = self._operator.lanes
        index = next(i for i, lane in enumerate(lanes) if lane.kind is kind and lane.input == input_)
        if index not in self._closed.lanes:  # nobody had a NULL
            return {"v": np.zeros(self.rows, np.int64)}
        picked = self._of(index, self._wanted[:, aggregate + 1])
        return {name: part.ravel() if self.flat is None else part.ravel()[self.flat] for name, part in picked.items()}


def _lower(
    picker: _Picker, index: int, aggregate: OutputAggregate, words: dict[int, pa.Array]
) -> tuple[pa.Array, Bools | None]:
    """One aggregate's values, and where its result does not fit (None: nowhere)."""
    function, input_ = aggregate.function, aggregate.input
    if function is AggregateFunction.COUNT_ALL:
        return to_arrow(picker.lane(LaneKind.ROWS, None, index)["v"], None, BIGINT), None
    if _LANE_OF.get(function) is LaneKind.MOMENTS:
        return _lower_moments(picker.lane(LaneKind.MOMENTS, input_, index), function), None
    rows = picker.lane(LaneKind.ROWS, None, index)["v"]
    count = rows - picker.lane(LaneKind.NULLS, input_, index)["v"]
    if function is AggregateFunction.COUNT:
        return to_arrow(count, None, BIGINT), None
    parts = picker.lane(_LANE_OF[function], input_, index)
    some = count > 0
    match function:
        case AggregateFunction.AVG:
            return to_arrow(_number(parts) / np.maximum(count, 1), some, DOUBLE), None
        case AggregateFunction.SUM:
            return _lower_sum(parts, some, aggregate)
        case _:
            return _lower_extreme(parts["v"], some, aggregate, words), None


def _number(parts: Parts) -> Array:
    return parts["f"] if "f" in parts else parts["v"]


def _lower_sum(parts: Parts, some: Bools, aggregate: OutputAggregate) -> tuple[pa.Array, Bools | None]:
    if aggregate.type.kind is Kind.FLOATING or "f" not in parts:
        return to_arrow(parts["v"], some, aggregate.type), None
    carry = np.rint((parts["f"] - parts["v"]) / 2.0**64).astype(np.int64)
    if aggregate.type.kind is Kind.DECIMAL:
        return decimals(parts["v"], carry, None if some.all() else ~some, aggregate.type), None
    return to_arrow(parts["v"], some, aggregate.type), (carry != 0) & some


def _lower_extreme(ordered: Ints, some: Bools, aggregate: OutputAggregate, words: dict[int, pa.Array]) -> pa.Array:
    operand_type = aggregate.type
    if operand_type.kind is Kind.STRING:
        assert aggregate.input is not None
        ranks = pa.array(np.where(some, ordered, 0), mask=None if some.all() else ~some)
        return words[aggregate.input].take(ranks)
    return to_arrow(from_ordered(np.where(some, ordered, 0), operand_type), some, operand_type)


def _lower_moments(parts: Parts, function: AggregateFunction) -> pa.Array:
    count, spread = parts["n"], parts["q"]
    sample = function in (AggregateFunction.VAR_SAMP, AggregateFunction.STDDEV_SAMP)
    divisor = np.maximum(count - 1 if sample else count, 1)
    value = spread / divisor
    if function in (AggregateFunction.STDDEV_POP, AggregateFunction.STDDEV_SAMP):
        value = np.sqrt(value)
    return to_arrow(value, count > (1 if sample else 0), DOUBLE)
