"""One epoch of one group as one Spark job: map stage, shuffle of a few blobs, reduce stage, reports.

Where joined rows go on to an operator, a stage follows for each time that they are shuffled.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import RDD
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql import SparkSession

from headrace.engine.catalyst import chunk_frame, scan_catalyst
from headrace.engine.errors import reported_error
from headrace.engine.handover import LARGE_BYTES, Shipped, clear_handover
from headrace.engine.messages import (
    Check,
    Control,
    EpochTask,
    Piece,
    Report,
    Scan,
    Work,
    decode_report,
    encode_work,
)
from headrace.engine.own_worker import OWN_WORKER
from headrace.engine.paths import handover_dir
from headrace.engine.records import ResultFile
from headrace.engine.reduce import reduce_task
from headrace.engine.references import ordered_references, owned_references
from headrace.engine.tasks import scan_task
from headrace.model.epoch import Chunk, Epoch
from headrace.model.functions import FunctionFile
from headrace.model.metrics import NOBODY, OperatorMetrics, QueryCounts
from headrace.model.partitioning import Partitioning, even_partitioning
from headrace.model.plan import Operator, Read, ScanPath, SharedPlan
from headrace.model.query import Stream
from headrace.model.state import SegmentFile
from headrace.model.statistics import JoinCount, KeyStatistics
from headrace.model.ways import FamilyWay
from headrace.operators.kinds import operator_kind
from headrace.optimizer.place import EpochWork, Place

SPLIT_ROWS = 1 << 17
"""Chunks with more rows than this are read by row groups, so that several tasks can share one."""

TASK_ROWS = 1 << 15
"""A map task is worth starting for about this many rows."""

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class JobContext:
    """Where a group's jobs run: the session, the warehouse, the group's name, which partition owns which keys, how many
    map tasks a job has at most, and the functions that its tasks may call.
    """

    spark: SparkSession
    root: Path
    group: str
    partitioning: Partitioning
    tasks: int
    functions: tuple[FunctionFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a plan over an epoch's chunks and the state from before. A job that rebuilds delivers nothing.

    It runs as a Spark job, whatever `place` says, when the own worker cannot be asked now.
    """

    plan: SharedPlan
    plan_path: str
    epoch: Epoch
    streams: dict[str, Stream]
    segments: Sequence[SegmentFile]
    attempt: str
    rebuilds: bool = False
    place: Place = Place.SPARK


@dataclass(slots=True)
class JobResult:
    """What the tasks reported. `operators` says what each operator cost, by its id, and `rows` how many rows each query
    got. `key_seconds` are the CPU seconds of key groups, as far as they are known and not one task's.
    """

    segments: list[SegmentFile] = field(default_factory=list)
    results: list[ResultFile] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    rows: QueryCounts = NOBODY
    metrics: dict[str, float] = field(default_factory=dict)
    operators: dict[str, OperatorMetrics] = field(default_factory=dict)
    keys: list[KeyStatistics] = field(default_factory=list)
    joins: list[JoinCount] = field(default_factory=list)
    ways: list[FamilyWay] = field(default_factory=list)
    key_seconds: dict[int, float] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        if report.error is not None:
            raise reported_error(asdict(report.error))
        self.segments += report.segments
        self.results += report.results
        self.keys += report.keys
        self.joins += report.joins
        self.ways += report.ways
        for key_group, seconds in report.key_seconds.items():
            self.key_seconds[int(key_group)] = self.key_seconds.get(int(key_group), 0.0) + seconds
        self.failures.update({int(query): reason for query, reason in report.failures.items()})
        for name, value in asdict(report.metrics).items():
            self.metrics[name] = self.metrics.get(name, 0) + value
        for id_, spent in report.operators.items():
            self.operators[id_] = self.operators.get(id_, OperatorMetrics()) + spent

    def count(self) -> None:
        """Add up the rows of all operators, and add the size of each one's live segments to what is known of it. A file
        counts once.
        """
        self.rows = sum((spent.rows for spent in self.operators.values()), NOBODY)
        for operator, _, size in {(s.operator, s.path, s.bytes) for s in self.segments}:
            spent = self.operators.get(operator, OperatorMetrics())
            self.operators[operator] = spent + OperatorMetrics(state_bytes=size)


def run_job(context: JobContext, job: Job) -> JobResult:
    """Run the operators that have something to do. Raises what a task reported, or Spark's own exception."""
    busy = _busy(job.plan, job.epoch, job.segments)
    result = JobResult()
    carried = {o.id for o in job.plan.operators} - {o.id for o in busy}
    result.segments += [s for s in job.segments if s.operator in carried]
    if not busy:
        result.count()
        return result
    reports = None
    if job.place is Place.OWN_WORKER:
        reports = _run_by_ourselves(context, job, busy)
        result.metrics["own_worker"] = float(reports is not None)
    for report in _run_on_spark(context, job, busy) if reports is None else reports:
        result.add(decode_report(report))
    result.count()
    return result


