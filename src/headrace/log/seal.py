"""Sealing: the next epoch takes every flushed query change and the oldest pending chunks.

An epoch record fixes chunks, watermarks and changes for good (design, principle 4). Watermarks follow the
design's Semantics: W(e) is the largest event time seen up to e minus the stream's delay, and never decreases. The
output of a split brings its watermark along.
Tuples dated further ahead of the clock than the stream allows are left out of that; the clock is read once, when the
epoch is sealed, so replaying the epoch gives the same watermark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.catalog.catalog import Catalog
from headrace.log.arrivals import Arrival, Arrivals, Batch
from headrace.log.chunks import Reach, count_before, reach_up_to
from headrace.log.epochs import EPOCHS, EpochLog
from headrace.log.orphans import remove_orphans
from headrace.model.epoch import FOREVER_US, NEVER_US, Chunk, Epoch, Oddities, StreamEpoch
from headrace.model.query import EpochId, Stream
from headrace.storage import faults
from headrace.storage.clock import Clock, SystemClock
from headrace.storage.interrupts import uninterrupted
from headrace.storage.warehouse import Warehouse

DEFAULT_MAX_EPOCH_ROWS = 1_000_000


@dataclass(slots=True)
class _Gathered:
    """What an epoch takes of one stream."""

    chunks: list[Chunk] = field(default_factory=list)
    batch: Batch | None = None
    close: bool = False
    marked: bool = False
    """Its maker says what its watermark is; `mark_us` is that, once all chunks of an arrival are taken."""
    mark_us: int | None = None


@dataclass(slots=True)
class _Taken:
    """Pending input for one epoch, and the position after it."""

    last_arrival: int
    next_chunk: int
    inflows: dict[str, _Gathered] = field(default_factory=dict)
    rows: int = 0


class Sealer:
    """The only maker of epochs. Opening it replays into the catalog the epochs its snapshot lacks."""

    def __init__(
        self, warehouse: Warehouse, catalog: Catalog, arrivals: Arrivals, *, clock: Clock | None = None
    ) -> None:
        self._warehouse, self._catalog, self._arrivals = warehouse, catalog, arrivals
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._log = EpochLog(warehouse)
        self._latest: Epoch | None = self._log.latest()
        self._log.need(max(catalog.applied_epoch, warehouse.mark(EPOCHS)))
        for epoch in self._log.range(catalog.applied_epoch + 1):
            catalog.apply(epoch)
        catalog.homes.replayed()
        if self._latest is not None and warehouse.held:
            arrivals.sealed(self._latest)
            self._log.tidy()
        if warehouse.held:
            remove_orphans(warehouse, self._log, arrivals)

    @property
    def latest(self) -> Epoch | None:
        """The newest sealed epoch."""
        return self._latest

    @property
    def first(self) -> int:
        """The oldest epoch that can still be read."""
        return self._log.first

    def epochs(self, first: int = 0, last: int | None = None) -> Iterator[Epoch]:
        """Sealed epochs in [first, last), oldest first."""
        return self._log.range(first, last)

    def epoch(self, number: int) -> Epoch:
        return self._log.read(number)

    def head(self, number: int) -> Epoch:
        """An epoch without its changes of queries."""
        return self._log.head(number)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Nothing is sealed and no epoch expires in the block."""
        with self._lock:
            yield

    def seal(self, max_epoch_rows: int = DEFAULT_MAX_EPOCH_ROWS) -> Epoch | None:
        """Seal the next epoch and let its changes take effect; None when nothing is pending.

        It takes all flushed changelogs, and chunks in arrival order while they fit into `max_epoch_rows`, but
        at least one. Costs one small file, and one column of those chunks that may hold late tuples.
        """
        return self._seal(max_epoch_rows, even_empty=False)

    def drop_stream(self, name: str) -> Stream:
        """End a stream with the next epoch; refused while live queries read it.

        Query changes so far are flushed. So a query whose drop was asked for ends in that epoch too, which says how far
        its windows had closed. What arrives for the stream later is passed over.
        """
        with self._lock:
            self._catalog.flush()
            return self._catalog.drop_stream(name, self._next_id() + 1)

    def _next_id(self) -> EpochId:
        return EpochId(0 if self._latest is None else self._latest.id + 1)

    def create_stream(self, stream: Stream, source: Mapping[str, Any] | None = None) -> None:
        """Define a stream. One that takes the name of a dropped one inherits nothing: no watermark and no rows."""
        with self._lock:
            ended = self._catalog.stream_ended(stream.name)
            if ended is not None and not self._catalog.has_stream(stream.name):
                while self._next_id() <= ended or self._remembers(stream.name):
                    self._seal(DEFAULT_MAX_EPOCH_ROWS, even_empty=True)
                self._arrivals.forget(stream.name)
            self._catalog.create_stream(stream, source)

    def _remembers(self, name: str) -> bool:
        """Whether the newest epoch, or something that arrived since, is still of a stream of this name."""
        named = {arrival.stream for arrival in self._arrivals.pending()}
        named |= {inflow.stream for inflow in self._latest.streams} if self._latest else set()
        return name.lower() in {str(stream).lower() for stream in named}

    def _seal(self, max_epoch_rows: int, *, even_empty: bool) -> Epoch | None:
        with self._lock:
            changelogs = self._catalog.unsealed()
            taken = take(self._arrivals.pending(), self._latest, max_epoch_rows)
            if not changelogs and not taken.inflows and not even_empty:
                return None
            now = self._clock.now()
            epoch = Epoch(
                id=self._next_id(),
                streams=tuple(
                    self._stream_epoch(stream, taken.inflows.get(stream.name), now)
                    for stream in self._catalog.streams(self._next_id())
                ),
                changes=tuple(change for log in changelogs for change in log.changes),
                sealed_at=now,
                last_arrival=taken.last_arrival,
                last_changelog=changelogs[-1].number if changelogs else self._catalog.last_changelog,
                next_chunk=taken.next_chunk,
            )
            with uninterrupted():
                faults.reach("seal.before")
                self._log.write(epoch)
                faults.reach("seal.after")
                self._catalog.apply(epoch)  # first: whoever sees the epoch asks who lives in it
                self._latest = epoch
                self._arrivals.sealed(epoch)
            return epoch

    def _stream_epoch(self, stream: Stream, inflow: _Gathered | None, now: float) -> StreamEpoch:
        before = None if self._latest is None else self._latest.of(stream.name)
        closed_us = NEVER_US if before is None else before.watermark_us
        batch = None if before is None else before.batch
        oddities, total = (Oddities(), (0, 0)) if before is None else (before.oddities, before.total)
        if inflow is None:
            return StreamEpoch(
                stream.name, (), closed_us, closed_us, batch=batch, oddities=oddities, total=total
            )
        limit_us = FOREVER_US if stream.max_ahead_us is None else int(now * 1e6) + stream.max_ahead_us
        reached = [reach_up_to(self._warehouse, chunk, stream, limit_us) for chunk in inflow.chunks]
        seen = [reach.newest_us for reach in reached if reach.newest_us is not None]
        watermark_us = next_watermark(closed_us, seen, stream.watermark_us)
        if inflow.marked:
            watermark_us = closed_us if inflow.mark_us is None else max(closed_us, inflow.mark_us)
        late = sum(count_before(self._warehouse, chunk, stream, closed_us) for chunk in inflow.chunks)
        return StreamEpoch(
            stream.name,
            tuple(inflow.chunks),
            closed_us,
            FOREVER_US if inflow.close else watermark_us,
            late,
            batch=(inflow.batch.source, inflow.batch.number) if inflow.batch else batch,
            oddities=add_oddities(oddities, inflow.chunks, reached),
            total=(total[0] + sum(chunk.rows for chunk in inflow.chunks), total[1] + late),
        )

    def pack(self, before: int, more_than: int = 256) -> None:
        """Turn the small records of epochs before `before` into one file, when there are `more_than`."""
        with self._lock:
            self._log.pack(before, more_than=more_than)

    def expire(self, before: int) -> None:
        """Forget epochs before `before` and remove their chunks, except adopted files, which are not ours.

        The newest epoch always stays: it holds the watermarks.
        """
        with self._lock:
            if self._latest is None:
                return
            before = min(before, int(self._latest.id))
            if before <= self._log.first:
                return
            self._catalog.checkpoint()
            with uninterrupted():
                self._log.note_expired(before)
            self._log.tidy()


