"""What exists: streams, queries, and the changelog through which queries come and go.

A request changes nothing that runs. It is durable when its caller is told so (see `requests`). Requests are batched
into changelogs (AStream 3.1.1), a changelog is one record, and it takes effect at the epoch that seals it. The catalog
is a snapshot, the changelogs after it, the requests after those, and the epochs after the snapshot; the sealer replays
the epochs (`apply`) when a warehouse is opened.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from headrace.catalog.archive import Archive, Archived
from headrace.catalog.groups import GroupTable
from headrace.catalog.homes import Homes
from headrace.catalog.queries import QueryEntry, QueryState, QueryTable
from headrace.catalog.requests import REQUESTS, Request, RequestLog, read_requests
from headrace.catalog.snapshot import CHANGELOG, SNAPSHOT, Changelog, Snapshot
from headrace.catalog.streams import StreamTable
from headrace.model.epoch import NEVER_US, Change, Create, Drop, Epoch, Move
from headrace.model.errors import CatalogError, StorageError, did_you_mean
from headrace.model.grouping import MAIN, Wish, plain_group
from headrace.model.query import EpochId, Fallback, Query, QueryId, QueryPlan, Stream
from headrace.sql.text.names import quote_name
from headrace.storage import faults
from headrace.storage.clock import Clock, SystemClock
from headrace.storage.interrupts import uninterrupted
from headrace.storage.warehouse import Warehouse


class Catalog:
    """Streams and queries of one warehouse. Thread-safe; reads nothing from disk after it was opened."""

    def __init__(
        self,
        warehouse: Warehouse,
        *,
        clock: Clock | None = None,
        batch_count: int = 100,
        batch_delay: float = 1.0,
    ) -> None:
        self._warehouse = warehouse
        self._clock = clock or SystemClock()
        self._batch_count, self._batch_delay = batch_count, batch_delay
        self._lock = threading.RLock()
        self._streams = StreamTable(warehouse)
        self._requests: list[Change] = []
        self._request_log = RequestLog(warehouse)
        self._recover()

    def _recover(self) -> None:
        start = Snapshot(-1, -1, 1, ())
        if self._warehouse.exists(SNAPSHOT):
            start = self._warehouse.read_value(SNAPSHOT, "catalog-snapshot")
        self._archive = Archive(self._warehouse, start.archives)
        self._queries = QueryTable(
            (entry for entry in start.entries if not self._put_away(entry)), start.freed
        )
        groups = GroupTable(self._warehouse, start.regrouping, start.specs)
        self.homes = Homes(self._lock, self._queries, groups)
        self._applied, self._snapshot = start.epoch, start
        self._next_id, self._last_changelog = start.next_id, start.changelog
        self._flushed: list[Changelog] = []
        for number in self._changelogs_after(start):
            self._adopt(self._warehouse.read_record(CHANGELOG, number, kind="changelog"))
        for request in read_requests(self._warehouse.path(REQUESTS)):
            if request.changelog > self._last_changelog + 1:
                raise self._warehouse.missing(CHANGELOG, self._last_changelog + 1)
            if request.changelog == self._last_changelog + 1:
                for change in request.changes:
                    self._requests.append(change)
                    self._note(change)

    def _put_away(self, entry: QueryEntry) -> bool:
        """Whether an entry is in the archive: a crash may have left it in the snapshot too, or in epochs after it."""
        return entry.state is QueryState.DROPPED and entry.query.id in self._archive

    def _changelogs_after(self, start: Snapshot) -> list[int]:
        try:
            return self._warehouse.sequence(CHANGELOG, start.changelog + 1)
        except StorageError as error:
            if error.code != "RECORD_MISSING" or self._warehouse.exists(SNAPSHOT):
                raise
            # changelogs go when a snapshot covers them
            raise StorageError(
                error.code,
                f"{self._warehouse.path(SNAPSHOT)} or a changelog is missing",
                detail=error.message,
                hint=error.hint,
            ) from error

    def _adopt(self, changelog: Changelog) -> None:
        self._flushed.append(changelog)
        self._last_changelog = changelog.number
        for change in changelog.changes:
            self._note(change)

    def _note(self, change: Change) -> None:
        """List a requested change; epochs make it real."""
        match change:
            case Create(query, requested_at, group):
                self._next_id = max(self._next_id, query.id + 1)
                if self._queries.get(query.id) is None and query.id not in self._archive:
                    self._queries.add(QueryEntry(query, requested_at=requested_at, wish=Wish(group, -1)))
            case Drop(query_id):
                entry = self._queries.get(query_id)
                if entry is not None and entry.live:
                    self._queries.put(dataclasses.replace(entry, dropping=True))
            case Move():
                pass  # an epoch takes it in, and then the query is on its way

    # streams

    def create_stream(self, stream: Stream, source: Mapping[str, Any] | None = None) -> None:
        """Define a stream durably; `source` describes where it comes from, None when it is fed by append."""
        with uninterrupted(), self._lock:
            self.check_new_stream(stream.name)
            self._streams.create(stream, source)

    def check_new_stream(self, name: str) -> None:
        """CatalogError when a stream cannot have that name, because a stream or query has it."""
        with self._lock:
            taken = self._newest(name)
            if taken is not None:
                raise _name_taken("stream", name, f"there is a {_lively(taken)} of that name")
            self._streams.check_new(name)

    def drop_stream(self, name: str, epoch: int) -> Stream:
        """End a stream before `epoch`, durably; refused while a live query reads it."""
        with uninterrupted(), self._lock:
            stream = self._streams.get(name)
            readers = [e.query.name for e in self._queries.entries() if e.live and _reads(e, stream)]
            if readers:
                listed = ", ".join(f"`{reader}`" for reader in readers[:10])
                more = f" and {len(readers) - 10} more" if len(readers) > 10 else ""
                raise CatalogError(
                    "STREAM_IN_USE",
                    f"stream `{stream.name}` is read by {listed}{more}",
                    hint=f"drop the queries first, such as DROP QUERY {quote_name(readers[0])}",
                )
            self._streams.drop(stream.name, epoch)
            return stream

    def streams(self, epoch: int | None = None) -> tuple[Stream, ...]:
        """All streams, oldest first; or those that an epoch has, for a stream may be dropped since."""
        with self._lock:
            return self._streams.all(epoch)

    def stream(self, name: str, epoch: int | None = None) -> Stream:
        """A stream by name, in any case of letters; or the one that had the name in an epoch."""
        with self._lock:
            return self._streams.get(name, epoch)

    def has_stream(self, name: str) -> bool:
        with self._lock:
            return self._streams.has(name)

    def stream_ended(self, name: str) -> int | None:
        """The first epoch without the last stream of that name that was dropped; None when none was."""
        with self._lock:
            return self._streams.ended(name)

    def source(self, name: str) -> dict[str, Any] | None:
        """The description of a stream's source; None when it is fed by append."""
        with self._lock:
            return self._streams.source(name)

    # requests

    def request_create(
        self,
        name: str | None,
        plan: QueryPlan,
        *,
        replace: bool = False,
        group: str | None = None,
        start: int | None = None,
    ) -> Query:
        """Ask for a query, durably; pending until an epoch takes it in. Without a name it gets one: q1, q2, ...

        With `replace`, a live query of that name ends in the epoch that the new one begins with. It lives in `group`;
        without one, a query that no shared operator covers gets a group of its own. With `start` it lives from that
        epoch on, which the log still has to hold when an epoch takes it in.
        """
        return self.request_creations([(name, plan)], replace=replace, group=group, start=start)[0]

    def request_creations(
        self,
        wanted: Sequence[tuple[str | None, QueryPlan]],
        *,
        replace: bool = False,
        group: str | None = None,
        start: int | None = None,
    ) -> list[Query]:
        """Ask for many queries at once: all of them, or (when it raises) none. Durable with one sync.

        The options are as in `request_create`, and hold for all of them.
        """
        with uninterrupted(), self._lock:
            queries: list[Query] = []
            changes: list[Change] = []
            new: set[str] = set()
            for name, plan in wanted:
                for stream in plan.streams:
                    self._streams.get(stream)
                query_id = QueryId(self._next_id + len(queries))
                query = Query(query_id, name or self._free_name(query_id, new), plan)
                alone = plain_group(int(query_id)) if isinstance(plan.body, Fallback) else MAIN
                create = Create(query, self._clock.now(), group or alone, start)
                changes += self._creation(create, replace, again=query.name.lower() in new)
                queries.append(query)
                new.add(query.name.lower())
            if changes:
                self._request(*changes)
            return queries

    def _creation(self, create: Create, replace: bool, again: bool) -> list[Change]:
        """The changes that bring a query; `again` says that one of its name was asked for a moment ago."""
        name = create.query.name
        if self._streams.has(name):
            raise _name_taken("query", name, "there is a stream of that name")
        present = self._newest(name)
        if not again and (present is None or not present.live):
            return [create]
        if replace and not again and present is not None:
            return [Drop(present.query.id, create.requested_at), create]
        raise CatalogError(
            "QUERY_EXISTS",
            f"there is already a query `{name if present is None else present.query.name}`",
            hint="drop it first, choose another name, or write CREATE OR REPLACE QUERY",
        )

    def request_drop(self, name: str) -> Query:
        """Ask for a query to end, durably; its results stay."""
        with uninterrupted(), self._lock:
            entry = self.entry(name)
            if not entry.live:
                raise CatalogError("QUERY_DROPPED", f"query `{entry.query.name}` is already dropped")
            self._request(Drop(entry.query.id, self._clock.now()))
            return entry.query

    def request_move(self, name: str, group: str) -> Query:
        """Ask for a query to live in another group, durably; it goes on delivering meanwhile."""
        with uninterrupted(), self._lock:
            entry = self.entry(name)
            if not entry.live:
                raise CatalogError("QUERY_DROPPED", f"query `{entry.query.name}` is already dropped")
            if entry.error is not None:
                raise CatalogError(
                    "QUERY_QUARANTINED",
                    f"query `{entry.query.name}` is quarantined: it lives in no group any more",
                    hint="drop it, and create it again in the group that you want",
                )
            self._request(Move(entry.query.id, group, self._clock.now()))
            return entry.query

    def earliest_start(self) -> int | None:
        """The first epoch that a query needs which no epoch has taken in yet; the log must keep it."""
        with self._lock:
            waiting = [*self._requests, *(change for log in self._flushed for change in log.changes)]
            starts = [c.start for c in waiting if isinstance(c, Create) and c.start is not None]
            return min(starts, default=None)

    def _free_name(self, query_id: QueryId, taken: Container[str]) -> str:
        number = int(query_id)
        while (
            f"q{number}" in taken or self._newest(f"q{number}") is not None or self._streams.has(f"q{number}")
        ):
            number += 1
        return f"q{number}"

    def _request(self, change: Change, *others: Change) -> None:
        """Make changes durable and list them; StorageError, and nothing has changed, when they cannot be kept.

        What is asked for together is kept together, and takes effect in the same epoch.
        """
        number = self._last_changelog + 1
        before = [Request(number, earlier) for earlier in self._requests]
        faults.reach("request.before")
        self._request_log.add(Request(number, change, rest=others), before)
        faults.reach("request.after")
        for one in (change, *others):
            self._requests.append(one)
            self._note(one)
        if len(self._requests) >= self._batch_count:
            with suppress(StorageError):  # it is kept as a request; the next flush says what is wrong
                self.flush()

    def due(self) -> bool:
        """Whether requests have waited for as long as they may."""
        with self._lock:
            if not self._requests:
                return False
            waited = self._clock.now() - self._requests[0].requested_at
            return waited >= self._batch_delay or waited < 0

    def tick(self) -> int | None:
        """Flush when it is due; call it now and then."""
        with self._lock:
            return self.flush() if self.due() else None

    def flush(self) -> int | None:
        """Write the requests as one changelog, for the next epoch to take; its number, or None when there were none."""
        with uninterrupted(), self._lock:
            if not self._requests:
                return None
            changelog = Changelog(self._last_changelog + 1, tuple(self._requests))
            faults.reach("changelog.before")
            if not self._warehouse.put_record(CHANGELOG, changelog.number, changelog, kind="changelog"):
                raise StorageError(
                    "CHANGELOG_EXISTS",
                    f"changelog {changelog.number} of {self._warehouse.root} was written by somebody else",
                    hint="make sure that one process writes to a warehouse",
                )
            faults.reach("changelog.after")
            self._requests.clear()
            self._request_log.settled()
            self._adopt(changelog)
            return changelog.number

    def unsealed(self) -> tuple[Changelog, ...]:
        """Changelogs that are durable and in no epoch yet, oldest first."""
        with self._lock:
            return tuple(self._flushed)

    # epochs

    @property
    def applied_epoch(self) -> int:
        """The last epoch whose changes took effect; -1 before any."""
        return self._applied

    @property
    def last_changelog(self) -> int:
        """The last changelog that an epoch or the snapshot covers; -1 before any."""
        with self._lock:
            return (self._flushed[0].number - 1) if self._flushed else self._last_changelog

    def apply(self, epoch: Epoch) -> None:
        """Let the changes of a sealed epoch take effect. Epochs come in order; one that was applied is
        skipped.
        """
        with self._lock:
            if epoch.id <= self._applied:
                return
            if epoch.id != self._applied + 1:
                raise StorageError(
                    "EPOCH_MISSING",
                    f"epoch {self._applied + 1} of {self._warehouse.root} is missing; found {epoch.id}",
                    hint="restore the epoch record from a copy of the warehouse",
                )
            for change in epoch.changes:
                if isinstance(change, Create):
                    self._next_id = max(self._next_id, change.query.id + 1)
            self._queries.apply(epoch)
            for change in epoch.changes:
                entry = self._queries.get(change.id) if isinstance(change, Drop) else None
                if entry is not None and self._put_away(entry):
                    self._queries.remove(entry.query.id)
            self._applied = int(epoch.id)
            self._flushed = [log for log in self._flushed if log.number > epoch.last_changelog]
            self._last_changelog = max(self._last_changelog, epoch.last_changelog)

    def quarantine(self, query_id: QueryId, epoch: EpochId, error: str, ended_us: int = NEVER_US) -> None:
        """End a query before `epoch` because of `error`, with its windows closed up to `ended_us`.

        The commit record of its group makes it durable.
        """
        with self._lock:
            self._queries.quarantine(query_id, epoch, error, ended_us)

    def checkpoint(self) -> None:
        """Write a snapshot of what the applied epochs made, and remove the changelogs it covers."""
        with self._lock:
            covered = self.last_changelog
            entries = tuple(
                dataclasses.replace(entry, dropping=False)
                for entry in self._queries.entries()
                if entry.state is not QueryState.PENDING
            )
            snapshot = Snapshot(
                self._applied,
                covered,
                self._next_id,
                entries,
                self._archive.numbers,
                self.homes.last_regrouping,
                self.homes.specs,
                self._queries.freed,
            )
            if snapshot != self._snapshot:
                faults.reach("snapshot.before")
                self._warehouse.replace_value(SNAPSHOT, "catalog-snapshot", snapshot)
                faults.reach("snapshot.after")
                self._snapshot = snapshot
                self._archive.tidy()
                self.homes.covered(snapshot.regrouping)
            for number in self._warehouse.records(CHANGELOG):
                if number <= covered:
                    self._warehouse.delete_record(CHANGELOG, number)

    def close(self) -> None:
        """Keep everything in changelogs and a snapshot, and let the files go."""
        with self._lock:
            try:
                self.flush()
                self.checkpoint()
            finally:
                self._request_log.close()

    # looking

    def entries(self) -> tuple[QueryEntry, ...]:
        """Every query that was not forgotten, oldest first. Archived ones are read from disk; nobody waits for that."""
        with self._lock:
            numbers, current = self._archive.numbers, self._queries.entries()
        found = {one.entry.query.id: one.entry for number in numbers for one in self._archived_batch(number)}
        found |= {entry.query.id: entry for entry in current}
        return tuple(found[query_id] for query_id in sorted(found))

    def _archived_batch(self, number: int) -> tuple[Archived, ...]:
        try:
            return self._archive.read(number)
        except StorageError:
            with self._lock:
                if number in self._archive.numbers:
                    raise
            return ()  # its queries were forgotten a moment ago

    def current(self) -> tuple[QueryEntry, ...]:
        """The queries that are live, and those that were dropped a moment ago, oldest first."""
        with self._lock:
            return self._queries.entries()

    def entry(self, name: str) -> QueryEntry:
        """The newest query of that name, in any case of letters."""
        with self._lock:
            found = self._newest(name)
            if found is None:
                known = {entry.query.name for entry in self._queries.entries()}
                raise CatalogError(
                    "QUERY_NOT_FOUND", f"there is no query `{name}`", hint=did_you_mean(name, known)
                )
            return found

    def names(self) -> list[str]:
        """Every name of a stream or a query, each once."""
        with self._lock:
            streams = [str(stream.name) for stream in self._streams.all()]
            dropped = self._archive.names()
            return sorted({*streams, *dropped, *(entry.query.name for entry in self._queries.entries())})

    def has_query(self, name: str) -> bool:
        """Whether a query of that name is listed, live or dropped."""
        with self._lock:
            return self._newest(name) is not None

    def has_live(self, name: str) -> bool:
        """Whether a query holds that name."""
        with self._lock:
            found = self._newest(name)
            return found is not None and found.live

    def _newest(self, name: str) -> QueryEntry | None:
        """The youngest query of that name, archived or not."""
        found, archived = self._queries.newest(name), self._archive.newest(name)
        if archived is None or (found is not None and found.query.id > archived):
            return found
        return self.entry_of(QueryId(archived))

    def entry_of(self, query_id: QueryId) -> QueryEntry:
        with self._lock:
            found = self._queries.get(query_id)
            if found is not None:
                return found
            archived = self._archive.get(query_id)
            if archived is None:
                raise CatalogError("QUERY_NOT_FOUND", f"there is no query with id {query_id}")
            return archived.entry

    def query(self, name: str) -> Query:
        """The newest query of that name."""
        return self.entry(name).query

    def active_entries(self, epoch: EpochId | int, group: str | None = None) -> tuple[QueryEntry, ...]:
        """The queries that see the tuples of `epoch`, oldest first; all of them, or those that live in a group then."""
        with self._lock:
            if group is None:
                return tuple(entry for entry in self._queries.entries() if entry.active_in(epoch))
            found = self._queries.living_in(group)
            return tuple(e for e in found if e.active_in(epoch) and e.group_at(epoch) == group)

    # dropped queries

    def archive(self, epoch: int, rows: Mapping[str, int]) -> None:
        """Put away the queries that were dropped by `epoch`, which all groups have run, with the rows they delivered.

        Then no commit and no snapshot needs to hold them. Durable with the next checkpoint.
        """
        with self._lock:
            dropped = [
                entry
                for entry in self._queries.entries()
                if entry.state is QueryState.DROPPED
                and entry.last_epoch is not None
                and entry.last_epoch <= epoch
            ]
            new = [
                Archived(entry, rows.get(str(entry.query.id), 0))
                for entry in dropped
                if entry.query.id not in self._archive
            ]
            if new:
                self._archive.add(new)
            for entry in dropped:
                self._queries.remove(entry.query.id)

    def archived(self, query_id: QueryId) -> Archived | None:
        """What is known of a query that was put away."""
        with self._lock:
            return self._archive.get(query_id)

    def archived_rows(self, query_id: QueryId) -> int | None:
        """How many rows a query that was put away delivered; None for any other."""
        with self._lock:
            return self._archive.rows(query_id)

    def archived_lifetimes(self) -> list[tuple[int, int, int]]:
        """(id, first epoch, last epoch) of the queries that were put away."""
        with self._lock:
            return list(self._archive.lifetimes())

    def forget(self, ids: Iterable[int]) -> None:
        """Stop listing archived queries, when their results are gone too. Durable with the next checkpoint."""
        with self._lock:
            wanted = set(ids)
            if missing := [id_ for id_ in wanted if id_ not in self._archive]:
                raise CatalogError("QUERY_LIVE", f"query {missing[0]} is not archived", hint="drop it first")
            if wanted:
                self._archive.forget(wanted)


def _reads(entry: QueryEntry, stream: Stream) -> bool:
    return stream.name in entry.query.plan.streams


def _lively(entry: QueryEntry) -> str:
    return "query" if entry.live else "dropped query whose results are kept"


def _name_taken(what: str, name: str, why: str) -> CatalogError:
    return CatalogError(
        "NAME_TAKEN",
        f"the {what} cannot be called `{name}`: {why}",
        hint="choose another name; streams and queries share one set of names, so that FROM is never ambiguous",
    )
