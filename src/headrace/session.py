"""The facade people import: `headrace.open(path)` gives a `Session` on a warehouse."""

from __future__ import annotations

import threading
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace import sql
from headrace.catalog.interrupts import uninterrupted
from headrace.catalog.queries import QueryEntry, QueryState
from headrace.catalog.warehouse import Warehouse
from headrace.checkup import check_up
from headrace.engine.analyzer import SparkAnalyzer
from headrace.engine.errors import spark_reason
from headrace.engine.files import check_results
from headrace.engine.group import Delivered, Group, GroupOptions
from headrace.engine.recovery import check_cursor, last_commit, last_whole_commit
from headrace.engine.spark import (
    AUDITING,
    EPOCH_JOBS,
    READING,
    active,
    child_session,
    running_session,
    start_session,
)
from headrace.engine.upkeep import UpkeepOptions, may_hold
from headrace.health import Health
from headrace.log.append import append
from headrace.log.epochs import EpochLog
from headrace.log.folder import FolderIngest
from headrace.log.ingest import Ingest, open_ingest
from headrace.log.open import open_log
from headrace.log.seal import DEFAULT_MAX_EPOCH_ROWS
from headrace.log.sources import FRAME, Source, as_source, source_from
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.errors import CatalogError, EngineError, HeadraceError, LogError, SqlError
from headrace.model.plan import SharedPlan
from headrace.model.query import Fallback, Query, QueryId, QueryPlan, Stream, StreamName
from headrace.model.types import Column, Kind, SqlType
from headrace.planner.explain import explain_plan, explain_query
from headrace.planner.shared import Member, plan_group
from headrace.results.audit import AuditReport, audit_query
from headrace.results.view import query_frame, readable
from headrace.running import EpochInfo, Running, Totals, session_closed
from headrace.statements import execute, select_failed

if TYPE_CHECKING:
    import pandas as pd

Duration = str | timedelta


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """One line of `hr.queries()`: dropped queries are listed too, because their results stay."""

    name: str
    state: QueryState
    stream: str
    text: str
    first_epoch: int | None
    last_epoch: int | None
    rows: int
    error: str | None
    slot: int | None
    shared: bool


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """One line of `hr.streams()`; `rows` and `late_rows` count what epochs have taken in since it was created."""

    name: str
    columns: tuple[Column, ...]
    event_time: str
    watermark: timedelta
    watermark_us: int | None
    rows: int
    late_rows: int
    closed: bool


@dataclass(frozen=True, slots=True)
class QueryMetrics:
    """What one query has cost and brought so far."""

    rows: int
    deployment_latency: float | None
    first_epoch: int | None
    last_epoch: int | None


@dataclass(frozen=True, slots=True)
class SessionMetrics:
    """Counters since the session opened; latencies and seconds are wall-clock seconds.

    `query_changes` counts creations and deletions that have taken effect.
    """

    epoch: int
    active_queries: int
    input_rows: int
    result_rows: int
    late_rows: int
    query_changes: int
    last_epoch_seconds: float
    last_epoch_rows: int
    event_time_latency: float | None
    deployment_latencies: tuple[float, ...]
    behind: int


