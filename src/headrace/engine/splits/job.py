"""One epoch of a split: splitters, then processors, as two Spark jobs or in the driver's own workers.

These are two steps, because processors start when all splitters are done anyway, and the driver looks first at
what the splitters say: a bad route stops the epoch before any operator has seen a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import Broadcast
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.catalyst import chunk_frame
from headrace.engine.errors import reported_error
from headrace.engine.job import SPLIT_ROWS
from headrace.engine.messages import Piece, TaskError
from headrace.engine.splits.calls import opened
from headrace.engine.splits.code import Packed
from headrace.engine.splits.messages import (
    PlacedPiece,
    ProcessReport,
    ProcessWork,
    ResizeReport,
    ResizeWork,
    SplitEpoch,
    SplitReport,
    SplitWork,
)
from headrace.engine.splits.resizing import with_routes
from headrace.engine.splits.routing import CHUNK_ROWS, POSITION, ROUTED, SPREAD, plain_column
from headrace.engine.splits.tasks import process_task, resize_task, router_of, split_task, split_windows
from headrace.engine.splits.workers import SplitWorker, ask_all
from headrace.log.chunks import arrow_schema, cut
from headrace.model import codec
from headrace.model.epoch import Chunk
from headrace.model.errors import HeadraceError
from headrace.model.splits import FUNCTION, Split
from headrace.optimizer.splitting.dealing import deal_sub_streams
from headrace.sql.text.names import quote_name

_FILE, _ROW = "__headrace_file", "__headrace_row"
_REPORT = "report binary"

Report = TypeVar("Report", SplitReport, ProcessReport, ResizeReport)


class SplitJobs(Protocol):
    """Where the tasks of a split run, and the code that they run."""

    def split(self, epoch: SplitEpoch, chunks: Sequence[Chunk], splitters: int) -> list[SplitReport]:
        """Route an epoch's chunks with so many splitters."""

    def process(self, work: ProcessWork, tasks: int) -> list[ProcessReport]:
        """Run the operators of an epoch in so many tasks."""

    def resize(self, work: ResizeWork) -> ResizeReport:
        """Move state and waiting tuples to other sub-streams."""


@dataclass(frozen=True, slots=True)
class OwnJobs:
    """Tasks run in workers of the driver. Where Spark evaluates the route, splitting is a Spark job still.

    `home` names the split among all of this process, `spent` says how many seconds its sub-streams took
    in the last epoch.
    """

    home: str
    spent: Mapping[int, float]
    workers: Sequence[SplitWorker]
    packed: Packed
    spark: SparkJobs

    def split(self, epoch: SplitEpoch, chunks: Sequence[Chunk], splitters: int) -> list[SplitReport]:
        """Route an epoch's chunks with so many splitters."""
        if not chunks:
            return []
        if not is_plain(epoch.split, [column.name for column in epoch.stream.columns]):
            return self.spark.split(epoch, chunks, splitters)
        works = spread_chunks(epoch, chunks, min(splitters, len(self.workers)))
        told = codec.dumps(epoch)
        found = ask_all(self.workers, "split", self.packed, [(told, codec.dumps(work)) for work in works])
        return [_checked(report, SplitReport) for report in found]

    def process(self, work: ProcessWork, tasks: int) -> list[ProcessReport]:
        """Run the operators of an epoch in so many tasks."""
        load, workers = codec.dumps(work), self.workers[:tasks]
        kept = [worker.homes.get(self.home, []) for worker in workers]
        dealt = deal_sub_streams(work.epoch.split.sub_streams, kept, self.spent)
        loads = [(load, number, mine) for number, mine in enumerate(dealt)]
        for worker, mine in zip(workers, dealt, strict=True):
            worker.homes[self.home] = mine
        found = ask_all(workers, "process", self.packed, loads)
        return [_checked(report, ProcessReport) for report in found]

    def resize(self, work: ResizeWork) -> ResizeReport:
        """Move state and waiting tuples to other sub-streams."""
        work = routed_by_spark(self.spark.spark, work)
        (found,) = ask_all(self.workers[:1], "resize", self.packed, [(codec.dumps(work),)])
        return _checked(found, ResizeReport)


