"""State from the log: the live segments of a commit derived anew (design, principle 3: state is a cache).

State after epoch c is, for every query active in c, the partials of the tuples of its epochs up to c that windows
ending after W(c) still count. So it is enough to fold those tuples as if W(c) had been the watermark all along: no
window closes, nothing is delivered twice, and whatever was late then is dropped by the same test. Consecutive epochs in
which the same of these queries were active need one job together.

Sessions have to be played: whether a tuple extends one depends on which had been delivered before it came. Their epochs
are run in order, each with its own W(e-1) and with no time passing, so that nothing is delivered, and what had ended
before an epoch is forgotten in it. Epochs without a tuple behind the watermark join the job before them: what had been
delivered by then ended before any of their tuples.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.errors import epoch_cancelled, epoch_failed, was_cancelled
from headrace.engine.files import check_chunks, check_segments
from headrace.engine.job import Job, JobContext, run_job
from headrace.engine.paths import REBUILD, commits_dir, plan_path
from headrace.engine.plans import plan_file
from headrace.engine.records import Commit
from headrace.engine.reduce import load_segment
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US, Chunk, Epoch, StreamEpoch
from headrace.model.errors import EngineError, HeadraceError
from headrace.model.grouping import GroupSpec
from headrace.model.plan import Operator, SharedPlan
from headrace.model.query import Aggregation, EpochId, Join, QueryId, Stream, StreamName
from headrace.model.state import SegmentFile
from headrace.model.strategy import DEFAULTS, Strategies
from headrace.model.window import SessionWindow
from headrace.planner.group import Member, plan_group
from headrace.storage import faults
from headrace.storage.warehouse import Warehouse, record_name

MAX_JOB_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Ground:
    """What state is made from: the log, the catalog that says who lived where, and a Spark session to read with."""

    spark: SparkSession
    warehouse: Warehouse
    catalog: Catalog
    sealer: Sealer


@dataclass(frozen=True, slots=True)
class Beginning:
    """What epoch `epoch` of a group begins with: the state that it holds, its spec, and the queries' strategies."""

    epoch: int
    held: Sequence[SegmentFile]
    spec: GroupSpec
    strategies: Strategies = DEFAULTS


def rebuild_commit(
    ground: Ground, commit: Commit, beginning: Beginning, moved: frozenset[QueryId] | None = None
) -> Commit:
    """The commit with segments made from the log; it has replaced the old one on disk.

    They are the state that an epoch of the group begins with: of the queries that live in it then, wherever they lived
    before. So all regroupings up to that epoch are taken in by this commit.

    An operator whose epochs the log no longer holds keeps the segments it has, or, when these are damaged, makes the
    rebuild fail. Costs a read of the chunks that open windows can hold; nothing counts before all of it is done.

    Each query has the strategy that `beginning` says, and the commit says so too. State and strategies are in one
    record, so there is no moment at which they do not fit. With `moved`, the queries whose strategies are new, only the
    operators that these come to are made anew, and it is an error if the log no longer has what they need.
    """
    epoch = beginning.epoch - 1
    if epoch < 0:
        return commit
    work = _Rebuild(ground, commit.group, beginning)
    kept, doomed = work.choose(moved)
    made = work.run(doomed)  # a query's sides are in several operators, and some of these may be kept
    segments = [
        *(left for s in beginning.held if s.operator in kept and (left := s.but(moved or ())) is not None),
        *(s for s in made if s.operator not in kept),
    ]
    homes = ground.catalog.homes
    taken = [
        commit.regrouping,
        *(r.number for r in homes.regroupings(commit.group, commit.regrouping, beginning.epoch)),
    ]
    corrected = dataclasses.replace(
        commit,
        epoch=epoch,
        segments=tuple(segments),
        regrouping=max(taken),
        strategies=beginning.strategies,
    )
    faults.reach("rebuild.before")
    ground.warehouse.replace_value(record_name(commits_dir(commit.group), epoch), "commit", corrected)
    faults.reach("rebuild.after")
    return corrected


