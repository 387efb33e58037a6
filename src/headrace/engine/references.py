"""References: what a commit takes from segment files, and how partitions share it out and merge it.

A change of the partitioning, and a move of queries between groups, is nothing but other references to the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.model.partitioning import Partitioning
from headrace.model.state import SegmentFile
from headrace.operators.common.placing import Portion


def ordered_references(segments: Iterable[SegmentFile]) -> list[SegmentFile]:
    """The references as `absorb` takes them: each operator's by descending level, oldest first.

    References to one file that differ in key groups alone become one: after a change of the partitioning, several
    partitions name parts of a file, which may come together again.
    """
    found: dict[SegmentFile, SegmentFile] = {}
    for segment in segments:
        file = replace(segment, key_groups=(), narrowed=False)
        known = found.get(file)
        found[file] = segment if known is None else known.with_key_groups(segment)
    return sorted(found.values(), key=lambda segment: -segment.level)


def owned_references(
    segments: Iterable[SegmentFile], partitioning: Partitioning, partition: int
) -> tuple[SegmentFile, ...]:
    """The parts of these that are of a partition's key groups, in the same order."""
    owned = partitioning.owned(partition)
    return tuple(portion for segment in segments if (portion := segment.of_key_groups(owned)) is not None)


def portion_of(file: SegmentFile) -> Portion:
    """What counts of a file."""
    return Portion(
        file.key_groups if file.narrowed else None,
        None if file.only is None else frozenset(file.only),
        frozenset(file.without),
    )


def absorb(held: Sequence[SegmentFile]) -> tuple[list[SegmentFile], list[SegmentFile], int]:
    """(segments to keep, segments to merge into the new one, the new one's level).

    Like a binary counter: equal levels merge, so there are at most log2(epochs) live segments and a partial is
    rewritten at most as often.

    >>> one = lambda level: SegmentFile("o", "", 0, level, 0)
    >>> [s.level for s in absorb([one(3), one(1), one(0)])[1]], absorb([one(3), one(1), one(0)])[2]
    ([1, 0], 2)
    """
    kept, level = list(held), 0
    while kept and kept[-1].level <= level:
        kept.pop()
        level += 1
    return kept, list(held[len(kept) :]), level
