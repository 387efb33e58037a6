"""The books of a source's files: which were taken and which were set aside, durably.

    log/<stream>/files/%012d.json    the files that one batch took, written just before its arrival
    log/<stream>/files.json          the files that all batches before some number took, as far as they still exist
    log/<stream>/aside.json          the files that could not be read, and why
    log/<stream>/counted.json        how many files were taken, where Spark remembers which

A batch counts when its arrival is there; files of a batch that has none are taken again. Its record is left as it is:
the next batch has the same number, and writes its own record over it before it arrives.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.health import SetAside
from headrace.log.arrivals import Arrivals, Batch
from headrace.log.listing import Found, Stamp, look_at
from headrace.model import codec
from headrace.model.query import Stream
from headrace.storage.warehouse import Warehouse, record_name

IDENTITY = "folder"
MERGE_RECORDS = 64
"""So many records of batches are merged into one."""

UNKNOWN: Stamp = (-1, -1)
"""The stamp of a file that an older version took."""

MAX_GONE = 1000
"""Files that were set aside and are gone since are listed still, so many of them."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Paths of files that were taken, and their stamps then; `until` is the number after the last batch's.

    `count` is how many files all batches have taken so far, also of those that are gone. Records of older versions
    have neither stamps nor a count.
    """

    files: tuple[str, ...]
    until: int
    stamps: tuple[tuple[int, int], ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class AsideFile:
    """A file that could not be read, as it was then: one that has changed since is tried again."""

    path: str
    reason: str
    at: float
    stamp: tuple[int, int]
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Counted:
    """So many files were taken with the batch `number` of the ingest `source`, and so many before it."""

    source: str
    number: int
    before: int
    count: int


codec.register(Taken, AsideFile, Counted)


class AsideList:
    """Files of one stream's source that could not be read. Thread-safe; a reader sees those of when it was made."""

    def __init__(self, warehouse: Warehouse, stream: Stream) -> None:
        self._warehouse, self._stream = warehouse, stream
        self._name = f"{warehouse.stream_dir(stream.name)}/aside.json"
        self._lock = threading.Lock()
        known = warehouse.read_value(self._name, "aside") if warehouse.exists(self._name) else ()
        self._files: dict[str, AsideFile] = {file.path: file for file in known}

    def add(self, files: Iterable[AsideFile]) -> None:
        """Set files aside, durably."""
        with self._lock:
            wanted = self._files | {file.path: file for file in files}
            gone = [path for path in wanted if look_at(path) is None] if len(wanted) > MAX_GONE else []
            for path in gone[:-MAX_GONE]:
                del wanted[path]
            self._write(wanted)

    def discard(self, paths: Iterable[str]) -> None:
        """These were mended and taken."""
        with self._lock:
            mended = self._files.keys() & set(paths)
            if mended:
                self._write({path: file for path, file in self._files.items() if path not in mended})

    def _write(self, files: dict[str, AsideFile]) -> None:
        self._warehouse.replace_value(self._name, "aside", tuple(files.values()))
        self._files = files

    def holds(self, found: Found) -> bool:
        """Whether this file was set aside and is still the same."""
        with self._lock:
            known = self._files.get(found.path)
            return known is not None and (known.stamp, known.changed_ns) == (found.stamp, found.changed_ns)

    def __len__(self) -> int:
        return len(self._files)

    def all(self) -> tuple[SetAside, ...]:
        """The oldest first."""
        with self._lock:
            return tuple(SetAside(self._stream.name, f.path, f.reason, f.at) for f in self._files.values())


