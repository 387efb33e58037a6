"""Lower: closed windows to result rows, `(query, window_end, k0.., a0..)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.model.plan import AggregationOperator, LaneKind, Output
from headrace.model.tables import QUERY, WINDOW_END, aggregate_column, key_column
from headrace.model.types import TIMESTAMP, SqlType
from headrace.operators.common.arrays import Bools, Ints
from headrace.operators.common.encode import one_chunk, ranges, to_arrow
from headrace.operators.compiled.windows import pick_rows, pick_values
from headrace.operators.windows.bags import ClosedBag, PickedBags
from headrace.operators.windows.lanes import Partials, RowBags, lower_aggregate


@dataclass(frozen=True, slots=True)
class Places:
    """Windows that closed, and the keys that may have a row in each.

    They are of one `Window` after the other, from number `first` on: those of number first + i are
    [of[i], of[i + 1]). Window c ends at `ends[c]`, and its places are [bounds[c], bounds[c + 1]), each with its key.
    """

    first: int
    of: Ints
    ends: Ints
    bounds: Ints
    keys: Ints

    @classmethod
    def every(cls, first: int, of: Ints, ends: Ints, keys: int) -> Places:
        """All keys in each window.

        >>> Places.every(0, np.array([0, 2]), np.array([5, 10]), 3).keys.tolist()
        [0, 1, 2, 0, 1, 2]
        """
        every = np.tile(np.arange(keys, dtype=np.int32), len(ends))
        return cls(first, of, ends, np.arange(len(ends) + 1) * keys, every)

    @property
    def sizes(self) -> Ints:
        """How many places each `Window` has."""
        return np.diff(self.bounds[self.of])

    def offsets(self, entries: Ints) -> Ints:
        """Where a lane's partials are, that lie one `Window` after the other as [entry, place]: those of entry e of
        number first + i at place p are at offsets[i] + e * sizes[i] + p. `entries` are where its entries begin.

        >>> two = Places.every(0, np.array([0, 1, 2]), np.array([5, 10]), 3)
        >>> two.offsets(np.array([0, 4, 6])).tolist()  # entry 4, the first of window 1, begins at 12, its place 3
        [0, -3]
        """
        sizes = self.sizes
        taken = np.diff(entries) * sizes
        return np.cumsum(taken) - taken - entries[:-1] * sizes - self.bounds[self.of[:-1]]


@dataclass(slots=True)
class Closed:
    """What closed for a block of keys: the partials of each lane, flat, and the `offsets` by which they are found.

    A lane that is absent is zero. Bags are found by their number and that of their `Window`, and one that is absent is
    empty. Where there are bags, all keys have a place.
    """

    places: Places
    lanes: dict[int, Partials]
    offsets: dict[int, Ints]
    bags: dict[tuple[int, int], ClosedBag] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadyOutput:
    """Queries whose rows have the same make-up, and where their partials are: entries of lanes, one per query.

    They are ordered by the numbers of their `windows`. `base` and `rows[j]` are entries of ROWS; `lanes[j]` maps a kind
    to (lane, entries) for aggregate j. `bags[j]` is (bag, entries) for one that keeps all values: then all queries
    have the same window, and entries are counted from the first one of it.
    """

    output: Output
    windows: Ints
    queries: Ints
    base: Ints
    rows: list[Ints]
    lanes: list[dict[LaneKind, tuple[int, Ints]]]
    bags: dict[int, tuple[int, Ints]]

    @classmethod
    def joined(cls, some: Sequence[ReadyOutput]) -> ReadyOutput:
        """Outputs of the same make-up as one. Those that have bags stay alone."""
        one = some[0]
        if len(some) == 1:
            return one
        aggregates = range(len(one.rows))
        lanes = [
            {
                kind: (lane, np.concatenate([each.lanes[j][kind][1] for each in some]))
                for kind, (lane, _) in one.lanes[j].items()
            }
            for j in aggregates
        ]
        return cls(
            one.output,
            np.concatenate([each.windows for each in some]),
            np.concatenate([each.queries for each in some]),
            np.concatenate([each.base for each in some]),
            [np.concatenate([each.rows[j] for each in some]) for j in aggregates],
            lanes,
            {},
        )

    def of_windows(self, first: int, last: int) -> ReadyOutput:
        """The queries whose windows have the numbers [first, last)."""
        low, high = np.searchsorted(self.windows, [first, last])
        some = slice(int(low), int(high))
        lanes = [{kind: (lane, at[some]) for kind, (lane, at) in by_kind.items()} for by_kind in self.lanes]
        rows, bags = (
            [at[some] for at in self.rows],
            {j: (bag, at[some]) for j, (bag, at) in self.bags.items()},
        )
        return ReadyOutput(
            self.output, self.windows[some], self.queries[some], self.base[some], rows, lanes, bags
        )


@dataclass(frozen=True, slots=True)
class ReadyTable:
    """The outputs whose rows land in the same result table: they are made together."""

    signature: str
    outputs: tuple[ReadyOutput, ...]

    def of_windows(self, first: int, last: int) -> ReadyTable:
        """The outputs with their queries whose windows have the numbers [first, last)."""
        some = (output.of_windows(first, last) for output in self.outputs)
        return ReadyTable(self.signature, tuple(output for output in some if len(output.queries)))


def ready_tables(outputs: Iterable[ReadyOutput]) -> list[ReadyTable]:
    """Outputs, which ascend by window, by where their rows land; those of the same make-up are one."""
    tables: dict[tuple[str, tuple[SqlType, ...]], dict[object, list[ReadyOutput]]] = {}
    for ready in outputs:
        aggregates = ready.output.aggregates
        alike = tables.setdefault((ready.output.signature, tuple(one.type for one in aggregates)), {})
        alone = ready.output.window if ready.bags else None
        alike.setdefault((aggregates, alone), []).append(ready)
    return [
        ReadyTable(signature, tuple(ReadyOutput.joined(some) for some in alike.values()))
        for (signature, _), alike in tables.items()
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
    table: ReadyTable,
    closed: Closed,
    keys: pa.Table,
    vocabularies: dict[int, pa.Array],
) -> Lowered:
    """Rows of all queries of a table, ordered by query, window, key; groups without a tuple have none."""
    places = closed.places
    ready = table.of_windows(places.first, places.first + len(places.of) - 1)
    if not ready.outputs:
        return NOTHING_LOWERED
    picker = _Picker(ready.outputs, closed)
    if picker.rows == 0:
        return NOTHING_LOWERED
    queries = np.concatenate([output.queries for output in ready.outputs])
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        QUERY: pa.array(np.repeat(queries, picker.per_query)),
        WINDOW_END: to_arrow(picker.window_ends, None, TIMESTAMP),
    }
    for i in range(len(operator.keys)):
        of_place = take(keys.column(key_column(i)), places.keys)
        columns[key_column(i)] = take(of_place, picker.picked)
    chosen = picker.rows_of_outputs()
    failed = np.zeros(0, bool)
    types = [operand.type for operand in operator.inputs]
    for i in range(len(ready.outputs[0].output.aggregates)):
        pieces = [lower_aggregate(rows, i, types, vocabularies) for rows in chosen if rows.size]
        values = [piece for piece, _ in pieces]
        columns[aggregate_column(i)] = pa.chunked_array(values)
        if any(broken is not None for _, broken in pieces):
            flags = [np.zeros(len(p), bool) if broken is None else broken for p, broken in pieces]
            broken_rows = np.concatenate(flags)
            failed = failed | broken_rows if len(failed) else broken_rows
    return without_failed(pa.table(columns), failed, queries, picker.per_query, picker.latest_us)


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
    """Which (query, window, key) of some outputs have a row: `picked` has the place of each, by query and window."""

    def __init__(self, outputs: Sequence[ReadyOutput], closed: Closed) -> None:
        self._outputs, self._closed, places = outputs, closed, closed.places
        numbers = np.concatenate([output.windows for output in outputs]) - places.first
        sizes, first, last = places.sizes[numbers], places.of[numbers], places.of[numbers + 1]
        base = np.concatenate([output.base for output in outputs])
        start = closed.offsets[0][numbers] + base * sizes
        runs = np.empty(int((last - first).sum()), np.int64)
        picked = np.empty(int(sizes.sum()) + 1, np.int32)
        pick_rows(closed.lanes[0]["v"], start, first, last, places.bounds, runs, picked)
        until = np.append(0, np.cumsum(runs))
        self._until = until[np.append(0, np.cumsum(last - first))]
        self.per_query = np.diff(self._until)
        self.rows = int(until[-1])
        self.picked = picked[: self.rows]
        ends = places.ends[ranges(first, last - first)]
        self.window_ends = np.repeat(ends, runs)
        self.latest_us = int(ends[runs > 0].max(initial=0))

    def rows_of_outputs(self) -> list[_OutputRows]:
        """The rows of each output."""
        found, low = [], 0
        for output in self._outputs:
            ends = self._until[low : low + len(output.queries) + 1]
            found.append(_OutputRows(output, self._closed, ends, self.picked[ends[0] : ends[-1]]))
            low += len(output.queries)
        return found


@dataclass(frozen=True, slots=True)
class _OutputRows:
    """The partials found at an output's rows: those of its query q, at their places, are [ends[q], ends[q + 1])."""

    ready: ReadyOutput
    closed: Closed
    ends: Ints
    picked: Ints

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
        return self._at(0, self.ready.rows[aggregate])["v"]

    def lane(self, kind: LaneKind, aggregate: int) -> Partials:
        """Partials of a kind at every row, from each query's own entry."""
        lane, entries = self.ready.lanes[aggregate][kind]
        if lane not in self.closed.lanes:  # nobody had a NULL
            return {"v": np.zeros(self.size, np.int64)}
        return self._at(lane, entries)

    def bags(self, aggregate: int) -> RowBags:
        """The values of an aggregate that keeps all of them."""
        (bag, entries), places = self.ready.bags[aggregate], self.closed.places
        window = self.ready.output.window
        low, high = places.of[window - places.first], places.of[window - places.first + 1]
        size = int(places.bounds[high] - places.bounds[low])
        flat = np.repeat(np.arange(len(self.ends) - 1) * size, np.diff(self.ends)) + self.picked
        shape = (int(high - low), size // int(high - low))
        closed = self.closed.bags.get((bag, window))
        return PickedBags(closed, entries, shape, flat - places.bounds[low], self.size)

    def _at(self, lane: int, entries: Ints) -> Partials:
        places = self.closed.places
        numbers = self.ready.windows - places.first
        start = self.closed.offsets[lane][numbers] + entries * places.sizes[numbers]
        found: Partials = {}
        for name, array in self.closed.lanes[lane].items():
            found[name] = np.empty(self.size, np.float64 if array.dtype == np.float64 else np.int64)
            pick_values(array, start, self.ends, self.picked, found[name])
        return found


def take(column: pa.ChunkedArray | pa.Array, rows: Ints) -> pa.Array:
    """Some rows of a column, in this order."""
    values = one_chunk(column)
    if pa.types.is_integer(values.type) and values.null_count == 0:  # a third of what Arrow's own take costs
        return pa.array(values.to_numpy().take(rows))
    return values.take(pa.array(rows))