class QueryHandle:
    """A query by name. It stays usable after the drop: results outlive it."""

    def __init__(self, session: Session, name: str, id_: int) -> None:
        self._session, self.name, self._id = session, name, id_

    def __repr__(self) -> str:
        return f"<query {self.name}>"

    def _entry(self) -> QueryEntry:
        return self._session._catalog.entry_of(self._id)  # type: ignore[arg-type]

    @property
    def state(self) -> QueryState:
        return self._entry().state

    def results(self) -> DataFrame:
        """All rows delivered so far, as a Spark DataFrame with the columns the SQL names."""
        return self._session._results(self._entry())

    def to_pandas(self) -> pd.DataFrame:
        """All rows delivered so far; intervals of months as text, because Python has no type for them."""
        frame = readable(self.results())
        try:
            with warnings.catch_warnings():
                # before it raises, PySpark repeats the error with its Java stack as a warning
                warnings.filterwarnings("ignore", "toPandas attempted Arrow", UserWarning)
                return frame.toPandas()
        except Exception as error:
            raise EngineError(
                "RESULTS_UNREADABLE",
                f"the rows of query `{self.name}` cannot be read",
                detail=spark_reason(error),
            ) from error

    def explain(self) -> str:
        """How the query runs, with whom it shares, and the plain Spark SQL it equals."""
        return self._session._explain_query(self._entry())

    def metrics(self) -> QueryMetrics:
        entry = self._entry()
        latency = None if entry.active_at is None else max(0.0, entry.active_at - entry.requested_at)
        rows = self._session._group.commit.rows.get(str(entry.query.id), 0)
        return QueryMetrics(rows, latency, entry.first_epoch, entry.last_epoch)

    def audit(self) -> AuditReport:
        """Compare what was delivered with plain Spark over the same tuples."""
        return self._session._audit(self._entry())


