"""Lower: closed windows to result rows, `(query, window_end, k0.., a0..)`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from headrace.model.plan import AggregationOperator, LaneKind, Output
from headrace.model.tables import QUERY, WINDOW_END, aggregate_column, key_column
from headrace.model.types import TIMESTAMP, SqlType
from headrace.operators.common.encode import Array, Bools, Ints, one_chunk, to_arrow
from headrace.operators.compiled.windows import pick_rows, pick_values
from headrace.operators.windows.bags import ClosedBag, PickedBags
from headrace.operators.windows.lanes import Partials, RowBags, lower_aggregate


@dataclass(frozen=True, slots=True)
class Places:
    """Windows and keys that may have a row: those of window w are [bounds[w], bounds[w + 1]), each with its key."""

    bounds: Ints
    keys: Ints

    @classmethod
    def every(cls, windows: int, keys: int) -> Places:
        """All keys in each window.

        >>> Places.every(2, 3).keys.tolist()
        [0, 1, 2, 0, 1, 2]
        """
        return cls(np.arange(windows + 1) * keys, np.tile(np.arange(keys, dtype=np.int32), windows))


@dataclass(slots=True)
class Closed:
    """The windows of one `Window` that closed, for a block of keys: partials are [entry, place] per lane.

    A lane that is absent is zero, and a bag that is absent is empty. Where there are bags, all keys have a place.
    """

    starts: Ints
    range_us: int
    lanes: dict[int, Partials]
    places: Places
    bags: dict[int, ClosedBag] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadyOutput:
    """An output and where its partials are: positions among the window's entries, one per query.

    `base` and `rows[j]` are positions in ROWS; `lanes[j]` maps a kind to (lane, positions) for aggregate j, and
    `bags[j]` is (bag, positions) for one that keeps all values.
    """

    output: Output
    base: Ints
    rows: list[Ints]
    lanes: list[dict[LaneKind, tuple[int, Ints]]]
    bags: dict[int, tuple[int, Ints]]


@dataclass(frozen=True, slots=True)
class ReadyTable:
    """The outputs of one window whose rows land in the same result table: they are made together.

    `bounds[i]` is the first query of output i among `queries`; `base` is where each query's ROWS are.
    """

    signature: str
    outputs: tuple[ReadyOutput, ...]
    queries: Ints
    base: Ints
    bounds: tuple[int, ...]


def ready_tables(outputs: Iterable[ReadyOutput]) -> list[ReadyTable]:
    """Outputs by where their rows land."""
    grouped: dict[tuple[str, tuple[SqlType, ...]], list[ReadyOutput]] = {}
    for ready in outputs:
        types = tuple(aggregate.type for aggregate in ready.output.aggregates)
        grouped.setdefault((ready.output.signature, types), []).append(ready)
    return [
        ReadyTable(
            signature,
            tuple(found),
            np.concatenate([np.array(ready.output.queries, np.int64) for ready in found]),
            np.concatenate([ready.base for ready in found]),
            tuple(accumulate((len(ready.base) for ready in found), initial=0)),
        )
        for (signature, _), found in grouped.items()
    ]


@dataclass(slots=True)
class Lowered:
    """Result rows of one table, when the last window ended, and the queries that failed.

    Of `queries` each has `counts` rows, and some may have none.
    """

    table: pa.Table | None
    queries: Ints
    counts: Ints
    latest_us: int
    failures: dict[int, str]


NOTHING_LOWERED = Lowered(None, np.empty(0, np.int64), np.empty(0, np.int64), 0, {})


def lower_table(
    operator: AggregationOperator,
    ready: ReadyTable,
    closed: Closed,
    keys: pa.Table,
    vocabularies: dict[int, pa.Array],
) -> Lowered:
    """Rows of all queries of a table, ordered by query, window, key; groups without a tuple have none."""
    picker = _Picker(ready.base, closed)
    if picker.rows == 0:
        return NOTHING_LOWERED
    columns: dict[str, pa.Array] = {
        QUERY: pa.array(np.repeat(ready.queries, picker.per_query)),
        WINDOW_END: to_arrow(picker.window_ends, None, TIMESTAMP),
    }
    for i in range(len(operator.keys)):
        of_place = take(keys.column(key_column(i)), closed.places.keys)
        columns[key_column(i)] = take(of_place, picker.picked)
    chosen = [
        picker.rows_of(output, low, high)
        for output, (low, high) in zip(ready.outputs, pairwise(ready.bounds), strict=True)
    ]
    failed = np.zeros(0, bool)
    types = [operand.type for operand in operator.inputs]
    for i in range(len(ready.outputs[0].output.aggregates)):
        pieces = [lower_aggregate(rows, i, types, vocabularies) for rows in chosen if rows.size]
        values = [piece for piece, _ in pieces]
        columns[aggregate_column(i)] = values[0] if len(values) == 1 else pa.concat_arrays(values)
        if any(broken is not None for _, broken in pieces):
            flags = [np.zeros(len(p), bool) if broken is None else broken for p, broken in pieces]
            broken_rows = np.concatenate(flags)
            failed = failed | broken_rows if len(failed) else broken_rows
    return without_failed(pa.table(columns), failed, ready.queries, picker.per_query, picker.latest_us)


def without_failed(table: pa.Table, failed: Bools, queries: Ints, counts: Ints, latest_us: int) -> Lowered:
    """Result rows without those of queries of which a row `failed` (none at all: nobody's did)."""
    if not failed.any():
        return Lowered(table, queries, counts, latest_us, {})
    of_row = table.column(QUERY).to_numpy()
    bad = np.unique(of_row[failed])
    kept, good = ~np.isin(of_row, bad), ~np.isin(queries, bad)
    reason = "[ARITHMETIC_OVERFLOW] a SUM does not fit its result's type"
    failures = dict.fromkeys(bad.tolist(), reason)
    return Lowered(table.filter(pa.array(kept)), queries[good], counts[good], latest_us, failures)


class _Picker:
    """Which (query, window, key) have a row: `picked` has the place of each, by query and window."""

    def __init__(self, base: Ints, closed: Closed) -> None:
        self._closed, places = closed, closed.places
        self._per_window = np.empty((len(base), len(places.bounds) - 1), np.int64)
        picked = np.empty(len(base) * len(places.keys) + 1, np.int32)
        pick_rows(closed.lanes[0]["v"], base, places.bounds, self._per_window, picked)
        self.per_query = self._per_window.sum(axis=1)
        self._ends = np.append(0, np.cumsum(self.per_query))
        self.rows = int(self._ends[-1])
        self.picked = picked[: self.rows]
        self._full = self.rows == len(picked) - 1
        ends = closed.starts + closed.range_us
        self.window_ends = np.repeat(np.tile(ends, len(base)), self._per_window.ravel())
        self.latest_us = int(ends[self._per_window.any(axis=0)].max(initial=0))

    def rows_of(self, ready: ReadyOutput, low: int, high: int) -> _OutputRows:
        """The rows of the queries [low, high), which are those of one output."""
        ends = self._ends[low : high + 1]
        return _OutputRows(ready, self._closed, ends, self.picked[ends[0] : ends[-1]], self._full)


@dataclass(frozen=True, slots=True)
class _OutputRows:
    """The partials found at an output's rows: those of its query q, at their places, are [ends[q], ends[q + 1]).

    `full` says that there is a row at every place.
    """

    ready: ReadyOutput
    closed: Closed
    ends: Ints
    picked: Ints
    full: bool

    @property
    def output(self) -> Output:
        return self.ready.output

    @property
    def size(self) -> int:
        return len(self.picked)

    def certain(self, aggregate: int) -> bool:
        """Every row has a tuple; with no filter of its own and no NULL around, every row has an input."""
        lane = self.ready.lanes[aggregate].get(LaneKind.NULLS)
        unfiltered = np.array_equal(self.ready.rows[aggregate], self.ready.base)
        return unfiltered and (lane is None or lane[0] not in self.closed.lanes)

    def counts(self, aggregate: int) -> Ints:
        """Tuples that an aggregate's filter accepted, at every row."""
        return self._at(self.closed.lanes[0]["v"], self.ready.rows[aggregate])

    def lane(self, kind: LaneKind, aggregate: int) -> Partials:
        """Partials of a kind at every row, from each query's own entry."""
        lane, positions = self.ready.lanes[aggregate][kind]
        if lane not in self.closed.lanes:  # nobody had a NULL
            return {"v": np.zeros(self.size, np.int64)}
        return {name: self._at(array, positions) for name, array in self.closed.lanes[lane].items()}

    def bags(self, aggregate: int) -> RowBags:
        """The values of an aggregate that keeps all of them."""
        bag, positions = self.ready.bags[aggregate]
        windows, places = len(self.closed.starts), len(self.closed.places.keys)
        flat = np.repeat(np.arange(len(self.ends) - 1) * places, np.diff(self.ends)) + self.picked
        shape = (windows, places // windows)
        return PickedBags(self.closed.bags.get(bag), positions, shape, flat, self.size)

    def _at(self, array: Array, positions: Ints) -> Array:
        if self.full:
            return array[positions].reshape(-1)
        found = np.empty(self.size, np.float64 if array.dtype == np.float64 else np.int64)
        pick_values(array, positions, self.ends, self.picked, found)
        return found


def take(column: pa.ChunkedArray | pa.Array, rows: Ints) -> pa.Array:
    """Some rows of a column, in this order."""
    values = one_chunk(column)
    if pa.types.is_integer(values.type) and values.null_count == 0:  # a third of what Arrow's own take costs
        return pa.array(values.to_numpy().take(rows))
    return values.take(pa.array(rows))
