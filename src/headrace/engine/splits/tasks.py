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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headrace.engine.files import check_chunk, read_row_groups
from headrace.engine.messages import TaskError
from headrace.engine.splits.bundles import Bundle, open_bundle, to_stream, write_bundle
from headrace.engine.splits.calls import noting, opened
from headrace.engine.splits.code import Packed, SplitCode
from headrace.engine.splits.due import DueTuples
from headrace.engine.splits.faults import OPERATOR
from headrace.engine.splits.instances import Handler, Instance, finer_cuts, open_instance, usual_cuts
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
    Router,
    Splitter,
    plain_column,
)
from headrace.log.chunks import DEFAULT_MAX_CHUNK_ROWS, arrow_schema, cut, write_chunk
from headrace.model import codec
from headrace.model.epoch import Chunk
from headrace.model.errors import EngineError, HeadraceError
from headrace.model.splits import FUNCTION, BundleFile, SubStreamCost
from headrace.storage import faults
from headrace.storage.private import make_directory, open_new
from headrace.storage.warehouse import sync_directory

WRITERS = 8
"""So many files are written at a time at most."""

_KEPT: dict[tuple[str, str, str], dict[int, Instance]] = {}
"""The instances of this process: by warehouse, home of the split and its code, and then by sub-stream."""


def split_task(packed: Packed, epoch: bytes, work: bytes) -> Iterator[bytes]:
    """Route the chunks of one splitter; a `SplitReport`."""
    yield codec.dumps(_reported(SplitReport, lambda: _split(codec.loads(epoch), codec.loads(work), packed)))


def process_task(
    packed: Packed, work: bytes, number: int, mine: Sequence[int] | None = None
) -> Iterator[bytes]:
    """Run the operators of these sub-streams, or of those that nobody else takes; a `ProcessReport`."""
    yield codec.dumps(_reported(ProcessReport, lambda: process(codec.loads(work), packed, number, mine)))


def resize_task(packed: Packed, work: bytes) -> Iterator[bytes]:
    """Move state and waiting tuples to other sub-streams; a `ResizeReport`."""
    yield codec.dumps(_reported(ResizeReport, lambda: _resize(codec.loads(work), packed)))


def _resize(work: ResizeWork, packed: Packed) -> ResizeReport:
    split, columns = work.epoch.split, [column.name for column in work.epoch.stream.columns]
    code = opened(split, packed)
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


def _split(epoch: SplitEpoch, work: SplitWork, packed: Packed) -> SplitReport:
    split = epoch.split
    columns = [column.name for column in epoch.stream.columns]
    named = (plain_column(text, columns) for text in (split.route, split.broadcast))
    router = router_of(epoch, opened(split, packed), *named)
    return split_windows(epoch, work.number, router, _windows(epoch, work, columns))


def _windows(epoch: SplitEpoch, work: SplitWork, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The tuples of a splitter's pieces, some thousand at a time, with their positions."""
    root, schema, held = epoch.root, arrow_schema(epoch.stream), []
    for placed in work.pieces:
        piece = placed.piece
        if piece.whole is not None:
            check_chunk(Path(root), piece.path, *piece.whole)
        table = read_row_groups(Path(root, piece.path), piece.row_groups, columns).cast(schema)
        positions = pa.array(np.arange(placed.position, placed.position + table.num_rows))
        held.append(table.append_column(POSITION, positions))
        if sum(table.num_rows for table in held) >= epoch.window_rows:
            yield from cut(pa.concat_tables(held), epoch.window_rows)
            held = []
    if held:
        yield from cut(pa.concat_tables(held), epoch.window_rows)


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


@dataclass(slots=True)
class Processor:
    """One task at work: it takes sub-streams, runs their operators, and gathers what they give."""

    work: ProcessWork
    code: SplitCode
    kept: dict[int, Instance]
    rows: dict[str, list[pa.Table]] = field(default_factory=dict)
    blobs: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    saved: dict[str, SavedState] = field(default_factory=dict)
    costs: dict[str, SubStreamCost] = field(default_factory=dict)
    reopened: int = 0
    _states: dict[int, Bundle] = field(default_factory=dict)

    def run(self, sub_stream: int, tuples: pa.Table, times: Ints) -> None:
        """One epoch of one sub-stream, with its tuples in order."""
        work, split = self.work, self.work.epoch.split
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

    def report(self, number: int, began: float) -> ProcessReport:
        """Write what was gathered, durably: side by side, since a disk syncs a few files in little more time than one.

        `began` is what the process had spent when the task began.
        """
        epoch = self.work.epoch
        with ThreadPoolExecutor(min(WRITERS, 1 + len(self.rows))) as pool:
            state = pool.submit(self._state_file, number)
            written = {kind: pool.submit(self._chunks, kind, tables) for kind, tables in self.rows.items()}
        outputs = {kind: chunks.result() for kind, chunks in written.items()}
        if any(outputs.values()):
            sync_directory(Path(epoch.root, epoch.home, "rows"))
        faults.reach_task("task.process")
        seconds = time.process_time() - began
        return ProcessReport(state.result(), self.saved, self.costs, outputs, seconds, self.reopened)

    def _state_file(self, number: int) -> BundleFile | None:
        if not self.blobs:
            return None
        epoch = self.work.epoch
        path = f"{epoch.home}/state/e{epoch.epoch:012d}-{epoch.attempt}-{number}-{uuid.uuid4().hex}"
        return write_bundle(Path(epoch.root), path, epoch.epoch, self.blobs, durable=True)

    def _chunks(self, kind: str, tables: Sequence[pa.Table]) -> tuple[Chunk, ...]:
        epoch, output = self.work.epoch, self.work.epoch.split.outputs[kind]
        folder, table = f"{epoch.home}/rows", pa.concat_tables(tables)
        return tuple(
            write_chunk(epoch.root, folder, piece, output.event_time, epoch.epoch, named=False)
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
    processor, due = Processor(work, opened(epoch.split, packed), kept), DueTuples(work)
    try:
        with noting(Path(epoch.root, epoch.folder, f"call-{number}-{uuid.uuid4().hex}")):
            if mine is not None:
                for sub_stream, tuples, times in due.each(mine):
                    processor.run(sub_stream, tuples, times)
            for sub_stream in _order(epoch.split.sub_streams, kept, number) if mine is None else ():
                if _take(epoch, sub_stream):
                    (taken,) = due.each([sub_stream])
                    processor.run(*taken)
    except BaseException:
        kept.clear()  # some have gone on, and nobody will know of it
        raise
    return processor.report(number, before)


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
