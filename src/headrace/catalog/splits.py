"""The durable list of splits: a record for each that came, changed or went."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from headrace.model.errors import CatalogError, StorageError, did_you_mean
from headrace.model.splits import Split, SplitDrop
from headrace.sql.text.names import quote_name
from headrace.storage.warehouse import Warehouse

SPLITS = "catalog/splits"


class SplitTable:
    """Splits by name, in any case of letters. Thread-safe."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.RLock()
        self._splits: dict[int, Split] = {}
        self._dropped: list[Split] = []
        self._next = 0
        for number in warehouse.sequence(SPLITS, 0):
            self._note(warehouse.read_record(SPLITS, number, kind="split"))
            self._next = number + 1

    def _note(self, record: Split | SplitDrop) -> None:
        if isinstance(record, Split):
            self._splits[record.id] = record
        else:
            self._dropped.append(self._splits.pop(record.id))

    @property
    def next_id(self) -> int:
        """The number that the next split gets."""
        return self._next

    def add(self, split: Split) -> None:
        """Remember a split, durably."""
        with self._lock:
            if self.find(split.name) is not None:
                raise CatalogError("SPLIT_EXISTS", f"there is already a split `{split.name}`")
            self._write(split)

    def alter(self, split: Split) -> None:
        """Remember that a split is another one from now on, durably. Its number says which."""
        with self._lock:
            if split.id not in self._splits:
                raise CatalogError("SPLIT_UNKNOWN", f"there is no split `{split.name}`")
            self._write(split)

    def drop(self, split: Split) -> None:
        """Forget a split, durably."""
        with self._lock:
            self._write(SplitDrop(split.id))

    def _write(self, record: Split | SplitDrop) -> None:
        if not self._warehouse.put_record(SPLITS, self._next, record, kind="split"):
            raise StorageError(
                "SPLIT_RECORD_EXISTS",
                f"split record {self._next} of {self._warehouse.root} was written by somebody else",
                hint="make sure that one process writes to a warehouse",
            )
        self._next += 1
        self._note(record)

    def all(self) -> tuple[Split, ...]:
        """Every split, oldest first."""
        with self._lock:
            return tuple(self._splits.values())

    def dropped(self) -> tuple[Split, ...]:
        with self._lock:
            return tuple(self._dropped)

    def find(self, name: str) -> Split | None:
        return next((split for split in self.all() if split.name.lower() == name.lower()), None)

    def get(self, name: str) -> Split:
        """A split by name; CatalogError when there is none."""
        found = self.find(name)
        if found is None:
            known = [split.name for split in self.all()]
            raise CatalogError(
                "SPLIT_UNKNOWN",
                f"there is no split `{name}`",
                hint=did_you_mean(name, known) or "SHOW SPLITS lists them",
            )
        return found

    def using(self, stream: str) -> Iterator[Split]:
        """The splits that read a stream or write it."""
        for split in self.all():
            made = {output.name.lower() for output in split.outputs.values()}
            if split.stream.lower() == stream.lower() or stream.lower() in made:
                yield split

    def maker(self, stream: str) -> Split | None:
        """The split whose output a stream is; None for any other stream."""
        return next((split for split in self.using(stream) if split.stream.lower() != stream.lower()), None)

    def check_unused(self, stream: str) -> None:
        """CatalogError when a split reads or writes a stream."""
        for split in self.using(stream):
            does = "read" if split.stream.lower() == stream.lower() else "written"
            raise CatalogError(
                "STREAM_IN_USE",
                f"stream `{stream}` is {does} by split `{split.name}`",
                hint=f"drop the split first: DROP SPLIT {quote_name(split.name)}",
            )

    def check_fed_by_hand(self, stream: str) -> None:
        """CatalogError when only a split may add tuples to a stream, or close it."""
        if (split := self.maker(stream)) is not None:
            raise CatalogError(
                "STREAM_OF_SPLIT",
                f"stream `{stream}` is the output of split `{split.name}`, which alone feeds and closes it",
                hint=f"append to `{split.stream}`, which the split reads, or drop the split",
            )