class Session:
    """An open warehouse. Thread-safe; use it as a context manager, or call `close()`.

    One that was opened `read_only` sees what was committed when it was opened, beside any writer, and starts Spark only
    when rows are asked for.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        spark: SparkSession | None = None,
        master: str = "local[*,4]",
        config: dict[str, str] | None = None,
        max_epoch_rows: int = DEFAULT_MAX_EPOCH_ROWS,
        changelog_count: int = 100,
        changelog_delay: Duration = "1 second",
        partitions: int | None = None,
        retention: Duration | None = "7 days",
        log_retention: Duration | None = "1 day",
        progress: bool | None = None,
        read_only: bool = False,
        rebuild: bool = False,
        upkeep: UpkeepOptions | None = None,
    ) -> None:
        upkeep = replace(
            upkeep or UpkeepOptions(),
            retention_us=_retention("retention", retention),
            log_retention_us=_retention("log_retention", log_retention),
        )
        self._options = GroupOptions(partitions, upkeep)
        delay = _not_negative("changelog_delay", sql.parse_duration(changelog_delay)) / 1e6
        if max_epoch_rows < 1 or changelog_count < 1 or (partitions is not None and partitions < 1):
            raise EngineError(
                "BAD_OPTION", "max_epoch_rows, changelog_count and partitions must be at least 1"
            )
        if read_only and rebuild:
            raise EngineError("BAD_OPTION", "rebuild=True writes", hint="open without read_only")
        self._warehouse = Warehouse(path, read_only=read_only)
        if not read_only:
            self._warehouse.acquire()
        self._given, self._master, self._config = spark, master, config
        self._owns_spark = False
        self._reading = threading.RLock()
        self._closed = self._released = False
        try:
            self._recover(rebuild, changelog_count, delay, max_epoch_rows, progress)
        except BaseException:
            self._stop_spark()
            self._warehouse.release()
            raise

    def _recover(
        self,
        rebuild: bool,
        changelog_count: int,
        changelog_delay: float,
        max_epoch_rows: int,
        progress: bool | None,
    ) -> None:
        """Find where the last writer stopped. The commit comes first: what is read later can only be newer."""
        commit = last_whole_commit(self._warehouse) if rebuild else last_commit(self._warehouse)
        check_cursor(commit, EpochLog(self._warehouse))
        log = open_log(self._warehouse, batch_count=changelog_count, batch_delay=changelog_delay)
        self._catalog, self._arrivals, self._sealer = log.catalog, log.arrivals, log.sealer
        self._group = Delivered(self._catalog, self._sealer, commit)
        self._running: Running | None = None
        if self._warehouse.read_only:
            return
        jobs = child_session(self.spark, EPOCH_JOBS)
        group = Group(jobs, self._warehouse, self._catalog, self._sealer, commit, self._options)
        self._group = group
        if rebuild:
            group.rebuild()
        self._running = Running(group, self._catalog, self._arrivals, self._sealer, max_epoch_rows, progress)
        for stream in self._catalog.streams():
            described = self._catalog.source(stream.name)
            if described and described["kind"] != FRAME and not self._arrivals.closed(stream.name):
                source = source_from(described)
                ingest = open_ingest(jobs, self._warehouse, self._arrivals, stream, source)
                self._running.add_ingest(stream.name, ingest)

    @cached_property
    def spark(self) -> SparkSession:
        """The SparkSession in use."""
        with self._reading:
            found = self._given or running_session()
            self._owns_spark = found is None
            return found or start_session(self._master, self._config)

    @cached_property
    def _reader(self) -> SparkSession:
        """The session that results are read in."""
        return child_session(self.spark, READING)

    @cached_property
    def _auditor(self) -> SparkSession:
        """The session that the log is read in when results are compared with it."""
        return child_session(self.spark, AUDITING)

    @cached_property
    def _shapes(self) -> sql.ShapeCache:
        return sql.ShapeCache(SparkAnalyzer(self._reader))

    # streams

    def create_stream(
        self,
        name: str,
        schema: str,
        *,
        event_time: str,
        watermark: Duration = "0 seconds",
        source: Any = None,
    ) -> None:
        """Define a stream. `schema` is Spark DDL; `source` None means that `append` feeds it."""
        running = self._runs()
        stream = self._define(name, schema, event_time, watermark)
        if source is None:
            self._catalog.create_stream(stream)
            return
        given = as_source(source)
        ingest = self._checked_ingest(stream, given)
        self._catalog.create_stream(stream, given.describe())
        running.add_ingest(stream.name, ingest)

    def attach_source(self, name: str, source: Any) -> None:
        """Give a reopened stream its streaming DataFrame again: DataFrames are not kept in the warehouse."""
        running = self._runs()
        stream = self._catalog.stream(name)
        if self._arrivals.closed(stream.name):
            raise LogError("STREAM_CLOSED", f"stream `{stream.name}` is closed", hint="create another stream")
        if stream.name in running.ingests:
            raise LogError("SOURCE_ATTACHED", f"stream `{stream.name}` has its source already")
        running.add_ingest(stream.name, self._checked_ingest(stream, as_source(source)))

    def _checked_ingest(self, stream: Stream, source: Source) -> Ingest | FolderIngest:
        jobs = self._runs().group.spark
        ingest = open_ingest(jobs, self._warehouse, self._arrivals, stream, source)
        with active(jobs):
            ingest.check()
        return ingest

    def _define(self, name: str, schema: str, event_time: str, watermark: Duration) -> Stream:
        sql.check_name(name, "stream")
        if not isinstance(event_time, str):
            raise CatalogError(
                "NO_EVENT_TIME", f"stream `{name}` has no event time", hint="name a TIMESTAMP column"
            )
        try:
            with active(self._runs().group.spark):
                parsed = StructType.fromDDL(schema)
            fields = parsed.fields if isinstance(parsed, StructType) else []
        except Exception as error:
            raise CatalogError(
                "BAD_SCHEMA",
                f"the schema of stream `{name}` is not Spark DDL",
                detail=spark_reason(error),
                hint="write it as 'userID BIGINT, price DOUBLE, ts TIMESTAMP'",
            ) from None
        columns = tuple(Column(f.name, SqlType(f.dataType.simpleString())) for f in fields)
        found = [column for column in columns if column.name.lower() == event_time.lower()]
        if not found:
            raise CatalogError(
                "NO_EVENT_TIME",
                f"stream `{name}` has no column `{event_time}` to take its event time from",
                hint="name a TIMESTAMP column of its schema",
            )
        if found[0].type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
            raise CatalogError(
                "EVENT_TIME_TYPE",
                f"the event time `{found[0].name}` of stream `{name}` is {found[0].type.name.upper()}",
                hint="it must be TIMESTAMP or TIMESTAMP_NTZ",
            )
        delay = sql.parse_duration(watermark)
        if delay < 0:
            raise CatalogError("BAD_WATERMARK", f"the watermark of stream `{name}` is negative")
        return Stream(StreamName(name), columns, found[0].name, delay)

    def append(self, stream: str, data: Any) -> int:
        """Add rows (pandas, pyarrow, Spark DataFrame, list of dicts) durably; the next epoch takes them in."""
        self._runs()
        return append(self._warehouse, self._arrivals, self._catalog.stream(stream), data)

    def close_stream(self, name: str) -> None:
        """No more input: with the next epoch the watermark goes to infinity and every window closes."""
        running, stream = self._runs(), self._catalog.stream(name)
        ingest = running.ingests.pop(stream.name, None)
        if ingest is not None:
            ingest.stop()
        self._arrivals.close(stream.name)

    def streams(self) -> list[StreamInfo]:
        latest = self._sealer.latest
        infos = []
        for stream in self._catalog.streams():
            part = latest.of(stream.name) if latest else None
            mark = None if part is None or part.watermark_us in (NEVER_US, FOREVER_US) else part.watermark_us
            rows, late = self._group.commit.stream_rows.get(stream.name, (0, 0))
            infos.append(
                StreamInfo(
                    stream.name,
                    stream.columns,
                    stream.event_time,
                    timedelta(microseconds=stream.watermark_us),
                    mark,
                    rows,
                    late,
                    self._arrivals.closed(stream.name),
                )
            )
        return infos

    # queries

    def create_query(self, text: str, name: str | None = None) -> QueryHandle:
        """Ask for a query; returns at once. It is active from the next epoch on."""
        self._runs()
        if name is not None:
            sql.check_name(name, "query")
        query = self._catalog.request_create(name, self._parse(text))
        return QueryHandle(self, query.name, query.id)

    def _parse(self, text: str) -> QueryPlan:
        streams = {str(stream.name): stream for stream in self._catalog.streams()}
        with self._reading:
            return sql.parse_query(text, streams, self._shapes)

    def drop_query(self, name: str) -> None:
        """Ask for a query to end with the current epoch; its results stay."""
        self._runs()
        self._catalog.request_drop(name)

    def query(self, name: str) -> QueryHandle:
        query = self._catalog.query(name)
        return QueryHandle(self, query.name, query.id)

    def queries(self) -> list[QueryInfo]:
        """Every query, oldest first, with its state, and its error when it was quarantined."""
        rows = self._group.commit.rows
        return [
            QueryInfo(
                entry.query.name,
                entry.state,
                ", ".join(entry.query.plan.streams),
                entry.query.plan.text,
                entry.first_epoch,
                entry.last_epoch,
                rows.get(str(entry.query.id), 0),
                entry.error,
                entry.slot,
                not isinstance(entry.query.plan.body, Fallback),
            )
            for entry in self._catalog.entries()
        ]

    def explain(self, text: str | None = None) -> str:
        """The shared plan of all queries that are or will be active; or how one text would run."""
        if text is not None:
            plan = self._parse(text)
            return explain_query(Query(QueryId(0), "(not created)", plan), None)
        return explain_plan(self._current_plan())

    def _current_plan(self) -> SharedPlan:
        entries = [e for e in self._catalog.entries() if e.live and e.error is None]
        streams = {stream.name: stream for stream in self._catalog.streams()}
        return plan_group((Member(e.query, e.slot or 0) for e in entries), streams)

    def execute(self, statement: str) -> str | pa.Table:
        """Run one SQL statement of the Headrace language; text, or a table for SELECT and SHOW."""
        return execute(self, statement)

    def select(self, text: str) -> DataFrame:
        """Spark SQL over results: every query is visible as a table of its own name."""
        self._check_open()
        with self._reading:
            for entry in self._catalog.entries():
                name = entry.query.name
                if name.lower() in text.lower():
                    self._results(entry).createOrReplaceTempView(sql.quote_name(name))
            try:
                # only a query can stand in FROM; anything else Spark would run at once
                self._reader.sql(f"SELECT 1 FROM ({text.rstrip().rstrip(';')}\n)")
                return self._reader.sql(text)
            except PySparkException as error:
                raise select_failed(error) from None

    # running

    def run_available(self) -> int:
        """Flush query changes, seal everything pending and run it; how many epochs that took."""
        return self._runs().run_available()

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
        """Counters for a live view; cheap. Raises what stopped a background run."""
        if self._running is not None:
            self._running.check()
        commit, totals = self._group.commit, self._running.totals if self._running else Totals()
        return SessionMetrics(
            epoch=commit.epoch,
            active_queries=commit.metrics.active_queries,
            input_rows=totals.input_rows,
            result_rows=totals.result_rows,
            late_rows=totals.late_rows,
            query_changes=totals.query_changes,
            last_epoch_seconds=commit.metrics.seconds,
            last_epoch_rows=commit.metrics.input_rows,
            event_time_latency=totals.event_time_latency,
            deployment_latencies=tuple(totals.deployments),
            behind=self._group.behind,
        )

    def health(self) -> Health:
        """What is broken: the state of the run, of every source and of every query; cheap."""
        return check_up(self._catalog, self._arrivals, self._group.commit, self._running)

    def recent_epochs(self) -> list[EpochInfo]:
        """What each of the last 1,000 epochs since opening cost and delivered, oldest first."""
        return list(self._running.totals.recent) if self._running else []

    # looking

    def _results(self, entry: QueryEntry) -> DataFrame:
        self._check_open()
        streams = {str(name): self._catalog.stream(name) for name in entry.query.plan.streams}
        until_us, files = self._group.closed_until(entry), self._group.results(entry)
        after_us = self._group.whole_after(entry)
        check_results(self._warehouse.root, files)
        with active(self._reader):
            return query_frame(
                self._reader,
                self._warehouse.root,
                streams,
                entry,
                files,
                until_us=until_us,
                after_us=after_us,
            )

    def _explain_query(self, entry: QueryEntry) -> str:
        return explain_query(entry.query, self._current_plan())

    def _audit(self, entry: QueryEntry) -> AuditReport:
        self._check_open()
        streams = [self._catalog.stream(name) for name in entry.query.plan.streams]
        # the background run may commit meanwhile: judge by one commit, and by what is known of the query after it
        commit = self._group.commit
        entry = self._catalog.entry_of(entry.query.id)
        with self._reading, active(self._auditor):
            return audit_query(
                self._auditor,
                self._warehouse.root,
                streams,
                entry,
                [file for file in commit.results if may_hold(file, entry)],
                self._sealer,
                self._group.index,
                commit.epoch,
                commit.expired,
                self._group.whole_after(entry),
            )

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

    def close(self) -> None:
        """Stop, keep everything that was asked for, and let the warehouse go. Harmless when closed."""
        if self._released:
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
                    self._catalog.flush()
                    self._catalog.checkpoint()
            finally:
                self._warehouse.release()
                self._released = True
                self._stop_spark()

    def _stop_spark(self) -> None:
        if self._owns_spark and "spark" in vars(self):
            with suppress(Exception):
                self.spark.stop()

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


def open(path: str | Path, **options: Any) -> Session:
    """Open a warehouse for writing, creating it when absent.

    Options: `spark` (a session to use; else the running one; else one is started with `master` and `config`, and
    stopped in the end), `max_epoch_rows`, `changelog_count`, `changelog_delay`, `partitions`, `retention` (results),
    `log_retention`, `progress`. With `read_only` it reads beside any writer. With `rebuild` it derives the state anew
    from the log. Rows do not depend on the settings of the Spark session, which stay as they are.
    """
    return Session(path, **options)


def _retention(option: str, value: Duration | None) -> int | None:
    return None if value is None else _not_negative(option, sql.parse_duration(value))


def _not_negative(option: str, us: int) -> int:
    if us < 0:
        raise EngineError("BAD_OPTION", f"{option} is negative")
    return us


__all__ = ["QueryHandle", "QueryInfo", "Session", "SessionMetrics", "SqlError", "StreamInfo", "open"]
