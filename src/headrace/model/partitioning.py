"""Partitioning: which reduce task owns which keys, as a value that is durable and in force from an epoch on.

A key belongs to a key group for ever, by one stable hash (`operators.common.placing`). A table says which partition
owns each key group. Changing the table moves whole key groups, and only those whose entry changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.model import codec

KEY_GROUPS = 256
"""How many key groups there are, and so how many partitions at most. It is part of the warehouse's format."""

Ranges = tuple[tuple[int, int], ...]
"""Whole numbers, such as key groups or regions, as ascending half-open ranges that do not touch."""

ALL_KEY_GROUPS: Ranges = ((0, KEY_GROUPS),)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """`table[g]` is the partition that owns key group g."""

    table: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.table) != KEY_GROUPS or set(self.table) != set(range(max(self.table) + 1)):
            raise ValueError(
                "a partitioning says for every key group which partition has it, and none is empty"
            )

    @property
    def partitions(self) -> int:
        return max(self.table) + 1

    def owned(self, partition: int) -> Ranges:
        """The key groups of a partition.

        >>> even_partitioning(4).owned(1)
        ((64, 128),)
        """
        return ranges_of(g for g, owner in enumerate(self.table) if owner == partition)


def even_partitioning(partitions: int) -> Partitioning:
    """Runs of neighbouring key groups, as equal in number as can be."""
    if not 1 <= partitions <= KEY_GROUPS:
        raise ValueError(f"from 1 to {KEY_GROUPS} partitions, not {partitions}")
    return Partitioning(tuple(g * partitions // KEY_GROUPS for g in range(KEY_GROUPS)))


def ranges_of(groups: Iterable[int]) -> Ranges:
    """Numbers as ranges.

    >>> ranges_of([7, 1, 2, 3, 8])
    ((1, 4), (7, 9))
    """
    found: list[list[int]] = []
    for group in sorted(set(groups)):
        if found and found[-1][1] == group:
            found[-1][1] += 1
        else:
            found.append([group, group + 1])
    return tuple((low, high) for low, high in found)


def intersect_ranges(left: Ranges, right: Ranges) -> Ranges:
    """What is in both. Each is in order and without overlaps, as `ranges_of` gives them.

    >>> intersect_ranges(((0, 10), (20, 30)), ((5, 25),))
    ((5, 10), (20, 25))
    """
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low < high:
            found.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


codec.register(Partitioning)
