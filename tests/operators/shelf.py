"""State as commits name it: parts of immutable files, for groups that are partitioned anew and exchange queries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from headrace.engine.references import ordered_references, owned_references, portion_of
from headrace.model.partitioning import KEY_GROUPS, Partitioning, even_partitioning
from headrace.model.state import SegmentFile
from headrace.operators.common.bundle import pack_bundle, read_bundle
from headrace.operators.common.placing import Portion

State = TypeVar("State")


class Shelf:
    """What one group holds. Several groups may share `files`."""

    def __init__(self, partitions: int = 3, files: dict[str, bytes] | None = None) -> None:
        self.files = {} if files is None else files
        self.partitioning = even_partitioning(partitions)
        self.references: list[SegmentFile] = []

    def blobs(self) -> dict[int, list[bytes]]:
        """Nothing yet for any partition."""
        return {partition: [] for partition in range(self.partitioning.partitions)}

    def held(self, operator: str, partition: int) -> list[SegmentFile]:
        mine = ordered_references(r for r in self.references if r.operator == operator)
        return list(owned_references(mine, self.partitioning, partition))

    def load(
        self, references: Sequence[SegmentFile], read: Callable[[Any, str, Portion], State | None]
    ) -> list[State]:
        found = (read(read_bundle(self.files[r.path]), r.operator, portion_of(r)) for r in references)
        return [state for state in found if state is not None]

    def write(self, operator: str, partition: int, items: Any, last_end_us: int) -> SegmentFile:
        path = f"file{len(self.files)}"
        self.files[path] = pack_bundle(items)
        owned = self.partitioning.owned(partition)
        return SegmentFile(operator, path, 0, 0, last_end_us, key_groups=owned)

    def settle(self, operator: str, references: Iterable[SegmentFile]) -> None:
        """What the operator holds after an epoch."""
        others = [r for r in self.references if r.operator != operator]
        self.references = [*others, *references]

    def give(self, other: Shelf, queries: Iterable[int]) -> None:
        """Queries move to another group, with their state."""
        moving = list(queries)
        other.references += [part for r in self.references if (part := r.of_queries(moving)) is not None]
        self.references = [rest for r in self.references if (rest := r.but(moving)) is not None]


def random_partitioning(rng: random.Random) -> Partitioning:
    """Some partitions, with key groups as they come."""
    partitions = rng.randint(1, 5)
    table = [*range(partitions), *(rng.randrange(partitions) for _ in range(KEY_GROUPS - partitions))]
    rng.shuffle(table)
    return Partitioning(tuple(table))


class Groups:
    """Two groups, if anything changes at all: queries move to and fro, and both are partitioned anew now and then."""

    def __init__(self, rng: random.Random, changes: bool, partitions: int = 3) -> None:
        self._rng, self._changes = rng, changes
        files: dict[str, bytes] = {}
        self.shelves = [Shelf(partitions, files) for _ in range(2 if changes else 1)]
        self._home: dict[int, int] = {}
        self.moves = 0

    def home(self, query: int) -> int:
        """The group that a query is in."""
        if query not in self._home:
            self._home[query] = self._rng.randrange(2) if self._changes else 0
        return self._home[query]

    def change(self, active: Iterable[int]) -> list[int]:
        """Between two epochs: perhaps other partitionings, and perhaps some queries move. Those that did."""
        if not self._changes:
            return []
        rng, moved = self._rng, list[int]()
        for shelf in self.shelves:
            if rng.random() < 0.5:
                shelf.partitioning = random_partitioning(rng)
        living = list(active)
        for old in (0, 1):
            mine = [query for query in living if self.home(query) == old and query not in moved]
            leaving = [query for query in mine if rng.random() < 0.5]
            if leaving and rng.random() < 0.7:
                self.shelves[old].give(self.shelves[1 - old], leaving)
                self._home.update(dict.fromkeys(leaving, 1 - old))
                moved += leaving
        self.moves += len(moved)
        return moved
