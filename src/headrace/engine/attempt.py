"""One epoch run for a set of queries: the shared job, then what runs by itself. Nothing counts before a commit says so.

A query that can be named for a failure is returned as broken. A failure that names nobody is an `EpochTrouble`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, assert_never

from pyspark.sql import SparkSession

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.catalyst import chunk_frame, find_failing
from headrace.engine.delivered import Delivered
from headrace.engine.errors import epoch_cancelled, query_caused, spark_reason, was_cancelled
from headrace.engine.failure import EpochTrouble, FailureKind, failure_of, out_of_time, spark_died
from headrace.engine.fallback import PlainRun, run_fallback
from headrace.engine.files import check_chunks, check_segments, find_damaged
from headrace.engine.finish import find_unfinishable
from headrace.engine.job import Job, JobContext, JobResult, epoch_work, run_job, warm_up
from headrace.engine.limits import Watch
from headrace.engine.logview import LogReader
from headrace.engine.plans import PlanWriter
from headrace.engine.records import ResultFile
from headrace.engine.spark import is_gone, width_of
from headrace.engine.stored import ResultReader
from headrace.model.epoch import Chunk, Epoch
from headrace.model.errors import HeadraceError, LogError
from headrace.model.grouping import GroupSpec, pool_of
from headrace.model.metrics import QueryCounts
from headrace.model.plan import ScanPath, SharedPlan
from headrace.model.predicate import Operand, operands_of
from headrace.model.query import Aggregation, Fallback, Join, Projection, Query, StreamName
from headrace.model.state import SegmentFile
from headrace.model.statistics import Statistics
from headrace.model.strategy import Strategies
from headrace.optimizer.place import EpochWork, Place
from headrace.optimizer.turns import Room, plain_room
from headrace.planner.group import Kept, Member, plan_group
from headrace.storage import faults
from headrace.storage.warehouse import Warehouse

STUCK_SECONDS = 30.0
"""A Spark that does not run an empty job in so long will not run anything."""


class Home(Protocol):
    """A group, as far as the running of its epochs must know it."""

    name: str
    spark: SparkSession

    def spec(self, epoch: int) -> GroupSpec:
        """With what it runs an epoch."""

    def strategies(self, epoch: int) -> Strategies:
        """The strategies in force before an epoch."""


class EpochRunner:
    """Runs epochs of a group for any set of its queries. `query_seconds` limits what a query does by itself."""

    def __init__(
        self,
        home: Home,
        warehouse: Warehouse,
        catalog: Catalog,
        delivered: Delivered,
        job_group: str,
        query_seconds: float | None = None,
    ) -> None:
        self.spark, self.job_group, self.query_seconds = home.spark, job_group, query_seconds
        self._group, self._warehouse, self._catalog, self._delivered = (
            home.name,
            warehouse,
            catalog,
            delivered,
        )
        self._home = home
        self._cores = int(
            home.spark.sparkContext.defaultParallelism
        )  # asked now: Spark may be dead when it counts
        self._kept, self._plans = Kept(), PlanWriter(warehouse, home.name)

    def plan(self, epoch: int, entries: Sequence[QueryEntry]) -> SharedPlan:
        """The plan of these queries in an epoch."""
        streams = {stream.name: stream for stream in self._catalog.streams(epoch)}
        rates = {StreamName(name): rows for name, (rows, _) in self._delivered.totals(epoch - 1).items()}
        try:
            members = (Member(entry.query, entry.slot or 0) for entry in entries)
            known = Statistics.of_arrivals(rates)
            return plan_group(members, streams, known, self._home.strategies(epoch), self._kept)
        except HeadraceError:
            raise
        except Exception as error:
            raise EpochTrouble(failure_of(error)) from error

    def run_shared(
        self,
        epoch: Epoch,
        plan: SharedPlan,
        entries: Sequence[QueryEntry],
        held: Sequence[SegmentFile],
        attempt: str,
        seconds: float | None = None,
        place: Callable[[EpochWork], Place] = lambda work: Place.SPARK,
    ) -> tuple[JobResult, dict[int, str]]:
        """(what the shared operators produced, the queries that failed in it), within some seconds.

        `held` is the state before the epoch. `place` says where such work runs.
        """
        root = self._warehouse.root
        streams = {str(stream.name): stream for stream in self._catalog.streams(epoch.id)}
        self._catalog.functions.check(entry.query for entry in entries)
        live = [s for s in held if _alive(s, plan, epoch)]
        check_segments(root, live)
        check_chunks(root, _chunks_read(plan, epoch), content=False)
        with Watch(self.spark, self.job_group, seconds) as watch:
            try:
                path = self._plans.write(plan, self._kept)
                faults.reach("job.before")
                spec = self._home.spec(int(epoch.id))
                context = JobContext(
                    self.spark,
                    root,
                    self._group,
                    spec.partitioning,
                    spec.tasks,
                    self._catalog.functions.files(),
                )
                job = Job(plan, path, epoch, streams, live, attempt)
                result = run_job(context, replace(job, place=place(epoch_work(plan, epoch, live))))
                faults.reach("job.after")
                reader = ResultReader(self.spark, root, streams)
                unfinishable = result.failures or find_unfinishable(
                    reader, entries, epoch, result.results, self._delivered.results
                )
                return result, unfinishable
            except HeadraceError:
                raise
            except Exception as error:
                trouble = self._trouble(epoch, watch, error)
                broken = {}
                if trouble.failure.kind is FailureKind.ERROR:
                    check_chunks(root, _chunks_read(plan, epoch))  # before any query is blamed
                    broken = self._name(epoch, plan, entries, watch)
                if broken:
                    return JobResult(), broken
                raise trouble from error

    def run_fallbacks(
        self,
        epoch: Epoch,
        plan: SharedPlan,
        result: JobResult,
        attempt: str,
        begins: Callable[[int], None] = lambda query: None,
        first: int | None = None,
    ) -> dict[int, str]:
        """Add the rows of the queries that run by themselves; those that failed. `begins` is told before each.

        `epoch` may be several that were gathered, of which `first` is the first.
        """
        broken: dict[int, str] = {}
        started = time.perf_counter()
        for fallback in plan.fallbacks:
            begins(fallback.query)
            entry = self._catalog.entry_of(fallback.query)
            try:
                asked = PlainRun(entry, epoch, fallback.signature, attempt, first)
                files = self._run_fallback(asked)
            except LogError as error:  # an older chunk that only this query reads again
                broken[fallback.query] = f"{error.code}: {error.message}"
                continue
            except EpochTrouble as trouble:
                if trouble.failure.kind in (FailureKind.SPARK, FailureKind.MACHINE):
                    raise  # no query's fault
                broken[fallback.query] = str(trouble.failure)
                continue
            faults.reach("fallback.after")
            result.results += files
            rows = sum(file.rows for file in files)
            result.rows += QueryCounts.of([fallback.query], [rows])
        if plan.fallbacks:
            result.metrics["fallback_seconds"] = time.perf_counter() - started
        return broken

    def _run_fallback(self, asked: PlainRun) -> list[ResultFile]:
        """Once more when it was not the query's fault; then whatever it is concerns this query only."""
        names, epoch = asked.entry.query.plan.streams, asked.epoch
        streams = {str(name): self._catalog.stream(name, epoch.id) for name in names}
        cores = int(self.spark.sparkContext.defaultParallelism)
        room = plain_room(cores) if self._catalog.homes.shares() else Room(1, cores)
        for last_try in (False, True):
            with Watch(self.spark, self.job_group, self.query_seconds) as watch:
                try:
                    log = LogReader(self.spark, self._warehouse.root, streams, self._delivered.index)
                    with width_of(self.spark, room.tasks):
                        return run_fallback(log, asked)
                except HeadraceError:
                    raise
                except Exception as error:
                    trouble = self._trouble(epoch, watch, error)
                    if last_try or watch.expired or query_caused(error) or is_gone(self.spark):
                        raise trouble from error
        raise AssertionError("unreachable")

    def _trouble(self, epoch: Epoch, watch: Watch, error: Exception) -> EpochTrouble:
        """What an exception means; EPOCH_CANCELLED when somebody wanted it."""
        if watch.expired and watch.seconds is not None:
            return EpochTrouble(out_of_time(watch.seconds))
        if was_cancelled(error):
            raise epoch_cancelled(epoch.id) from error
        if isinstance(error, EpochTrouble):
            return error
        return EpochTrouble(spark_died() if is_gone(self.spark) else failure_of(error))

    def _name(
        self, epoch: Epoch, plan: SharedPlan, entries: Sequence[QueryEntry], watch: Watch
    ) -> dict[int, str]:
        """After a failed job: the queries whose expressions Spark cannot evaluate over this epoch's tuples."""
        broken: dict[int, str] = {}
        slow = {read.stream for o in plan.operators for read in o.reads if read.path is ScanPath.CATALYST}
        for name in slow:
            inflow = epoch.of(name)
            if inflow is None or not inflow.chunks:
                continue
            frame = chunk_frame(
                self.spark, self._warehouse.root, self._catalog.stream(name, epoch.id), inflow.chunks
            )
            suspects = {
                int(entry.query.id): found
                for entry in entries
                if (found := expressions_of(entry.query, name))
            }
            try:
                broken |= find_failing(frame, suspects, spark_reason)
            except Exception as other:
                trouble = self._trouble(epoch, watch, other)
                find_damaged(self._warehouse.root, inflow.chunks)
                raise trouble from other
        return broken

    # what a search needs

    def take_thread(self, epoch: Epoch) -> None:
        """Let this thread's jobs be the epoch's: one that was cut off from Spark has lost what it was."""
        context = self.spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", pool_of(self._group))
        context.setJobGroup(self.job_group, f"headrace epoch {epoch.id} of {self._group}, which failed")
        sessions = SparkSession._get_j_spark_session_class(self.spark._jvm)
        sessions.setActiveSession(self.spark._jsparkSession)

    def check_without_queries(self, epoch: Epoch) -> None:
        """EpochTrouble or HeadraceError when the epoch fails although nobody asks anything of it."""
        with Watch(self.spark, self.job_group, STUCK_SECONDS) as watch:
            try:
                warm_up(self.spark, self._home.spec(int(epoch.id)).partitioning.partitions)
            except Exception as error:
                raise self._trouble(epoch, watch, error) from error
        with Watch(self.spark, self.job_group, self.query_seconds) as watch:
            for inflow in epoch.streams:
                find_damaged(self._warehouse.root, inflow.chunks)
                if not inflow.chunks:
                    continue
                stream = self._catalog.stream(inflow.stream, epoch.id)
                try:
                    chunk_frame(self.spark, self._warehouse.root, stream, inflow.chunks).write.format(
                        "noop"
                    ).mode("overwrite").save()
                except Exception as error:
                    raise self._trouble(epoch, watch, error) from error

    def width(self, epoch: Epoch) -> int:
        """How many tasks of the epoch may run at the same time."""
        return min(self._home.spec(int(epoch.id)).tasks, self._cores)

    def answers(self) -> bool:
        """Whether Spark still runs jobs: tasks that cannot be interrupted may hold all of its cores."""
        with Watch(self.spark, self.job_group, STUCK_SECONDS):
            try:
                return bool(self.spark.sparkContext.parallelize([1], 1).count())
            except Exception:
                return False

    def discard(self, result: JobResult, held: Sequence[SegmentFile]) -> None:
        """Remove what a trial wrote; the state that it began with stays."""
        kept = {file.path for file in held}
        for path in (*(file.path for file in result.results), *(file.path for file in result.segments)):
            if path not in kept:
                self._warehouse.delete(path)


