"""What is written of the catalog: batches of query changes, and snapshots that replace them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.catalog.queries import QueryEntry
from headrace.model import codec
from headrace.model.epoch import Change
from headrace.model.grouping import GroupSpec
from headrace.model.pieces import Reader, Writer, register_pieces
from headrace.storage.envelope import lines_envelope, open_envelope, open_lines
from headrace.storage.warehouse import Warehouse

CHANGELOG = "catalog/changelog"
SNAPSHOT = "catalog/snapshot.json"


@dataclass(frozen=True, slots=True)
class Changelog:
    """One durable batch of changes, in the order they were asked for."""

    number: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that epochs up to `epoch` and changelogs up to `changelog` made, and the batches of the archive.

    Regroupings up to number `regrouping` are in it: where queries live, and (epoch, spec) of every group. `freed` are
    the free slots, each with the first epoch in which nobody held it.
    """

    epoch: int
    changelog: int
    next_id: int
    entries: tuple[QueryEntry, ...]
    archives: tuple[int, ...] = ()
    regrouping: int = -1
    specs: tuple[tuple[int, GroupSpec], ...] = ()
    freed: tuple[tuple[int, int], ...] = ()


codec.register(Changelog, Snapshot)
register_pieces(QueryEntry)

NOTHING = Snapshot(-1, -1, 1, ())


class SnapshotFile:
    """Where the snapshot is. Writing it again costs what is new in it, however many queries there are."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse, self._writer = warehouse, Writer()

    def read(self) -> Snapshot:
        """The snapshot that was written last; of none, that of a warehouse without anything."""
        if not self._warehouse.exists(SNAPSHOT):
            return NOTHING
        data, path = self._warehouse.read(SNAPSHOT), self._warehouse.path(SNAPSHOT)
        if b"\n" in data:
            found: Snapshot = open_lines(data, _KIND, path, Reader().read)
        else:  # older versions wrote one JSON value
            found = open_envelope(data, _KIND, path)
        return found

    def write(self, snapshot: Snapshot) -> None:
        self._warehouse.replace(SNAPSHOT, lines_envelope(_KIND, self._writer.write(snapshot)))


_KIND = "catalog-snapshot"
