"""Lower: closed windows to result rows, `(query, window_end, k0.., a0..)`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.plan import AggregationOperator, LaneKind, Output, OutputAggregate
from headrace.model.query import AggregateFunction
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, Kind
from headrace.operators.encode import Array, Bools, Ints, decimals, from_ordered, to_arrow
from headrace.operators.lanes import Parts
from headrace.planner.shared import lanes_needed


@dataclass(slots=True)
class Closed:
    """The windows of one `Window` that closed, for a block of keys: partials are [entry, window, key] per lane.

    A lane that is absent is zero.
    """

    starts: Ints
    range_us: int
    lanes: dict[int, Parts]


@dataclass(frozen=True, slots=True)
class ReadyOutput:
    """An output and where its partials are: positions among the window's entries, one per query.

    `base` and `rows[j]` are positions in ROWS; `lanes[j]` maps a kind to (lane, positions) for aggregate j.
    """

    output: Output
    base: Ints
    rows: list[Ints]
    lanes: list[dict[LaneKind, tuple[int, Ints]]]


@dataclass(slots=True)
class Lowered:
    """Result rows of one output, how many each query got, and the queries that failed with the reason."""

    table: pa.Table | None
    rows: dict[int, int]
    failures: dict[int, str]


def lower_output(
    operator: AggregationOperator,
    ready: ReadyOutput,
    closed: Closed,
    keys: pa.Table,
    words: dict[int, pa.Array],
) -> Lowered:
    """Rows of all queries of an output, ordered by query, window, key; groups without a tuple have none."""
    picker = _Picker(ready, closed)
    output = ready.output
    if picker.rows == 0:
        return Lowered(None, {}, {})
    columns: dict[str, pa.Array] = {
        "query": pa.array(np.repeat(np.array(output.queries, np.int64), picker.per_query)),
        "window_end": to_arrow(picker.window_ends, None, TIMESTAMP),
    }
    if operator.keys:
        taken = keys.take(pa.array(picker.keys))
        for i in range(len(operator.keys)):
            columns[f"k{i}"] = taken.column(f"k{i}")
    failed = np.zeros(0, bool)
    for i, aggregate in enumerate(output.aggregates):
        columns[f"a{i}"], broken = _lower(picker, i, aggregate, output.inputs[i][0], words)
        if broken is not None:
            failed = broken | failed if len(failed) else broken
    table = pa.table(columns)
    rows: dict[int, int] = dict(zip(output.queries, picker.per_query.tolist(), strict=True))
    if not failed.any():
        return Lowered(table, rows, {})
    bad = set(np.unique(table.column("query").to_numpy()[failed]).tolist())
    kept = ~np.isin(table.column("query").to_numpy(), list(bad))
    reason = "[ARITHMETIC_OVERFLOW] a SUM does not fit its BIGINT result"
    rows = {query: count for query, count in rows.items() if query not in bad}
    return Lowered(table.filter(pa.array(kept)), rows, dict.fromkeys(bad, reason))


class _Picker:
    """Which (query, window, key) entries have a row, and the partials found there."""

    def __init__(self, ready: ReadyOutput, closed: Closed) -> None:
        self._ready, self._closed = ready, closed
        mask = closed.lanes[0]["v"][ready.base] > 0
        queries, windows, keys = mask.shape
        per_window = mask.sum(axis=2)
        self.per_query = per_window.sum(axis=1)
        self.rows = int(self.per_query.sum())
        self.flat: Ints | None = None if self.rows == mask.size else np.flatnonzero(mask)
        self.window_ends = np.repeat(np.tile(closed.starts + closed.range_us, queries), per_window.ravel())
        if self.flat is None:
            self.keys = np.tile(np.arange(keys), queries * windows)
        else:
            self.keys = self.flat % max(keys, 1)

    def counts(self, aggregate: int) -> Ints:
        """Tuples that an aggregate's filter accepted, at every row."""
        return self._at(self._closed.lanes[0]["v"][self._ready.rows[aggregate]])

    def lane(self, kind: LaneKind, aggregate: int) -> Parts:
        """Partials of a kind at every row, from each query's own entry."""
        lane, positions = self._ready.lanes[aggregate][kind]
        if lane not in self._closed.lanes:  # nobody had a NULL
            return {"v": np.zeros(self.rows, np.int64)}
        return {name: self._at(part[positions]) for name, part in self._closed.lanes[lane].items()}

    def _at(self, part: Array) -> Array:
        return part.ravel() if self.flat is None else part.ravel()[self.flat]


def _lower(
    picker: _Picker, index: int, aggregate: OutputAggregate, input_: int, words: dict[int, pa.Array]
) -> tuple[pa.Array, Bools | None]:
    """One aggregate's values, and where its result does not fit (None: nowhere)."""
    function = aggregate.function
    if function is AggregateFunction.COUNT_ALL:
        return to_arrow(picker.counts(index), None, BIGINT), None
    *_, kind = lanes_needed(function)
    if kind is LaneKind.MOMENTS:
        return _lower_moments(picker.lane(LaneKind.MOMENTS, index), function), None
    count = picker.counts(index) - picker.lane(LaneKind.NULLS, index)["v"]
    if function is AggregateFunction.COUNT:
        return to_arrow(count, None, BIGINT), None
    parts = picker.lane(kind, index)
    some = count > 0
    match function:
        case AggregateFunction.AVG:
            return to_arrow(_number(parts) / np.maximum(count, 1), some, DOUBLE), None
        case AggregateFunction.SUM:
            return _lower_sum(parts, some, aggregate)
        case _:
            return _lower_extreme(parts["v"], some, aggregate, words.get(input_)), None


def _number(parts: Parts) -> Array:
    return parts["f"] if "f" in parts else parts["v"]


def _lower_sum(parts: Parts, some: Bools, aggregate: OutputAggregate) -> tuple[pa.Array, Bools | None]:
    if aggregate.type.kind is Kind.FLOATING or "f" not in parts:
        return to_arrow(parts["v"], some, aggregate.type), None
    carry = np.rint((parts["f"] - parts["v"]) / 2.0**64).astype(np.int64)
    if aggregate.type.kind is Kind.DECIMAL:
        return decimals(parts["v"], carry, None if some.all() else ~some, aggregate.type), None
    return to_arrow(parts["v"], some, aggregate.type), (carry != 0) & some


def _lower_extreme(
    ordered: Ints, some: Bools, aggregate: OutputAggregate, words: pa.Array | None
) -> pa.Array:
    everywhere = bool(some.all())
    known = ordered if everywhere else np.where(some, ordered, 0)
    if aggregate.type.kind is Kind.STRING:
        assert words is not None
        return words.take(pa.array(known, mask=None if everywhere else ~some))
    return to_arrow(from_ordered(known, aggregate.type), None if everywhere else some, aggregate.type)


def _lower_moments(parts: Parts, function: AggregateFunction) -> pa.Array:
    count, spread = parts["n"], parts["q"]
    sample = function in (AggregateFunction.VAR_SAMP, AggregateFunction.STDDEV_SAMP)
    divisor = np.maximum(count - 1 if sample else count, 1)
    value = spread / divisor
    if function in (AggregateFunction.STDDEV_POP, AggregateFunction.STDDEV_SAMP):
        value = np.sqrt(value)
    return to_arrow(value, count > (1 if sample else 0), DOUBLE)
