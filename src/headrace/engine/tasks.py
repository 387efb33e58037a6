"""What runs inside Spark's Python workers: map tasks, which index tuples and ship them. Reduce tasks: `reduce`.

A worker process lives for many tasks, so prepared plans are cached by version. Tasks receive messages, read chunks and
segments from the warehouse, write files under names nobody else uses, and report what they wrote; only the driver's
commit makes it count.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import assert_never

import pyarrow as pa

from headrace.engine.files import check_chunk, check_chunks, read_row_groups
from headrace.engine.functions import caller_of
from headrace.engine.handover import Shipped, hand_over
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
from headrace.engine.plans import read_plan
from headrace.engine.records import ResultFile
from headrace.engine.result_files import ResultWriter
from headrace.model.errors import HeadraceError
from headrace.model.metrics import OperatorMetrics
from headrace.model.plan import Operator, ScanPath, SharedPlan
from headrace.model.predicate import Operand
from headrace.model.statistics import KeyStatistics
from headrace.model.types import Kind
from headrace.model.ways import FamilyWay, add_ways
from headrace.operators.common.calls import Called, CallPlan
from headrace.operators.common.encode import one_dictionary
from headrace.operators.kinds import operator_kind
from headrace.operators.protocol import Batch, MapOutlet, OperatorLogic
from headrace.operators.uses import call_plan
from headrace.planner import shared as _registers_plan_classes  # noqa: F401
from headrace.storage import faults

MAP_BATCH_ROWS = 1 << 20

ENCODED_STRINGS = pa.dictionary(pa.int32(), pa.string())
"""How Arrow hands out a string column that stays encoded."""

PLANS = 32
"""A worker process serves all groups of a warehouse, and keeps so many of their plans ready."""


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan with its operators made ready to run, by their ids, and the calls of functions for each of their reads."""

    plan: SharedPlan
    operators: dict[str, Operator]
    logic: dict[str, OperatorLogic]
    calls: dict[tuple[str, int], CallPlan]

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
    shared = read_plan(Path(root, plan))
    logic = {operator.id: operator_kind(operator).prepare(operator, shared) for operator in shared.operators}
    calls = {(o.id, read): call_plan(o, read) for o in shared.operators for read in range(len(o.reads))}
    prepared = PreparedPlan(shared, {operator.id: operator for operator in shared.operators}, logic, calls)
    _keep_for_good()
    return prepared


def _keep_for_good() -> None:
    """Let what a Spark worker holds by now, modules and prepared plans, be out of the garbage collector's sight.

    PySpark's daemon has it look at everything after each task, which takes longer than a small task, and the next task
    waits. Nothing is lost: a plan that is let go has no cycles, so it needs no collector (a test says so).
    """
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        gc.freeze()