@dataclass(frozen=True, slots=True)
class SparkJobs:
    """Tasks are those of Spark jobs."""

    spark: SparkSession
    code: Broadcast[Packed]

    def split(self, epoch: SplitEpoch, chunks: Sequence[Chunk], splitters: int) -> list[SplitReport]:
        """Route an epoch's chunks with so many splitters."""
        if not chunks:
            return []
        if is_plain(epoch.split, [column.name for column in epoch.stream.columns]):
            works = spread_chunks(epoch, chunks, splitters)
            loads = self.spark.sparkContext.parallelize([codec.dumps(work) for work in works], len(works))
            task = partial(_split_task, self.code, codec.dumps(epoch))
            found = _collected(lambda: loads.flatMap(task).collect())
        else:
            frame = catalyst_frame(self.spark, epoch, chunks)
            paths = [str(Path(epoch.root, chunk.path)) for chunk in chunks]
            mapped = frame.mapInArrow(catalyst_mapper(epoch, paths, self.code), _REPORT)
            found = [bytes(row[0]) for row in _collected(mapped.collect)]
        return [_checked(report, SplitReport) for report in found]

    def process(self, work: ProcessWork, tasks: int) -> list[ProcessReport]:
        """Run the operators of an epoch in so many tasks."""
        load, context = codec.dumps(work), self.spark.sparkContext
        numbers = context.parallelize(range(tasks), tasks)
        found = _collected(lambda: numbers.flatMap(partial(_process_task, self.code, load)).collect())
        return [_checked(report, ProcessReport) for report in found]

    def resize(self, work: ResizeWork) -> ResizeReport:
        """Move state and waiting tuples to other sub-streams."""
        loads = self.spark.sparkContext.parallelize([codec.dumps(routed_by_spark(self.spark, work))], 1)
        (found,) = _collected(lambda: loads.flatMap(partial(_resize_task, self.code)).collect())
        return _checked(found, ResizeReport)


def _resize_task(code: Broadcast[Packed], work: bytes) -> Iterator[bytes]:
    return resize_task(code.value, work)


def _split_task(code: Broadcast[Packed], epoch: bytes, work: bytes) -> Iterator[bytes]:
    return split_task(code.value, epoch, work)


def _process_task(code: Broadcast[Packed], work: bytes, number: int) -> Iterator[bytes]:
    return process_task(code.value, work, number)


Found = TypeVar("Found")


def _collected(run: Callable[[], list[Found]]) -> list[Found]:
    try:
        with unwrap_spark_exception():
            return run()
    except AssertionError as error:
        # PySpark asks every Java exception for its cause; that of a cancelled job has none
        raise error.__context__ or error from None


def _checked(data: bytes, kind: type[Report]) -> Report:
    """A report; raises the error that it tells of."""
    report = codec.loads(data)
    assert isinstance(report, kind)
    if report.error is not None:
        raise reported_error(asdict(report.error))
    return report


# splitters that read Parquet themselves


def is_plain(split: Split, columns: Sequence[str]) -> bool:
    """Whether route and broadcast are functions and plain columns, so that Spark has nothing to compute."""
    return split.wants is None and all(plain_column(text, columns) for text in split.expressions)


def spread_chunks(epoch: SplitEpoch, chunks: Sequence[Chunk], splitters: int) -> list[SplitWork]:
    """The work of each splitter: pieces of chunks, as they come, about as many rows for each."""
    pieces: list[tuple[int, PlacedPiece]] = []
    for number, chunk in enumerate(chunks):
        pieces += _pieces(Path(epoch.root), chunk, number)
    rows = sum(count for count, _ in pieces)
    share = math.ceil(rows / max(1, min(splitters, len(pieces)))) or 1
    works: list[list[PlacedPiece]] = [[]]
    taken = 0
    for count, piece in pieces:
        if taken >= share * len(works) and works[-1]:
            works.append([])
        works[-1].append(piece)
        taken += count
    return [SplitWork(number, tuple(found)) for number, found in enumerate(works)]


