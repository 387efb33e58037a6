"""What runs inside Spark's Python workers: map tasks, which index tuples and ship them. Reduce tasks: `reduce`.

A worker process lives for many tasks, so prepared plans are cached by version. Tasks receive JSON, read chunks and
segments from the warehouse, write files under names nobody else uses, and report what they wrote; only the driver's
commit makes it count.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.files import check_chunk, check_chunks
from headrace.engine.handover import LARGE_BYTES, Shipped, hand_over, shipped_bytes
from headrace.engine.result_files import ResultWriter
from headrace.model.epoch import NEVER_US, Chunk
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

REPORT = pa.schema([("report", pa.string())])
REPORT_DDL = "report string"

MAP_BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class EpochTask:
    """What every task of an epoch job knows. `closed` and `watermark` are per stream.

    A job that rebuilds state delivers nothing. Blobs from `large_bytes` on are handed over as files.
    """

    root: str
    plan: str
    epoch: int
    partitions: int
    closed: dict[str, int]
    watermark: dict[str, int]
    attempt: str
    rebuilds: bool = False
    large_bytes: int = LARGE_BYTES

    def closed_us(self, operator: Operator) -> int:
        """W(e-1) for an operator: the least of its streams'."""
        return min(self.closed.get(stream, NEVER_US) for stream in operator.clock)

    def watermark_us(self, operator: Operator) -> int:
        return min(self.watermark.get(stream, NEVER_US) for stream in operator.clock)


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


@lru_cache(maxsize=4)
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


def report_of(fields: dict[str, Any]) -> Shipped:
    """What a task tells the driver, by way of reduce partition 0."""
    return 0, ("report", "", json.dumps(fields).encode())


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
                    yield from handed(task, operator.id, ship_tuples(operator, combined, task.partitions))
            case SessionOperator():
                micros = prepare_micros(operator, columns, task.closed_us(operator))
                if micros is not None:
                    micros = combine_micros(operator, micros, task.closed_us(operator))
                    yield from handed(task, operator.id, ship_micros(operator, micros, task.partitions))
            case SelectionOperator():
                logic = prepared.selections[operator.id]
                table, counts = logic.select(columns, rows, task.epoch)
                if table.num_rows:
                    writer = ResultWriter(task.root, attempt_name(task, f"{operator.id}-{part}"), task.epoch)
                    writer.add(operator.signature, table, operator.queries, task.watermark[stream])
                    found = {str(q): int(n) for q, n in zip(operator.queries, counts, strict=True) if n}
                    yield report_of({"results": writer.finish(), "rows": found})
            case JoinOperator():
                join = prepared.joins[operator.id]
                joining = prepare_join(join, read, columns, task.closed_us(operator))
                if joining is not None:
                    yield from handed(task, operator.id, ship_join(join, joining, task.partitions))


def handed(task: EpochTask, name: str, shipments: Iterable[Shipment]) -> Iterator[Shipped]:
    """What goes to the partitions of an operator, under its id or another name."""
    for one in shipments:
        yield hand_over(task.root, task.large_bytes, one.partition, name, one.blob)


def arriving(id_: str, stage: int) -> str:
    """The name of rows that a join sends to itself: they are for one stage, where its tuples are for all."""
    return f"{id_}-to-{stage}"


def scan_task(work: str) -> Iterator[Shipped]:
    """Fast path: read the needed columns of chunks with pyarrow. `work` is a JSON list of things to do."""
    for spec in json.loads(work):
        match spec["kind"]:
            case "control":
                yield spec["partition"], ("control", "", json.dumps(spec).encode())
            case "check":
                yield from reporting(_check(spec["root"], Chunk(**spec["chunk"])))
            case _:
                yield from reporting(_scan(spec))


def _check(root: str, chunk: Chunk) -> Iterator[Shipped]:
    """Look at a chunk that Spark itself reads: it would take changed bytes for tuples."""
    check_chunks(Path(root), [chunk])
    yield from ()


def reporting(work: Iterator[Shipped]) -> Iterator[Shipped]:
    """Send our own errors to the driver as reports: Spark need not retry what will fail again."""
    try:
        yield from work
    except HeadraceError as error:
        yield report_of({"error": error_fields(error)})


def error_fields(error: HeadraceError) -> dict[str, str | None]:
    return {
        "phase": error.phase,
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
    }


def _scan(spec: dict[str, Any]) -> Iterator[Shipped]:
    started = time.perf_counter()
    task, stream = EpochTask(**spec["task"]), spec["stream"]
    prepared = prepared_plan(task.root, task.plan)
    reads = prepared.scanning(stream, ScanPath.FAST)
    wanted = list(dict.fromkeys(o for operator, read in reads for o in operator.reads[read].scanned))
    pieces: list[pa.Table] = []
    read = shipped = 0
    for number, (path, groups, whole) in enumerate(spec["pieces"]):
        if whole is not None:
            check_chunk(Path(task.root), path, *whole)
        piece = _as_stream(read_piece(task.root, path, groups, [o.sql for o in wanted]), wanted)
        read += piece.nbytes
        pieces.append(piece)
        if number + 1 == len(spec["pieces"]) or sum(p.num_rows for p in pieces) >= MAP_BATCH_ROWS:
            table = pa.concat_tables(pieces)
            columns = {o: table.column(o.sql) for o in wanted}
            for out in map_tuples(
                task, stream, ScanPath.FAST, columns, table.num_rows, f"m{spec['number']}-{number}"
            ):
                shipped += shipped_bytes(out)
                yield out
            pieces = []
    faults.reach_task("task.map")
    spent = {"map_seconds": time.perf_counter() - started, "bytes_read": read, "bytes_shuffled": shipped}
    yield report_of({"metrics": spent})


def _as_stream(piece: pa.Table, operands: Sequence[Operand]) -> pa.Table:
    """The columns in the stream's own types: adopted files may differ in what is nullable, or in names inside."""
    columns = [piece.column(o.sql) for o in operands]
    typed = [
        c if c.type == o.type.arrow else c.cast(o.type.arrow) for c, o in zip(columns, operands, strict=True)
    ]
    return pa.table(typed, names=[o.sql for o in operands])


def read_piece(root: str, path: str, groups: Sequence[int] | None, columns: Sequence[str]) -> pa.Table:
    """Some row groups and columns of a chunk; a missing or damaged chunk is named."""
    full = Path(root, path)
    try:
        with pq.ParquetFile(full, memory_map=True) as file:
            wanted = range(file.num_row_groups) if groups is None else groups
            return file.read_row_groups(list(wanted), columns=list(columns), use_threads=False)
    except FileNotFoundError:
        raise LogError(
            "CHUNK_MISSING", f"chunk {full} is missing", hint="restore the file; the log is the truth"
        ) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise LogError(
            "CHUNK_DAMAGED", f"chunk {full} cannot be read", detail=str(error), hint="restore the file"
        ) from error
