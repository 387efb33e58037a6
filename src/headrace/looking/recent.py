"""The recent tuples of a stream: what SELECT FROM a stream reads, newest chunks first, and never the whole log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.engine.catalyst import chunk_frame
from headrace.engine.logview import chunk_schema_frame
from headrace.log.arrivals import Arrivals
from headrace.log.seal import Sealer
from headrace.model.epoch import Chunk
from headrace.model.query import Stream

RECENT_ROWS = 100_000
RECENT_EPOCHS = 1_000
"""A look at a stream ends when it has so many tuples, or has gone back so many epochs."""


@dataclass(frozen=True, slots=True)
class RecentTuples:
    """`waiting` counts tuples that no epoch has taken in yet; `whole` says that there are no older ones."""

    stream: Stream
    chunks: tuple[Chunk, ...]
    waiting: int
    whole: bool

    @property
    def rows(self) -> int:
        return min(RECENT_ROWS, sum(chunk.rows for chunk in self.chunks))

    def frame(self, spark: SparkSession, root: Path) -> DataFrame:
        """The tuples with the stream's columns."""
        if not self.chunks:
            return chunk_schema_frame(spark, self.stream)
        return chunk_frame(spark, root, self.stream, list(self.chunks)).limit(RECENT_ROWS)


def recent_tuples(stream: Stream, sealer: Sealer, arrivals: Arrivals) -> RecentTuples:
    """The newest chunks of a stream until there are enough tuples: those that wait for an epoch, then older ones."""
    waiting = [c for a in arrivals.pending() if a.stream == stream.name for c in a.chunks]
    found = {chunk.path: chunk for chunk in reversed(waiting)}
    fresh = sum(chunk.rows for chunk in found.values())
    rows, last = fresh, -1 if sealer.latest is None else int(sealer.latest.id)
    for number in range(last, max(sealer.first, last - RECENT_EPOCHS) - 1, -1):
        inflow = sealer.head(number).of(stream.name) if rows < RECENT_ROWS else None
        if inflow is None:  # there are enough, or the stream was created after this epoch
            return RecentTuples(stream, tuple(found.values()), fresh, rows < RECENT_ROWS)
        for chunk in reversed(inflow.chunks):
            if (
                chunk.path in found
            ):  # an arrival that two epochs share: its first chunks are not waiting any more
                fresh -= chunk.rows
            else:
                found[chunk.path] = chunk
                rows += chunk.rows
    return RecentTuples(stream, tuple(found.values()), fresh, rows < RECENT_ROWS)
