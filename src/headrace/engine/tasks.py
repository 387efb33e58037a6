"""What runs inside Spark's Python workers: map tasks index and ship tuples, reduce tasks fold them.

A worker process lives for many tasks, so prepared plans are cached by version. Tasks receive JSON, read chunks and
segments from the warehouse, write files under names nobody else uses, and report what they wrote; only the driver's
commit makes it count.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.catalog import faults
from headrace.catalog.warehouse import open_envelope
from headrace.engine.records import SegmentFile
from headrace.engine.result_files import ResultWriter
from headrace.model.errors import EngineError, HeadraceError, LogError
from headrace.model.plan import (
    AggregationOperator,
    Operator,
    ScanPath,
    SelectionOperator,
    SessionOperator,
    SharedPlan,
)
from headrace.model.predicate import Operand
from headrace.operators.aggregation import Reduced, reduce_aggregation
from headrace.operators.bundle import Item, read_bundle, write_bundle
from headrace.operators.micro import combine_micros, prepare_micros, receive_micros, ship_micros
from headrace.operators.prepared import AggregationLogic
from headrace.operators.segment import Segment, segment_from, segment_items
from headrace.operators.selection import SelectionLogic
from headrace.operators.session_logic import SessionLogic
from headrace.operators.session_segment import SessionSegment, session_segment_from, session_segment_items
from headrace.operators.sessions import ReducedSessions, reduce_sessions
from headrace.operators.tuples import combine_tuples, prepare_tuples, receive_tuples, ship_tuples
from headrace.planner import shared as _registers_plan_classes  # noqa: F401

Shipped = tuple[int, tuple[str, str, bytes]]
"""(reduce partition, (kind, name, blob)): what map tasks send."""

Decoded = TypeVar("Decoded", Segment, SessionSegment)

REPORT = pa.schema([("report", pa.string())])
REPORT_DDL = "report string"

MAP_BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class EpochTask:
    """What every task of an epoch job knows. `closed` and `watermark` are per stream."""

    root: str
    plan: str
    epoch: int
    partitions: int
    closed: dict[str, int]
    watermark: dict[str, int]
    attempt: str


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan with its operators' logic worked out."""

    plan: SharedPlan
    aggregations: dict[str, AggregationLogic]
    sessions: dict[str, SessionLogic]
    selections: dict[str, SelectionLogic]

    def scanning(self, stream: str, path: ScanPath) -> list[Operator]:
        return [o for o in self.plan.operators if o.stream == stream and o.path is path]


@lru_cache(maxsize=4)
def prepared_plan(root: str, plan: str) -> PreparedPlan:
    path = Path(root, plan)
    shared: SharedPlan = open_envelope(path.read_bytes(), "plan", path)
    aggregations = {o.id: AggregationLogic(o) for o in shared.operators if isinstance(o, AggregationOperator)}
    selections = {o.id: SelectionLogic(o) for o in shared.operators if isinstance(o, SelectionOperator)}
    sessions = {o.id: SessionLogic(o) for o in shared.operators if isinstance(o, SessionOperator)}
    return PreparedPlan(shared, aggregations, sessions, selections)


