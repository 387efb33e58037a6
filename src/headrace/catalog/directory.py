"""Every query that can still be asked for, by id and by name: the current ones, and dropped ones in the archive."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping
from typing import assert_never

from headrace.catalog.archive import Archive, Archived
from headrace.catalog.queries import QueryEntry, QueryState, QueryTable
from headrace.catalog.snapshot import Snapshot
from headrace.model.epoch import Change, ChangeNeeds, Create, Drop, Epoch, Move
from headrace.model.errors import CatalogError, did_you_mean
from headrace.model.grouping import Wish
from headrace.model.query import QueryId
from headrace.storage.warehouse import Warehouse


class Directory:
    """The queries of a warehouse, and the ids that are free. Not thread-safe; the catalog guards it."""

    def __init__(self, warehouse: Warehouse, start: Snapshot) -> None:
        self.archive = Archive(warehouse, start.archives)
        self.queries = QueryTable(
            (entry for entry in start.entries if not self._put_away(entry)), start.freed
        )
        self.next_id = start.next_id

    def _put_away(self, entry: QueryEntry) -> bool:
        """Whether an entry is in the archive: a crash may have left it in the snapshot too, or in epochs after it."""
        return entry.state is QueryState.DROPPED and entry.query.id in self.archive

    # changes

    def note(self, change: Change) -> None:
        """List a requested change; epochs make it real."""
        match change:
            case Create(query, requested_at, group):
                self.next_id = max(self.next_id, query.id + 1)
                if self.queries.get(query.id) is None and query.id not in self.archive:
                    self.queries.add(QueryEntry(query, requested_at=requested_at, wish=Wish(group, -1)))
            case Drop(query_id):
                entry = self.queries.get(query_id)
                if entry is not None and entry.live:
                    self.queries.put(dataclasses.replace(entry, dropping=True))
            case Move() | ChangeNeeds():
                pass  # an epoch takes it in; a query that moves is on its way then
            case _ as never:
                assert_never(never)

    def apply(self, epoch: Epoch) -> None:
        """Let the changes of a sealed epoch take effect."""
        for change in epoch.changes:
            if isinstance(change, Create):
                self.next_id = max(self.next_id, change.query.id + 1)
        self.queries.apply(epoch)
        for change in epoch.changes:
            entry = self.queries.get(change.id) if isinstance(change, Drop) else None
            if entry is not None and self._put_away(entry):
                self.queries.remove(entry.query.id)

    def put_away(self, epoch: int, rows: Mapping[str, int]) -> None:
        """Move the queries that were dropped by `epoch` into the archive, with the rows that they delivered."""
        dropped = [
            entry
            for entry in self.queries.entries()
            if entry.state is QueryState.DROPPED
            and entry.last_epoch is not None
            and entry.last_epoch <= epoch
        ]
        new = [
            Archived(entry, rows.get(str(entry.query.id), 0))
            for entry in dropped
            if entry.query.id not in self.archive
        ]
        if new:
            self.archive.add(new)
        for entry in dropped:
            self.queries.remove(entry.query.id)

    def forget(self, ids: Iterable[int]) -> None:
        """Stop listing archived queries; CatalogError for one that is not archived."""
        wanted = set(ids)
        if missing := [id_ for id_ in wanted if id_ not in self.archive]:
            raise CatalogError("QUERY_LIVE", f"query {missing[0]} is not archived", hint="drop it first")
        if wanted:
            self.archive.forget(wanted)

    # looking

    def newest(self, name: str) -> QueryEntry | None:
        """The youngest query of that name in any case of letters, archived or not."""
        found, archived = self.queries.newest(name), self.archive.newest(name)
        if archived is None or (found is not None and found.query.id > archived):
            return found
        return self.entry_of(QueryId(archived))

    def entry(self, name: str) -> QueryEntry:
        """The same; CatalogError when there is none."""
        found = self.newest(name)
        if found is None:
            known = {entry.query.name for entry in self.queries.entries()}
            raise CatalogError(
                "QUERY_NOT_FOUND", f"there is no query `{name}`", hint=did_you_mean(name, known)
            )
        return found

    def live_entry(self, name: str) -> QueryEntry:
        """The same; CatalogError when it is dropped too."""
        entry = self.entry(name)
        if not entry.live:
            raise CatalogError("QUERY_DROPPED", f"query `{entry.query.name}` is already dropped")
        return entry

    def entry_of(self, query_id: QueryId) -> QueryEntry:
        found = self.queries.get(query_id)
        if found is not None:
            return found
        archived = self.archive.get(query_id)
        if archived is None:
            raise CatalogError("QUERY_NOT_FOUND", f"there is no query with id {query_id}")
        return archived.entry

    def names(self) -> set[str]:
        """Every name; those of archived queries are in lower case."""
        return {*self.archive.names(), *(entry.query.name for entry in self.queries.entries())}

    def free_name(self, query_id: QueryId, taken: Container[str]) -> str:
        """A name for a query that was given none: q and a number, and not `taken`."""
        number = int(query_id)
        while f"q{number}" in taken or self.newest(f"q{number}") is not None:
            number += 1
        return f"q{number}"
