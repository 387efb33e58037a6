"""Dropped queries whose results can still be read: kept apart, so that nothing that is written often holds them.

    catalog/archive/%012d.json    a batch: a few columns to find its queries by, and the queries themselves, packed

A query is archived when the commits no longer need it, and forgotten when its results are gone. The snapshot names the
batches that count. In memory there are only ids, names, lifetimes and counts of rows.
"""

from __future__ import annotations

import base64
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.catalog.queries import QueryEntry
from headrace.model import codec
from headrace.storage.warehouse import Warehouse, record_name

ARCHIVE = "catalog/archive"

BATCH = 200
"""A batch with fewer queries takes in more: that many are packed again at most."""

_UNPACKED = 16


@dataclass(frozen=True, slots=True)
class Archived:
    """A dropped query, and the rows it delivered."""

    entry: QueryEntry
    rows: int


@dataclass(frozen=True, slots=True)
class ArchiveBatch:
    """Queries side by side: ids, names, lifetimes and rows; `packed` holds the `Archived` values, compressed.

    Batches of older versions have no rows.
    """

    ids: tuple[int, ...]
    names: tuple[str, ...]
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]
    packed: str
    rows: tuple[int, ...] = ()


codec.register(Archived, ArchiveBatch)


class Archive:
    """The archived queries of a warehouse. Not thread-safe but for `read`; the catalog guards it."""

    def __init__(self, warehouse: Warehouse, numbers: Iterable[int]) -> None:
        self._warehouse = warehouse
        self._batches: dict[int, ArchiveBatch] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._newest: dict[str, int] = {}
        self._unpacked: OrderedDict[int, tuple[Archived, ...]] = OrderedDict()
        for number in numbers:
            self._note(number, warehouse.read_record(ARCHIVE, number, kind="archive"))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The batches that count."""
        return tuple(sorted(self._batches))

    def __contains__(self, query_id: int) -> bool:
        return query_id in self._places

    def get(self, query_id: int) -> Archived | None:
        place = self._places.get(query_id)
        return None if place is None else self._unpack(place[0])[place[1]]

    def rows(self, query_id: int) -> int | None:
        """How many rows an archived query delivered; None when it is not archived."""
        place = self._places.get(query_id)
        if place is None:
            return None
        number, at = place
        known = self._batches[number].rows
        return known[at] if known else self._unpack(number)[at].rows

    def newest(self, name: str) -> int | None:
        """The id of the youngest archived query of that name, in any case of letters."""
        return self._newest.get(name.lower())

    def names(self) -> Iterable[str]:
        """All names, in lower case."""
        return self._newest.keys()

    def read(self, number: int) -> tuple[Archived, ...]:
        """The queries of a batch, from disk. Any thread may call it; the batch may be gone by then."""
        batch: ArchiveBatch = self._warehouse.read_record(ARCHIVE, number, kind="archive")
        found: tuple[Archived, ...] = codec.loads(zlib.decompress(base64.b64decode(batch.packed)))
        return found

    def lifetimes(self) -> Iterator[tuple[int, int, int]]:
        """(id, first epoch, last epoch) of every archived query."""
        for batch in self._batches.values():
            yield from zip(batch.ids, batch.firsts, batch.lasts, strict=True)

    def add(self, queries: Sequence[Archived]) -> None:
        """Keep these queries, durably."""
        last = max(self._batches, default=-1)
        if last >= 0 and len(self._batches[last].ids) < BATCH:
            queries = [*self._unpack(last), *queries]
        else:
            last += 1
        for number, start in enumerate(range(0, len(queries), BATCH), start=last):
            self._write(number, queries[start : start + BATCH])

    def forget(self, ids: set[int]) -> None:
        """Keep these queries no longer."""
        for number in sorted({self._places[id_][0] for id_ in ids}):
            rest = [one for one in self._unpack(number) if one.entry.query.id not in ids]
            for id_ in self._batches.pop(number).ids:
                del self._places[id_]
            if rest:
                self._write(number, rest)
        self._newest = {}
        for batch in self._batches.values():
            self._note_names(batch)

    def tidy(self) -> None:
        """Remove the files of batches that no longer count; after the snapshot that says so."""
        for number in self._warehouse.records(ARCHIVE):
            if number not in self._batches:
                self._warehouse.delete_record(ARCHIVE, number)

    def _write(self, number: int, queries: Sequence[Archived]) -> None:
        entries = [one.entry for one in queries]
        batch = ArchiveBatch(
            tuple(int(entry.query.id) for entry in entries),
            tuple(entry.query.name for entry in entries),
            tuple(int(entry.first_epoch or 0) for entry in entries),
            tuple(int(entry.last_epoch or 0) for entry in entries),
            base64.b64encode(zlib.compress(codec.dumps(tuple(queries)))).decode(),
            tuple(one.rows for one in queries),
        )
        self._warehouse.replace_value(record_name(ARCHIVE, number), "archive", batch)
        self._unpacked.pop(number, None)
        self._note(number, batch)

    def _note(self, number: int, batch: ArchiveBatch) -> None:
        self._batches[number] = replace(batch, packed="")
        self._places |= {id_: (number, at) for at, id_ in enumerate(batch.ids)}
        self._note_names(batch)

    def _note_names(self, batch: ArchiveBatch) -> None:
        for id_, name in zip(batch.ids, batch.names, strict=True):
            key = name.lower()
            self._newest[key] = max(id_, self._newest.get(key, id_))

    def _unpack(self, number: int) -> tuple[Archived, ...]:
        if number not in self._unpacked:
            self._unpacked[number] = self.read(number)
            if len(self._unpacked) > _UNPACKED:
                self._unpacked.popitem(last=False)
        self._unpacked.move_to_end(number)
        return self._unpacked[number]
