"""What exists: streams, queries, and the changelog through which queries come and go.

A request changes nothing that runs. It is durable when its caller is told so (see `requests`). Requests are batched
into changelogs (AStream 3.1.1), a changelog is one record, and it takes effect at the epoch that seals it. The catalog
is a snapshot, the changelogs after it, the requests after those, and the epochs after the snapshot; the sealer replays
the epochs (`apply`) when a warehouse is opened.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.catalog.archive import Archived
from headrace.catalog.changing import Changing
from headrace.catalog.creations import Asked, Creating, name_taken
from headrace.catalog.directory import Directory
from headrace.catalog.errands import Errands
from headrace.catalog.functions import FunctionTable
from headrace.catalog.groups import GroupTable
from headrace.catalog.homes import Homes
from headrace.catalog.queries import QueryEntry, QueryState
from headrace.catalog.snapshot import Changelog, Snapshot, SnapshotFile
from headrace.catalog.splits import SplitTable
from headrace.catalog.streams import StreamTable
from headrace.catalog.waiting import Batching, Waiting
from headrace.model.epoch import NEVER_US, Change, Epoch
from headrace.model.errors import CatalogError, StorageError
from headrace.model.query import NO_NEEDS, EpochId, Needs, Query, QueryId, QueryPlan, Stream
from headrace.sql.text.names import quote_name
from headrace.storage import faults
from headrace.storage.clock import Clock
from headrace.storage.interrupts import uninterrupted
from headrace.storage.warehouse import Warehouse


class Catalog:
    """Streams and queries of one warehouse. Thread-safe; reads nothing from disk after it was opened."""

    def __init__(
        self,
        warehouse: Warehouse,
        *,
        clock: Clock | None = None,
        batching: Batching | None = None,
    ) -> None:
        self._warehouse = warehouse
        self._lock = threading.RLock()
        self._streams = StreamTable(warehouse)
        self.splits = SplitTable(warehouse)
        self.functions = FunctionTable(warehouse)
        self._snapshots = SnapshotFile(warehouse)
        start = self._snapshots.read()
        self._applied, self._snapshot = start.epoch, start
        self._directory = Directory(warehouse, start)
        groups = GroupTable(warehouse, start.regrouping, start.specs)
        self.homes = Homes(self._lock, self._directory.queries, groups)
        self._waiting = Waiting(warehouse, start.changelog, batching or Batching(), clock)
        for change in self._waiting:
            self._directory.note(change)
        creating = Creating(self._directory, self._streams, self._waiting.clock, self._request)
        self._changing = Changing(self._directory, self._waiting, self._request)
        self._creations = Errands(self._lock, creating.work)

    # streams

    def create_stream(self, stream: Stream, source: Mapping[str, Any] | None = None) -> None:
        """Define a stream durably; `source` describes where it comes from, None when it is fed by append."""
        with uninterrupted(), self._lock:
            self.check_new_stream(stream.name)
            self._streams.create(stream, source)

    def check_new_stream(self, name: str) -> None:
        """CatalogError when a stream cannot have that name, because a stream or query has it."""
        with self._lock:
            taken = self._directory.newest(name)
            if taken is not None:
                raise name_taken("stream", name, f"there is a {_lively(taken)} of that name")
            self._streams.check_new(name)

    def drop_stream(self, name: str, epoch: int) -> Stream:
        """End a stream before `epoch`, durably; refused while a live query or a split uses it."""
        with uninterrupted(), self._lock:
            stream = self._streams.get(name)
            readers = [
                e.query.name for e in self._directory.queries.entries() if e.live and _reads(e, stream)
            ]
            if readers:
                listed = ", ".join(f"`{reader}`" for reader in readers[:10])
                more = f" and {len(readers) - 10} more" if len(readers) > 10 else ""
                raise CatalogError(
                    "STREAM_IN_USE",
                    f"stream `{stream.name}` is read by {listed}{more}",
                    hint=f"drop the queries first, such as DROP QUERY {quote_name(readers[0])}",
                )
            self.splits.check_unused(stream.name)
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
        needs: Needs = NO_NEEDS,
    ) -> Query:
        """Ask for a query, durably; pending until an epoch takes it in. Without a name it gets one: q1, q2, ...

        With `replace`, a live query of that name ends in the epoch that the new one begins with. It lives in `group`;
        without one, a query that no shared operator covers gets a group of its own. With `start` it lives from that
        epoch on, which the log still has to hold when an epoch takes it in. `needs` is what is asked for it.
        """
        return self.request_creations(
            [(name, plan)], replace=replace, groups=[group], start=start, needs=needs
        )[0]

    def request_creations(
        self,
        wanted: Sequence[tuple[str | None, QueryPlan]],
        *,
        replace: bool = False,
        groups: Sequence[str | None] = (),
        start: int | None = None,
        needs: Needs = NO_NEEDS,
    ) -> list[Query]:
        """Ask for many queries at once: all of them, or (when it raises) none. Durable with one sync.

        The options are as in `request_create`, and hold for all of them, but for the group that each lives in.
        """
        asked = Asked(tuple(wanted), tuple(groups) or (None,) * len(wanted), replace, start, needs)
        with uninterrupted():
            return self._creations.run(asked)

    def request_drop(self, name: str) -> Query:
        """Ask for a query to end, durably; its results stay."""
        with uninterrupted(), self._lock:
            return self._changing.drop(name)

    def request_move(self, name: str, group: str) -> Query:
        """Ask for a query to live in another group, durably; it goes on delivering meanwhile."""
        with uninterrupted(), self._lock:
            return self._changing.move(name, group)

    def request_needs(self, name: str, change: Callable[[Needs], Needs]) -> Query:
        """Ask for something else for a query, durably. What is changed is what was asked for last."""
        with uninterrupted(), self._lock:
            return self._changing.need(name, change)

    def request_moves(self, moves: Iterable[tuple[QueryId, str]]) -> None:
        """Ask for queries to live in other groups, durably. Those that have ended meanwhile stay where they were.

        So do those that a person has named a group for which no epoch has taken in yet: the person decides.
        """
        with uninterrupted(), self._lock:
            self._changing.move_all(moves)

    def earliest_start(self) -> int | None:
        """The first epoch that a query needs which no epoch has taken in yet; the log must keep it."""
        with self._lock:
            return self._waiting.earliest_start()

    def _request(self, change: Change, *others: Change) -> None:
        """Make changes durable and list them; StorageError, and nothing has changed, when they cannot be kept."""
        self._waiting.ask(change, *others)
        for one in (change, *others):
            self._directory.note(one)
        self._waiting.flush_full()

    def due(self) -> bool:
        """Whether requests have waited for as long as they may."""
        with self._lock:
            return self._waiting.due()

    def tick(self) -> int | None:
        """Flush when it is due; call it now and then."""
        with self._lock:
            return self.flush() if self.due() else None

    def flush(self) -> int | None:
        """Write the requests as one changelog, for the next epoch to take; its number, or None when there were none."""
        with uninterrupted(), self._lock:
            return self._waiting.flush()

    def unsealed(self) -> tuple[Changelog, ...]:
        """Changelogs that are durable and in no epoch yet, oldest first."""
        with self._lock:
            return self._waiting.flushed

    # epochs

    @property
    def applied_epoch(self) -> int:
        """The last epoch whose changes took effect; -1 before any."""
        return self._applied

    @property
    def last_changelog(self) -> int:
        """The last changelog that an epoch or the snapshot covers; -1 before any."""
        with self._lock:
            return self._waiting.covered

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
            self._directory.apply(epoch)
            self._applied = int(epoch.id)
            self._waiting.taken(epoch.last_changelog)

    def quarantine(self, query_id: QueryId, epoch: EpochId, error: str, ended_us: int = NEVER_US) -> None:
        """End a query before `epoch` because of `error`, with its windows closed up to `ended_us`.

        The commit record of its group makes it durable: no snapshot has it before `settle_quarantines`.
        """
        with self._lock:
            self._directory.queries.quarantine(query_id, epoch, error, ended_us)

    def settle_quarantines(self, query_ids: Iterable[QueryId]) -> None:
        """A commit record has the quarantines of these queries."""
        with self._lock:
            self._directory.queries.settle(query_ids)

    def checkpoint(self) -> None:
        """Write a snapshot of what the applied epochs made, and remove the changelogs it covers."""
        with self._lock:
            covered = self.last_changelog
            entries = tuple(
                dataclasses.replace(entry, dropping=False) if entry.dropping else entry
                for entry in self._directory.queries.settled_entries()
                if entry.state is not QueryState.PENDING
            )
            snapshot = Snapshot(
                self._applied,
                covered,
                self._directory.next_id,
                entries,
                self._directory.archive.numbers,
                self.homes.last_regrouping,
                self.homes.specs,
                self._directory.queries.freed,
            )
            if snapshot != self._snapshot:
                faults.reach("snapshot.before")
                self._snapshots.write(snapshot)
                faults.reach("snapshot.after")
                self._snapshot = snapshot
                self._directory.archive.tidy()
                self.homes.covered(snapshot.regrouping)
            self._waiting.forget(covered)

    def close(self) -> None:
        """Keep everything in changelogs and a snapshot, and let the files go."""
        with self._lock:
            try:
                self.flush()
                self.checkpoint()
            finally:
                self._waiting.close()

    # looking

    def entries(self) -> tuple[QueryEntry, ...]:
        """Every query that was not forgotten, oldest first. Archived ones are read from disk; nobody waits for that."""
        with self._lock:
            numbers, current = self._directory.archive.numbers, self._directory.queries.entries()
        found = {one.entry.query.id: one.entry for number in numbers for one in self._archived_batch(number)}
        found |= {entry.query.id: entry for entry in current}
        return tuple(found[query_id] for query_id in sorted(found))

    def _archived_batch(self, number: int) -> tuple[Archived, ...]:
        try:
            return self._directory.archive.read(number)
        except StorageError:
            with self._lock:
                if number in self._directory.archive.numbers:
                    raise
            return ()  # its queries were forgotten a moment ago

    def current(self) -> tuple[QueryEntry, ...]:
        """The queries that are live, and those that were dropped a moment ago, oldest first."""
        with self._lock:
            return self._directory.queries.entries()

    def entry(self, name: str) -> QueryEntry:
        """The newest query of that name, in any case of letters."""
        with self._lock:
            return self._directory.entry(name)

    def names(self) -> list[str]:
        """Every name of a stream or a query, each once."""
        with self._lock:
            return sorted(self._directory.names() | {str(stream.name) for stream in self._streams.all()})

    def has_query(self, name: str) -> bool:
        """Whether a query of that name is listed, live or dropped."""
        with self._lock:
            return self._directory.newest(name) is not None

    def has_live(self, name: str) -> bool:
        """Whether a query holds that name."""
        with self._lock:
            found = self._directory.newest(name)
            return found is not None and found.live

    def entry_of(self, query_id: QueryId) -> QueryEntry:
        with self._lock:
            return self._directory.entry_of(query_id)

    def query(self, name: str) -> Query:
        """The newest query of that name."""
        return self.entry(name).query

    def active_entries(self, epoch: EpochId | int, group: str | None = None) -> tuple[QueryEntry, ...]:
        """The queries that see the tuples of `epoch`, oldest first; all of them, or those that live in a group then."""
        with self._lock:
            return self._directory.queries.active(int(epoch), group)

    # dropped queries

    def archive(self, epoch: int, rows: Mapping[str, int]) -> None:
        """Put away the queries that were dropped by `epoch`, which all groups have run, with the rows they delivered.

        Then no commit and no snapshot needs to hold them. Durable with the next checkpoint.
        """
        with self._lock:
            self._directory.put_away(epoch, rows)

    def archived(self, query_id: QueryId) -> Archived | None:
        """What is known of a query that was put away."""
        with self._lock:
            return self._directory.archive.get(query_id)

    def archived_rows(self, query_id: QueryId) -> int | None:
        """How many rows a query that was put away delivered; None for any other."""
        with self._lock:
            return self._directory.archive.rows(query_id)

    def archived_lifetimes(self) -> list[tuple[int, int, int]]:
        """(id, first epoch, last epoch) of the queries that were put away."""
        with self._lock:
            return list(self._directory.archive.lifetimes())

    def forget(self, ids: Iterable[int]) -> None:
        """Stop listing archived queries, when their results are gone too. Durable with the next checkpoint."""
        with self._lock:
            self._directory.forget(ids)


def _reads(entry: QueryEntry, stream: Stream) -> bool:
    return stream.name in entry.query.plan.streams


def _lively(entry: QueryEntry) -> str:
    return "query" if entry.live else "dropped query whose results are kept"
