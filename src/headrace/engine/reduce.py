"""What reduce tasks do inside Spark's Python workers: everything one partition received meets the state it holds.

They read segments, write new ones and result files under names nobody else uses, and report what they wrote.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.engine.files import segment_damaged
from headrace.engine.functions import caller_of
from headrace.engine.handover import Shipped, hand_over, take_over
from headrace.engine.messages import (
    Control,
    Report,
    TaskError,
    TaskMetrics,
    decode_control,
    encode_control,
)
from headrace.engine.paths import segments_dir
from headrace.engine.references import absorb, portion_of
from headrace.engine.result_files import ResultWriter
from headrace.engine.tasks import arriving, attempt_name, prepared_plan, report_of
from headrace.model.errors import HeadraceError
from headrace.model.metrics import NOBODY, OperatorMetrics, QueryCounts
from headrace.model.partitioning import KEY_GROUPS
from headrace.model.plan import Operator, ProductOperator
from headrace.model.query import QueryId
from headrace.model.state import SegmentFile
from headrace.model.statistics import JoinCount, add_join_counts
from headrace.model.ways import FamilyWay, add_ways
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bundle import Blob, read_bundle, write_bundle
from headrace.operators.join.products import Factors, multiply
from headrace.operators.kinds import operator_kind
from headrace.operators.protocol import OperatorLogic, Received, ReduceOutlet, Saved, Shipment, State
from headrace.storage import faults
from headrace.storage.checksums import amiss, written
from headrace.storage.private import create_file

WAITING_BYTES = 1 << 26
"""Blobs for the next stage that a task holds in memory, about."""


def reduce_task(stage: int, shipped: Iterable[Shipped]) -> Iterator[Shipped]:
    """Everything one partition received: fold it, write segments and results, report, and send on what later stages
    need. Reports are for the driver, by way of partition 0.
    """
    tuples: list[Shipped] = []
    control: Control | None = None
    for one in shipped:
        match one:
            case (_, ("report", _, _)):
                yield one
            case (_, ("control", _, blob)):
                control = decode_control(blob)
            case _:
                tuples.append(one)
    if control is None:
        return
    later = {id_ for ids in control.stages[stage + 1 :] for id_ in ids}
    received: dict[str, list[Blob]] = {}
    try:
        for _, (kind, name, blob) in tuples:
            found = take_over(control.task.root, blob) if kind == "file" else blob
            received.setdefault(name, []).append(found)
        report, sent = _reduce(control, stage, received)
    except HeadraceError as error:
        yield report_of(Report(error=TaskError.of(error)))
        return
    yield report_of(report)
    yield from sent
    if later:
        yield from (one for one in tuples if one[1][1] in later)
        yield control.partition, ("control", "", encode_control(control))


def _reduce(control: Control, stage: int, received: dict[str, list[Blob]]) -> tuple[Report, list[Shipped]]:
    """(the report, what goes on to the next stage)."""
    started = (time.perf_counter(), time.process_time())
    task = control.task
    prepared = prepared_plan(task.root, task.plan)
    writer = ResultWriter(task.root, attempt_name(task, f"p{control.partition}-s{stage}"), task.epoch)
    work = Partition(control, stage, writer)
    for id_ in control.stages[stage]:
        blobs = received.pop(id_, []) + received.pop(arriving(id_, stage), [])
        work.run(prepared.operators[id_], prepared.logic[id_], blobs)
    for product in prepared.plan.products if stage == 0 else ():
        work.multiply(product)
    return work.finish(started), work.sent


class Partition:
    """One partition of an epoch at work; results go to a file as they come, `sent` is for the next stage."""

    def __init__(self, control: Control, stage: int, writer: ResultWriter) -> None:
        self._control, self._stage, self._writer = control, stage, writer
        self._task = control.task
        self._factors = Factors()
        self._waiting_bytes = 0
        self._segments: list[SegmentFile] = []
        self._failures: dict[str, str] = {}
        self._operators: dict[str, OperatorMetrics] = {}
        self._joins: list[JoinCount] = []
        self._ways: list[FamilyWay] = []
        self._key_seconds = np.zeros(KEY_GROUPS)
        self._closing_cpu = 0.0
        self._caller = caller_of(control.task.root, control.task.functions)
        self.sent: list[Shipped] = []
        self.bytes_sent = 0

    def run(self, operator: Operator, logic: OperatorLogic, blobs: list[Blob]) -> None:
        """Run an operator over what it received and the state it holds."""
        began, sent, writing = time.process_time(), self.bytes_sent, self._writer.cpu_seconds
        kind, task = operator_kind(operator), self._task
        held = [segment for segment in self._control.segments if segment.operator == operator.id]
        kept, absorbed, level = absorb(held) if kind.merges else ([], held, 0)
        received = Received(
            self._step(operator.id),
            blobs,
            self._load(operator, absorbed),
            self._load(operator, kept),
            task.epoch,
            task.closed_us(operator),
            task.watermark_us(operator),
            task.rebuilds,
        )
        factor = kind.factor_of(operator) is not None
        emit = self._factors.taking(operator.id) if factor else self._writer.add
        send = partial(self.send, operator.id)
        reduced = logic.reduce(received, ReduceOutlet(emit, send, task.partitioning, self._caller))
        if received.step == 0:
            self._segments += kept
            if reduced.state is not None:
                self._segments.append(self._write(operator, reduced.state, level))
        rows = NOBODY if factor else reduced.rows
        self._joins += reduced.joins
        self._ways += [replace(way, operator=operator.id) for way in reduced.ways]
        seconds = time.process_time() - began
        if reduced.closing_seconds:  # rows are written as they are made
            self._closing_cpu += reduced.closing_seconds - (self._writer.cpu_seconds - writing)
        self._weigh(reduced.spread, seconds)
        spent = OperatorMetrics(
            reduce_seconds=seconds,
            shuffled_bytes=self.bytes_sent - sent,
            matched=reduced.matched,
            rows=rows,
            joined=reduced.joined,
            functions=self._caller.take_spent(),
        )
        self._note(operator.id, reduced.failures, spent)

    def multiply(self, product: ProductOperator) -> None:
        """Deliver the products of what the sides' operators gave."""
        for output in product.outputs:
            keys = self._factors.keys(output).items()
            self._joins += [JoinCount(QueryId(query), keys=count) for query, count in keys]
            for sides in self._factors.of(output):
                began = time.process_time()
                found = multiply(output, product.keys, sides)
                if found is None:
                    continue
                if found.rows:
                    self._writer.add(output.signature, found.table, list(found.rows), found.latest_us)
                self._joins += [JoinCount(QueryId(query), rows=n) for query, n in found.joined.items()]
                rows = QueryCounts.of_mapping(found.rows)
                spent = OperatorMetrics(reduce_seconds=time.process_time() - began, rows=rows)
                self._note(product.id, found.failures, spent)

    def send(self, sender: str, to: str, shipments: Sequence[Shipment]) -> None:
        """Hand blobs over to the next stage; small ones wait for this one's end, up to a limit, the others in files."""
        name = arriving(to, self._stage + 1) if to == sender else to
        for one in shipments:
            large_bytes = self._task.large_bytes if self._waiting_bytes < WAITING_BYTES else 0
            shipped = hand_over(self._task.handing, large_bytes, one.partition, name, one.blob)
            self.sent.append(shipped)
            self.bytes_sent += len(one.blob)
            self._waiting_bytes += len(shipped[1][2])

    def finish(self, started: tuple[float, float]) -> Report:
        """Close the files; the report. The task `started` at these times of the clock and of its CPU."""
        results = self._writer.finish()
        wall, cpu = started
        spent = TaskMetrics(
            reduce_seconds=time.perf_counter() - wall,
            bytes_shuffled=self.bytes_sent,
            reduce_cpu=time.process_time() - cpu - self._writer.cpu_seconds,
            finish_cpu=self._writer.cpu_seconds,
            closing_cpu=self._closing_cpu,
        )
        faults.reach_task("task.reduce")
        joins, ways = tuple(add_join_counts(self._joins)), add_ways(self._ways)
        busy = np.flatnonzero(self._key_seconds).tolist()
        return Report(
            tuple(self._segments),
            results,
            self._failures,
            spent,
            self._operators,
            joins=joins,
            ways=ways,
            key_seconds={str(g): float(self._key_seconds[g]) for g in busy},
        )

    def _weigh(self, spread: Ints | None, seconds: float) -> None:
        """Divide what an operator took among key groups. Where nothing is known of that, nobody could move it."""
        if self._task.partitioning.partitions > 1 and spread is not None and spread.any():
            self._key_seconds += seconds * spread / spread.sum()

    def _step(self, id_: str) -> int:
        """Which of an operator's own stages this is, counted from 0."""
        return self._stage - next(i for i, ids in enumerate(self._control.stages) if id_ in ids)

    def _note(self, id_: str, failures: dict[int, str], spent: OperatorMetrics) -> None:
        self._failures.update({str(query): reason for query, reason in failures.items()})
        self._operators[id_] = self._operators.get(id_, OperatorMetrics()) + spent

    def _load(self, operator: Operator, files: Sequence[SegmentFile]) -> list[State]:
        found = (load_segment(self._task.root, file, operator) for file in files)
        return [state for state in found if state is not None]

    def _write(self, operator: Operator, state: Saved, level: int) -> SegmentFile:
        number = self._control.partition
        name = attempt_name(self._task, f"{operator.id}-p{number}")
        rel = f"{segments_dir(self._task.group)}/{name}.arrow"
        path = Path(self._task.root, rel)
        create_file(path)
        with pa.OSFile(str(path), "wb") as sink:
            write_bundle(state.items, sink)
        size, crc = written(path)
        mine = self._task.partitioning.owned(number)
        return SegmentFile(operator.id, rel, size, level, state.last_end_us, crc, mine)


def load_segment(root: str, file: SegmentFile, operator: Operator) -> State | None:
    """What counts of a segment, memory-mapped; None when that is nothing. Damage is named."""
    path = Path(root, file.path)
    if found := amiss(path, file.bytes, file.checksum):
        raise segment_damaged(path, found)
    try:
        with pa.memory_map(str(path)) as source:
            return operator_kind(operator).load(read_bundle(source), file.operator, portion_of(file))
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise segment_damaged(path, f"damaged: {error}") from error
