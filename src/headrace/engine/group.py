"""A sharing group: a cursor over the sealed epochs, one job and one commit for each."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headrace.catalog import faults
from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.catalog.warehouse import Warehouse
from headrace.engine.catalyst import chunk_frame, find_failing
from headrace.engine.errors import epoch_failed, spark_reason
from headrace.engine.fallback import run_fallback
from headrace.engine.job import JobResult, run_job
from headrace.engine.logview import LogIndex
from headrace.engine.records import COMMITS, NOTHING, PLANS, Commit, Metrics, ResultFile
from headrace.engine.upkeep import Upkeep
from headrace.log.seal import Sealer
from headrace.model.epoch import Epoch
from headrace.model.errors import HeadraceError, StorageError
from headrace.model.plan import ScanPath, SharedPlan
from headrace.model.predicate import Operand, operands_of
from headrace.model.query import Aggregation, Fallback, Projection, Query, QueryId
from headrace.planner.shared import Member, plan_group


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """`partitions` None: as many as the cluster has cores."""

    partitions: int | None = None
    retention_us: int | None = None
    log_retention_us: int | None = None


class Group:
    """Runs epochs in order. Opening it is recovery: it goes on after the last commit."""

    def __init__(
        self,
        spark: SparkSession,
        warehouse: Warehouse,
        catalog: Catalog,
        sealer: Sealer,
        options: GroupOptions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spark, self._warehouse, self._catalog, self._sealer = spark, warehouse, catalog, sealer
        self._options, self._clock = options, clock
        self._lock = threading.Lock()
        self._plan_key: tuple[object, ...] | None = None
        self._plan: SharedPlan | None = None
        self.index = LogIndex(sealer)
        self.commit = last_commit(warehouse)
        self._partitions = self._fixed_partitions()
        for id_, (epoch, error) in quarantined_in(self.commit).items():
            catalog.quarantine(id_, epoch, error)  # type: ignore[arg-type]
        self._upkeep = Upkeep(warehouse, catalog, sealer, self.index, options.retention_us, options.log_retention_us)
        if warehouse.held:
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

    @property
    def expired_us(self) -> int:
        """Results of windows that ended by then may have been expired."""
        return self._upkeep.expired_us

    @property
    def behind(self) -> int:
        """Sealed epochs that have not been run."""
        latest = self._sealer.latest
        return 0 if latest is None else latest.id - self.commit.epoch

    def plan_for(self, epoch: int) -> SharedPlan:
        """The plan of the queries active in an epoch; the last one is kept."""
        entries = self._catalog.active_entries(epoch)
        key = tuple((entry.query.id, entry.slot) for entry in entries)
        if self._plan is None or key != self._plan_key:
            streams = {stream.name: stream for stream in self._catalog.streams()}
            self._plan = plan_group((Member(e.query, e.slot or 0) for e in entries), streams)
            self._plan_key = key
        return self._plan

    def run_pending(self) -> list[Commit]:
        """Run every sealed epoch after the cursor."""
        done = []
        with self._lock:
            while self.behind > 0:
                done.append(self._run(self._sealer.epoch(self.commit.epoch + 1)))
        return done

    def _run(self, epoch: Epoch) -> Commit:
        started = time.perf_counter()
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", "headrace-main")
        self._spark.sparkContext.setLocalProperty("spark.job.description", f"headrace epoch {epoch.id}")
        attempt = uuid.uuid4().hex[:8]
        failed: dict[int, str] = {}
        while True:
            planned = time.perf_counter()
            plan = self.plan_for(epoch.id)
            plan_seconds = time.perf_counter() - planned
            result, broken = self._attempt(epoch, plan, attempt)
            if not broken:
                break
            for id_, error in broken.items():
                self._catalog.quarantine(QueryId(id_), epoch.id, error)
            failed |= broken
        spent = time.perf_counter() - started
        commit = self._upkeep.rewrite(self._make_commit(epoch, plan, result, failed, spent, plan_seconds), epoch)
        faults.reach("commit.before")
        if not self._warehouse.put_record(COMMITS, epoch.id, commit, kind="commit"):
            raise StorageError(
                "COMMIT_EXISTS",
                f"epoch {epoch.id} of {self._warehouse.root} was committed by somebody else",
                hint="make sure that one process writes to a warehouse",
            )
        faults.reach("commit.after")
        before, self.commit = self.commit, commit
        self._upkeep.after(before, commit)
        faults.reach("upkeep.after")
        return commit

    def _attempt(self, epoch: Epoch, plan: SharedPlan, attempt: str) -> tuple[JobResult, dict[int, str]]:
        """(what the epoch produced, the queries that failed in it)."""
        streams = {str(stream.name): stream for stream in self._catalog.streams()}
        path = f"{PLANS}/{plan.version}.json"
        if plan.operators and not self._warehouse.exists(path):
            self._warehouse.replace_value(path, "plan", plan)
        known = {operator.id for operator in plan.operators}
        live = [s for s in self.commit.segments if s.operator in known and not self._dead(s.operator, s.last_end_us, plan, epoch)]
        faults.reach("job.before")
        try:
            result = run_job(
                self._spark, self._warehouse.root, plan, path, epoch, streams, live, self._partitions, attempt
            )
        except HeadraceError:
            raise
        except Exception as error:
            broken = self._blame(epoch, plan)
            if broken:
                return JobResult(), broken
            raise epoch_failed(epoch.id, error) from error
        faults.reach("job.after")
        if result.failures:
            return result, result.failures
        return result, self._run_fallbacks(epoch, plan, result, attempt)

    @staticmethod
    def _dead(operator: str, last_end_us: int, plan: SharedPlan, epoch: Epoch) -> bool:
        stream = next(o.stream for o in plan.operators if o.id == operator)
        part = epoch.of(stream)
        return part is not None and last_end_us <= part.closed_us

    def _run_fallbacks(self, epoch: Epoch, plan: SharedPlan, result: JobResult, attempt: str) -> dict[int, str]:
        broken: dict[int, str] = {}
        started = time.perf_counter()
        for fallback in plan.fallbacks:
            entry = self._catalog.entry_of(fallback.query)
            stream = self._catalog.stream(fallback.stream)
            try:
                files = run_fallback(
                    self._spark,
                    self._warehouse.root,
                    stream,
                    self.index,
                    entry.query,
                    entry.first_epoch or 0,
                    epoch,
                    fallback.signature,
                    attempt,
                )
            except HeadraceError:
                raise
            except Exception as error:
                broken[fallback.query] = spark_reason(error)
                continue
            result.results += files
            rows = sum(file.rows for file in files)
            if rows:
                result.rows[fallback.query] = result.rows.get(fallback.query, 0) + rows
        if plan.fallbacks:
            result.metrics["fallback_seconds"] = time.perf_counter() - started
        return broken

    def _blame(self, epoch: Epoch, plan: SharedPlan) -> dict[int, str]:
        """After a failed job: the queries whose expressions Spark cannot evaluate over this epoch's tuples."""
        broken: dict[int, str] = {}
        for name in {o.stream for o in plan.operators if o.path is ScanPath.CATALYST}:
            part = epoch.of(name)
            if part is None or not part.chunks:
                continue
            stream = self._catalog.stream(name)
            frame = chunk_frame(self._spark, self._warehouse.root, stream, part.chunks)
            suspects = {
                int(entry.query.id): found
                for entry in self._catalog.active_entries(epoch.id)
                if entry.query.plan.stream == name and (found := _expressions(entry.query))
            }
            broken |= find_failing(frame, suspects, spark_reason)
        return broken

    def _make_commit(
        self,
        epoch: Epoch,
        plan: SharedPlan,
        result: JobResult,
        failed: dict[int, str],
        seconds: float,
        plan_seconds: float,
    ) -> Commit:
        entries = {int(entry.query.id): entry for entry in self._catalog.entries()}
        rows = {q: n for q, n in self.commit.rows.items() if int(q) in entries}
        for query, count in result.rows.items():
            rows[str(query)] = rows.get(str(query), 0) + count
        quarantined = {q: v for q, v in self.commit.quarantined.items() if int(q) in entries}
        quarantined |= {str(q): (int(epoch.id), reason) for q, reason in failed.items()}
        metrics = Metrics(
            input_rows=sum(part.rows for part in epoch.streams),
            late_rows=sum(part.late_rows for part in epoch.streams),
            result_rows=sum(result.rows.values()),
            active_queries=_active(plan),
            seconds=seconds,
            plan_seconds=plan_seconds,
            bytes_written=sum(f.bytes for f in result.results) + sum(s.bytes for s in result.segments),
            **{name: type(getattr(Metrics(), name))(value) for name, value in result.metrics.items()},
        )
        return Commit(
            epoch=epoch.id,
            plan=plan.version,
            segments=tuple(result.segments),
            results=(*self.commit.results, *result.results),
            quarantined=quarantined,
            rows=rows,
            metrics=metrics,
            committed_at=self._clock(),
            partitions=self._partitions,
        )

    def results(self, entry: QueryEntry) -> list[ResultFile]:
        """The files that may hold rows of a query."""
        first, last = entry.first_epoch, entry.last_epoch
        if first is None:
            return []
        return [
            file
            for file in self.commit.results
            if file.last_epoch >= first
            and (last is None or file.first_epoch < last)
            and file.min_query <= entry.query.id <= file.max_query
        ]


def _active(plan: SharedPlan) -> int:
    shared = {q for o in plan.operators for q in (o.queries if hasattr(o, "queries") else [c.query for c in o.columns])}
    return len(shared) + len(plan.fallbacks)


def _expressions(query: Query) -> tuple[Operand, ...]:
    """The expressions of a query that Catalyst evaluates."""
    match query.plan.body:
        case Aggregation() as body:
            found = {*body.keys, *operands_of(body.where)}
            for aggregate in body.aggregates:
                found |= operands_of(aggregate.filter) | ({aggregate.input} if aggregate.input else set())
        case Projection() as body:
            found = {*body.outputs, *operands_of(body.where)}
        case Fallback():
            found = set()
    return tuple(operand for operand in found if not operand.plain)


def last_commit(warehouse: Warehouse) -> Commit:
    """The newest commit of the group, or the empty one."""
    numbers = warehouse.records(COMMITS)
    return warehouse.read_record(COMMITS, numbers[-1], kind="commit") if numbers else NOTHING


def quarantined_in(commit: Commit) -> dict[QueryId, tuple[int, str]]:
    return {QueryId(int(q)): (epoch, error) for q, (epoch, error) in commit.quarantined.items()}