def _alive(segment: SegmentFile, plan: SharedPlan, epoch: Epoch) -> bool:
    """Whether an operator of the plan still needs a segment."""
    operator = next((o for o in plan.operators if o.id == segment.operator), None)
    return operator is not None and segment.last_end_us > epoch.closed_us(operator.clock)


def _chunks_read(plan: SharedPlan, epoch: Epoch) -> Iterator[Chunk]:
    read = {read.stream for operator in plan.operators for read in operator.reads}
    read |= {stream for fallback in plan.fallbacks for stream in fallback.streams}
    return (chunk for inflow in epoch.streams if inflow.stream in read for chunk in inflow.chunks)


def expressions_of(query: Query, stream: str) -> tuple[Operand, ...]:
    """The expressions of a query that Catalyst evaluates over a stream."""
    match query.plan.body:
        case Join() as body:
            sides = [i for i, side in enumerate(body.sides) if side.stream == stream]
            found = {carried.operand for carried in body.carried if carried.side in sides}
            for i in sides:
                found |= {part for key in body.keys_of(i) for part in key} | operands_of(body.sides[i].where)
        case _ if query.plan.stream != stream:
            found = set()
        case Aggregation() as body:
            found = {*body.keys, *operands_of(body.where)}
            for aggregate in body.aggregates:
                found |= operands_of(aggregate.filter) | ({aggregate.input} if aggregate.input else set())
        case Projection() as body:
            found = {*body.outputs, *operands_of(body.where)}
        case Fallback():
            found = set()
        case never:
            assert_never(never)
    return tuple({source for operand in found for source in operand.sources if not source.plain})
