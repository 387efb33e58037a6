"""Tasks of a split's epoch: splitters route the tuples of chunks, processors run the operators of sub-streams.

Both hand their work over as files. A splitter writes the tuples that the watermark has passed into a file that lasts as
long as the epoch, and those that wait into one that lasts. A processor takes sub-streams until none is left, first
those whose instances it has from the epoch before. Errors of ours go to the driver as reports.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headrace.engine.files import check_chunk, read_row_groups
from headrace.engine.messages import TaskError
from headrace.engine.splits.bundles import Bundle, from_stream, open_bundle, to_stream, write_bundle
from headrace.engine.splits.code import Packed, SplitCode, unpack
from headrace.engine.splits.faults import OPERATOR
from headrace.engine.splits.instances import Handler, Instance, finer_cuts, noting, open_instance, usual_cuts
from headrace.engine.splits.messages import (
    ProcessReport,
    ProcessWork,
    ResizeReport,
    ResizeWork,
    SavedState,
    SplitEpoch,
    SplitReport,
    SplitWork,
)
from headrace.engine.splits.resizing import resize
from headrace.engine.splits.routing import (
    POSITION,
    ROUTED,
    SPREAD,
    Ints,
    Ranges,
    Router,
    Splitter,
    microseconds,
    ordering,
    plain_column,
    ranges_of,
)
from headrace.log.chunks import DEFAULT_MAX_CHUNK_ROWS, arrow_schema, cut, write_chunk
from headrace.model import codec
from headrace.model.epoch import Chunk
from headrace.model.errors import EngineError, HeadraceError
from headrace.model.splits import ALL, FUNCTION, BundleFile, SubStreamCost
from headrace.storage import faults
from headrace.storage.private import make_directory, open_new

_KEPT: dict[tuple[str, str, str], dict[int, Instance]] = {}
"""The instances of this process: by warehouse, home of the split and its code, and then by sub-stream."""


def split_task(packed: Packed, work: bytes) -> Iterator[bytes]:
    """Route the chunks of one splitter; a `SplitReport`."""
    yield codec.dumps(_reported(SplitReport, lambda: _split(codec.loads(work), unpack(packed))))


def process_task(
    packed: Packed, work: bytes, number: int, mine: Sequence[int] | None = None
) -> Iterator[bytes]:
    """Run the operators of these sub-streams, or of those that nobody else takes; a `ProcessReport`."""
    yield codec.dumps(_reported(ProcessReport, lambda: process(codec.loads(work), packed, number, mine)))


def resize_task(packed: Packed, work: bytes) -> Iterator[bytes]:
    """Move state and waiting tuples to other sub-streams; a `ResizeReport`."""
    yield codec.dumps(_reported(ResizeReport, lambda: _resize(codec.loads(work), unpack(packed))))


def _resize(work: ResizeWork, code: SplitCode) -> ResizeReport:
    split, columns = work.epoch.split, [column.name for column in work.epoch.stream.columns]
    named = [
        None if text is None else plain_column(text, columns) or computed
        for text, computed in ((split.route, ROUTED), (split.broadcast, SPREAD))
    ]
    return resize(work, code, router_of(work.epoch, code, *named))


Report = TypeVar("Report", SplitReport, ProcessReport, ResizeReport)


def _reported(report: type[Report], run: Callable[[], Report]) -> Report:
    try:
        return run()
    except HeadraceError as error:
        return report(error=TaskError.of(error))


# splitters


def router_of(epoch: SplitEpoch, code: SplitCode, route: str | None, broadcast: str | None) -> Router:
    """A router that finds what is no function in these columns."""
    split = epoch.split
    return Router(
        split,
        code.route if split.route == FUNCTION else route,
        code.broadcast if split.broadcast == FUNCTION else broadcast,
    )


def _split(work: SplitWork, code: SplitCode) -> SplitReport:
    epoch, split = work.epoch, work.epoch.split
    columns = [column.name for column in epoch.stream.columns]
    named = (plain_column(text, columns) for text in (split.route, split.broadcast))
    router = router_of(epoch, code, *named)
    return split_windows(epoch, work.number, router, _windows(work, columns))


def _windows(work: SplitWork, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The tuples of a splitter's pieces, some thousand at a time, with their positions."""
    root, schema, held = work.epoch.root, arrow_schema(work.epoch.stream), []
    for placed in work.pieces:
        piece = placed.piece
        if piece.whole is not None:
            check_chunk(Path(root), piece.path, *piece.whole)
        table = read_row_groups(Path(root, piece.path), piece.row_groups, columns).cast(schema)
        positions = pa.array(np.arange(placed.position, placed.position + table.num_rows))
        held.append(table.append_column(POSITION, positions))
        if sum(table.num_rows for table in held) >= work.epoch.window_rows:
            yield from cut(pa.concat_tables(held), work.epoch.window_rows)
            held = []
    if held:
        yield from cut(pa.concat_tables(held), work.epoch.window_rows)


