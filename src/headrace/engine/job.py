"""One epoch of one group as one Spark job: map stage, shuffle of a few blobs, reduce stage, reports.

Where joined rows go on to an operator, a stage follows for each time that they are shuffled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import RDD
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql import SparkSession

from headrace.engine.catalyst import chunk_frame, scan_catalyst
from headrace.engine.errors import reported_error
from headrace.engine.handover import LARGE_BYTES, Shipped, clear_handover
from headrace.engine.records import ResultFile
from headrace.engine.reduce import reduce_task
from headrace.engine.tasks import EpochTask, scan_task
from headrace.model.epoch import Chunk, Epoch
from headrace.model.plan import (
    AggregatingOperator,
    GroupingOperator,
    JoinOperator,
    Operator,
    ScanPath,
    SelectionOperator,
    SharedPlan,
)
from headrace.model.query import Stream
from headrace.model.state import SegmentFile

SPLIT_ROWS = 1 << 17
"""Chunks with more rows than this are read by row groups, so that several tasks can share one."""

TASK_ROWS = 1 << 15
"""A map task is worth starting for about this many rows."""


Piece = tuple[str, list[int] | None, tuple[int, int | None] | None]
"""What a map task reads: the path of a chunk, row groups (None: all), and its size and checksum if it is to look."""


@dataclass(slots=True)
class JobResult:
    """What the tasks reported."""

    segments: list[SegmentFile] = field(default_factory=list)
    results: list[ResultFile] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)

    def add(self, report: dict[str, Any]) -> None:
        if "error" in report:
            raise reported_error(report["error"])
        self.segments += [SegmentFile(**s) for s in report.get("segments", ())]
        self.results += [ResultFile(**r) for r in report.get("results", ())]
        self.failures.update({int(q): reason for q, reason in report.get("failures", {}).items()})
        for query, count in report.get("rows", {}).items():
            self.rows[int(query)] = self.rows.get(int(query), 0) + count
        for name, value in report.get("metrics", {}).items():
            self.metrics[name] = self.metrics.get(name, 0) + value


def run_job(
    spark: SparkSession,
    root: Path,
    plan: SharedPlan,
    plan_path: str,
    epoch: Epoch,
    streams: dict[str, Stream],
    segments: Sequence[SegmentFile],
    partitions: int,
    attempt: str,
    *,
    rebuilds: bool = False,
) -> JobResult:
    """Run the operators that have something to do. Raises what a task reported, or Spark's own exception."""
    busy = _busy(plan, epoch, segments)
    result = JobResult()
    carried = {o.id for o in plan.operators} - {o.id for o in busy}
    result.segments += [s for s in segments if s.operator in carried]
    if not busy:
        return result
    task = EpochTask(
        root=str(root),
        plan=plan_path,
        epoch=epoch.id,
        partitions=partitions,
        closed={part.stream: part.closed_us for part in epoch.streams},
        watermark={part.stream: part.watermark_us for part in epoch.streams},
        attempt=attempt,
        rebuilds=rebuilds,
        large_bytes=LARGE_BYTES,
    )
    stages = _stages(busy, rebuilds)
    work = _control(task, stages, segments, partitions)
    scans: list[RDD[Shipped]] = []
    reads = [read for operator in busy for read in operator.reads]
    for name in dict.fromkeys(read.stream for read in reads):
        part = epoch.of(name)
        chunks = part.chunks if part else ()
        if chunks and any(read.stream == name and read.path is ScanPath.FAST for read in reads):
            work += _scans(spark, root, task, name, chunks)
        slow = [read for read in reads if read.stream == name and read.path is ScanPath.CATALYST]
        if chunks and slow:
            work += [(chunk.rows // 8, _check(root, chunk)) for chunk in chunks]
            operands = list(dict.fromkeys(operand for read in slow for operand in read.scanned))
            frame = chunk_frame(spark, root, streams[name], chunks)
            scans.append(scan_catalyst(frame, task, name, operands))
    loads = _loads(work, spark.sparkContext.defaultParallelism)
    try:
        reports = _run_stages(spark, loads, scans, partitions, len(stages))
    finally:
        clear_handover(root)
    for report in reports:
        result.add(json.loads(report))
    return result


def _run_stages(
    spark: SparkSession, loads: Sequence[str], scans: Sequence[RDD[Shipped]], partitions: int, stages: int
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
    _run_stages(spark, ["[]"] * partitions, (), partitions, 1)


def has_work(operator: Operator, epoch: Epoch, segments: Sequence[SegmentFile]) -> bool:
    """An operator by itself runs when there are tuples, or when time passed over state it holds."""
    parts = [epoch.of(read.stream) for read in operator.reads]
    if any(part is not None and part.chunks for part in parts):
        return True
    moved = epoch.watermark_us(operator.clock) > epoch.closed_us(operator.clock)
    return (
        isinstance(operator, AggregatingOperator)
        and moved
        and any(s.operator == operator.id for s in segments)
    )


def _busy(plan: SharedPlan, epoch: Epoch, segments: Sequence[SegmentFile]) -> list[Operator]:
    """The operators that have something to do; what a join feeds runs with it."""
    busy = {operator.id for operator in plan.operators if has_work(operator, epoch, segments)}
    return [
        operator
        for operator in plan.operators
        if operator.id in busy or (isinstance(operator, GroupingOperator) and operator.join in busy)
    ]


def _stages(busy: Sequence[Operator], rebuilds: bool) -> list[list[str]]:
    """The operators of each reduce stage. Joins send rows on, to themselves where they are on several keys; what they
    feed comes after them. A rebuild joins nothing but what is fed.
    """
    grouping = [operator.id for operator in busy if isinstance(operator, GroupingOperator)]
    stages = [[o.id for o in busy if not isinstance(o, SelectionOperator | GroupingOperator)]]
    joins = [operator for operator in busy if isinstance(operator, JoinOperator)]
    if rebuilds:
        joins = [join for join in joins if any(chain.feeds is not None for chain in join.chains)]
    for level in range(1, max((join.levels for join in joins), default=1)):
        stages.append([join.id for join in joins if join.levels > level])
    return [*stages, grouping] if grouping else stages


def _control(
    task: EpochTask, stages: list[list[str]], segments: Sequence[SegmentFile], partitions: int
) -> list[tuple[int, dict[str, Any]]]:
    """One control row per reduce partition: which operators it runs in each stage, over which segments."""
    held = [s for s in segments if any(s.operator in stage for stage in stages)]
    return [
        (
            0,
            {
                "kind": "control",
                "task": asdict(task),
                "partition": partition,
                "stages": stages,
                "segments": [asdict(s) for s in held if s.partition == partition],
            },
        )
        for partition in range(partitions)
    ]


def _scans(
    spark: SparkSession, root: Path, task: EpochTask, stream: str, chunks: Sequence[Chunk]
) -> list[tuple[int, dict[str, Any]]]:
    """(rows, scan spec) for each map task of a stream: pieces of chunks, spread evenly."""
    pieces: list[tuple[int, Piece]] = []
    for chunk in chunks:
        pieces += _pieces(root, chunk)
    rows = sum(count for count, _ in pieces)
    width = max(1, min(spark.sparkContext.defaultParallelism, -(-rows // TASK_ROWS), len(pieces)))
    loads: list[list[Any]] = [[0, []] for _ in range(width)]
    for count, piece in sorted(pieces, key=lambda item: -item[0]):
        lightest = min(loads, key=lambda load: load[0])
        lightest[0] += count
        lightest[1].append(piece)
    return [
        (count, {"kind": "scan", "task": asdict(task), "stream": stream, "number": i, "pieces": found})
        for i, (count, found) in enumerate(loads)
    ]


def _check(root: Path, chunk: Chunk) -> dict[str, Any]:
    """A look at a chunk that Spark reads by itself."""
    return {"kind": "check", "root": str(root), "chunk": asdict(chunk)}


def _pieces(root: Path, chunk: Chunk) -> list[tuple[int, Piece]]:
    """(rows, piece) for each; the task with the first piece of a chunk looks whether the whole file is sound."""
    whole = (chunk.bytes, chunk.checksum)
    if chunk.rows <= SPLIT_ROWS:
        return [(chunk.rows, (chunk.path, None, whole))]
    try:
        metadata = pq.read_metadata(root / chunk.path)
    except (OSError, pa.ArrowInvalid):
        return [(chunk.rows, (chunk.path, None, whole))]  # the task that reads it says what is wrong
    groups = range(metadata.num_row_groups)
    return [(metadata.row_group(i).num_rows, (chunk.path, [i], whole if i == 0 else None)) for i in groups]


def _loads(work: Sequence[tuple[int, dict[str, Any]]], cores: int) -> list[str]:
    """The work list as one JSON text, and so one task, per core."""
    width = max(1, min(cores, len(work)))
    loads: list[tuple[list[int], list[dict[str, Any]]]] = [([0], []) for _ in range(width)]
    for rows, spec in sorted(work, key=lambda item: -item[0]):
        total, specs = min(loads, key=lambda load: load[0][0])
        total[0] += rows + 1
        specs.append(spec)
    return [json.dumps(specs) for _, specs in loads]
