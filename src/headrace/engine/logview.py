"""The log as a relation: tuples of some epochs with the watermark that had passed before each."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.engine.catalyst import chunk_frame
from headrace.log.ingest import local_path
from headrace.log.seal import Sealer
from headrace.log.sources import ddl
from headrace.model.epoch import FOREVER_US, NEVER_US, Chunk
from headrace.model.query import CLOSED_COLUMN, Stream
from headrace.sql import quote_name

_PATH = "__headrace_path"
_SLASHES = re.compile("^file:/+")


@dataclass(frozen=True, slots=True)
class Logged:
    """A chunk, its epoch, and the watermarks W(e-1) of all streams, by which late tuples were judged."""

    epoch: int
    marks: Mapping[str, int]
    chunk: Chunk

    def closed_us(self, streams: Sequence[str]) -> int:
        """W(e-1) of a query over these streams."""
        return min(self.marks.get(stream, NEVER_US) for stream in streams)


class LogIndex:
    """Which chunks every epoch holds, read once and kept while the log keeps them."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self._lock = threading.Lock()
        self._streams: dict[str, list[Logged]] = {}
        self._next = 0

    def chunks(self, stream: str, first: int, last: int) -> list[Logged]:
        """Chunks of a stream in epochs [first, last), oldest first; expired ones are gone."""
        with self._lock:
            for number in range(max(self._next, self._sealer.first), last):
                epoch = self._sealer.head(number)
                marks = {str(inflow.stream): inflow.closed_us for inflow in epoch.streams}
                for inflow in epoch.streams:
                    logged = [Logged(epoch.id, marks, chunk) for chunk in inflow.chunks]
                    self._streams.setdefault(inflow.stream, []).extend(logged)
                self._next = epoch.id + 1
            return [item for item in self._streams.get(stream, []) if first <= item.epoch < last]

    def forget(self, before: int) -> None:
        with self._lock:
            for stream, items in self._streams.items():
                self._streams[stream] = [item for item in items if item.epoch >= before]


@dataclass(frozen=True, slots=True)
class LogReader:
    """What reads the log of a warehouse: `streams` are those of the queries that are asked about, by name."""

    spark: SparkSession
    root: Path
    streams: Mapping[str, Stream]
    index: LogIndex


@dataclass(frozen=True, slots=True)
class LogSpan:
    """Some epochs of the log, and the windows of a query that are wanted of it.

    The tuples are those of epochs [first, last). The windows end in (after_us, until_us]. Sessions also start after
    `began_us`.
    """

    first: int
    last: int
    after_us: int = NEVER_US
    until_us: int = FOREVER_US
    began_us: int = NEVER_US


def log_frame(
    spark: SparkSession, root: Path, stream: Stream, logged: Sequence[Logged], streams: Sequence[str]
) -> DataFrame:
    """The stream's columns and CLOSED_COLUMN as a query over `streams` sees it.

    Chunks with no tuple behind the watermark need no look-up: to these, nothing that has closed matters.
    """
    if not logged:
        empty = chunk_schema_frame(spark, stream)
        return empty.withColumn(CLOSED_COLUMN, F.lit(NEVER_US).cast("bigint"))
    frame = chunk_frame(spark, root, stream, [item.chunk for item in logged])
    late = {
        str(root / item.chunk.path): closed_us
        for item in logged
        if item.chunk.min_us is not None and item.chunk.min_us <= (closed_us := item.closed_us(streams))
    }
    names = [F.col(quote_name(column.name)) for column in stream.columns]
    never = F.lit(NEVER_US).cast("bigint")
    if not late:
        return frame.select(*names, never.alias(CLOSED_COLUMN))
    found = [(_SLASHES.sub("/", name), late.get(local_path(name) or "")) for name in frame.inputFiles()]
    closed = spark.createDataFrame(
        [pair for pair in found if pair[1] is not None], f"{_PATH} string, {CLOSED_COLUMN} bigint"
    )
    path = F.regexp_replace("_metadata.file_path", _SLASHES.pattern, "/").alias(_PATH)
    joined = frame.select(*names, path).join(F.broadcast(closed), _PATH, "left")
    return joined.select(*names, F.coalesce(F.col(CLOSED_COLUMN), never).alias(CLOSED_COLUMN))


def chunk_schema_frame(spark: SparkSession, stream: Stream) -> DataFrame:
    """An empty relation of the stream's columns."""
    return spark.createDataFrame([], ddl(stream))
