"""The facade people import: `headrace.open(path)` gives a `Session` on a warehouse."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace import sql
from headrace.catalog.queries import QueryEntry
from headrace.checkup import Checkup
from headrace.creating import read_many
from headrace.defining import define_stream
from headrace.engine.delivered import Delivered
from headrace.engine.files import check_results
from headrace.engine.group import House
from headrace.engine.groups import Groups
from headrace.engine.recovery import check_commits, check_cursor, last_commits
from headrace.engine.spark import (
    active,
)
from headrace.engine.stored import ResultReader
from headrace.engine.upkeep import Upkeep
from headrace.engine.workers import equip_workers
from headrace.grouped import GroupInfo, check_group, group_infos
from headrace.guard import guarding
from headrace.handles import QueryHandle
from headrace.health import Health
from headrace.infos import (
    QueryInfo,
    QueryMetrics,
    SessionMetrics,
    StreamInfo,
    query_infos,
    session_metrics,
    stream_infos,
)
from headrace.log.append import append
from headrace.log.epochs import EpochLog
from headrace.log.folder import FolderIngest
from headrace.log.ingest import Ingest, open_ingest
from headrace.log.open import open_log
from headrace.log.sources import FRAME, Source, as_source, source_from
from headrace.looking import explain_session, explain_text, select_in
from headrace.model.errors import EngineError, HeadraceError, LogError, SqlError
from headrace.model.plan import SharedPlan
from headrace.model.query import QueryPlan, Stream, StreamName
from headrace.model.statistics import Statistics
from headrace.options import Duration, Options
from headrace.planner.group import Member, plan_group
from headrace.portrait import session_html, session_text
from headrace.results.counting import RowCounts
from headrace.results.direct import direct_frame
from headrace.results.view import query_frame
from headrace.running import EpochInfo, Running, Totals, session_closed
from headrace.showing import Listing, Text
from headrace.sparks import SparkSessions
from headrace.starting import Start, start_epoch
from headrace.statements import execute
from headrace.storage.interrupts import uninterrupted
from headrace.storage.warehouse import Warehouse

if TYPE_CHECKING:
    import pandas as pd


@guarding(lambda session: session, free=frozenset({"close"}))
class Session:
    """An open warehouse. Thread-safe; use it as a context manager, or call `close()`.

    One that was opened `read_only` sees what was committed when it was opened, beside any writer, and starts Spark only
    when rows are asked for.
    """

    def __init__(self, path: str | Path, options: Options | None = None) -> None:
        """Use `headrace.open`, which documents the options."""
        options = self._options = options or Options()
        self._pid = os.getpid()
        self._warehouse = Warehouse(path, read_only=options.read_only)
        if not options.read_only:
            self._warehouse.acquire()
        self._sparks = SparkSessions(options.spark, options.master, options.config)
        self._closed = self._released = False
        try:
            self._recover(options)
        except BaseException:
            self._sparks.stop()
            self._warehouse.release()
            raise

    def _recover(self, options: Options) -> None:
        """Find where the last writer stopped. The commit comes first: what is read later can only be newer."""
        commits = last_commits(self._warehouse, whole=options.rebuild)
        check_commits(commits.values(), EpochLog(self._warehouse))
        log = open_log(
            self._warehouse, batch_count=options.changelog_count, batch_delay=options.changelog_seconds
        )
        self._catalog, self._arrivals, self._sealer = log.catalog, log.arrivals, log.sealer
        self._delivered = Delivered(self._catalog, self._sealer, commits)
        for name in self._catalog.homes.groups():
            check_cursor(
                self._delivered.commit_of(name), self._delivered.next_epoch(name), EpochLog(self._warehouse)
            )
        self._counts = RowCounts(
            self._warehouse.root, lambda: self._delivered, self._streams_by_name, lambda: self._reader
        )
        self._running: Running | None = None
        if self._warehouse.read_only:
            self._checkup = self._look_after(None)
            return
        equip_workers(self._sparks.jobs, self._warehouse.root)
        groups = Groups(self._house(options), self._sparks.jobs_of)
        if options.rebuild:
            groups.rebuild()
        self._running = Running(
            groups, self._catalog, self._arrivals, self._sealer, options.max_epoch_rows, options.progress
        )
        self._attach_kept_sources(self._running)
        self._checkup = self._look_after(self._running)

    def _house(self, options: Options) -> House:
        """What all groups have in common."""
        upkeep = Upkeep(self._warehouse, self._catalog, self._sealer, self._delivered, options.group.upkeep)
        return House(self._warehouse, self._catalog, self._sealer, self._delivered, upkeep, options.group)

    def _look_after(self, running: Running | None) -> Checkup:
        return Checkup(self._warehouse, self._catalog, self._arrivals, self._sealer, self._delivered, running)

    def _attach_kept_sources(self, running: Running) -> None:
        for stream in self._catalog.streams():
            described = self._catalog.source(stream.name)
            if described and described["kind"] != FRAME and not self._arrivals.closed(stream.name):
                source = source_from(described)
                ingest = open_ingest(running.groups.spark, self._warehouse, self._arrivals, stream, source)
                running.feeds.add(stream.name, ingest)

    @property
    def spark(self) -> SparkSession:
        """The SparkSession in use."""
        return self._sparks.main

    @property
    def _reader(self) -> SparkSession:
        return self._sparks.reader

    @property
    def _auditor(self) -> SparkSession:
        return self._sparks.auditor

    # streams

    def create_stream(
        self,
        name: str,
        schema: str,
        *,
        event_time: str,
        watermark: Duration = "0 seconds",
        source: Any = None,
        if_not_exists: bool = False,
        max_ahead: Duration | None = "default",
    ) -> None:
        """Define a stream. `schema` is Spark DDL; `source` None means that `append` feeds it.

        With `if_not_exists`, a stream of that name stays as it is. A tuple dated more than `max_ahead` ahead of the
        clock does not move the watermark. The default is one hour for sources (a day where the event time has no zone),
        and no bound for `append`; None means no bound.
        """
        running = self._runs()
        if if_not_exists and self._catalog.has_stream(name):
            return
        if source is None and max_ahead == "default":
            max_ahead = None
        stream = define_stream(running.groups.spark, name, schema, event_time, watermark, max_ahead)
        if source is None:
            self._sealer.create_stream(stream)
            return
        given = as_source(source)
        self._catalog.check_new_stream(
            stream.name
        )  # before anything that the stream of that name keeps is touched
        ingest = self._checked_ingest(stream, given)
        self._sealer.create_stream(stream, given.describe())
        if self._catalog.stream_ended(stream.name) is not None:
            # what a dropped stream of this name had read is forgotten only now
            ingest = self._checked_ingest(stream, given)
        running.feeds.add(stream.name, ingest)

    def drop_stream(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a stream that no live query reads; its name is free, results that came of it stay."""
        running = self._runs()
        if if_exists and not self._catalog.has_stream(name):
            return
        stream = self._sealer.drop_stream(name)
        running.feeds.remove(stream.name)
        self._checkup.forget(stream.name)

    def attach_source(self, name: str, source: Any) -> None:
        """Give a reopened stream its streaming DataFrame again: DataFrames are not kept in the warehouse."""
        running = self._runs()
        stream = self._catalog.stream(name)
        if self._arrivals.closed(stream.name):
            raise LogError("STREAM_CLOSED", f"stream `{stream.name}` is closed", hint="create another stream")
        if running.feeds.get(stream.name) is not None:
            raise LogError("SOURCE_ATTACHED", f"stream `{stream.name}` has its source already")
        running.feeds.add(stream.name, self._checked_ingest(stream, as_source(source)))

    def _checked_ingest(self, stream: Stream, source: Source) -> Ingest | FolderIngest:
        jobs = self._runs().groups.spark
        ingest = open_ingest(jobs, self._warehouse, self._arrivals, stream, source)
        with active(jobs):
            ingest.check()
        return ingest

    def append(self, stream: str, data: Any) -> int:
        """Add rows (pandas, pyarrow, Spark DataFrame, list of dicts) durably; the next epoch takes them in."""
        self._runs()
        return append(self._warehouse, self._arrivals, self._catalog.stream(stream), data)

    def close_stream(self, name: str, *, drain: bool = True) -> None:
        """No more input: with the next epoch the watermark goes to infinity and every window closes.

        What the stream's source has now is taken first; when it cannot be, the stream stays open and the error names
        what is unread. `drain=False` closes without it.
        """
        running, stream = self._runs(), self._catalog.stream(name)
        if drain:
            self._checkup.warn_detached(stream)
            with self._checkup.news():
                running.drain(stream)
        feed = running.feeds.get(stream.name)
        running.feeds.remove(stream.name)
        try:
            self._arrivals.close(stream.name)
        except BaseException:
            if feed is not None:  # the stream is still open, so its source goes on
                running.feeds.add(stream.name, feed.ingest)
            raise

    def stream(self, name: str) -> StreamInfo:
        """One stream, as `streams()` lists it."""
        wanted = self._catalog.stream(name).name
        return next(info for info in self.streams() if info.name == wanted)

    def streams(self) -> list[StreamInfo]:
        """Every stream, with its watermark and row counts as of the last sealed epoch."""
        return stream_infos(self._catalog, self._arrivals, self._sealer, self._checkup)

    # queries

    def create_query(
        self,
        text: str,
        name: str | None = None,
        *,
        replace: bool = False,
        if_not_exists: bool = False,
        group: str | None = None,
        start: Start | None = None,
    ) -> QueryHandle:
        """Ask for a query; returns at once. It is active from the next epoch on.

        With `replace`, a live query of that name ends where the new one begins. With `if_not_exists`, it stays.

        It shares its work with the queries of `group`, which is made when there is none of that name. Queries of other
        groups do not slow it down. Without a group it joins the main one, or gets one of its own if nothing can be
        shared.

        With `start`, the query lives from that moment on, as if it had been created then: 'earliest', a time (UTC), or
        '2 hours ago'. It catches up in a group of its own, and then joins the others.
        """
        self._runs()
        if name is not None:
            sql.check_name(name, "query")
        wanted = None if group is None else check_group(group)
        if if_not_exists and name is not None and self._catalog.has_live(name):
            return self.query(name)
        plan = self._parse(text)
        with self._sealer.holding():  # the log keeps what the query starts with from here on
            first = None if start is None else self._start_epoch(plan, start)
            query = self._catalog.request_create(name, plan, replace=replace, group=wanted, start=first)
        return QueryHandle(self, query.name, query.id)

    def create_queries(
        self,
        queries: Iterable[str | tuple[str, str]],
        *,
        replace: bool = False,
        group: str | None = None,
    ) -> list[QueryHandle]:
        """Ask for many queries at once, each a text or a pair of name and text: all of them, or none.

        It is quicker than one by one, because they become durable together. An error says which query it is about.
        `replace` and `group` are as in `create_query`.
        """
        self._runs()
        home = None if group is None else check_group(group)
        wanted = read_many(queries, self._parse)
        made = self._catalog.request_creations(wanted, replace=replace, group=home)
        return [QueryHandle(self, query.name, query.id) for query in made]

    def _start_epoch(self, plan: QueryPlan, start: Start) -> int | None:
        """The epoch of the log that a query begins with; its streams must have had their names since."""
        since = max(self._catalog.stream_ended(stream) or 0 for stream in plan.streams)
        return start_epoch(start, self._sealer, since, time.time())

    def groups(self) -> list[GroupInfo]:
        """Every sharing group: its members, how far it is, and what its epochs cost."""
        errors = self._checkup.errors()
        return group_infos(self._catalog, self._delivered, self._sealer, self.recent_epochs(), errors)

    def move_query(self, name: str, group: str) -> None:
        """Let a query live in another group, which is made when there is none of that name.

        It changes groups when both have reached the same epoch, and delivers all its rows meanwhile.
        """
        self._runs()
        self._catalog.request_move(name, check_group(group))

    def repartition(self, partitions: int) -> None:
        """Spread the keys of all groups over so many partitions from the next epoch on: tasks that run side by side.

        State moves along. It stays so when the warehouse is opened again, unless `partitions` is given then.
        """
        self._runs().groups.repartition(partitions)

    def _parse(self, text: str) -> QueryPlan:
        streams = {str(stream.name): stream for stream in self._catalog.streams()}
        with self._sparks.lock:
            return sql.parse_query(text, streams, self._sparks.shapes)

    def drop_query(self, name: str, *, if_exists: bool = False) -> None:
        """Ask for a query to end with the current epoch; its results stay."""
        self._runs()
        if if_exists and not self._catalog.has_live(name):
            return
        self._catalog.request_drop(name)

    def query(self, name: str) -> QueryHandle:
        query = self._catalog.query(name)
        return QueryHandle(self, query.name, query.id)

    def queries(self) -> list[QueryInfo]:
        """Every query, oldest first, with its state, and its error when it was quarantined."""
        entries = self._catalog.entries()
        return query_infos(entries, self._counts.of(entries), self._catalog, self._checkup)

    def explain(self, text: str | None = None, *, verbose: bool = False) -> Text:
        """The shared plan of all queries that are or will be active; or how one text would run.

        With `verbose` in the engine's own words: operators, lanes and families.
        """
        if text is not None:
            return explain_text(self, text, verbose=verbose)
        return explain_session(self, verbose=verbose)

    def _plan_of(self, group: str) -> SharedPlan:
        """The plan that a group runs with. A reader, who has no groups, makes it of what the last commit says."""
        if self._running is not None:
            return self._running.groups.get(group).plan_now()
        entries = [e for e in self._catalog.current() if e.live and e.error is None and e.group == group]
        streams = {stream.name: stream for stream in self._catalog.streams()}
        arrived = {
            StreamName(n): rows for n, (rows, _) in self._delivered.totals(self._delivered.sealed).items()
        }
        members = (Member(e.query, e.slot or 0) for e in entries)
        strategies = self._delivered.commit_of(group).strategies
        return plan_group(members, streams, Statistics.of_arrivals(arrived), strategies)

    def execute(self, statement: str, *, allow_files: bool = False) -> str | pa.Table:
        """Run one SQL statement of the Headrace language; text, or a table for SELECT, SHOW and DESCRIBE.

        An empty table says why it is empty: `headrace.notes.note_of(table)`. A statement reads no files, runs no
        programs and calls no Java methods unless `allow_files` is set. `docs/sql.md` describes the language.
        """
        return execute(self, statement, allow_files=allow_files)

    def select(self, text: str, *, allow_files: bool = False) -> DataFrame:
        """Spark SQL over results and recent tuples: every query and every stream is a table of its own name."""
        self._check_open()
        return select_in(self, text, allow_files=allow_files)

    # running

    def run_available(self) -> int:
        """Read all sources, flush query changes, seal everything pending and run it; how many epochs that took.

        Warns of files that were set aside and of tuples that are odd. A source that cannot be read keeps nothing else
        from being run; its error is raised after that.
        """
        running = self._runs()
        with self._checkup.news():
            return running.run_available()

    def warm_up(self) -> None:
        """Start Spark's Python workers now; otherwise the first epoch waits for them, about ten seconds."""
        self._runs().warm_up()

    def start(self, interval: Duration = "1 second") -> None:
        """Run in the background: every interval, whatever has arrived becomes an epoch."""
        self._runs().start(sql.parse_duration(interval) / 1e6)

    def stop(self) -> None:
        """Stop running in the background; the epoch under way is finished first."""
        if self._running is not None:
            self._running.stop()

    def metrics(self) -> SessionMetrics:
        """Counters for a live view; cheap. `health()` says whether something is wrong."""
        return session_metrics(self._delivered, self._running.totals if self._running else Totals())

    def health(self) -> Health:
        """What is broken: the state of the run, of every source and of every query. Lists folders, runs no job."""
        return self._checkup.health()

    def recent_epochs(self) -> list[EpochInfo]:
        """What each of the last 1,000 epochs since opening cost and delivered, oldest first."""
        return Listing(self._running.totals.recent if self._running else ())

    # looking

    def _streams_of(self, entry: QueryEntry) -> list[Stream]:
        """The streams that a query reads as they were when it began; they may have been dropped since."""
        return [self._catalog.stream(name, entry.first_epoch) for name in entry.query.plan.streams]

    def _streams_by_name(self, entry: QueryEntry) -> dict[str, Stream]:
        return {str(stream.name): stream for stream in self._streams_of(entry)}

    def _results(self, entry: QueryEntry) -> DataFrame:
        self._check_open()
        self._checkup.warn_reader(entry)
        streams = self._streams_by_name(entry)
        view = self._delivered.view(entry)
        check_results(self._warehouse.root, view.files)
        with active(self._reader):
            return query_frame(ResultReader(self._reader, self._warehouse.root, streams), entry, view)

    def _direct(self, entry: QueryEntry) -> pd.DataFrame | None:
        """All rows of a query without a Spark job; None when Spark has to finish them."""
        self._check_open()
        files = self._delivered.results(entry)
        check_results(self._warehouse.root, files)
        found = direct_frame(self._warehouse.root, entry, files)
        if found is not None:
            self._checkup.warn_reader(entry)
        return found

    # closing

    def _check_open(self) -> None:
        if self._closed:
            raise session_closed()

    def _runs(self) -> Running:
        """What only a session that may write has."""
        self._check_open()
        if self._running is None:
            raise EngineError(
                "READ_ONLY", "this session was opened to read", hint="open the warehouse without read_only"
            )
        return self._running

    def __repr__(self) -> str:
        return session_text(self)

    def _repr_html_(self) -> str:
        return session_html(self)

    def close(self) -> None:
        """Stop, keep everything that was asked for, and let the warehouse go. Harmless when closed.

        In a forked child it does nothing: the session, its lock and its Spark are the parent's.
        """
        if self._released or self._pid != os.getpid():
            return
        self._closed = True
        try:
            if self._running is not None:
                self._running.close()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        with uninterrupted():
            try:
                if not self._warehouse.read_only:
                    self._catalog.close()
            finally:
                self._warehouse.release()
                self._released = True
                self._sparks.stop()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except HeadraceError:
            if error is None:
                raise


__all__ = ["QueryHandle", "QueryInfo", "QueryMetrics", "Session", "SessionMetrics", "SqlError", "StreamInfo"]
