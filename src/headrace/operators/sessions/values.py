"""All values of sessions, for COUNT(DISTINCT), percentiles and sets: bags whose slices are moments.

An entry of a bag says when tuples of a key had a value, and which queries accepted them. A query's sessions of a key
never overlap, and each tuple that it accepts is in one of them. So a session's values are the entries of its moments
that its query accepted, and nothing of them is kept per session.

A moment that a delivered session had is never in a later one of the same query: what could begin before that session's
end is late for the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.operators.common.arrays import Ints
from headrace.operators.sessions.logic import ReadySessions, SessionLogic
from headrace.operators.sessions.micro import MicroSessions, late_limits, lateness
from headrace.operators.sessions.rows import Found
from headrace.operators.sessions.segment import SessionSegment
from headrace.operators.windows.bags import Bag, BagBuilder, BagLogic, StoredBag, compact
from headrace.operators.windows.lanes.base import Values
from headrace.operators.windows.stored_bags import Bags


def gather_bags(
    logic: SessionLogic,
    micros: MicroSessions | None,
    micro_keys: Ints,
    stored: Sequence[tuple[SessionSegment, Ints]],
    closed_us: int,
) -> list[Bag]:
    """Each of the operator's bags: this epoch's tuples and what segments hold, each of these with its keys' numbers."""
    if not logic.bags:
        return []
    new = [BagBuilder(bag, len(bag.ids)) for bag in logic.bags]
    if micros is not None:
        _add_tuples(logic, new, micros, micro_keys, closed_us)
    return [
        compact(
            [
                *builder.bags,
                *(s.bags[bag.name].under(bag.ids, keys) for s, keys in stored if bag.name in s.bags),
            ],
            len(bag.ids),
        )
        for bag, builder in zip(logic.bags, new, strict=True)
    ]


def _add_tuples(
    logic: SessionLogic,
    builders: Sequence[BagBuilder],
    micros: MicroSessions,
    keys: Ints,
    closed_us: int,
) -> None:
    """Tuples go into the sets of the queries that accept them and for which they are not late."""
    limits = late_limits(logic.operator, closed_us)
    ages = lateness(limits, micros.starts)
    needed = np.searchsorted(np.sort(limits), limits[logic.gap_index], "right")
    for f, family in enumerate(logic.families):
        columns = logic.family_columns[f]
        for block, cells in family.blocks(micros.regions, micros.rows):
            for age in np.unique(ages[block]).tolist():
                rows = np.flatnonzero(ages[block] == age)
                here = replace(cells, ids=cells.ids[rows])
                at = block.start + rows
                for builder in builders:
                    entries, places = builder.logic.asked(columns)
                    timely = needed[builder.logic.columns[entries]] <= age
                    some = {n: array[at] for n, array in micros.measures[builder.logic.measure].items()}
                    asked = entries[timely], places[timely]
                    builder.add(here, asked, keys[at], micros.starts[at], some)


class SessionValues:
    """The values of the sessions of some keys. `bag` has entries of these keys alone."""

    def __init__(self, bag: Bag, queries: Ints, found: Found, gaps: Ints) -> None:
        self._bag, self._queries, self._found = bag, queries, found
        self._lasts = found.ends - gaps[found.queries]
        self._known: dict[int, tuple[Ints, Ints]] = {}

    def sessions_of(self, entry: int) -> tuple[Ints, Ints]:
        """(entries of the bag that a lane entry's query accepted, the session of each) as far as sessions are there."""
        if entry not in self._known:
            self._known[entry] = self._find(entry)
        return self._known[entry]

    def _find(self, entry: int) -> tuple[Ints, Ints]:
        found, bag = self._found, self._bag
        query = int(self._queries[entry])
        low, high = int(found.bounds[query]), int(found.bounds[query + 1])
        mine = np.flatnonzero(bag.membership[:, entry][bag.sets])
        if low == high or len(mine) == 0:
            nothing = np.empty(0, np.int64)
            return nothing, nothing
        keys, moments = bag.keys[mine], bag.slices[mine]
        sessions, wanted = _places(found.keys[low:high], found.starts[low:high], keys, moments)
        at = low + np.searchsorted(sessions, wanted, "right") - 1
        inside = at >= low
        inside &= (found.keys[at] == keys) & (moments <= self._lasts[at])
        return mine[inside], at[inside]

    def of_rows(self, entry: int, place: Ints, size: int) -> Values:
        """The values of an entry's sessions that have a place (-1: none), by that place and value."""
        mine, sessions = self.sessions_of(entry)
        rows = place[sessions]
        mine, rows = mine[rows >= 0], rows[rows >= 0]
        values = self._bag.values[mine]
        order = np.lexsort((values, rows))
        rows, values = rows[order], values[order]
        changes = np.ones(len(order), bool)
        changes[1:] = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
        first = np.flatnonzero(changes)
        counts = np.add.reduceat(self._bag.counts[mine[order]], first) if len(first) else first
        return Values(size, rows[first], values[first], counts)

    def still_needed(self, watermark_us: int) -> Bag:
        """The entries of sessions that the watermark has not closed."""
        alive = np.zeros(self._bag.rows, bool)
        for entry in range(self._bag.membership.shape[1]):
            mine, sessions = self.sessions_of(entry)
            alive[mine[self._found.ends[sessions] > watermark_us]] = True
        return self._bag.take(alive)