def _attempt_name(task: EpochTask, part: str) -> str:
    """A file name that no other attempt of any run can have."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.taskAttemptId() if context else os.getpid()
    return f"e{task.epoch:012d}-{part}-{task.attempt}-{attempt}"


def _report(fields: dict[str, Any]) -> Shipped:
    """What a map task tells the driver, by way of reduce partition 0."""
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
    for operator in prepared.scanning(stream, path):
        match operator:
            case AggregationOperator():
                tuples = prepare_tuples(operator, columns, task.closed[stream])
                if tuples is not None:
                    for shipment in ship_tuples(operator, combine_tuples(operator, tuples), task.partitions):
                        yield shipment.partition, ("tuples", operator.id, shipment.blob)
            case SessionOperator():
                micros = prepare_micros(operator, columns, task.closed[stream])
                if micros is not None:
                    micros = combine_micros(operator, micros, task.closed[stream])
                    for shipment in ship_micros(operator, micros, task.partitions):
                        yield shipment.partition, ("tuples", operator.id, shipment.blob)
            case SelectionOperator():
                logic = prepared.selections[operator.id]
                table, counts = logic.select(columns, rows, task.epoch)
                if table.num_rows:
                    writer = ResultWriter(task.root, _attempt_name(task, f"{operator.id}-{part}"), task.epoch)
                    writer.add(operator.signature, table, operator.queries, task.watermark[stream])
                    found = {str(q): int(n) for q, n in zip(operator.queries, counts, strict=True) if n}
                    yield _report({"results": writer.finish(), "rows": found})


def scan_task(work: str) -> Iterator[Shipped]:
    """Fast path: read the needed columns of chunks with pyarrow. `work` is a JSON list of things to do."""
    for spec in json.loads(work):
        if spec["kind"] == "control":
            yield spec["partition"], ("control", "", json.dumps(spec).encode())
        else:
            yield from reporting(_scan(spec))


def reporting(work: Iterator[Shipped]) -> Iterator[Shipped]:
    """Send our own errors to the driver as reports: Spark need not retry what will fail again."""
    try:
        yield from work
    except HeadraceError as error:
        yield _report({"error": error_fields(error)})


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
    operators = prepared.scanning(stream, ScanPath.FAST)
    wanted = list(dict.fromkeys(o for operator in operators for o in operator.scanned))
    pieces: list[pa.Table] = []
    read = shipped = 0
    for number, (path, groups) in enumerate(spec["pieces"]):
        piece = _as_stream(read_piece(task.root, path, groups, [o.sql for o in wanted]), wanted)
        read += piece.nbytes
        pieces.append(piece)
        if number + 1 == len(spec["pieces"]) or sum(p.num_rows for p in pieces) >= MAP_BATCH_ROWS:
            table = pa.concat_tables(pieces)
            columns = {o: table.column(o.sql) for o in wanted}
            for out in map_tuples(
                task, stream, ScanPath.FAST, columns, table.num_rows, f"m{spec['number']}-{number}"
            ):
                shipped += len(out[1][2])
                yield out
            pieces = []
    faults.reach_task("task.map")
    spent = {"map_seconds": time.perf_counter() - started, "bytes_read": read, "bytes_shuffled": shipped}
    yield _report({"metrics": spent})


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


def reduce_task(shipped: Iterable[Shipped]) -> Iterator[str]:
    """Everything one partition received: fold it, write segments and results, report."""
    received: dict[str, list[bytes]] = {}
    control: dict[str, Any] | None = None
    for _, (kind, name, blob) in shipped:
        match kind:
            case "tuples":
                received.setdefault(name, []).append(blob)
            case "report":
                yield blob.decode()
            case "control":
                control = json.loads(blob)
    if control is not None:
        try:
            yield json.dumps(_reduce(control, received))
        except HeadraceError as error:
            yield json.dumps({"error": error_fields(error)})


def _reduce(control: dict[str, Any], received: dict[str, list[bytes]]) -> dict[str, Any]:
    started = time.perf_counter()
    task, partition = EpochTask(**control["task"]), control["partition"]
    prepared = prepared_plan(task.root, task.plan)
    report: dict[str, Any] = {
        "partition": partition,
        "segments": [],
        "results": [],
        "failures": {},
        "rows": {},
    }
    writer = ResultWriter(task.root, _attempt_name(task, f"p{partition}"), task.epoch)
    for id_ in control["operators"]:
        held = [SegmentFile(**s) for s in control["segments"] if s["operator"] == id_]
        blobs = received.pop(id_, [])
        reduced: Reduced | ReducedSessions
        if id_ in prepared.sessions:
            reduced, segments = _reduce_sessions(task, partition, prepared.sessions[id_], blobs, held, writer)
        else:
            reduced, segments = _reduce_windows(
                task, partition, prepared.aggregations[id_], blobs, held, writer
            )
        report["failures"].update({str(q): reason for q, reason in reduced.failures.items()})
        for query, count in reduced.rows.items():
            report["rows"][str(query)] = report["rows"].get(str(query), 0) + count
        report["segments"] += [asdict(segment) for segment in segments]
    report["results"] = writer.finish()
    report["metrics"] = {"reduce_seconds": time.perf_counter() - started}
    faults.reach_task("task.reduce")
    return report


def _reduce_windows(
    task: EpochTask,
    partition: int,
    logic: AggregationLogic,
    blobs: list[bytes],
    held: list[SegmentFile],
    writer: ResultWriter,
) -> tuple[Reduced, list[SegmentFile]]:
    """(what a windowed aggregation produced, its live segments)."""
    operator = logic.operator
    kept, absorbed, level = absorb(held)
    reduced = reduce_aggregation(
        logic,
        receive_tuples(operator, blobs),
        [load_segment(task.root, s) for s in absorbed],
        [load_segment(task.root, s) for s in kept],
        task.closed[operator.stream],
        task.watermark[operator.stream],
        writer.add,
    )
    if reduced.segment is not None:
        items, last_end_us = segment_items(reduced.segment), reduced.segment.last_end_us
        kept.append(_write_segment(task, operator.id, partition, items, level, last_end_us))
    return reduced, kept


def _reduce_sessions(
    task: EpochTask,
    partition: int,
    logic: SessionLogic,
    blobs: list[bytes],
    held: list[SegmentFile],
    writer: ResultWriter,
) -> tuple[ReducedSessions, list[SegmentFile]]:
    """(what a session aggregation produced, its live segment)."""
    operator = logic.operator
    reduced = reduce_sessions(
        logic,
        receive_micros(operator, blobs),
        [load_session_segment(task.root, s) for s in held],
        task.closed[operator.stream],
        task.watermark[operator.stream],
        writer.add,
    )
    if reduced.segment is None:
        return reduced, []
    items, last_end_us = session_segment_items(reduced.segment), reduced.segment.last_end_us
    return reduced, [_write_segment(task, operator.id, partition, items, 0, last_end_us)]


def absorb(held: Sequence[SegmentFile]) -> tuple[list[SegmentFile], list[SegmentFile], int]:
    """(segments to keep, segments to merge into the new one, the new one's level).

    Like a binary counter: equal levels merge, so there are at most log2(epochs) live segments and a partial is
    rewritten at most as often.

    >>> one = lambda level: SegmentFile("o", 0, "", 0, level, 0)
    >>> [s.level for s in absorb([one(3), one(1), one(0)])[1]], absorb([one(3), one(1), one(0)])[2]
    ([1, 0], 2)
    """
    kept, level = list(held), 0
    while kept and kept[-1].level <= level:
        kept.pop()
        level += 1
    return kept, list(held[len(kept) :]), level


def load_segment(root: str, file: SegmentFile) -> Segment:
    """A segment of windows, memory-mapped; damage is named."""
    return _load(root, file, segment_from)


def load_session_segment(root: str, file: SegmentFile) -> SessionSegment:
    """The same for a segment of sessions."""
    return _load(root, file, session_segment_from)


def _load(root: str, file: SegmentFile, decode: Callable[[dict[str, Item]], Decoded]) -> Decoded:
    path = Path(root, file.path)
    try:
        with pa.memory_map(str(path)) as source:
            return decode(read_bundle(source))
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise EngineError(
            "SEGMENT_DAMAGED",
            f"segment {path} is missing or damaged",
            detail=str(error),
            hint="open the warehouse with rebuild=True to rebuild the state from the log",
        ) from error


def _write_segment(
    task: EpochTask, operator: str, partition: int, items: dict[str, Item], level: int, last_end_us: int
) -> SegmentFile:
    rel = f"groups/main/segments/{_attempt_name(task, f'{operator}-p{partition}')}.arrow"
    path = Path(task.root, rel)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink:
        write_bundle(items, sink)
    return SegmentFile(operator, partition, rel, path.stat().st_size, level, last_end_us)
