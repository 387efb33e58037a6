"""What reduce tasks do inside Spark's Python workers: everything one partition received meets the state it holds.

They read segments, write new ones and result files under names nobody else uses, and report what they wrote.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from headrace.engine.files import segment_damaged
from headrace.engine.handover import Shipped, hand_over, take_over
from headrace.engine.messages import (
    Control,
    EpochTask,
    Report,
    TaskError,
    TaskMetrics,
    decode_control,
    encode_control,
)
from headrace.engine.paths import segments_dir
from headrace.engine.references import absorb, portion_of
from headrace.engine.result_files import ResultWriter
from headrace.engine.tasks import PreparedPlan, arriving, attempt_name, prepared_plan, report_of
from headrace.model.errors import HeadraceError
from headrace.model.metrics import add_counts
from headrace.model.plan import GroupingOperator, JoinOperator, Operator, SessionOperator
from headrace.model.state import SegmentFile
from headrace.operators.common.bundle import Blob, Item, read_bundle, write_bundle
from headrace.operators.common.placing import Portion
from headrace.operators.join.block import JoinedBlock, stored_rows
from headrace.operators.join.feed import GATHER_ROWS, Feed, Gathering
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.products import Factors, multiply
from headrace.operators.join.reduce import Outlet, reduce_join, resume_join
from headrace.operators.join.state import JoinSegment, join_from, join_items, portion_of_join
from headrace.operators.join.tuples import receive_join
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.micro import receive_micros
from headrace.operators.sessions.reduce import reduce_sessions
from headrace.operators.sessions.segment import (
    SessionSegment,
    portion_of_sessions,
    session_segment_from,
    session_segment_items,
)
from headrace.operators.windows.aggregation import Emit, reduce_aggregation
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment, portion_of_segment, segment_from, segment_items
from headrace.operators.windows.tuples import Shipment, Tuples, receive_tuples, ship_tuples
from headrace.storage import faults
from headrace.storage.checksums import amiss, written
from headrace.storage.private import create_file

WAITING_BYTES = 1 << 26
"""Blobs for the next stage that a task holds in memory, about."""

Items = dict[str, Item]
State = TypeVar("State")
Decode = Callable[[Items, str, Portion], State | None]
"""The state of an operator, by its id, that counts of a bundle's items; None when that is nothing."""


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
    started = time.perf_counter()
    task, partition = control.task, control.partition
    prepared = prepared_plan(task.root, task.plan)
    name = attempt_name(task, f"p{partition}-s{stage}")
    work = _Partition(task, partition, stage, ResultWriter(task.root, name, task.epoch))
    factors = Factors()
    segments: list[SegmentFile] = []
    counted = _Counted()
    for id_ in control.stages[stage]:
        held = [segment for segment in control.segments if segment.operator == id_]
        blobs = received.pop(id_, []) + received.pop(arriving(id_, stage), [])
        done = work.run(prepared, id_, blobs, held, factors)
        counted.note(done.failures, done.rows)
        segments += done.segments
    outputs = [(product.keys, o) for product in prepared.plan.products for o in product.outputs]
    for keys, output in outputs if stage == 0 else ():
        for sides in factors.of(output):
            multiplied = multiply(output, keys, sides)
            if multiplied is None:
                continue
            counted.note(multiplied.failures, multiplied.rows)
            if multiplied.rows:
                queries = list(multiplied.rows)
                work.writer.add(output.signature, multiplied.table, queries, multiplied.latest_us)
    results = work.writer.finish()
    spent = TaskMetrics(reduce_seconds=time.perf_counter() - started, bytes_shuffled=work.bytes_sent)
    faults.reach_task("task.reduce")
    return Report(tuple(segments), results, counted.failures, counted.rows, spent), work.sent


@dataclass(slots=True)
class _Counted:
    """What becomes of queries in a task, by their ids as text."""

    failures: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def note(self, failures: dict[int, str], rows: dict[int, int]) -> None:
        self.failures.update({str(query): reason for query, reason in failures.items()})
        self.rows = add_counts(self.rows, {str(query): count for query, count in rows.items()})


