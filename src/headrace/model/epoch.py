"""Chunks, epochs and changes: what one step of time contains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.model.query import EpochId, Needs, Query, QueryId, StreamName

NEVER_US = -(2**63)
"""A watermark before any event was seen."""

FOREVER_US = 2**63 - 1
"""The watermark of a closed stream."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One immutable Parquet file of a stream. `path` is relative to the warehouse, or absolute when adopted.

    `min_us` and `max_us` bound the event times that are not NULL; both None when there are none. `null_times` counts
    the tuples without event time, and `corrupt` the records that Spark could not read as the stream's columns.
    `checksum` is the CRC-32 of the file, None when it was written before there were checksums.
    """

    path: str
    rows: int
    bytes: int
    min_us: int | None
    max_us: int | None
    null_times: int = 0
    corrupt: int = 0
    checksum: int | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """A query begins, in a sharing group; with `start` it lives from that earlier epoch on, and catches up first."""

    query: Query
    requested_at: float = 0.0
    group: str = "main"
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    id: QueryId
    requested_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Move:
    """A query is wanted in another sharing group; it goes there when the two groups have reached the same epoch."""

    id: QueryId
    group: str
    requested_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ChangeNeeds:
    """Something else is asked for a query than before."""

    id: QueryId
    needs: Needs
    requested_at: float = 0.0


Change = Create | Drop | Move | ChangeNeeds


@dataclass(frozen=True, slots=True)
class Oddities:
    """Tuples of a stream that somebody should know of, in all its epochs so far; they are in the log like any other.

    `null_times` have no event time, `corrupt` are records that Spark could not read as the stream's columns, and
    `ahead` were dated so far ahead that they were not let move the watermark: between the two times of `ahead_us`.
    """

    null_times: int = 0
    corrupt: int = 0
    ahead: int = 0
    ahead_us: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class StreamEpoch:
    """A stream's inflow: what an epoch holds of it. `closed_us` is W(e-1), `watermark_us` is W(e).

    `batch` is the last source batch taken in so far (the ingest's id, its number there), in any epoch. `total` counts
    the stream's tuples, and how many of them were late, in all epochs up to this one.
    """

    stream: StreamName
    chunks: tuple[Chunk, ...]
    closed_us: int
    watermark_us: int
    late_rows: int = 0
    batch: tuple[str, int] | None = None
    oddities: Oddities = Oddities()
    total: tuple[int, int] = (0, 0)

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One sealed step of time for everybody; replaying it gives the same result.

    It ends after `next_chunk` chunks of the arrival that follows `last_arrival`; arrivals may span epochs.
    """

    id: EpochId
    streams: tuple[StreamEpoch, ...]
    changes: tuple[Change, ...] = ()
    sealed_at: float = 0.0
    last_arrival: int = field(default=-1)
    last_changelog: int = field(default=-1)
    next_chunk: int = 0

    @property
    def rows(self) -> int:
        """The tuples of all streams."""
        return sum(inflow.rows for inflow in self.streams)

    def of(self, stream: str) -> StreamEpoch | None:
        return next((inflow for inflow in self.streams if inflow.stream == stream), None)

    def totals(self) -> dict[str, tuple[int, int]]:
        """Tuples and late tuples of every stream, up to and with this epoch."""
        return {str(inflow.stream): inflow.total for inflow in self.streams}

    def closed_us(self, streams: Iterable[str]) -> int:
        """W(e-1) of a query over these streams: the least of theirs."""
        inflows = [self.of(stream) for stream in streams]
        return min((NEVER_US if inflow is None else inflow.closed_us for inflow in inflows), default=NEVER_US)

    def watermark_us(self, streams: Iterable[str]) -> int:
        """W(e) of a query over these streams."""
        inflows = [self.of(stream) for stream in streams]
        return min(
            (NEVER_US if inflow is None else inflow.watermark_us for inflow in inflows), default=NEVER_US
        )