def _places(keys: Ints, starts: Ints, wanted_keys: Ints, moments: Ints) -> tuple[Ints, Ints]:
    """Keys and moments as one number each, in their order: of sessions, and of what is looked for among them."""
    base = min(int(starts.min()), int(moments.min()))
    span = max(int(starts.max()), int(moments.max())) - base + 1
    if span * (max(int(keys.max()), int(wanted_keys.max())) + 1) >= 2**62:
        known, ranks = np.unique(np.append(starts, moments), return_inverse=True)
        base, span = 0, len(known)
        starts, moments = ranks[: len(starts)], ranks[len(starts) :]
    return keys * span + (starts - base), wanted_keys * span + (moments - base)


@dataclass(frozen=True, slots=True)
class RowValues:
    """The values behind the result rows `rows` of one output, for one aggregate: `entries` has each query's."""

    values: SessionValues
    found: Found
    ready: ReadySessions
    entries: Ints
    rows: Ints

    def distinct(self) -> Ints:
        return np.concatenate([np.bincount(v.rows, minlength=v.size) for v in self.blocks()])

    def blocks(self) -> Iterator[Values]:
        """The values of all rows in their order, one query's at a time."""
        place = np.full(len(self.found.keys), -1, np.int64)
        for query in np.sort(self.ready.queries).tolist():
            low, high = np.searchsorted(self.rows, self.found.bounds[query : query + 2])
            if low < high:
                mine = self.rows[low:high]
                place[mine] = np.arange(len(mine))
                yield self.values.of_rows(int(self.entries[query]), place, len(mine))


def values_of_keys(
    logic: SessionLogic, bags: Sequence[Bag], found: Found, low: int, high: int
) -> list[SessionValues]:
    """The values of each bag for the sessions of the keys [low, high)."""
    return [
        SessionValues(
            bag.take(np.flatnonzero((bag.keys >= low) & (bag.keys < high))),
            logic.query_of[one.columns],
            found,
            logic.gaps,
        )
        for one, bag in zip(logic.bags, bags, strict=True)
    ]


def row_values(
    values: Sequence[SessionValues], found: Found, ready: ReadySessions, aggregate: int, rows: Ints
) -> RowValues:
    """The values behind some result rows of an output, for one of its aggregates."""
    bag, entries = ready.bags[aggregate]
    return RowValues(values[bag], found, ready, entries, rows)


class KeptBags:
    """What later epochs need of each bag, gathered block by block of keys."""

    def __init__(self, logics: Sequence[BagLogic]) -> None:
        self._logics = logics
        self._kept: list[list[Bag]] = [[] for _ in logics]

    def add(self, values: Sequence[SessionValues], watermark_us: int) -> None:
        for kept, one in zip(self._kept, values, strict=True):
            kept.append(one.still_needed(watermark_us))

    def bags(self) -> Bags:
        """By lane name; keys are those of the epoch."""
        both = zip(self._logics, self._kept, strict=True)
        return {bag.name: StoredBag(bag.ids, compact(kept, len(bag.ids))) for bag, kept in both}