def _run_by_ourselves(context: JobContext, job: Job, busy: Sequence[Operator]) -> list[bytes] | None:
    """The reports of the own worker, which does everything as one partition; None when it cannot be asked."""
    alone = replace(context, partitioning=even_partitioning(1), tasks=1)
    task, stages = _task(alone, job), reduce_stages(busy, job.rebuilds)
    try:
        return OWN_WORKER.run(_loads(_work(alone, job, task, busy), 1), 1, len(stages))
    finally:
        clear_handover(context.root, task.handover)


def _run_on_spark(context: JobContext, job: Job, busy: Sequence[Operator]) -> list[bytes]:
    """The reports of a Spark job."""
    task, stages = _task(context, job), reduce_stages(busy, job.rebuilds)
    loads = _loads(_work(context, job, task, busy), context.tasks)
    scans = _catalyst_scans(context, job, task, busy)
    try:
        return _run_stages(context.spark, loads, scans, context.partitioning.partitions, len(stages))
    finally:
        clear_handover(context.root, task.handover)


def _chunks_by_stream(
    job: Job, busy: Sequence[Operator]
) -> Iterator[tuple[str, Sequence[Chunk], list[Read]]]:
    """(stream, its chunks in the epoch, who reads it) of all streams that have some."""
    reads = [read for operator in busy for read in operator.reads]
    for name in dict.fromkeys(read.stream for read in reads):
        inflow = job.epoch.of(name)
        if inflow is not None and inflow.chunks:
            yield name, inflow.chunks, [read for read in reads if read.stream == name]


