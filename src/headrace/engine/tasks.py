"""What runs inside Spark's Python workers: map tasks, which index tuples and ship them. Reduce tasks: `reduce`.

A worker process lives for many tasks, so prepared plans are cached by version. Tasks receive messages, read chunks and
segments from the warehouse, write files under names nobody else uses, and report what they wrote; only the driver's
commit makes it count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import assert_never

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.files import check_chunk, check_chunks
from headrace.engine.handover import Shipped, hand_over, shipped_bytes
from headrace.engine.messages import (
    Check,
    Control,
    EpochTask,
    Piece,
    Report,
    Scan,
    TaskError,
    TaskMetrics,
    decode_work,
    encode_control,
    encode_report,
)
from headrace.engine.result_files import ResultWriter
from headrace.model.errors import HeadraceError, LogError
from headrace.model.plan import (
    AggregationOperator,
    GroupingOperator,
    JoinOperator,
    Operator,
    ScanPath,
    SelectionOperator,
    SessionOperator,
    SharedPlan,
)
from headrace.model.predicate import Operand
from headrace.operators.join.feed import Feed
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.tuples import prepare_join, ship_join
from headrace.operators.selection import SelectionLogic
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.micro import combine_micros, prepare_micros, ship_micros
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.tuples import Shipment, combine_tuples, prepare_tuples, ship_tuples
from headrace.planner import shared as _registers_plan_classes  # noqa: F401
from headrace.storage import faults
from headrace.storage.envelope import open_envelope

MAP_BATCH_ROWS = 1 << 20

PLANS = 32
"""A worker process serves all groups of a warehouse, and keeps so many of their plans ready."""


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan with its operators' logic worked out; `feeds` by the join's id and the number of the chain."""

    plan: SharedPlan
    aggregations: dict[str, AggregationLogic]
    sessions: dict[str, SessionLogic]
    selections: dict[str, SelectionLogic]
    joins: dict[str, JoinLogic]
    feeds: dict[str, dict[int, Feed]]

    def scanning(self, stream: str, path: ScanPath) -> list[tuple[Operator, int]]:
        """The operators that read a stream by a path, with the number of the read."""
        return [
            (operator, number)
            for operator in self.plan.operators
            for number, read in enumerate(operator.reads)
            if read.stream == stream and read.path is path
        ]


@lru_cache(maxsize=PLANS)
def prepared_plan(root: str, plan: str) -> PreparedPlan:
    path = Path(root, plan)
    shared: SharedPlan = open_envelope(path.read_bytes(), "plan", path)
    aggregations = {o.id: AggregationLogic(o) for o in shared.operators if isinstance(o, AggregationOperator)}
    selections = {o.id: SelectionLogic(o) for o in shared.operators if isinstance(o, SelectionOperator)}
    sessions = {o.id: SessionLogic(o) for o in shared.operators if isinstance(o, SessionOperator)}
    joins = {o.id: JoinLogic(o) for o in shared.operators if isinstance(o, JoinOperator)}
    groupings = {o.id: o for o in shared.operators if isinstance(o, GroupingOperator)}
    feeds = {
        id_: {
            number: Feed(join, number, groupings[chain.feeds])
            for number, chain in enumerate(join.operator.chains)
            if chain.feeds is not None
        }
        for id_, join in joins.items()
    }
    return PreparedPlan(shared, aggregations, sessions, selections, joins, feeds)


