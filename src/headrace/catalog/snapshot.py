"""What is written of the catalog: batches of query changes, and snapshots that replace them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.catalog.queries import QueryEntry
from headrace.model import codec
from headrace.model.epoch import Change

CHANGELOG = "catalog/changelog"
SNAPSHOT = "catalog/snapshot.json"


@dataclass(frozen=True, slots=True)
class Changelog:
    """One durable batch of changes, in the order they were asked for."""

    number: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that epochs up to `epoch` and changelogs up to `changelog` made, and the batches of the archive."""

    epoch: int
    changelog: int
    next_id: int
    entries: tuple[QueryEntry, ...]
    archives: tuple[int, ...] = ()


codec.register(Changelog, Snapshot)
