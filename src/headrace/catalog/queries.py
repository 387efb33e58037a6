"""Lifetimes and slots: what sealed epochs make of query changes. Pure: same epochs, same slots."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from headrace.model import codec
from headrace.model.epoch import Create, Drop, Epoch
from headrace.model.query import EpochId, Query, QueryId
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
    it is dropped, so slots follow from the sealed epochs alone.
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

    @property
    def live(self) -> bool:
        """Whether it holds its name: pending, active or quarantined, and no drop requested."""
        return self.state is not QueryState.DROPPED and not self.dropping

    def active_in(self, epoch: int) -> bool:
        if self.first_epoch is None or epoch < self.first_epoch:
            return False
        return self.last_epoch is None or epoch < self.last_epoch

    def to(self, state: QueryState) -> QueryEntry:
        """The entry in another state; only declared transitions exist."""
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"query {self.query.name}: {self.state.value} -> {state.value}")
        return dataclasses.replace(self, state=state)


codec.register(QueryState, QueryEntry)


class QueryTable:
    """All entries by id, and which slots are taken. Not thread-safe; the catalog guards it."""

    def __init__(self, entries: Iterable[QueryEntry] = ()) -> None:
        self._entries: dict[QueryId, QueryEntry] = {}
        self._newest: dict[str, QueryId] = {}
        self._free: list[int] = []
        self._slots = 0
        for entry in entries:
            self.add(entry)
        taken = {entry.slot for entry in self._entries.values() if _holds_slot(entry)}
        self._slots = 1 + max((slot for slot in taken if slot is not None), default=-1)
        self._free = [slot for slot in range(self._slots) if slot not in taken]

    @property
    def slots(self) -> int:
        """How many slots were ever needed at once: the width of a query-set."""
        return self._slots

    def add(self, entry: QueryEntry) -> None:
        self._entries[entry.query.id] = entry
        key = entry.query.name.lower()
        self._newest[key] = max(entry.query.id, self._newest.get(key, entry.query.id))

    def get(self, query_id: QueryId) -> QueryEntry | None:
        return self._entries.get(query_id)

    def newest(self, name: str) -> QueryEntry | None:
        """The youngest query of that name, in any case of letters."""
        query_id = self._newest.get(name_key(name, "query"))
        return None if query_id is None else self._entries[query_id]

    def entries(self) -> tuple[QueryEntry, ...]:
        return tuple(self._entries[query_id] for query_id in sorted(self._entries))

    def put(self, entry: QueryEntry) -> None:
        self._entries[entry.query.id] = entry

    def remove(self, query_id: QueryId) -> None:
        entry = self._entries.pop(query_id)
        key = entry.query.name.lower()
        if self._newest[key] == query_id:
            rest = [other.query.id for other in self._entries.values() if other.query.name.lower() == key]
            if rest:
                self._newest[key] = max(rest)
            else:
                del self._newest[key]

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
            self._drop(query_id, epoch.id)
        for change in created:
            if change.query.id not in dropped:
                self._activate(change.query.id, epoch)

    def _drop(self, query_id: QueryId, epoch: EpochId) -> None:
        entry = self._entries.get(query_id)
        if entry is None or entry.state is QueryState.DROPPED:
            return
        if _holds_slot(entry) and entry.slot is not None:
            heapq.heappush(self._free, entry.slot)
        first = epoch if entry.first_epoch is None else entry.first_epoch
        last = epoch if entry.last_epoch is None else entry.last_epoch
        self._entries[query_id] = dataclasses.replace(
            entry.to(QueryState.DROPPED), first_epoch=first, last_epoch=last, dropping=False
        )

    def _activate(self, query_id: QueryId, epoch: Epoch) -> None:
        if self._free:
            slot = heapq.heappop(self._free)
        else:
            slot, self._slots = self._slots, self._slots + 1
        entry = self._entries[query_id].to(QueryState.ACTIVE)
        self._entries[query_id] = dataclasses.replace(
            entry, slot=slot, first_epoch=epoch.id, active_at=epoch.sealed_at
        )

    def quarantine(self, query_id: QueryId, epoch: EpochId, error: str) -> None:
        """End a query's lifetime before `epoch` because of `error`. Saying it again changes nothing."""
        entry = self._entries.get(query_id)
        if entry is None or entry.error is not None:
            return
        last = epoch if entry.last_epoch is None else min(epoch, entry.last_epoch)
        state = entry.to(QueryState.QUARANTINED) if entry.state is QueryState.ACTIVE else entry
        self._entries[query_id] = dataclasses.replace(state, last_epoch=last, error=error)


def _holds_slot(entry: QueryEntry) -> bool:
    return entry.state in (QueryState.ACTIVE, QueryState.QUARANTINED)