def split_windows(epoch: SplitEpoch, number: int, router: Router, windows: Iterable[pa.Table]) -> SplitReport:
    """Route windows of tuples and write them as files, sorted by sub-stream and in order."""
    before = time.process_time()
    limits = _late_limits(epoch)
    splitter = Splitter(router, epoch.stream.event_time, epoch.closed_us, epoch.watermark_us, limits)
    unique = f"e{epoch.epoch:012d}-{epoch.attempt}-{number}-{uuid.uuid4().hex}"
    with noting(Path(epoch.root, epoch.folder, f"call-{unique}")):
        for window in windows:
            splitter.take(window)
    due = _written(epoch, f"{epoch.folder}/{unique}", splitter.due(), durable=False)
    waiting = _written(epoch, f"{epoch.home}/waiting/{unique}", splitter.waiting(), durable=True)
    faults.reach_task("task.split")
    return SplitReport(due, waiting, splitter.counts, time.process_time() - before)


def _late_limits(epoch: SplitEpoch) -> np.ndarray | None:
    """From which time on the tuples of each chunk are not late; None when that is the same for all tuples."""
    if not epoch.late_us:
        return None
    limits = np.maximum(epoch.late_us, epoch.closed_us)
    return None if (limits == epoch.closed_us).all() else limits


def _written(
    epoch: SplitEpoch, path: str, found: tuple[pa.Table, tuple[int, int]] | None, *, durable: bool
) -> BundleFile | None:
    if found is None:
        return None
    table, span = found
    entries = {0: (to_stream(table), table.num_rows)}
    return write_bundle(Path(epoch.root), path, epoch.epoch, entries, durable=durable, span_us=span)


# processors


@dataclass(frozen=True, slots=True)
class Source:
    """A file with tuples, open in one task: its rows without positions, and what orders them."""

    file: BundleFile
    rows: pa.Table
    times: Ints
    positions: Ints
    ranges: Ranges

    def passed(self, place: int, epoch: SplitEpoch) -> tuple[int, int]:
        """The first row of a place that the watermark passes in an epoch, and the one after the last."""
        start, rows = self.ranges[place]
        if epoch.closed_us <= self.file.min_us and self.file.max_us < epoch.watermark_us:
            return start, start + rows
        times = self.times[start : start + rows]
        first, last = np.searchsorted(times, (epoch.closed_us, epoch.watermark_us))
        return start + int(first), start + int(last)