@dataclass(slots=True)
class _Batch:
    """Epochs that one job reads: the queries active in them, and their chunks per stream.

    `marks` are the watermarks that tuples are judged by, and up to which windows have closed.
    """

    marks: dict[str, int]
    entries: Sequence[QueryEntry] = ()
    chunks: dict[StreamName, list[Chunk]] = field(default_factory=dict)
    rows: int = 0

    def serves(self, epoch: Epoch, entries: Sequence[QueryEntry]) -> bool:
        """Whether an epoch may be run together with those that are in it."""
        sessions = any(isinstance(entry.query.plan.window, SessionWindow) for entry in entries)
        if sessions and any(_behind(inflow) for inflow in epoch.streams):
            return False
        return [entry.query.id for entry in entries] == [entry.query.id for entry in self.entries]


class _Rebuild:
    """State as it is after an epoch of a group, made from the log."""

    def __init__(self, ground: Ground, group: str, beginning: Beginning) -> None:
        self._ground, self._group, self._beginning = ground, group, beginning
        self._epoch = beginning.epoch - 1

    def choose(self, moved: frozenset[QueryId] | None) -> tuple[set[str], list[QueryEntry]]:
        """(operators whose segments stay, queries whose state is made anew)."""
        streams = {stream.name: stream for stream in self._ground.catalog.streams(self._epoch)}
        kept: set[str] = set()
        doomed: dict[int, QueryEntry] = {}
        active = [
            entry
            for entry in self._ground.catalog.active_entries(self._epoch + 1, self._group)
            if entry.active_in(self._epoch) and isinstance(entry.query.plan.body, Aggregation | Join)
        ]
        by_id = {entry.query.id: entry for entry in active}
        for operator in self._plan(active, streams).operators:
            if moved is not None and not moved.intersection(operator.queries):
                kept.add(operator.id)
                continue
            entries = [by_id[id_] for id_ in operator.queries]
            lacking = [entry for entry in entries if not self._logged(entry)]
            if not lacking:
                doomed |= {entry.query.id: entry for entry in entries}
            elif moved is None and self._intact(operator):
                kept.add(operator.id)
            else:
                raise EngineError(
                    "REBUILD_LOG_EXPIRED",
                    f"the state of query `{lacking[0].query.name}` cannot be rebuilt",
                    detail="its open windows hold tuples from before epoch "
                    f"{self._ground.sealer.first}, where the log begins"
                    + (", and its segments are damaged" if moved is None else ""),
                    hint="restore the segments from a copy of the warehouse; a longer log_retention prevents this",
                )
        return kept, list(doomed.values())

    def _plan(self, entries: Sequence[QueryEntry], streams: Mapping[StreamName, Stream]) -> SharedPlan:
        members = (Member(entry.query, entry.slot or 0) for entry in entries)
        return plan_group(members, streams, strategies=self._beginning.strategies)

    def _mark(self, *streams: str) -> int:
        return self._ground.sealer.epoch(self._epoch).watermark_us(streams)

    def _oldest(self, entry: QueryEntry) -> int:
        """Tuples up to this event time are in no open window of the query; an open session may have any."""
        mark, window = self._mark(*entry.query.plan.streams), entry.query.plan.window
        assert window is not None
        if isinstance(window, SessionWindow):
            return mark if mark == FOREVER_US else NEVER_US
        return mark if mark in (NEVER_US, FOREVER_US) else mark - window.range_us

    def _logged(self, entry: QueryEntry) -> bool:
        """Whether the log holds every tuple that the query's open windows may hold."""
        assert entry.first_epoch is not None
        if entry.first_epoch >= self._ground.sealer.first:
            return True
        for name in entry.query.plan.streams:
            inflow = self._ground.sealer.epoch(self._ground.sealer.first).of(name)
            if inflow is None:
                continue
            ahead_us = inflow.oddities.ahead_us
            if ahead_us is not None and ahead_us[1] > self._oldest(entry):
                return False
            if inflow.closed_us == NEVER_US:
                continue
            if inflow.closed_us + self._ground.catalog.stream(name, self._epoch).watermark_us > self._oldest(
                entry
            ):
                return False
        return True

    def _intact(self, operator: Operator) -> bool:
        mine = [s for s in self._beginning.held if s.operator == operator.id]
        try:
            check_segments(self._ground.warehouse.root, mine)
            for segment in mine:
                load_segment(str(self._ground.warehouse.root), segment, operator)
        except EngineError:
            return False
        return True

    def run(self, entries: Sequence[QueryEntry]) -> list[SegmentFile]:
        """The segments of these queries' operators."""
        segments: list[SegmentFile] = []
        for sessions in (False, True):
            mine = [e for e in entries if isinstance(e.query.plan.window, SessionWindow) is sessions]
            for batch in self._batches(mine, sessions):
                segments = self._run_batch(batch, segments, f"{REBUILD}{uuid.uuid4().hex[:8]}")
        return segments

    def _batches(self, entries: Sequence[QueryEntry], sessions: bool) -> Iterator[_Batch]:
        """What to read, in order; the queries have windows, or all of them have sessions."""
        batch = _Batch({})
        first = min((int(entry.first_epoch or 0) for entry in entries), default=self._epoch + 1)
        for epoch in self._ground.sealer.epochs(max(first, self._ground.sealer.first), self._epoch + 1):
            active = [entry for entry in entries if entry.active_in(epoch.id)]
            for name, chunks in self._needed(epoch, active).items():
                rows = sum(chunk.rows for chunk in chunks)
                if not batch.serves(epoch, active) or batch.rows + rows > MAX_JOB_ROWS:
                    if batch.chunks:
                        yield batch
                    passed = {str(inflow.stream): inflow.closed_us for inflow in epoch.streams}
                    marks = passed if sessions else {name: self._mark(name) for name in passed}
                    batch = _Batch(marks, active)
                batch.chunks.setdefault(name, []).extend(chunks)
                batch.rows += rows
        if batch.chunks:
            yield batch

    def _needed(self, epoch: Epoch, active: Sequence[QueryEntry]) -> dict[StreamName, list[Chunk]]:
        oldest: dict[str, int] = {}
        for entry in active:
            for name in entry.query.plan.streams:
                oldest[name] = min(oldest.get(name, FOREVER_US), self._oldest(entry))
        found = {
            inflow.stream: [
                c for c in inflow.chunks if c.max_us is not None and c.max_us > oldest[inflow.stream]
            ]
            for inflow in epoch.streams
            if inflow.stream in oldest
        }
        return {name: chunks for name, chunks in found.items() if chunks}

    def _run_batch(self, batch: _Batch, held: list[SegmentFile], attempt: str) -> list[SegmentFile]:
        self._ground.catalog.functions.check(entry.query for entry in batch.entries)
        streams = {str(stream.name): stream for stream in self._ground.catalog.streams(self._epoch)}
        plan = self._plan(batch.entries, {stream.name: stream for stream in streams.values()})
        path = plan_path(self._group, plan.version)
        self._ground.warehouse.replace(path, plan_file(plan))
        inflows = tuple(
            StreamEpoch(stream, tuple(batch.chunks.get(stream, ())), batch.marks[stream], batch.marks[stream])
            for stream in map(StreamName, batch.marks)
        )
        check_chunks(
            self._ground.warehouse.root,
            (chunk for inflow in inflows for chunk in inflow.chunks),
            content=False,
        )
        root, epoch = self._ground.warehouse.root, Epoch(EpochId(self._epoch), inflows)
        try:
            context = JobContext(
                self._ground.spark,
                root,
                self._group,
                self._beginning.spec.partitioning,
                self._beginning.spec.tasks,
                self._ground.catalog.functions.files(),
            )
            result = run_job(context, Job(plan, path, epoch, streams, held, attempt, rebuilds=True))
        except HeadraceError:
            raise
        except Exception as error:
            if was_cancelled(error):
                raise epoch_cancelled(self._epoch) from error
            raise epoch_failed(self._epoch, error) from error
        if result.failures:  # its segments lack these queries' rows
            raise epoch_failed(self._epoch, self._failed(batch, result.failures))
        planned = {operator.id for operator in plan.operators}
        return [*(s for s in held if s.operator not in planned), *result.segments]

    def _failed(self, batch: _Batch, failures: Mapping[int, str]) -> str:
        names = {int(entry.query.id): entry.query.name for entry in batch.entries}
        reasons = (f"query `{names[query]}`: {reason}" for query, reason in sorted(failures.items()))
        return "the state cannot be rebuilt; " + "; ".join(reasons)


def _behind(inflow: StreamEpoch) -> bool:
    """Whether a tuple came at or behind the watermark before its epoch."""
    return any(chunk.min_us is not None and chunk.min_us <= inflow.closed_us for chunk in inflow.chunks)
