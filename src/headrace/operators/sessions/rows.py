"""Sessions that were found: the closed ones become result rows, the open ones state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.plan import LaneKind, Output
from headrace.model.tables import QUERY, WINDOW_END, WINDOW_START, aggregate_column, key_column
from headrace.model.types import TIMESTAMP
from headrace.operators.common.arrays import Bools, Ints
from headrace.operators.common.encode import ranges, to_arrow
from headrace.operators.sessions.logic import ReadySessions, SessionLogic
from headrace.operators.sessions.segment import SessionBlock
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.lanes import Partials, RowBags, lower_aggregate
from headrace.operators.windows.lower import NOTHING_LOWERED, Lowered, without_failed

Kept = Callable[[int, Ints], RowBags]
"""The values behind some rows of an output, for one of its aggregates that keeps all values."""


@dataclass(slots=True)
class Found:
    """Sessions of all queries for a block of keys, ordered by query, key and start.

    `bounds[q]` is the first of query q. A lane's partials are flat, entry by entry: `offsets[i]` is where entry i
    begins, and a lane that is absent is zero.
    """

    queries: Ints
    keys: Ints
    starts: Ints
    ends: Ints
    bounds: Ints
    lanes: dict[int, Partials]
    offsets: list[Ints]

    @property
    def counts(self) -> Ints:
        return np.diff(self.bounds)


@dataclass(frozen=True, slots=True)
class _SessionRows:
    """The partials behind the sessions of one output that have closed (`rows`)."""

    logic: SessionLogic
    found: Found
    ready: ReadySessions
    rows: Ints
    kept: Kept

    @property
    def output(self) -> Output:
        return self.ready.output

    @property
    def size(self) -> int:
        return len(self.rows)

    def certain(self, aggregate: int) -> bool:
        return False

    def bags(self, aggregate: int) -> RowBags:
        return self.kept(aggregate, self.rows)

    def counts(self, aggregate: int) -> Ints:
        return self.found.lanes[0]["v"][self._at(0, self.ready.rows[aggregate])]

    def lane(self, kind: LaneKind, aggregate: int) -> Partials:
        lane, entries = self.ready.lanes[aggregate][kind]
        if lane not in self.found.lanes:
            return self.logic.lanes[lane].logic.zeros((len(self.rows),))
        at = self._at(lane, entries)
        return {name: array[at] for name, array in self.found.lanes[lane].items()}

    def _at(self, lane: int, entries: Ints) -> Ints:
        query = self.found.queries[self.rows]
        return self.found.offsets[lane][entries[query]] + self.rows - self.found.bounds[query]


def lower_output(
    logic: SessionLogic,
    found: Found,
    ready: ReadySessions,
    keys: pa.Table,
    vocabularies: dict[int, pa.Array],
    watermark_us: int,
    kept: Kept,
) -> Lowered:
    """Rows `(query, window_start, window_end, k0.., a0..)` of the sessions of an output that the watermark closed."""
    mine = np.zeros(len(logic.queries), bool)
    mine[ready.queries] = True
    rows = np.flatnonzero(mine[found.queries] & (found.ends <= watermark_us))
    if len(rows) == 0:
        return NOTHING_LOWERED
    columns: dict[str, pa.Array] = {
        QUERY: pa.array(logic.queries[found.queries[rows]]),
        WINDOW_START: to_arrow(found.starts[rows], None, TIMESTAMP),
        WINDOW_END: to_arrow(found.ends[rows], None, TIMESTAMP),
    }
    if logic.operator.keys:
        taken = keys.take(pa.array(found.keys[rows]))
        columns |= {key_column(i): taken.column(key_column(i)) for i in range(len(logic.operator.keys))}
    failed, answered = np.zeros(len(rows), bool), _SessionRows(logic, found, ready, rows, kept)
    types = [operand.type for operand in logic.operator.inputs]
    for i in range(len(ready.output.aggregates)):
        columns[aggregate_column(i)], broken = lower_aggregate(answered, i, types, vocabularies)
        failed |= False if broken is None else broken
    of_query = np.bincount(found.queries[rows], minlength=len(logic.queries))
    some, latest_us = np.flatnonzero(of_query), int(found.ends[rows].max())
    return without_failed(pa.table(columns), failed, logic.queries[some], of_query[some], latest_us)


def open_block(logic: SessionLogic, found: Found, live: Bools) -> SessionBlock:
    """The sessions that later epochs may add to."""
    rows = np.flatnonzero(live)
    counts = np.bincount(found.queries[rows], minlength=len(logic.queries))
    present = np.flatnonzero(counts)
    lanes = {}
    for i, partials in found.lanes.items():
        lane = logic.lanes[i]
        of_entry = ranges(found.bounds[lane.queries], found.counts[lane.queries])
        kept = live[of_entry]
        here = counts[lane.queries] > 0
        lanes[lane.name] = LaneBlock(lane.ids[here], {name: array[kept] for name, array in partials.items()})
    return SessionBlock(
        logic.queries[present], counts[present], found.keys[rows], found.starts[rows], found.ends[rows], lanes
    )
