"""A sharing group: a cursor over the sealed epochs, one job and one commit for each."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.attempt import POOL, EpochRunner
from headrace.engine.errors import spark_gone
from headrace.engine.failure import EpochTrouble
from headrace.engine.files import SEGMENT_DAMAGED
from headrace.engine.inquiry import Inquiry
from headrace.engine.job import JobResult, warm_up
from headrace.engine.logview import LogIndex
from headrace.engine.rebuild import rebuild_commit
from headrace.engine.records import COMMITS, Commit, Metrics, ResultFile
from headrace.engine.spark import is_gone, jobs_of
from headrace.engine.upkeep import Upkeep, UpkeepOptions, files_of
from headrace.log.seal import Sealer
from headrace.model.epoch import NEVER_US, Epoch
from headrace.model.errors import EngineError, HeadraceError, StorageError
from headrace.model.plan import SharedPlan
from headrace.model.query import Join, JoinedRows, QueryId
from headrace.planner.shared import query_signature
from headrace.storage import faults
from headrace.storage.interrupts import uninterrupted
from headrace.storage.warehouse import Warehouse

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """`partitions` None: as many as the cluster has cores. The seconds limit an epoch as a whole, and what a query does
    by itself; None: no limit.
    """

    partitions: int | None = None
    upkeep: UpkeepOptions = field(default_factory=UpkeepOptions)
    epoch_seconds: float | None = None
    query_seconds: float | None = None


class Delivered:
    """What a group has delivered: its last commit, and the log it came from. Enough to read results and audit."""

    def __init__(self, catalog: Catalog, sealer: Sealer, commit: Commit) -> None:
        self._catalog, self._sealer = catalog, sealer
        self.commit, self.index = commit, LogIndex(sealer)
        for id_, (epoch, error) in quarantined_in(commit).items():
            catalog.quarantine(id_, epoch, error)  # type: ignore[arg-type]

    @property
    def behind(self) -> int:
        """Sealed epochs that have not been run."""
        latest = self._sealer.latest
        return 0 if latest is None else latest.id - self.commit.epoch

    @property
    def first_epoch(self) -> int:
        """The oldest epoch that the log still has."""
        return self._sealer.first

    def watermark_us(self, streams: Iterable[str]) -> int:
        """The watermark of a query over these streams after the last commit."""
        return (
            NEVER_US if self.commit.epoch < 0 else self._sealer.epoch(self.commit.epoch).watermark_us(streams)
        )

    def closed_until(self, entry: QueryEntry, commit: Commit | None = None) -> int:
        """The watermark up to which the windows of a query have closed, by the last commit or an older one."""
        commit = commit or self.commit
        ended = commit.ended.get(str(entry.query.id))
        if ended is None and (archived := self._catalog.archived(entry.query.id)) is not None:
            ended = archived.ended_us
        if ended is not None or commit.epoch < 0:
            return NEVER_US if ended is None else ended
        return self._sealer.epoch(commit.epoch).watermark_us(entry.query.plan.streams)

    def stored_rows(self, entry: QueryEntry) -> int:
        """How many rows epochs have stored for a query. Readers may get fewer, or of joined rows more."""
        archived = self._catalog.archived(entry.query.id)
        return self.commit.rows.get(str(entry.query.id), 0) if archived is None else archived.rows

    def results(self, entry: QueryEntry) -> list[ResultFile]:
        """The files that may hold rows of a query."""
        return files_of(self.commit.results, entry)

    def whole_after(self, entry: QueryEntry) -> int | None:
        """The end of the last window of a query whose groups may be made of a part of their rows; None for most."""
        match entry.query.plan.body:
            case Join(then=JoinedRows(groups=groups)) if groups is not None:
                lost, first = self.commit.lost.get(query_signature(entry.query), ()), entry.first_epoch or 0
                return max((end_us for epoch, end_us in lost if epoch >= first), default=None)
        return None


class Group(Delivered):
    """Runs epochs in order. Opening it is recovery: it goes on after the last commit."""

    def __init__(
        self,
        spark: SparkSession,
        warehouse: Warehouse,
        catalog: Catalog,
        sealer: Sealer,
        commit: Commit,
        options: GroupOptions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(catalog, sealer, commit)
        self._spark, self._warehouse, self._options, self._clock = spark, warehouse, options, clock
        self._lock = threading.Lock()
        self._job_group = f"headrace-{uuid.uuid4().hex[:8]}"
        self._plan_key: tuple[object, ...] | None = None
        self._plan: SharedPlan | None = None
        self._partitions = self._fixed_partitions()
        self._runner = EpochRunner(
            spark,
            warehouse,
            catalog,
            self.index,
            self._partitions,
            self._job_group,
            options.query_seconds,
        )
        self._inquiry = Inquiry(self._runner, warehouse, catalog, options.epoch_seconds)
        self._upkeep = Upkeep(warehouse, catalog, sealer, self.index, options.upkeep, clock)
        self._upkeep.sweep(self.commit)

    def _fixed_partitions(self) -> int:
        """Keys keep their partition while segments live: a warehouse with state stays as wide as it was."""
        if self.commit.partitions:
            return self.commit.partitions
        return self._options.partitions or self._spark.sparkContext.defaultParallelism

    @property
    def spark(self) -> SparkSession:
        """The session epoch jobs run in."""
        return self._spark

    def plan_for(self, epoch: int) -> SharedPlan:
        """The plan of the queries active in an epoch; the last one is kept."""
        entries = self._catalog.active_entries(epoch)
        key = tuple((entry.query.id, entry.slot) for entry in entries)
        if self._plan is None or key != self._plan_key:
            self._plan = self._runner.plan(epoch, entries, self.commit)
            self._plan_key = key
        return self._plan

    def run_pending(self) -> list[Commit]:
        """Run every sealed epoch after the cursor. EngineError only for what no query is to blame for."""
        done = []
        with self._lock:
            while self.behind > 0:
                epoch = self._sealer.epoch(self.commit.epoch + 1)
                try:
                    with self._jobs(f"headrace epoch {epoch.id}"):
                        done.append(self._run(epoch))
                except HeadraceError:
                    raise
                except Exception as error:
                    if is_gone(self._spark):
                        raise spark_gone() from error
                    raise
        return done

    def close(self) -> None:
        """Wait for what runs beside the epochs."""
        self._upkeep.close()

    def warm_up(self) -> None:
        """Start the workers before the first epoch needs them."""
        warm_up(self._spark, self._partitions)

    def cancel(self) -> None:
        """Let the job under way, if any, fail with EPOCH_CANCELLED; nothing is lost. From any thread."""
        self._spark.sparkContext.cancelJobGroup(self._job_group)

    def rebuild(self) -> None:
        """Derive the state anew from the log, and let it count in place of the segments of the last commit."""
        with self._lock, self._jobs(f"headrace rebuilds the state after epoch {self.commit.epoch}"):
            self._rebuild()

    def _rebuild(self) -> None:
        commit = rebuild_commit(
            self._spark, self._warehouse, self._catalog, self._sealer, self.commit, self._partitions
        )
        before, self.commit = self.commit, commit
        self._upkeep.discard(before, commit)

    def _mend(self, error: EngineError) -> None:
        """After damaged state was found: the log has what it was made of. Says so where warnings are shown."""
        _LOGGER.warning("%s; the state is rebuilt from the log", error.message)
        self._rebuild()

    def _jobs(self, description: str) -> AbstractContextManager[None]:
        return jobs_of(self._spark.sparkContext, self._job_group, description, POOL)

    def _run(self, epoch: Epoch) -> Commit:
        started = time.perf_counter()
        attempt = uuid.uuid4().hex[:8]
        if _idle(epoch):  # queries came or went, and there is nothing to do for them yet
            result, version, plan_seconds = JobResult(list(self.commit.segments)), self.commit.plan, 0.0
        else:
            result, version, plan_seconds = self._deliver(epoch, attempt)
        spent = time.perf_counter() - started
        commit = self._upkeep.rewrite(self._make_commit(epoch, version, result, spent, plan_seconds))
        with uninterrupted():
            faults.reach("commit.before")
            if not self._warehouse.put_record(COMMITS, epoch.id, commit, kind="commit"):
                raise StorageError(
                    "COMMIT_EXISTS",
                    f"epoch {epoch.id} of {self._warehouse.root} was committed by somebody else",
                    hint="make sure that one process writes to a warehouse",
                )
            faults.reach("commit.after")
            before, self.commit = self.commit, commit
        self._inquiry.settled()
        self._upkeep.after(before, commit)
        faults.reach("upkeep.after")
        return commit

    def _deliver(self, epoch: Epoch, attempt: str) -> tuple[JobResult, str, float]:
        """(what the epoch produced, the plan's version, how long planning took); queries that fail are quarantined.

        State that turns out to be damaged is made anew from the log, once.
        """
        self._quarantine(self._inquiry.known(epoch), epoch)
        rebuilt = False
        while True:
            planned = time.perf_counter()
            try:
                self._inquiry.check(epoch)
                plan = self.plan_for(epoch.id)
                plan_seconds = time.perf_counter() - planned
                result, broken = self._attempt(epoch, plan, attempt)
            except EngineError as error:
                if error.code != SEGMENT_DAMAGED or rebuilt:
                    raise
                self._mend(error)
                rebuilt = True
                continue
            except EpochTrouble as trouble:
                self._quarantine(self._inquiry.find(epoch, self.commit, trouble), epoch)
                continue
            if not broken:
                return result, plan.version, plan_seconds
            self._quarantine(broken, epoch)

    def _attempt(self, epoch: Epoch, plan: SharedPlan, attempt: str) -> tuple[JobResult, dict[int, str]]:
        """(what the epoch produced, the queries that failed in it)."""
        entries, seconds = self._catalog.active_entries(epoch.id), self._inquiry.seconds(epoch)
        result, broken = self._runner.run_shared(epoch, plan, entries, self.commit, attempt, seconds)
        if broken:
            return result, broken
        broken = self._runner.run_fallbacks(epoch, plan, result, attempt, self._inquiry.fallback_begins)
        if broken:
            self._inquiry.keep(epoch, broken)
        return result, broken

    def _quarantine(self, broken: dict[int, str], epoch: Epoch) -> None:
        for id_, error in broken.items():
            self._catalog.quarantine(QueryId(id_), epoch.id, error)

    def _make_commit(
        self,
        epoch: Epoch,
        plan: str,
        result: JobResult,
        seconds: float,
        plan_seconds: float,
    ) -> Commit:
        now = self._clock()
        entries = {int(entry.query.id): entry for entry in self._catalog.current()}
        rows = {q: n for q, n in self.commit.rows.items() if int(q) in entries}
        for query, count in result.rows.items():
            rows[str(query)] = rows.get(str(query), 0) + count
        quarantined = {
            str(id_): (int(entry.last_epoch), entry.error)
            for id_, entry in entries.items()
            if entry.error is not None and entry.last_epoch is not None
        }
        metrics = Metrics(
            input_rows=sum(part.rows for part in epoch.streams),
            late_rows=sum(part.late_rows for part in epoch.streams),
            result_rows=sum(result.rows.values()),
            active_queries=len(self._catalog.active_entries(epoch.id)),
            seconds=seconds,
            plan_seconds=plan_seconds,
            bytes_written=sum(f.bytes for f in result.results) + sum(s.bytes for s in result.segments),
            **{name: type(getattr(Metrics(), name))(value) for name, value in result.metrics.items()},
        )
        return Commit(
            epoch=epoch.id,
            plan=plan,
            segments=tuple(result.segments),
            results=(*self.commit.results, *(replace(file, written_at=now) for file in result.results)),
            quarantined=quarantined,
            rows=rows,
            stream_rows=self._stream_rows(epoch),
            metrics=metrics,
            committed_at=now,
            partitions=self._partitions,
            expired=self.commit.expired,
            ended=self._ended(epoch, entries),
            lost=self.commit.lost,
        )

    def _ended(self, epoch: Epoch, entries: dict[int, QueryEntry]) -> dict[str, int]:
        """Where join queries stood when they ended: with the epoch before, so at this one's W(e-1)."""
        ended = {query: mark for query, mark in self.commit.ended.items() if int(query) in entries}
        for id_, entry in entries.items():
            if entry.last_epoch == epoch.id and isinstance(entry.query.plan.body, Join):
                ended[str(id_)] = epoch.closed_us(entry.query.plan.streams)
        return ended

    def _stream_rows(self, epoch: Epoch) -> dict[str, tuple[int, int]]:
        """Tuples and late tuples of every stream, up to and with an epoch."""
        counts: dict[str, tuple[int, int]] = {}
        for part in epoch.streams:
            rows, late = self.commit.stream_rows.get(part.stream, (0, 0))
            counts[part.stream] = (rows + part.rows, late + part.late_rows)
        return counts


def _idle(epoch: Epoch) -> bool:
    """Whether an epoch has no tuples and no time passed in it."""
    return not any(part.chunks or part.watermark_us > part.closed_us for part in epoch.streams)


def quarantined_in(commit: Commit) -> dict[QueryId, tuple[int, str]]:
    return {QueryId(int(q)): (epoch, error) for q, (epoch, error) in commit.quarantined.items()}
