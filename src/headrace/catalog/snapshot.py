"""What is written of the catalog: batches of query changes, and snapshots that replace them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.catalog.queries import QueryEntry
from headrace.model import codec
from headrace.model.epoch import Change
from headrace.model.grouping import GroupSpec

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