def attempt_name(task: EpochTask, part: str) -> str:
    """A file name that no other attempt of any run can have."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.taskAttemptId() if context else os.getpid()
    return f"e{task.epoch:012d}-{part}-{task.attempt}-{attempt}"


def report_of(report: Report) -> Shipped:
    """What a task tells the driver, by way of reduce partition 0."""
    return 0, ("report", "", encode_report(report))


def map_tuples(
    task: EpochTask,
    stream: str,
    path: ScanPath,
    columns: dict[Operand, pa.ChunkedArray],
    rows: int,
    part: str,
) -> Iterator[Shipped]:
    """Run every operator of one stream and scan path over a batch of tuples."""
    prepared = prepared_plan(task.root, task.plan)
    for operator, read in prepared.scanning(stream, path):
        match operator:
            case AggregationOperator():
                tuples = prepare_tuples(operator, columns, task.closed_us(operator))
                if tuples is not None:
                    combined = combine_tuples(operator, tuples)
                    yield from handed(task, operator.id, ship_tuples(operator, combined, task.partitioning))
            case SessionOperator():
                micros = prepare_micros(operator, columns, task.closed_us(operator))
                if micros is not None:
                    micros = combine_micros(operator, micros, task.closed_us(operator))
                    yield from handed(task, operator.id, ship_micros(operator, micros, task.partitioning))
            case SelectionOperator():
                logic = prepared.selections[operator.id]
                table, counts = logic.select(columns, rows, task.epoch)
                if table.num_rows:
                    writer = ResultWriter(task.root, attempt_name(task, f"{operator.id}-{part}"), task.epoch)
                    writer.add(operator.signature, table, operator.queries, task.watermark[stream])
                    found = {str(q): int(n) for q, n in zip(operator.queries, counts, strict=True) if n}
                    yield report_of(Report(results=writer.finish(), rows=found))
            case JoinOperator():
                join = prepared.joins[operator.id]
                joining = prepare_join(join, read, columns, task.closed_us(operator))
                if joining is not None:
                    yield from handed(task, operator.id, ship_join(join, joining, task.partitioning))


def handed(task: EpochTask, name: str, shipments: Iterable[Shipment]) -> Iterator[Shipped]:
    """What goes to the partitions of an operator, under its id or another name."""
    for one in shipments:
        yield hand_over(task.handing, task.large_bytes, one.partition, name, one.blob)


def arriving(id_: str, stage: int) -> str:
    """The name of rows that a join sends to itself: they are for one stage, where its tuples are for all."""
    return f"{id_}-to-{stage}"


def scan_task(work: bytes) -> Iterator[Shipped]:
    """Fast path: read the needed columns of chunks with pyarrow. `work` is what `encode_work` made."""
    for one in decode_work(work):
        match one:
            case Control():
                yield one.partition, ("control", "", encode_control(one))
            case Check():
                yield from reporting(_check(one))
            case Scan():
                yield from reporting(_scan(one))
            case _:
                assert_never(one)


def _check(check: Check) -> Iterator[Shipped]:
    check_chunks(Path(check.root), [check.chunk])
    yield from ()


def reporting(work: Iterator[Shipped]) -> Iterator[Shipped]:
    """Send our own errors to the driver as reports: Spark need not retry what will fail again."""
    try:
        yield from work
    except HeadraceError as error:
        yield report_of(Report(error=TaskError.of(error)))


def _scan(scan: Scan) -> Iterator[Shipped]:
    started = time.perf_counter()
    task = scan.task
    prepared = prepared_plan(task.root, task.plan)
    reads = prepared.scanning(scan.stream, ScanPath.FAST)
    wanted = list(dict.fromkeys(o for operator, read in reads for o in operator.reads[read].scanned))
    pieces: list[pa.Table] = []
    read = shipped = 0
    for number, piece in enumerate(scan.pieces):
        if piece.whole is not None:
            check_chunk(Path(task.root), piece.path, *piece.whole)
        table = _as_stream(read_piece(task.root, piece, [o.sql for o in wanted]), wanted)
        read += table.nbytes
        pieces.append(table)
        if number + 1 == len(scan.pieces) or sum(p.num_rows for p in pieces) >= MAP_BATCH_ROWS:
            table = pa.concat_tables(pieces)
            columns = {o: table.column(o.sql) for o in wanted}
            part = f"m{scan.number}-{number}"
            for out in map_tuples(task, scan.stream, ScanPath.FAST, columns, table.num_rows, part):
                shipped += shipped_bytes(out)
                yield out
            pieces = []
    faults.reach_task("task.map")
    spent = TaskMetrics(map_seconds=time.perf_counter() - started, bytes_read=read, bytes_shuffled=shipped)
    yield report_of(Report(metrics=spent))


def _as_stream(piece: pa.Table, operands: Sequence[Operand]) -> pa.Table:
    """The columns in the stream's own types: adopted files may differ in what is nullable, or in names inside."""
    columns = [piece.column(o.sql) for o in operands]
    typed = [
        c if c.type == o.type.arrow else c.cast(o.type.arrow) for c, o in zip(columns, operands, strict=True)
    ]
    return pa.table(typed, names=[o.sql for o in operands])


def read_piece(root: str, piece: Piece, columns: Sequence[str]) -> pa.Table:
    """Some row groups and columns of a chunk; a missing or damaged chunk is named."""
    full = Path(root, piece.path)
    try:
        with pq.ParquetFile(full, memory_map=True) as file:
            wanted = range(file.num_row_groups) if piece.row_groups is None else piece.row_groups
            return file.read_row_groups(list(wanted), columns=list(columns), use_threads=False)
    except FileNotFoundError:
        raise LogError(
            "CHUNK_MISSING", f"chunk {full} is missing", hint="restore the file; the log is the truth"
        ) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise LogError(
            "CHUNK_DAMAGED", f"chunk {full} cannot be read", detail=str(error), hint="restore the file"
        ) from error