@dataclass(frozen=True, slots=True)
class _Done:
    """What an operator left behind in a partition: its live segments, and what it counted."""

    segments: list[SegmentFile]
    rows: dict[int, int]
    failures: dict[int, str]


@dataclass(slots=True)
class _Partition:
    """One partition of an epoch at work; results go to `writer` as they come, `sent` is for the next stage."""

    task: EpochTask
    number: int
    stage: int
    writer: ResultWriter
    sent: list[Shipped] = field(default_factory=list)
    bytes_sent: int = 0
    waiting_bytes: int = 0

    def run(
        self, prepared: PreparedPlan, id_: str, blobs: list[Blob], held: list[SegmentFile], factors: Factors
    ) -> _Done:
        """Run the operator of this id over what it received and the segments it holds."""
        if id_ in prepared.joins:
            return self._join(prepared.joins[id_], prepared.feeds[id_], blobs, held)
        if id_ in prepared.sessions:
            return self._sessions(prepared.sessions[id_], blobs, held)
        logic = prepared.aggregations[id_]
        if logic.operator.product is None:
            return self._windows(logic, blobs, held, self.writer.add)
        done = self._windows(logic, blobs, held, factors.taking(id_))
        return _Done(done.segments, {}, done.failures)

    def _windows(
        self, logic: AggregationLogic, blobs: list[Blob], held: list[SegmentFile], emit: Emit
    ) -> _Done:
        kept, absorbed, level = absorb(held)
        reduced = reduce_aggregation(
            logic,
            receive_tuples(logic.operator, blobs),
            self._load(absorbed, window_state),
            self._load(kept, window_state),
            self.task.closed_us(logic.operator),
            self.task.watermark_us(logic.operator),
            emit,
        )
        if reduced.segment is not None:
            items, last_end_us = segment_items(reduced.segment), reduced.segment.last_end_us
            kept.append(self._write(logic.operator, items, level, last_end_us))
        return _Done(kept, reduced.rows, reduced.failures)

    def _sessions(self, logic: SessionLogic, blobs: list[Blob], held: list[SegmentFile]) -> _Done:
        reduced = reduce_sessions(
            logic,
            receive_micros(logic.operator, blobs),
            self._load(held, session_state),
            self.task.closed_us(logic.operator),
            self.task.watermark_us(logic.operator),
            self.writer.add,
        )
        segments = []
        if reduced.segment is not None:
            items, last_end_us = session_segment_items(reduced.segment), reduced.segment.last_end_us
            segments.append(self._write(logic.operator, items, 0, last_end_us))
        return _Done(segments, reduced.rows, reduced.failures)

    def _join(
        self, logic: JoinLogic, feeds: dict[int, Feed], blobs: list[Blob], held: list[SegmentFile]
    ) -> _Done:
        """`feeds` are the chains whose rows go on to an aggregation; a rebuild joins for these alone."""
        operator, closed_us = logic.operator, self.task.closed_us(logic.operator)
        fed = {feed.operator.id: feed.operator for feed in feeds.values()}
        gathered = {id_: self._gathering(grouping, len(fed)) for id_, grouping in fed.items()}

        def consume(chain: int, block: JoinedBlock) -> None:
            if chain in feeds:
                for tuples in feeds[chain].tuples(block):
                    gathered[feeds[chain].operator.id].add(tuples)
            else:
                self._store(logic, chain, block)

        def send(shipment: Shipment) -> None:
            self._send(arriving(operator.id, self.stage + 1), [shipment])

        stored = [chain for i, chain in enumerate(operator.chains) if i not in feeds]
        asking = None
        if self.task.rebuilds:
            asking = frozenset(q.slot for i in feeds for q in operator.chains[i].queries)
        outlet = Outlet(consume, send, self.task.partitioning, asking)
        segments: list[SegmentFile] = []
        if self.stage > 0:
            rows = resume_join(logic, blobs, self._load(held, join_state), [], closed_us, outlet)
        else:
            segments, absorbed, level = absorb(held)
            reduced = reduce_join(
                logic,
                receive_join(logic, blobs),
                self._load(absorbed, join_state),
                self._load(segments, join_state),
                closed_us,
                self.task.watermark_us(operator),
                outlet if feeds or not self.task.rebuilds else None,
            )
            rows = reduced.rows
            if reduced.segment is not None:
                items, last_end_us = join_items(reduced.segment), reduced.segment.last_end_us
                segments.append(self._write(operator, items, level, last_end_us))
        for waiting in gathered.values():
            waiting.flush()
        counted = {query.query for chain in stored for query in chain.queries}
        return _Done(segments, {query: count for query, count in rows.items() if query in counted}, {})

    def _store(self, logic: JoinLogic, chain: int, block: JoinedBlock) -> None:
        spec = logic.operator.chains[chain]
        reach = max(window.range_us for query in spec.queries for window in query.windows)
        times = [block.times(position) for position in range(len(spec.leaves))]
        latest_us = int(np.minimum.reduce(times).max()) + reach
        rows = stored_rows(logic, chain, block, self.task.epoch)
        self.writer.add(spec.signature, rows, [query.query for query in spec.queries], latest_us)

    def _gathering(self, operator: GroupingOperator, count: int) -> Gathering:
        """One of so many; together they hold back no more than one would."""

        def send(tuples: Tuples) -> None:
            self._send(operator.id, ship_tuples(operator, tuples, self.task.partitioning))

        return Gathering(operator, send, max(GATHER_ROWS // count, 1))

    def _send(self, name: str, shipments: Iterable[Shipment]) -> None:
        """Hand blobs over to the next stage; small ones wait for this one's end, up to a limit, the others in files."""
        for one in shipments:
            large_bytes = self.task.large_bytes if self.waiting_bytes < WAITING_BYTES else 0
            shipped = hand_over(self.task.handing, large_bytes, one.partition, name, one.blob)
            self.sent.append(shipped)
            self.bytes_sent += len(one.blob)
            self.waiting_bytes += len(shipped[1][2])

    def _load(self, files: Sequence[SegmentFile], decode: Decode[State]) -> list[State]:
        found = (load_segment(self.task.root, file, decode) for file in files)
        return [state for state in found if state is not None]

    def _write(self, operator: Operator, items: Items, level: int, last_end_us: int) -> SegmentFile:
        name = attempt_name(self.task, f"{operator.id}-p{self.number}")
        rel = f"{segments_dir(self.task.group)}/{name}.arrow"
        path = Path(self.task.root, rel)
        create_file(path)
        with pa.OSFile(str(path), "wb") as sink:
            write_bundle(items, sink)
        size, crc = written(path)
        mine = self.task.partitioning.owned(self.number)
        return SegmentFile(operator.id, rel, size, level, last_end_us, crc, mine)


def window_state(items: Items, operator: str, portion: Portion) -> Segment | None:
    return portion_of_segment(segment_from(items), operator, portion)


def session_state(items: Items, operator: str, portion: Portion) -> SessionSegment | None:
    return portion_of_sessions(session_segment_from(items), operator, portion)


def join_state(items: Items, operator: str, portion: Portion) -> JoinSegment | None:
    return portion_of_join(join_from(items), operator, portion)


def segment_decoder(operator: Operator) -> Decode[Any]:
    """What reads an operator's segments."""
    match operator:
        case JoinOperator():
            return join_state
        case SessionOperator():
            return session_state
        case _:
            return window_state


def load_segment(root: str, file: SegmentFile, decode: Decode[State]) -> State | None:
    """What counts of a segment, memory-mapped; None when that is nothing. Damage is named."""
    path = Path(root, file.path)
    if found := amiss(path, file.bytes, file.checksum):
        raise segment_damaged(path, found)
    try:
        with pa.memory_map(str(path)) as source:
            return decode(read_bundle(source), file.operator, portion_of(file))
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise segment_damaged(path, f"damaged: {error}") from error