def attempt_name(task: EpochTask, label: str) -> str:
    """A file name that no other attempt of any run can have."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.taskAttemptId() if context else f"o{os.getpid()}"
    return f"e{task.epoch:012d}-{label}-{task.attempt}-{attempt}"


def report_of(report: Report) -> Shipped:
    """What a task tells the driver, by way of reduce partition 0."""
    return 0, ("report", "", encode_report(report))


@dataclass(frozen=True, slots=True)
class TupleBatch:
    """Tuples of one stream that came by one path; `label` is in the names of what is made of them.

    Strings may be codes and a dictionary.
    """

    stream: str
    path: ScanPath
    columns: dict[Operand, pa.ChunkedArray]
    rows: int
    label: str


class MapTask:
    """A map task at work: it runs every operator that reads a batch, and reports at its end."""

    def __init__(self, task: EpochTask) -> None:
        self._task, self._began, self._finish_cpu = task, time.process_time(), 0.0
        self._prepared = prepared_plan(task.root, task.plan)
        self._results: list[ResultFile] = []
        self._operators: dict[str, OperatorMetrics] = {}
        self._keys: list[KeyStatistics] = []
        self._ways: list[FamilyWay] = []
        self._failures: dict[str, str] = {}
        self._caller = caller_of(task.root, task.functions)
        self._read_cpu, self._reading_since = 0.0, time.process_time()

    def operands(self, stream: str, path: ScanPath) -> list[Operand]:
        """What must be read of a stream for the operators that get it by this path."""
        reads = self._prepared.scanning(stream, path)
        return list(dict.fromkeys(o for operator, read in reads for o in operator.reads[read].sources))

    def encoded(self, stream: str, path: ScanPath) -> list[str]:
        """The string columns that are read as codes and a dictionary, because some operator looks them up."""
        reads = self._prepared.scanning(stream, path)
        asked = (o for operator, read in reads for o in operator_kind(operator).encoded(operator, read))
        return list(dict.fromkeys(o.sql for o in asked if o.type.kind is Kind.STRING))

    def run(self, batch: TupleBatch) -> Iterator[Shipped]:
        """What all operators ship of a batch. What passes before it, and between batches, is the time of reading."""
        self._read_cpu += time.process_time() - self._reading_since
        for operator, read in self._prepared.scanning(batch.stream, batch.path):
            began = time.process_time()
            name = attempt_name(self._task, f"{operator.id}-{batch.label}")
            writer = ResultWriter(self._task.root, name, self._task.epoch)
            calls = self._prepared.calls[operator.id, read]
            called = calls.run(batch.columns, batch.rows, self._caller) if calls else Called()
            self._failures |= {str(query): reason for query, reason in called.failures.items()}
            mapped = self._prepared.logic[operator.id].map(
                Batch(
                    read,
                    batch.columns | called.columns,
                    batch.rows,
                    self._task.epoch,
                    self._task.closed_us(operator),
                    self._task.watermark[batch.stream],
                ),
                MapOutlet(writer.add, self._task.partitioning),
            )
            self._results += writer.finish()
            self._finish_cpu += writer.cpu_seconds
            self._keys += [] if mapped.keys is None else [mapped.keys]
            self._ways += [replace(way, operator=operator.id) for way in mapped.ways]
            to, large = self._task.handing, self._task.large_bytes
            shipped = [hand_over(to, large, s.partition, operator.id, s.blob) for s in mapped.shipments]
            spent = OperatorMetrics(
                map_seconds=time.process_time() - began,
                tuples=batch.rows,
                shuffled_bytes=sum(len(shipment.blob) for shipment in mapped.shipments),
                matched=mapped.matched,
                rows=mapped.rows,
                functions=self._caller.take_spent(),
            )
            self._operators[operator.id] = self._operators.get(operator.id, OperatorMetrics()) + spent
            yield from shipped
        self._reading_since = time.process_time()

    def report(self, seconds: float = 0.0, bytes_read: int = 0) -> Shipped:
        """What was made and what it cost. The caller knows how long it took, and what was read."""
        metrics = TaskMetrics(
            map_seconds=seconds,
            bytes_read=bytes_read,
            bytes_shuffled=sum(spent.shuffled_bytes for spent in self._operators.values()),
            map_cpu=time.process_time() - self._began - self._finish_cpu,
            finish_cpu=self._finish_cpu,
            read_cpu=self._read_cpu,
        )
        return report_of(
            Report(
                results=tuple(self._results),
                failures=self._failures,
                metrics=metrics,
                operators=self._operators,
                keys=tuple(self._keys),
                ways=add_ways(self._ways),
            )
        )


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
    task, root = MapTask(scan.task), scan.task.root
    wanted, encoded = (
        task.operands(scan.stream, ScanPath.FAST),
        task.encoded(scan.stream, ScanPath.FAST),
    )
    pieces: list[pa.Table] = []
    read = 0
    for number, piece in enumerate(scan.pieces):
        if piece.whole is not None:
            check_chunk(Path(root), piece.path, *piece.whole)
        table = _as_stream(read_piece(root, piece, [o.sql for o in wanted], encoded), wanted)
        read += table.nbytes
        pieces.append(table)
        if number + 1 == len(scan.pieces) or sum(p.num_rows for p in pieces) >= MAP_BATCH_ROWS:
            table = pa.concat_tables(pieces)
            columns = {o: one_dictionary(table.column(o.sql)) for o in wanted}
            label = f"m{scan.number}-{number}"
            yield from task.run(TupleBatch(scan.stream, ScanPath.FAST, columns, table.num_rows, label))
            pieces = []
    faults.reach_task("task.map")
    yield task.report(time.perf_counter() - started, read)


def _as_stream(piece: pa.Table, operands: Sequence[Operand]) -> pa.Table:
    """The columns in the stream's own types: adopted files may differ in what is nullable, or in names inside.

    Strings that were read as codes stay so.
    """
    columns = [piece.column(o.sql) for o in operands]
    typed = [
        c if c.type in (o.type.arrow, ENCODED_STRINGS) else c.cast(o.type.arrow)
        for c, o in zip(columns, operands, strict=True)
    ]
    return pa.table(typed, names=[o.sql for o in operands])


def read_piece(root: str, piece: Piece, columns: Sequence[str], encoded: Sequence[str] = ()) -> pa.Table:
    """Some row groups and columns of a chunk, those that are `encoded` as codes and a dictionary."""
    return read_row_groups(Path(root, piece.path), piece.row_groups, columns, encoded)
