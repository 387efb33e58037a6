"""What commits and regroupings say of state: which part of which segment file counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.model import codec
from headrace.model.partitioning import ALL_KEY_GROUPS, Ranges, intersect_ranges, ranges_of


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """What a commit takes from a segment file: the state of some key groups and some queries of one operator.

    A file is immutable and may be named by several commits, of several groups, each for a part of it. `key_groups` are
    those that count; `narrowed` says that the file has others too. Of its queries, those in `only` count (None: all)
    that are not in `without`. `level` counts merges; `last_end_us` is when the last window that needs it ends.
    """

    operator: str
    path: str
    bytes: int
    level: int
    last_end_us: int
    checksum: int | None = None
    key_groups: Ranges = ALL_KEY_GROUPS
    narrowed: bool = False
    only: tuple[int, ...] | None = None
    without: tuple[int, ...] = ()

    def of_key_groups(self, wanted: Ranges) -> SegmentFile | None:
        """The same for fewer key groups; None when none of them is left."""
        left = intersect_ranges(self.key_groups, wanted)
        if left == self.key_groups:
            return self
        return replace(self, key_groups=left, narrowed=True) if left else None

    def with_key_groups(self, other: SegmentFile) -> SegmentFile:
        """The same for the key groups of both; the other one differs from this one in key groups alone."""
        both = (g for low, high in (*self.key_groups, *other.key_groups) for g in range(low, high))
        return replace(self, key_groups=ranges_of(both), narrowed=self.narrowed or other.narrowed)

    def of_queries(self, queries: Iterable[int]) -> SegmentFile | None:
        """The same for some queries alone; None when none of them counts here."""
        wanted = {int(query) for query in queries} - set(self.without)
        if self.only is not None:
            wanted &= set(self.only)
        return replace(self, only=tuple(sorted(wanted)), without=()) if wanted else None

    def but(self, queries: Iterable[int]) -> SegmentFile | None:
        """The same without some queries; None when no other one counts here."""
        gone = {int(query) for query in queries}
        if self.only is None:
            return replace(self, without=tuple(sorted({*self.without, *gone})))
        left = tuple(query for query in self.only if query not in gone)
        return replace(self, only=left) if left else None


codec.register(SegmentFile)