class FileCount:
    """How many files Structured Streaming has brought into a stream; a batch that is replayed counts once."""

    def __init__(self, warehouse: Warehouse, stream: Stream) -> None:
        self._warehouse = warehouse
        self._name = f"{warehouse.stream_dir(stream.name)}/counted.json"
        known = warehouse.exists(self._name)
        self._last = warehouse.read_value(self._name, "counted") if known else Counted("", -1, 0, 0)

    @property
    def taken(self) -> int:
        return int(self._last.count)

    def add(self, batch: Batch, files: int) -> None:
        """Note the files of a batch, durably, before it arrives."""
        again = (self._last.source, self._last.number) == (batch.source, batch.number)
        before = self._last.before if again else self._last.count
        counted = Counted(batch.source, batch.number, before, before + files)
        self._warehouse.replace_value(self._name, "counted", counted)
        self._last = counted


class FolderBooks:
    """What the ingest of one directory has taken. Not thread-safe; the ingest guards it."""

    def __init__(self, warehouse: Warehouse, arrivals: Arrivals, stream: Stream) -> None:
        self._warehouse, self._arrivals, self._stream = warehouse, arrivals, stream
        self._base = f"{warehouse.stream_dir(stream.name)}/files"
        self._taken: dict[str, Stamp] = {}
        self._next = self.files_taken = 0
        self.aside = AsideList(warehouse, stream)
        self._recover()

    def _recover(self) -> None:
        if self._warehouse.exists(f"{self._base}.json"):
            self._add(self._warehouse.read_value(f"{self._base}.json", "taken"))
        for number in self._warehouse.records(self._base):
            arrived = self._arrivals.has(self._stream.name, Batch(IDENTITY, number))
            if arrived and number >= self._next:
                self._need(number == self._next)
                self._add(self._warehouse.read_record(self._base, number, kind="taken"))
        last = self._arrivals.batch(self._stream.name)
        self._need(last is None or last.source != IDENTITY or last.number < self._next)
        if self._warehouse.held:  # somebody may have died between taking a mended file and saying so
            self.aside.discard(self._taken)

    def _need(self, there: bool) -> None:
        """Refuse to go on without the record of a batch that has arrived: its files would be taken twice."""
        if self._warehouse.held and not there:
            raise self._warehouse.missing(self._base, self._next)

    def _add(self, record: Taken) -> None:
        stamps = record.stamps or (UNKNOWN,) * len(record.files)
        self._taken.update(zip(record.files, stamps, strict=True))
        self.files_taken = record.count or self.files_taken + len(record.files)
        self._next = record.until

    @property
    def batch(self) -> Batch:
        """The identity of the next batch."""
        return Batch(IDENTITY, self._next)

    def new(self, found: Iterable[Found]) -> list[Found]:
        """Those that were neither taken nor set aside as they are."""
        return [file for file in found if file.path not in self._taken and not self.aside.holds(file)]

    def changed(self, found: Iterable[Found]) -> list[Found]:
        """Those whose name was taken, but that are other files by now."""
        return [file for file in found if self._taken.get(file.path, UNKNOWN) not in (UNKNOWN, file.stamp)]

    def record(self, files: Sequence[Found]) -> Taken:
        """Write which files the next batch takes; it counts with its arrival. `note` comes after that."""
        names, stamps = tuple(file.path for file in files), tuple(file.stamp for file in files)
        record = Taken(names, self._next + 1, stamps, self.files_taken + len(files))
        self._warehouse.replace_value(record_name(self._base, self._next), "taken", record)
        return record

    def note(self, record: Taken) -> None:
        """The batch of this record has arrived."""
        self._add(record)
        self.aside.discard(record.files)

    def tidy(self, found: Iterable[Found]) -> None:
        """One record instead of many, without files that are gone, when there are many."""
        if self._next % MERGE_RECORDS or not self._warehouse.records(self._base):
            return
        kept = {file.path for file in found} & self._taken.keys()
        self._taken = {path: self._taken[path] for path in sorted(kept)}
        merged = Taken(tuple(self._taken), self._next, tuple(self._taken.values()), self.files_taken)
        self._warehouse.replace_value(f"{self._base}.json", "taken", merged)
        for number in self._warehouse.records(self._base):
            self._warehouse.delete_record(self._base, number)