def next_watermark(closed_us: int, seen_us: Iterable[int], delay_us: int) -> int:
    """W(e) from W(e-1) and the event times seen in e.

    >>> next_watermark(90, [120, 30], 10), next_watermark(200, [120], 10), next_watermark(90, [], 10)
    (110, 200, 90)
    """
    return max((closed_us, *(us - delay_us for us in seen_us)))


def add_oddities(before: Oddities, chunks: Iterable[Chunk], reached: Iterable[Reach]) -> Oddities:
    """What is odd in all epochs up to one with these chunks."""
    ahead = before.ahead
    spans = [] if before.ahead_us is None else [before.ahead_us]
    for reach in reached:
        ahead += reach.ahead
        spans += [] if reach.ahead_us is None else [reach.ahead_us]
    nulls, corrupt = before.null_times, before.corrupt
    for chunk in chunks:
        nulls, corrupt = nulls + chunk.null_times, corrupt + chunk.corrupt
    span = (min(low for low, _ in spans), max(high for _, high in spans)) if spans else None
    return Oddities(nulls, corrupt, ahead, span)


def take(pending: tuple[Arrival, ...], latest: Epoch | None, max_rows: int) -> _Taken:
    """The oldest pending chunks, as many as fit into `max_rows` but at least one, and closings."""
    taken = _Taken(-1, 0) if latest is None else _Taken(latest.last_arrival, latest.next_chunk)
    for arrival in pending:
        inflow = taken.inflows.get(arrival.stream, _Gathered())
        for chunk in arrival.chunks[taken.next_chunk :]:
            if taken.rows and taken.rows + chunk.rows > max_rows:
                return taken
            taken.inflows[arrival.stream] = inflow
            inflow.chunks.append(chunk)
            inflow.marked = inflow.marked or arrival.mark_us is not None
            taken.rows += chunk.rows
            taken.next_chunk += 1
        taken.inflows[arrival.stream] = inflow
        inflow.close = inflow.close or arrival.close
        if arrival.mark_us is not None:
            inflow.marked, inflow.mark_us = True, arrival.mark_us
        inflow.batch = arrival.batch or inflow.batch
        taken.last_arrival, taken.next_chunk = arrival.number, 0
    return taken