def _work(context: JobContext, job: Job, task: EpochTask, busy: Sequence[Operator]) -> list[tuple[int, Work]]:
    """(rows, what map tasks of ours do): those that Spark reads are only checked."""
    stages = reduce_stages(busy, job.rebuilds)
    work: list[tuple[int, Work]] = [(0, one) for one in controls(task, stages, job.segments)]
    for name, chunks, reads in _chunks_by_stream(job, busy):
        if any(read.path is ScanPath.FAST for read in reads):
            work += _scans(context, task, name, chunks)
        if any(read.path is ScanPath.CATALYST for read in reads):
            work += [(chunk.rows // 8, Check(str(context.root), chunk)) for chunk in chunks]
    return work


def _catalyst_scans(
    context: JobContext, job: Job, task: EpochTask, busy: Sequence[Operator]
) -> list[RDD[Shipped]]:
    """Map tasks over what Spark reads, and evaluates expressions over."""
    scans: list[RDD[Shipped]] = []
    for name, chunks, reads in _chunks_by_stream(job, busy):
        slow = [read for read in reads if read.path is ScanPath.CATALYST]
        if slow:
            operands = list(dict.fromkeys(operand for read in slow for operand in read.sources))
            frame = chunk_frame(context.spark, context.root, job.streams[name], chunks)
            scans.append(scan_catalyst(frame, task, name, operands))
    return scans


def _task(context: JobContext, job: Job) -> EpochTask:
    return EpochTask(
        root=str(context.root),
        group=context.group,
        plan=job.plan_path,
        epoch=job.epoch.id,
        partitioning=context.partitioning,
        closed={inflow.stream: inflow.closed_us for inflow in job.epoch.streams},
        watermark={inflow.stream: inflow.watermark_us for inflow in job.epoch.streams},
        attempt=job.attempt,
        handover=handover_dir(context.group, uuid.uuid4().hex),
        rebuilds=job.rebuilds,
        large_bytes=LARGE_BYTES,
        functions=context.functions,
    )


def _run_stages(
    spark: SparkSession, loads: Sequence[bytes], scans: Sequence[RDD[Shipped]], partitions: int, stages: int
) -> list[bytes]:
    """Map tasks, then so many times the shuffle of a few blobs and reduce tasks; the reports.

    RDDs, because there is nothing for Catalyst to plan here and it costs 0.1 s per epoch to find that out.
    """
    context = spark.sparkContext
    shipped = context.parallelize(loads, len(loads)).flatMap(scan_task)
    if scans:
        shipped = context.union([shipped, *scans])
    try:
        with unwrap_spark_exception():
            for stage in range(stages):
                shipped = shipped.partitionBy(partitions, int).mapPartitions(partial(reduce_task, stage))
            return [blob for _, (_, _, blob) in shipped.collect()]
    except AssertionError as error:
        # PySpark asks every Java exception for its cause; that of a cancelled job has none
        raise error.__context__ or error from None


def warm_up(spark: SparkSession, partitions: int) -> None:
    """Start the Python workers and load the kernels into them, with a job that does nothing else."""
    _run_stages(spark, [encode_work(())] * partitions, (), partitions, 1)


def has_work(operator: Operator, epoch: Epoch, segments: Sequence[SegmentFile]) -> bool:
    """An operator by itself runs when there are tuples, or when time passed over state it holds."""
    inflows = [epoch.of(read.stream) for read in operator.reads]
    if any(inflow is not None and inflow.chunks for inflow in inflows):
        return True
    moved = epoch.watermark_us(operator.clock) > epoch.closed_us(operator.clock)
    return operator_kind(operator).ticks and moved and any(s.operator == operator.id for s in segments)


def _busy(plan: SharedPlan, epoch: Epoch, segments: Sequence[SegmentFile]) -> list[Operator]:
    """The operators that have something to do; what an operator feeds runs with it."""
    busy = {operator.id for operator in plan.operators if has_work(operator, epoch, segments)}
    return [o for o in plan.operators if o.id in busy or operator_kind(o).fed_by(o) in busy]


def epoch_work(plan: SharedPlan, epoch: Epoch, segments: Sequence[SegmentFile]) -> EpochWork:
    """What a job over an epoch has before it, as far as it is known without any history."""
    busy = _busy(plan, epoch, segments)
    mine, reads = {operator.id for operator in busy}, [read for operator in busy for read in operator.reads]
    read = {read.stream for read in reads}
    return EpochWork(
        sum(inflow.rows for inflow in epoch.streams if inflow.stream in read),
        sum(segment.bytes for segment in segments if segment.operator in mine),
        any(read.path is ScanPath.CATALYST for read in reads),
    )


def reduce_stages(busy: Sequence[Operator], rebuilds: bool) -> list[list[str]]:
    """The operators of each reduce stage; what others feed comes after all of these. There is one stage at least."""
    fed = [o.id for o in busy if operator_kind(o).fed_by(o) is not None]
    counts = {o.id: operator_kind(o).stages(o, rebuilds) for o in busy if o.id not in fed}
    levels = range(max(1, *counts.values())) if counts else range(1)
    stages = [[id_ for id_, count in counts.items() if count > level] for level in levels]
    return [*stages, fed] if fed else stages


def controls(
    task: EpochTask, stages: Sequence[Sequence[str]], segments: Sequence[SegmentFile]
) -> list[Control]:
    """What each reduce partition does: it gets the portions of state whose key groups it owns."""
    ids = tuple(map(tuple, stages))
    busy = {id_ for stage in ids for id_ in stage}
    held = ordered_references(s for s in segments if s.operator in busy)
    return [
        Control(task, partition, ids, owned_references(held, task.partitioning, partition))
        for partition in range(task.partitioning.partitions)
    ]


def _scans(
    context: JobContext, task: EpochTask, stream: str, chunks: Sequence[Chunk]
) -> list[tuple[int, Scan]]:
    """(rows, scan) for each map task of a stream: pieces of chunks, spread evenly."""
    pieces: list[tuple[int, Piece]] = []
    for chunk in chunks:
        pieces += _pieces(context.root, chunk)
    rows = sum(count for count, _ in pieces)
    width = max(1, min(context.tasks, -(-rows // TASK_ROWS), len(pieces)))
    return [
        (count, Scan(task, stream, number, tuple(found)))
        for number, (count, found) in enumerate(_spread(pieces, width))
    ]


def _pieces(root: Path, chunk: Chunk) -> list[tuple[int, Piece]]:
    """(rows, piece) for each; the task with the first piece of a chunk looks whether the whole file is sound."""
    whole = (chunk.bytes, chunk.checksum)
    if chunk.rows <= SPLIT_ROWS:
        return [(chunk.rows, Piece(chunk.path, None, whole))]
    try:
        metadata = pq.read_metadata(root / chunk.path)
    except (OSError, pa.ArrowInvalid):
        return [(chunk.rows, Piece(chunk.path, None, whole))]  # the task that reads it says what is wrong
    groups = range(metadata.num_row_groups)
    return [
        (metadata.row_group(i).num_rows, Piece(chunk.path, (i,), whole if i == 0 else None)) for i in groups
    ]


def _loads(work: Sequence[tuple[int, Work]], tasks: int) -> list[bytes]:
    """The work as one message for each of so many tasks."""
    width = max(1, min(tasks, len(work)))
    return [encode_work(found) for _, found in _spread([(rows + 1, one) for rows, one in work], width)]


def _spread(weighed: Iterable[tuple[int, Thing]], width: int) -> list[tuple[int, list[Thing]]]:
    """So many loads of about the same weight; the heaviest things are placed first.

    >>> _spread([(1, "a"), (5, "b"), (4, "c")], 2)
    [(5, ['b']), (5, ['c', 'a'])]
    """
    totals = [0] * width
    loads: list[list[Thing]] = [[] for _ in range(width)]
    for weight, thing in sorted(weighed, key=lambda item: -item[0]):
        lightest = totals.index(min(totals))
        totals[lightest] += weight
        loads[lightest].append(thing)
    return list(zip(totals, loads, strict=True))
