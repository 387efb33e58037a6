"""Arrivals: the durable order in which chunks came, before an epoch takes them in.

    log/arrivals/%012d.json    one arrival: a stream, its new chunks, or the word that it is closed

One global order over all streams. The record is what makes chunks count; a chunk file without one is an
orphan. Once an epoch is sealed it holds the chunks itself, and the arrivals it took are removed.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.log.epochs import EPOCHS, EpochLog
from headrace.model import codec
from headrace.model.epoch import FOREVER_US, Chunk, Epoch
from headrace.model.errors import LogError, StorageError
from headrace.model.query import StreamName
from headrace.storage import faults
from headrace.storage.interrupts import uninterrupted
from headrace.storage.warehouse import Warehouse

ARRIVALS = "log/arrivals"


@dataclass(frozen=True, slots=True)
class Batch:
    """Identity of a source's batch: the ingest that delivered it, and its number there, ascending."""

    source: str
    number: int


@dataclass(frozen=True, slots=True)
class Arrival:
    number: int
    stream: StreamName
    chunks: tuple[Chunk, ...]
    batch: Batch | None = None
    close: bool = False
    mark_us: int | None = None
    """What the watermark becomes with this arrival, for streams whose maker knows it."""


codec.register(Arrival, Batch)


class Arrivals:
    """Arrivals that no epoch holds yet, recovered on open. Thread-safe."""

    def __init__(self, warehouse: Warehouse, epochs: EpochLog | None = None) -> None:
        self._warehouse = warehouse
        self._lock = threading.RLock()
        epochs = epochs or EpochLog(warehouse)
        epochs.need(warehouse.mark(EPOCHS))
        latest = epochs.latest()
        sealed = -1 if latest is None else latest.last_arrival
        self._batches: dict[str, Batch] = {}
        self._closed: set[str] = set()
        if latest is not None:
            self._batches = {inflow.stream: Batch(*inflow.batch) for inflow in latest.streams if inflow.batch}
            self._closed = {inflow.stream for inflow in latest.streams if inflow.watermark_us == FOREVER_US}
        self._pending: list[Arrival] = []
        self._next = sealed + 1
        for number in warehouse.sequence(ARRIVALS, sealed + 1):
            self._note(warehouse.read_record(ARRIVALS, number, kind="arrival"))

    def _note(self, arrival: Arrival) -> None:
        self._pending.append(arrival)
        self._next = arrival.number + 1
        if arrival.batch is not None:
            self._batches[arrival.stream] = arrival.batch
        if arrival.close:
            self._closed.add(arrival.stream)

    @property
    def next_number(self) -> int:
        """The number that the next arrival gets; no later chunk belongs to an earlier one."""
        return self._next

    def add(
        self,
        stream: StreamName,
        chunks: Iterable[Chunk] = (),
        *,
        batch: Batch | None = None,
        close: bool = False,
        mark_us: int | None = None,
    ) -> Arrival | None:
        """Let chunks count, durably; None, changing nothing, when this batch has arrived before."""
        with uninterrupted(), self._lock:
            if batch is not None and self.has(stream, batch):
                return None
            if stream in self._closed:
                raise LogError(
                    "STREAM_CLOSED",
                    f"stream `{stream}` is closed",
                    hint="create another stream for more input",
                )
            arrival = Arrival(self._next, stream, tuple(chunks), batch, close, mark_us)
            faults.reach("arrival.before")
            if not self._warehouse.put_record(ARRIVALS, arrival.number, arrival, kind="arrival"):
                raise StorageError(
                    "ARRIVAL_EXISTS",
                    f"arrival {arrival.number} of {self._warehouse.root} was written by somebody else",
                    hint="make sure that one process writes to a warehouse",
                )
            faults.reach("arrival.after")
            self._note(arrival)
            return arrival

    def recorded(self, chunks: Sequence[Chunk]) -> bool:
        """Whether some arrival on disk names one of these chunks (asked after a failure only)."""
        wanted = {chunk.path for chunk in chunks}
        with self._lock:
            for number in self._warehouse.records(ARRIVALS):
                found: Arrival = self._warehouse.read_record(ARRIVALS, number, kind="arrival")
                if wanted & {chunk.path for chunk in found.chunks}:
                    return True
            return False

    def close(self, stream: StreamName) -> None:
        """Say that a stream gets no more input; saying it again changes nothing."""
        with self._lock:
            if stream not in self._closed:
                self.add(stream, close=True)

    def closed(self, stream: StreamName) -> bool:
        with self._lock:
            return stream in self._closed

    def has(self, stream: StreamName, batch: Batch) -> bool:
        """Whether this batch, or a later one of the same ingest, has arrived."""
        with self._lock:
            last = self._batches.get(stream)
            return last is not None and last.source == batch.source and batch.number <= last.number

    def batch(self, stream: StreamName) -> Batch | None:
        """The last batch that arrived for a stream."""
        with self._lock:
            return self._batches.get(stream)

    def forget(self, stream: StreamName) -> None:
        """Let another stream have the name: it is not closed, and no batch of it has arrived."""
        with self._lock:
            for known in [name for name in (*self._batches, *self._closed) if name.lower() == stream.lower()]:
                self._batches.pop(known, None)
                self._closed.discard(known)
            # what sources have read is remembered beside the chunks; the chunks stay for results that came of them
            for path in sorted(self._warehouse.path(self._warehouse.stream_dir(stream)).glob("*")):
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.suffix == ".json":
                    path.unlink()

    def pending(self) -> tuple[Arrival, ...]:
        """Arrivals not wholly in an epoch, oldest first."""
        with self._lock:
            return tuple(self._pending)

    def sealed(self, epoch: Epoch) -> None:
        """Drop the arrivals that `epoch` took in; it holds their chunks now."""
        with self._lock:
            self._pending = [arrival for arrival in self._pending if arrival.number > epoch.last_arrival]
            for number in self._warehouse.records(ARRIVALS):
                if number <= epoch.last_arrival:
                    self._warehouse.delete_record(ARRIVALS, number)
