"""What reduce tasks do inside Spark's Python workers: everything one partition received meets the state it holds.

They read segments, write new ones and result files under names nobody else uses, and report what they wrote.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from headrace.engine.files import segment_damaged
from headrace.engine.handover import Shipped, hand_over, take_over
from headrace.engine.result_files import ResultWriter
from headrace.engine.tasks import (
    EpochTask,
    PreparedPlan,
    arriving,
    attempt_name,
    error_fields,
    prepared_plan,
    report_of,
)
from headrace.model.errors import HeadraceError
from headrace.model.plan import GroupingOperator, JoinOperator, Operator, SessionOperator
from headrace.model.state import SegmentFile
from headrace.operators.common.bundle import Blob, Item, read_bundle, write_bundle
from headrace.operators.join.block import JoinedBlock, stored_rows
from headrace.operators.join.feed import GATHER_ROWS, Feed, Gathering
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.products import Factors, multiply
from headrace.operators.join.reduce import Outlet, reduce_join, resume_join
from headrace.operators.join.state import join_from, join_items
from headrace.operators.join.tuples import receive_join
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.micro import receive_micros
from headrace.operators.sessions.reduce import reduce_sessions
from headrace.operators.sessions.segment import session_segment_from, session_segment_items
from headrace.operators.windows.aggregation import Emit, reduce_aggregation
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import segment_from, segment_items
from headrace.operators.windows.tuples import Shipment, Tuples, receive_tuples, ship_tuples
from headrace.storage import faults
from headrace.storage.checksums import amiss, written
from headrace.storage.private import create_file

WAITING_BYTES = 1 << 26
"""Blobs for the next stage that a task holds in memory, about."""

Items = dict[str, Item]
Decoded = TypeVar("Decoded")


def reduce_task(stage: int, shipped: Iterable[Shipped]) -> Iterator[Shipped]:
    """Everything one partition received: fold it, write segments and results, report, and send on what later stages
    need. Reports are for the driver, by way of partition 0.
    """
    tuples: list[Shipped] = []
    control: dict[str, Any] | None = None
    for one in shipped:
        match one:
            case (_, ("report", _, _)):
                yield one
            case (_, ("control", _, blob)):
                control = json.loads(blob)
            case _:
                tuples.append(one)
    if control is None:
        return
    later = {id_ for ids in control["stages"][stage + 1 :] for id_ in ids}
    received: dict[str, list[Blob]] = {}
    try:
        for _, (kind, name, blob) in tuples:
            found = take_over(control["task"]["root"], blob) if kind == "file" else blob
            received.setdefault(name, []).append(found)
        report, sent = _reduce(control, stage, received)
    except HeadraceError as error:
        yield report_of({"error": error_fields(error)})
        return
    yield report_of(report)
    yield from sent
    if later:
        yield from (one for one in tuples if one[1][1] in later)
        yield control["partition"], ("control", "", json.dumps(control).encode())


def _reduce(
    control: dict[str, Any], stage: int, received: dict[str, list[Blob]]
) -> tuple[dict[str, Any], list[Shipped]]:
    """(the report, what goes on to the next stage)."""
    started = time.perf_counter()
    task, partition = EpochTask(**control["task"]), control["partition"]
    prepared = prepared_plan(task.root, task.plan)
    report: dict[str, Any] = {"partition": partition, "segments": [], "failures": {}, "rows": {}}
    name = attempt_name(task, f"p{partition}-s{stage}")
    work = _Partition(task, partition, stage, ResultWriter(task.root, name, task.epoch))
    factors = Factors()
    for id_ in control["stages"][stage]:
        held = [SegmentFile(**s) for s in control["segments"] if s["operator"] == id_]
        blobs = received.pop(id_, []) + received.pop(arriving(id_, stage), [])
        done = work.run(prepared, id_, blobs, held, factors)
        _note(report, done.failures, done.rows)
        report["segments"] += [asdict(segment) for segment in done.segments]
    outputs = [(product.keys, o) for product in prepared.plan.products for o in product.outputs]
    for keys, output in outputs if stage == 0 else ():
        for sides in factors.of(output):
            multiplied = multiply(output, keys, sides)
            if multiplied is None:
                continue
            _note(report, multiplied.failures, multiplied.rows)
            if multiplied.rows:
                queries = list(multiplied.rows)
                work.writer.add(output.signature, multiplied.table, queries, multiplied.latest_us)
    report["results"] = work.writer.finish()
    spent = time.perf_counter() - started
    report["metrics"] = {"reduce_seconds": spent, "bytes_shuffled": work.bytes_sent}
    faults.reach_task("task.reduce")
    return report, work.sent


def _note(report: dict[str, Any], failures: dict[int, str], rows: dict[int, int]) -> None:
    report["failures"].update({str(query): reason for query, reason in failures.items()})
    for query, count in rows.items():
        report["rows"][str(query)] = report["rows"].get(str(query), 0) + count


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
            self._load(absorbed, segment_from),
            self._load(kept, segment_from),
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
            self._load(held, session_segment_from),
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
        outlet = Outlet(consume, send, self.task.partitions, asking)
        segments: list[SegmentFile] = []
        if self.stage > 0:
            rows = resume_join(logic, blobs, self._load(held, join_from), [], closed_us, outlet)
        else:
            segments, absorbed, level = absorb(held)
            reduced = reduce_join(
                logic,
                receive_join(logic, blobs),
                self._load(absorbed, join_from),
                self._load(segments, join_from),
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
            self._send(operator.id, ship_tuples(operator, tuples, self.task.partitions))

        return Gathering(operator, send, max(GATHER_ROWS // count, 1))

    def _send(self, name: str, shipments: Iterable[Shipment]) -> None:
        """Hand blobs over to the next stage; small ones wait for this one's end, up to a limit, the others in files."""
        for one in shipments:
            large_bytes = self.task.large_bytes if self.waiting_bytes < WAITING_BYTES else 0
            shipped = hand_over(self.task.root, large_bytes, one.partition, name, one.blob)
            self.sent.append(shipped)
            self.bytes_sent += len(one.blob)
            self.waiting_bytes += len(shipped[1][2])

    def _load(self, files: Sequence[SegmentFile], decode: Callable[[Items], Decoded]) -> list[Decoded]:
        return [load_segment(self.task.root, file, decode) for file in files]

    def _write(self, operator: Operator, items: Items, level: int, last_end_us: int) -> SegmentFile:
        rel = f"groups/main/segments/{attempt_name(self.task, f'{operator.id}-p{self.number}')}.arrow"
        path = Path(self.task.root, rel)
        create_file(path)
        with pa.OSFile(str(path), "wb") as sink:
            write_bundle(items, sink)
        size, crc = written(path)
        return SegmentFile(operator.id, self.number, rel, size, level, last_end_us, crc)


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


def segment_decoder(operator: Operator) -> Callable[[Items], Any]:
    """What reads an operator's segments."""
    match operator:
        case JoinOperator():
            return join_from
        case SessionOperator():
            return session_segment_from
        case _:
            return segment_from


def load_segment(root: str, file: SegmentFile, decode: Callable[[Items], Decoded]) -> Decoded:
    """A segment, memory-mapped; damage is named."""
    path = Path(root, file.path)
    if found := amiss(path, file.bytes, file.checksum):
        raise segment_damaged(path, found)
    try:
        with pa.memory_map(str(path)) as source:
            return decode(read_bundle(source))
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise segment_damaged(path, f"damaged: {error}") from error
