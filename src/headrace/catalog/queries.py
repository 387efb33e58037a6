"""Lifetimes and slots: what sealed epochs make of query changes. Pure: same epochs, same slots."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from headrace.model import codec
from headrace.model.epoch import NEVER_US, Change, ChangeNeeds, Create, Drop, Epoch, Move
from headrace.model.grouping import MAIN, GroupKind, Relocation, Stay, Wish, backfill_group, kind_of
from headrace.model.query import EpochId, Fallback, Query, QueryId
from headrace.sql.text.names import name_key


class QueryState(Enum):
    PENDING = "pending"
    ACTIVE = "active"
    QUARANTINED = "quarantined"
    DROPPED = "dropped"


TRANSITIONS: dict[QueryState, frozenset[QueryState]] = {
    QueryState.PENDING: frozenset({QueryState.ACTIVE, QueryState.DROPPED}),
    QueryState.ACTIVE: frozenset({QueryState.QUARANTINED, QueryState.DROPPED}),
    QueryState.QUARANTINED: frozenset({QueryState.DROPPED}),
    QueryState.DROPPED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class QueryEntry:
    """A query and its lifetime [first_epoch, last_epoch).

    `slot` is None until it is active, and stays what it was after the drop. `dropping` says that a drop was
    requested (its name is free) though no epoch has taken it in yet. A quarantined query holds its slot until
    it is dropped, so slots follow from the sealed epochs alone. `stays` say in which group it lives from which epoch
    on, and `wish` in which one it is to live. `ended_us` is how far its windows had closed when it ended.
    """

    query: Query
    state: QueryState = QueryState.PENDING
    slot: int | None = None
    first_epoch: EpochId | None = None
    last_epoch: EpochId | None = None
    error: str | None = None
    requested_at: float = 0.0
    active_at: float | None = None
    dropping: bool = False
    stays: tuple[Stay, ...] = ()
    wish: Wish | None = None
    ended_us: int | None = None

    @property
    def live(self) -> bool:
        """Whether it holds its name: pending, active or quarantined, and no drop requested."""
        return self.state is not QueryState.DROPPED and not self.dropping

    def active_in(self, epoch: int) -> bool:
        if self.first_epoch is None or epoch < self.first_epoch:
            return False
        return self.last_epoch is None or epoch < self.last_epoch

    @property
    def group(self) -> str:
        """The group it lives in by the newest regrouping; for a pending query, the one it will begin in."""
        return self.stays[-1].group if self.stays else self.wish.group if self.wish else MAIN

    def group_at(self, epoch: int) -> str | None:
        """The group it lives in, in an epoch; None before its first."""
        return next((stay.group for stay in reversed(self.stays) if stay.epoch <= epoch), None)

    @property
    def moving_to(self) -> str | None:
        """The group it is on its way to."""
        return self.wish.group if self.wish is not None and self.wish.group != self.group else None

    def next_in(self, group: str, after: int) -> int | None:
        """The first epoch after `after` in which it is active in a group; None when there is none."""
        ends = [stay.epoch for stay in self.stays[1:]] + [self.last_epoch]
        for stay, end in zip(self.stays, ends, strict=True):
            begin = max(stay.epoch, after + 1)
            if stay.group == group and (end is None or begin < end):
                return begin
        return None

    def to(self, state: QueryState) -> QueryEntry:
        """The entry in another state; only declared transitions exist."""
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"query {self.query.name}: {self.state.value} -> {state.value}")
        return dataclasses.replace(self, state=state)


codec.register(QueryState, QueryEntry)


KEPT_ANSWERS = 64
"""So many answers about active queries are kept at most: groups may be in different epochs."""


class QueryTable:
    """All entries by id, and which slots are taken. Not thread-safe; the catalog guards it."""

    def __init__(self, entries: Iterable[QueryEntry] = (), freed: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: dict[QueryId, QueryEntry] = {}
        self._named: dict[str, set[QueryId]] = {}
        self._homes: dict[str, set[QueryId]] = {}
        self._wishing: set[QueryId] = set()
        self._active: dict[tuple[int, str | None], tuple[QueryEntry, ...]] = {}
        """What `active` has answered since the last change: an epoch asks it again and again."""
        self._unsettled: dict[QueryId, tuple[EpochId | None, int | None]] = {}
        """How queries would have ended without a quarantine that no commit has yet: last epoch, and `ended_us`."""
        self._freed = dict(freed)
        for entry in entries:
            self.add(entry)
        taken = [entry.slot for entry in self._entries.values() if _holds_slot(entry)]
        used = [*(slot for slot in taken if slot is not None), *self._freed]
        self._slots = 1 + max(used, default=-1)
        self._free = sorted(self._freed)

    @property
    def slots(self) -> int:
        """How many slots were ever needed at once: the width of a query-set."""
        return self._slots

    @property
    def freed(self) -> tuple[tuple[int, int], ...]:
        """The free slots, each with the first epoch in which nobody held it."""
        return tuple(sorted(self._freed.items()))

    def add(self, entry: QueryEntry) -> None:
        self.put(entry)
        self._named.setdefault(entry.query.name.lower(), set()).add(entry.query.id)

    def get(self, query_id: QueryId) -> QueryEntry | None:
        return self._entries.get(query_id)

    def newest(self, name: str) -> QueryEntry | None:
        """The youngest query of that name, in any case of letters."""
        ids = self._named.get(name_key(name, "query"))
        return self._entries[max(ids)] if ids else None

    def entries(self) -> tuple[QueryEntry, ...]:
        return tuple(self._entries[query_id] for query_id in sorted(self._entries))

    def settled_entries(self) -> tuple[QueryEntry, ...]:
        """As `entries`, without quarantines that no commit has yet: the epoch may still be run in another way."""
        return tuple(
            self._without_quarantine(entry) if entry.query.id in self._unsettled else entry
            for entry in self.entries()
        )

    def _without_quarantine(self, entry: QueryEntry) -> QueryEntry:
        last, ended_us = self._unsettled[entry.query.id]
        state = QueryState.ACTIVE if entry.state is QueryState.QUARANTINED else entry.state
        return dataclasses.replace(entry, state=state, last_epoch=last, ended_us=ended_us, error=None)

    def settle(self, query_ids: Iterable[QueryId]) -> None:
        """A commit has these quarantines now."""
        for query_id in query_ids:
            self._unsettled.pop(query_id, None)

    def put(self, entry: QueryEntry) -> None:
        self._active.clear()
        self._entries[entry.query.id] = entry
        (self._wishing.discard if entry.wish is None else self._wishing.add)(entry.query.id)
        for stay in entry.stays:
            self._homes.setdefault(stay.group, set()).add(entry.query.id)

    def living_in(self, group: str) -> tuple[QueryEntry, ...]:
        """The queries that live in a group, or have lived there."""
        return tuple(self._entries[query_id] for query_id in sorted(self._homes.get(group, ())))

    def active(self, epoch: int, group: str | None = None) -> tuple[QueryEntry, ...]:
        """The queries that see the tuples of an epoch, oldest first; all of them, or those that live in a group then.

        Costs nothing when it was asked before and no query has changed since.
        """
        found = self._active.get((epoch, group))
        if found is None:
            there = self.entries() if group is None else self.living_in(group)
            found = tuple(
                e for e in there if e.active_in(epoch) and (group is None or e.group_at(epoch) == group)
            )
            if len(self._active) >= KEPT_ANSWERS:
                self._active.clear()
            self._active[epoch, group] = found
        return found

    def lives_in(self, group: str, *, plain: bool) -> bool:
        """Whether a query that plain Spark runs, or that shared operators run, lives in a group now and may run."""
        there = (self._entries[query_id] for query_id in self._homes.get(group, ()))
        return any(
            isinstance(entry.query.plan.body, Fallback) is plain
            and entry.live
            and entry.state is not QueryState.QUARANTINED
            and entry.group == group
            for entry in there
        )

    def wishing(self) -> list[QueryEntry]:
        """The queries that somebody wants in some group, oldest first."""
        return [self._entries[query_id] for query_id in sorted(self._wishing)]

    def next_epoch(self, group: str, after: int) -> int | None:
        """The first epoch after `after` in which a query is active in a group; None when there is none."""
        found: int | None = None
        for query_id in self._homes.get(group, ()):
            epoch = self._entries[query_id].next_in(group, after)
            if epoch is not None and (found is None or epoch < found):
                found = epoch
                if found == after + 1:  # none can be earlier
                    break
        return found

    def groups(self) -> tuple[str, ...]:
        """Every group that a query lives in, or has lived in."""
        return tuple(sorted(group for group, ids in self._homes.items() if ids))

    def relocate(self, move: Relocation, epoch: int) -> None:
        """Let a query live in another group from an epoch on. In its very first epoch it begins there instead."""
        entry = self._entries.get(move.query)
        if entry is None:
            return
        before = entry.stays
        if before == (Stay(epoch, move.source),):
            before = ()
            self._homes[move.source].discard(move.query)
        if any(stay.epoch >= epoch for stay in before):
            return
        stays = (*before, Stay(epoch, move.target))
        wish = entry.wish
        if wish is not None and wish.epoch <= move.settled:
            wish = None
        if wish is None and move.returns:
            wish = Wish(move.source, epoch)
        self.put(dataclasses.replace(entry, stays=stays, wish=wish))

    def hand_over(self, group: str, heir: str) -> None:
        """Let stays in a group be stays in another one; stays in one group that follow each other are one."""
        for entry in self.living_in(group):
            stays: list[Stay] = []
            for stay in entry.stays:
                home = heir if stay.group == group else stay.group
                if not stays or stays[-1].group != home:
                    stays.append(Stay(stay.epoch, home))
            self.put(dataclasses.replace(entry, stays=tuple(stays)))
        self._homes.pop(group, None)

    def remove(self, query_id: QueryId) -> None:
        self._active.clear()
        entry = self._entries.pop(query_id)
        self._unsettled.pop(query_id, None)
        self._wishing.discard(query_id)
        for stay in entry.stays:
            self._homes[stay.group].discard(query_id)
        key = entry.query.name.lower()
        self._named[key].remove(query_id)
        if not self._named[key]:
            del self._named[key]

    def apply(self, epoch: Epoch) -> None:
        """Let the changes of `epoch` take effect: drops free their slots first, creations take the lowest
        free one.

        A query created and dropped in the same epoch never had a slot or a row.
        """
        dropped = {change.id for change in epoch.changes if isinstance(change, Drop)}
        created = [change for change in epoch.changes if isinstance(change, Create)]
        for change in created:
            if change.query.id not in self._entries:
                self.add(QueryEntry(change.query, requested_at=change.requested_at))
        for query_id in sorted(dropped):
            self._drop(query_id, epoch)
        for change in created:
            if change.query.id not in dropped:
                self._activate(change, epoch)
        for other in epoch.changes:
            self._alter(other, epoch)

    def _alter(self, change: Change, epoch: Epoch) -> None:
        """Note where a query is wanted, or what is asked for it from now on. Others have begun or ended by now."""
        if isinstance(change, Create | Drop):
            return
        entry = self._entries.get(change.id)
        if entry is None or entry.state is QueryState.DROPPED:
            return
        match change:
            case Move(_, group):
                self.put(dataclasses.replace(entry, wish=Wish(group, int(epoch.id))))
            case ChangeNeeds(_, needs):
                self.put(dataclasses.replace(entry, query=dataclasses.replace(entry.query, needs=needs)))
            case _ as never:
                assert_never(never)

    def _drop(self, query_id: QueryId, epoch: Epoch) -> None:
        entry = self._entries.get(query_id)
        if entry is None or entry.state is QueryState.DROPPED:
            return
        if _holds_slot(entry) and entry.slot is not None:
            heapq.heappush(self._free, entry.slot)
            self._freed[entry.slot] = int(epoch.id)
        first = epoch.id if entry.first_epoch is None else entry.first_epoch
        closed_us = epoch.closed_us(entry.query.plan.streams)
        if query_id in self._unsettled:
            self._unsettled[query_id] = (epoch.id, closed_us)
        last = epoch.id if entry.last_epoch is None else entry.last_epoch
        ended_us = closed_us if entry.ended_us is None else entry.ended_us
        self.put(
            dataclasses.replace(
                entry.to(QueryState.DROPPED),
                first_epoch=first,
                last_epoch=last,
                dropping=False,
                ended_us=ended_us,
                wish=None,
            )
        )

    def _activate(self, change: Create, epoch: Epoch) -> None:
        first = int(epoch.id) if change.start is None else min(change.start, int(epoch.id))
        home, wish = change.group, None
        if first < epoch.id and kind_of(change.group) is GroupKind.SHARED:
            home, wish = backfill_group(int(change.query.id)), Wish(change.group, int(epoch.id))
        entry = self._entries[change.query.id].to(QueryState.ACTIVE)
        self.put(
            dataclasses.replace(
                entry,
                slot=self._take_slot(first),
                first_epoch=EpochId(first),
                active_at=epoch.sealed_at,
                stays=(Stay(first, home),),
                wish=wish,
            )
        )

    def _take_slot(self, first: int) -> int:
        """The lowest slot that nobody held from epoch `first` on: rows say by slots whose they are."""
        passed_over = []
        while self._free:
            slot = heapq.heappop(self._free)
            if self._freed[slot] <= first:
                break
            passed_over.append(slot)
        else:
            slot, self._slots = self._slots, self._slots + 1
        for other in passed_over:
            heapq.heappush(self._free, other)
        self._freed.pop(slot, None)
        return slot

    def quarantine(self, query_id: QueryId, epoch: EpochId, error: str, ended_us: int = NEVER_US) -> None:
        """End a query's lifetime before `epoch` because of `error`. Saying it again changes nothing.

        Until it is settled, `settled_entries` do not know of it.
        """
        entry = self._entries.get(query_id)
        if entry is None or entry.error is not None:
            return
        self._unsettled[query_id] = (entry.last_epoch, entry.ended_us)
        last = epoch if entry.last_epoch is None else min(epoch, entry.last_epoch)
        state = entry.to(QueryState.QUARANTINED) if entry.state is QueryState.ACTIVE else entry
        if entry.ended_us is None or last != entry.last_epoch:
            state = dataclasses.replace(state, ended_us=ended_us)
        self.put(dataclasses.replace(state, last_epoch=last, error=error))


def _holds_slot(entry: QueryEntry) -> bool:
    return entry.state in (QueryState.ACTIVE, QueryState.QUARANTINED)
