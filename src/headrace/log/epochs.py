"""Sealed epochs on disk: one record each, old ones packed, oldest ones expired.

    epochs/%012d.json            one epoch
    epochs/pack-<first>-<last>.json   many, both ends included
    epochs/expired.json          epochs before this one are gone, or about to be

A pack is written before its single records are removed. Expiry is noted before anything is removed, and a
record goes after the chunks it names: a crash leaves only extra files, which the next writer removes.
"""

from __future__ import annotations

import dataclasses
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator

from headrace.model.epoch import Epoch
from headrace.model.errors import StorageError
from headrace.storage import faults
from headrace.storage.warehouse import Warehouse, record_name

EPOCHS = "epochs"
EXPIRED = "epochs/expired.json"

PACKS = 4
"""So many packs are kept in memory: as many as groups run side by side."""

RECENT, HEADS = 4, 4096
"""So many epochs that were written or read last are kept whole, and so many without the changes of queries."""

_PACK = re.compile(r"pack-(\d{12})-(\d{12})\.json")


class EpochLog:
    """The sealed epochs of a warehouse. Reads what it needs when it needs it; keeps the packs that were read last in
    memory, for several groups may catch up at once, each in another pack.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.RLock()
        self._cached: OrderedDict[tuple[int, int], tuple[Epoch, ...]] = OrderedDict()
        self._recent: OrderedDict[int, Epoch] = OrderedDict()
        self._heads: OrderedDict[int, Epoch] = OrderedDict()
        self._first = self._read_first()

    def _read_first(self) -> int:
        if not self._warehouse.exists(EXPIRED):
            return 0
        return int(self._warehouse.read_value(EXPIRED, "expired")["before"])

    @property
    def first(self) -> int:
        """The oldest epoch that can still be read."""
        return self._first

    def last(self) -> int:
        """The newest sealed epoch; -1 before any."""
        singles = self._warehouse.records(EPOCHS)
        packs = self._packs()
        return max([*singles[-1:], *(last for _, last in packs), -1])

    def latest(self) -> Epoch | None:
        last = self.last()
        return self.read(last) if last >= 0 else None

    def need(self, number: int) -> None:
        """Refuse to go on when epoch `number`, which is known to have been sealed, is newer than all that is
        here: what it sealed would be taken for orphans.
        """
        if number > (last := self.last()):
            raise StorageError(
                "EPOCH_MISSING",
                f"{self._warehouse.path(record_name(EPOCHS, number))} is missing",
                detail=f"epoch {number} was sealed, but the newest record found is {last}",
                hint="restore it from a copy of the warehouse",
            )

    def write(self, epoch: Epoch) -> None:
        """Seal `epoch`: durable, and never again another content under that id."""
        if not self._warehouse.put_record(EPOCHS, epoch.id, epoch, kind="epoch"):
            raise StorageError(
                "EPOCH_EXISTS",
                f"epoch {epoch.id} of {self._warehouse.root} was sealed by somebody else",
                hint="make sure that one process writes to a warehouse",
            )
        self._remember(epoch)

    def _remember(self, epoch: Epoch) -> None:
        with self._lock:
            for kept, found, most in (
                (self._recent, epoch, RECENT),
                (self._heads, dataclasses.replace(epoch, changes=()), HEADS),
            ):
                kept[int(epoch.id)] = found
                kept.move_to_end(int(epoch.id))
                while len(kept) > most:
                    kept.popitem(last=False)

    def head(self, number: int) -> Epoch:
        """A sealed epoch without the changes of queries in it, of which there may be thousands; errors as of `read`."""
        with self._lock:
            found = self._heads.get(number) if number >= self._first else None
        return found or dataclasses.replace(self.read(number), changes=())

    def read(self, number: int) -> Epoch:
        """A sealed epoch, wherever its record is by now; StorageError when it is expired or missing."""
        with self._lock:
            if number >= self._first and number in self._recent:
                return self._recent[number]
            for (first, last), epochs in reversed(self._cached.items()):
                if first <= number <= last:
                    self._cached.move_to_end((first, last))
                    return epochs[number - first]
        # A writer may pack or expire while we read: a record that is gone is looked for once more.
        found = self._find(number) or self._find(number) or self._missing(number)
        self._remember(found)
        return found

    def _find(self, number: int) -> Epoch | None:
        if number < self._first:
            return None
        try:
            if self._warehouse.exists(record_name(EPOCHS, number)):
                found: Epoch = self._warehouse.read_record(EPOCHS, number, kind="epoch")
                return found
            return self._read_packed(number)
        except StorageError as error:
            if error.code != "FILE_MISSING":
                raise
            return None

    def _missing(self, number: int) -> Epoch:
        self._first = self._read_first()
        if number < self._first:
            raise StorageError(
                "EPOCH_EXPIRED",
                f"epoch {number} is expired; the oldest kept is {self._first}",
                hint="keep more with a longer retention",
            )
        # Raises the error for a missing file, and names it.
        missing: Epoch = self._warehouse.read_record(EPOCHS, number, kind="epoch")
        return missing

    def _read_packed(self, number: int) -> Epoch | None:
        for first, last in self._packs():
            if first <= number <= last:
                epochs = self._warehouse.read_value(_pack_name(first, last), "epoch-pack")
                with self._lock:
                    self._cached[first, last] = epochs
                    if len(self._cached) > PACKS:
                        self._cached.popitem(last=False)
                found: Epoch = epochs[number - first]
                return found
        return None

    def range(self, first: int, last: int | None = None) -> Iterator[Epoch]:
        """Epochs in [first, last), oldest first; all that follow `first` when `last` is None."""
        end = self.last() + 1 if last is None else last
        for number in range(first, end):
            yield self.read(number)

    def pack(self, before: int, *, more_than: int = 256) -> None:
        """Turn the single records of epochs before `before` into one file, when there are `more_than` of
        them.
        """
        singles = [number for number in self._warehouse.records(EPOCHS) if self._first <= number < before]
        if len(singles) <= more_than:
            return
        # All numbers in between, not only those found: a hole is an error that names the missing record.
        epochs = tuple(self.range(singles[0], singles[-1] + 1))
        self._write_pack(epochs)
        self.tidy()

    def _write_pack(self, epochs: tuple[Epoch, ...]) -> None:
        faults.reach("pack.before")
        name = _pack_name(epochs[0].id, epochs[-1].id)
        self._warehouse.replace_value(name, "epoch-pack", epochs)
        faults.reach("pack.after")

    def note_expired(self, before: int) -> None:
        """From now on, no epoch before `before` can be read; `tidy` removes their chunks and records."""
        if before > self._first:
            faults.reach("expire.before")
            self._warehouse.replace_value(EXPIRED, "expired", {"before": before})
            self._first = before
            faults.reach("expire.noted")

    def tidy(self) -> None:
        """Remove what packs or expiry made superfluous: records, and the chunks of expired epochs."""
        with self._lock:
            self._cached.clear()
            self._recent.clear()
            self._heads.clear()
        packs = self._packs()
        for first, last in packs:
            if first >= self._first:
                continue
            epochs = self._warehouse.read_value(_pack_name(first, last), "epoch-pack")
            self._remove_chunks(epochs[: self._first - first])
            if last >= self._first:
                self._write_pack(epochs[self._first - first :])
            self._warehouse.delete(_pack_name(first, last))
        for number in self._warehouse.records(EPOCHS):
            packed = any(first <= number <= last for first, last in packs)
            if number < self._first and not packed:
                self._remove_chunks((self._warehouse.read_record(EPOCHS, number, kind="epoch"),))
            if number < self._first or packed:
                self._warehouse.delete_record(EPOCHS, number)

    def _remove_chunks(self, epochs: tuple[Epoch, ...]) -> None:
        """The chunk files of expired epochs; adopted files are not ours."""
        for epoch in epochs:
            for inflow in epoch.streams:
                for chunk in inflow.chunks:
                    if not chunk.path.startswith("/"):
                        self._warehouse.delete(chunk.path)
            faults.reach("expire.chunks")

    def _packs(self) -> list[tuple[int, int]]:
        try:
            names = os.listdir(self._warehouse.path(EPOCHS))
        except FileNotFoundError:
            return []
        found = [match for name in names if (match := _PACK.fullmatch(name))]
        return sorted((int(match.group(1)), int(match.group(2))) for match in found)


def _pack_name(first: int, last: int) -> str:
    return f"{EPOCHS}/pack-{first:012d}-{last:012d}.json"