@dataclass(slots=True)
class Sources:
    """The files with an epoch's tuples, as one table; and for each place the ranges of rows that are due in it."""

    work: ProcessWork
    rows: pa.Table = field(init=False)
    times: Ints = field(init=False)
    came: list[Ints] = field(init=False)
    """What orders tuples of the same time: positions, and then epochs."""
    due: dict[int, list[tuple[int, int]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        root, epoch = Path(self.work.epoch.root), self.work.epoch
        opened = [self._open(file, open_bundle(root, file, durable=True)) for file in self.work.waiting]
        opened += [self._open(file, open_bundle(root, file, durable=False)) for file in self.work.due]
        before = 0
        for source in opened:
            for place in source.ranges:
                first, last = source.passed(place, epoch)
                if first < last:
                    self.due.setdefault(place, []).append((before + first, before + last))
            before += len(source.times)
        empty = arrow_schema(epoch.stream).empty_table()
        # a table of one piece: rows are taken from it for every sub-stream
        self.rows = pa.concat_tables([source.rows for source in opened] or [empty]).combine_chunks()
        self.times = _joined([source.times for source in opened])
        epochs = [np.full(len(source.times), source.file.epoch) for source in opened]
        self.came = [_joined([source.positions for source in opened]), _joined(epochs)]

    def _open(self, file: BundleFile, bundle: Bundle) -> Source:
        entry = bundle.entry(0)
        assert entry is not None
        table = from_stream(entry)
        times = microseconds(table.column(self.work.epoch.stream.event_time))
        positions = table.column(POSITION).to_numpy()
        rows = table.drop_columns([POSITION]).replace_schema_metadata(None)
        return Source(file, rows, times, positions, ranges_of(table))

    def tuples(self, sub_stream: int) -> tuple[pa.Table, Ints]:
        """The tuples of a sub-stream that the watermark has passed since the last epoch, in order; and their times."""
        ranges = [*self.due.get(sub_stream, ()), *self.due.get(ALL, ())]
        if len(ranges) <= 1:  # a splitter has put them in order
            first, last = ranges[0] if ranges else (0, 0)
            return self.rows.slice(first, last - first), self.times[first:last]
        at = np.concatenate([np.arange(first, last) for first, last in ranges])
        order_by, came, times = self.work.epoch.split.order_by, [key[at] for key in self.came], self.times[at]
        named = self.rows.select(list(order_by)).take(pa.array(at)) if order_by else self.rows
        order = ordering(named, order_by, came, times)
        if order is not None:
            at, times = at[order], times[order]
        return self.rows.take(pa.array(at)), times


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


@dataclass(slots=True)
class Processor:
    """One task at work: it takes sub-streams, runs their operators, and gathers what they give."""

    work: ProcessWork
    code: SplitCode
    kept: dict[int, Instance]
    sources: Sources
    rows: dict[str, list[pa.Table]] = field(default_factory=dict)
    blobs: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    saved: dict[str, SavedState] = field(default_factory=dict)
    costs: dict[str, SubStreamCost] = field(default_factory=dict)
    reopened: int = 0
    _states: dict[int, Bundle] = field(default_factory=dict)

    def run(self, sub_stream: int) -> None:
        """One epoch of one sub-stream."""
        work, split = self.work, self.work.epoch.split
        tuples, times = self.sources.tuples(sub_stream)
        chain = work.chains.get(str(sub_stream), ())
        instance = self.kept.pop(sub_stream, None)
        if instance is None or instance.version != work.version:
            instance = self._open(sub_stream)
            self.reopened += 1
        schemas = {kind: arrow_schema(output) for kind, output in split.outputs.items()}
        handler = Handler(split, sub_stream, schemas, instance)
        try:
            cuts = work.cuts.get(str(sub_stream), ())
            done = handler.run(tuples, times, work.epoch.watermark_us, cuts)
        except EngineError as error:
            raise self._narrowed(handler, tuples, times, error) from error
        saved = handler.save([size for _, size in chain])
        for kind, tables in done.rows.items():
            self.rows.setdefault(kind, []).extend(tables)
        if saved.blob is not None:
            self.blobs[sub_stream] = (saved.blob, 0)
        size = 0 if saved.blob is None else len(saved.blob)
        self.saved[str(sub_stream)] = SavedState(size, saved.snapshot)
        rows = sum(table.num_rows for tables in done.rows.values() for table in tables)
        held = 0 if saved.snapshot and saved.blob is not None else sum(n for _, n in chain)
        self.costs[str(sub_stream)] = SubStreamCost(done.tuples, rows, done.seconds, held + size)
        instance.version = work.next_version
        self.kept[sub_stream] = instance

    def _open(self, sub_stream: int) -> Instance:
        work = self.work
        states = [self._state(number, sub_stream) for number, _ in work.chains.get(str(sub_stream), ())]
        return open_instance(work.epoch.split, sub_stream, self.code.operator, states, work.version)

    def _narrowed(self, failed: Handler, tuples: pa.Table, times: Ints, error: EngineError) -> EngineError:
        """The error of the fewest rows: a new instance gets those that made one fail again, in smaller batches.

        An operator that fails only with large batches is told of as it failed.
        """
        cuts = usual_cuts(tuples.num_rows)
        while error.code == OPERATOR and failed.rows is not None and failed.rows[1] - failed.rows[0] > 1:
            cuts = finer_cuts(failed.rows, cuts)
            again = Handler(failed.split, failed.sub_stream, failed.schemas, self._open(failed.sub_stream))
            try:
                again.run(tuples, times, None, cuts)
            except EngineError as narrower:
                error, failed = narrower, again
            else:
                break
        return error

    def _state(self, number: int, sub_stream: int) -> memoryview:
        if number not in self._states:
            file = self.work.state[str(number)]
            self._states[number] = open_bundle(Path(self.work.epoch.root), file, durable=True)
        entry = self._states[number].entry(sub_stream)
        assert entry is not None, f"state file {number} has nothing of sub-stream {sub_stream}"
        return entry

    def report(self, number: int, seconds: float) -> ProcessReport:
        """Write what was gathered, durably."""
        epoch = self.work.epoch
        state = None
        if self.blobs:
            path = f"{epoch.home}/state/e{epoch.epoch:012d}-{epoch.attempt}-{number}-{uuid.uuid4().hex}"
            state = write_bundle(Path(epoch.root), path, epoch.epoch, self.blobs, durable=True)
        outputs = {kind: self._chunks(kind, tables) for kind, tables in self.rows.items()}
        faults.reach_task("task.process")
        return ProcessReport(state, self.saved, self.costs, outputs, seconds, self.reopened)

    def _chunks(self, kind: str, tables: Sequence[pa.Table]) -> tuple[Chunk, ...]:
        epoch, output = self.work.epoch, self.work.epoch.split.outputs[kind]
        folder, table = f"{epoch.home}/rows", pa.concat_tables(tables)
        return tuple(
            write_chunk(epoch.root, folder, piece, output.event_time, epoch.epoch)
            for piece in cut(table, DEFAULT_MAX_CHUNK_ROWS)
        )


def process(
    work: ProcessWork, packed: Packed, number: int, mine: Sequence[int] | None = None
) -> ProcessReport:
    """Run the sub-streams that this task was given, or take some until none is left."""
    before = time.process_time()
    epoch = work.epoch
    kept = _KEPT.setdefault((epoch.root, epoch.home, packed.key), {})
    for other in [key for key in _KEPT if _useless(key, epoch, packed)]:
        del _KEPT[other]
    for sub_stream in [s for s, i in kept.items() if i.version not in (work.version, work.next_version)]:
        del kept[sub_stream]
    processor = Processor(work, unpack(packed), kept, Sources(work))
    try:
        with noting(Path(epoch.root, epoch.folder, f"call-{number}-{uuid.uuid4().hex}")):
            given = _order(epoch.split.sub_streams, kept, number) if mine is None else mine
            for sub_stream in given:
                if mine is not None or _take(epoch, sub_stream):
                    processor.run(sub_stream)
    except BaseException:
        kept.clear()  # some have gone on, and nobody will know of it
        raise
    return processor.report(number, time.process_time() - before)


def _useless(key: tuple[str, str, str], epoch: SplitEpoch, packed: Packed) -> bool:
    """Whether instances have other code than their split has now, or their split is gone."""
    root, home, code = key
    if (root, home) == (epoch.root, epoch.home):
        return code != packed.key
    return not Path(root, home).exists()


def _order(sub_streams: int, kept: Iterable[int], number: int) -> list[int]:
    """Those whose instances are here, and then the others; tasks begin at different places."""
    mine = sorted(kept)
    start = number * 37 % sub_streams
    others = [*range(start, sub_streams), *range(start)]
    known = set(mine)
    return [*mine, *(s for s in others if s not in known)]


def _take(epoch: SplitEpoch, sub_stream: int) -> bool:
    """Whether this task is the first one to want a sub-stream."""
    path = Path(epoch.root, epoch.folder, "taken", str(sub_stream))
    make_directory(path.parent)
    try:
        os.close(open_new(path))
    except FileExistsError:
        return False
    return True