def _pieces(root: Path, chunk: Chunk, number: int) -> list[tuple[int, PlacedPiece]]:
    first, whole = number * CHUNK_ROWS, (chunk.bytes, chunk.checksum)
    if chunk.rows <= SPLIT_ROWS:
        return [(chunk.rows, PlacedPiece(Piece(chunk.path, None, whole), first))]
    try:
        metadata = pq.read_metadata(root / chunk.path)
    except (OSError, pa.ArrowInvalid):
        return [
            (chunk.rows, PlacedPiece(Piece(chunk.path, None, whole), first))
        ]  # its task says what is wrong
    found = []
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        piece = Piece(chunk.path, (group,), whole if group == 0 else None)
        found.append((rows, PlacedPiece(piece, first)))
        first += rows
    return found


# splitters behind Catalyst


def catalyst_frame(spark: SparkSession, epoch: SplitEpoch, chunks: Sequence[Chunk]) -> DataFrame:
    """An epoch's tuples with what Spark computes of them, and where each came from. Nobody wants the others."""
    split = epoch.split
    frame = chunk_frame(spark, Path(epoch.root), epoch.stream, chunks)
    added = [f"_metadata.file_path AS {_FILE}", f"_metadata.row_index AS {_ROW}"]
    for text, name in ((split.route, ROUTED), (split.broadcast, SPREAD)):
        if text is not None and text != FUNCTION:
            added.append(f"({text}) AS {name}")
    columns = [quote_name(column.name) for column in epoch.stream.columns]
    if split.wants is not None:
        frame = frame.where(f"({split.wants})")
    return frame.selectExpr(*columns, *added)


def catalyst_mapper(
    epoch: SplitEpoch, paths: Sequence[str], code: Broadcast[Packed]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Splits the batches of one partition; gives one row, which is the report."""
    numbers = {path: number for number, path in enumerate(paths)}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        split = epoch.split
        route = None if split.route is None else ROUTED
        broadcast = None if split.broadcast is None else SPREAD
        try:
            router = router_of(epoch, opened(split, code.value), route, broadcast)
            report = split_windows(epoch, 0, router, _placed_windows(epoch, batches, numbers))
        except HeadraceError as error:
            report = SplitReport(error=TaskError.of(error))
        yield pa.RecordBatch.from_pydict({"report": pa.array([codec.dumps(report)], pa.binary())})

    return run


def routed_by_spark(spark: SparkSession, work: ResizeWork) -> ResizeWork:
    """Waiting tuples with what Spark computes of route and broadcast, if these are expressions."""
    epoch, split = work.epoch, work.epoch.split
    named = [column.name for column in epoch.stream.columns]
    texts = ((split.route, ROUTED), (split.broadcast, SPREAD))
    added = [
        f"({text}) AS {name}"
        for text, name in texts
        if text not in (None, FUNCTION) and not plain_column(text, named)
    ]
    if not added:
        return work

    def routed(tuples: pa.Table) -> pa.Table:
        frame = spark.createDataFrame(tuples)
        columns = [quote_name(name) for name in (*named, POSITION)]
        found = frame.selectExpr(*columns, *added).toArrow()
        plain = found.select(tuples.column_names).cast(tuples.schema)  # as the tuples of files are
        for name in _names(added):
            plain = plain.append_column(name, found.column(name))
        return plain

    return with_routes(work, routed, work.waiting)


def _names(added: Sequence[str]) -> list[str]:
    return [text.rpartition(" AS ")[2] for text in added]


def _placed_windows(
    epoch: SplitEpoch, batches: Iterator[pa.RecordBatch], numbers: dict[str, int]
) -> Iterator[pa.Table]:
    schema = arrow_schema(epoch.stream)
    for batch in batches:
        if not batch.num_rows:
            continue
        table = pa.Table.from_batches([batch])
        files = pc.dictionary_encode(table.column(_FILE)).combine_chunks()
        if isinstance(files, pa.ChunkedArray):
            files = files.chunk(0)
        starts = np.array(
            [numbers[unquote(urlsplit(uri).path)] * CHUNK_ROWS for uri in files.dictionary.to_pylist()]
        )
        position = starts[files.indices.to_numpy()] + table.column(_ROW).to_numpy()
        tuples = table.select(schema.names).cast(schema).append_column(POSITION, pa.array(position))
        for name in (ROUTED, SPREAD):
            if name in table.column_names:
                tuples = tuples.append_column(name, table.column(name))
        yield from cut(tuples, epoch.window_rows)
