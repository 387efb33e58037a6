"""Changelog-sets: which slots kept their query between two times, as bits (AStream 2.1.2).

A set is a Python integer, bit k for slot k. Integers have as many leading ones as anybody asks for, so "all
ones" is -1 and a slot that nobody ever held counts as unchanged; no tuple carries its bit. Sets follow from the sealed
epochs, so they are as durable as these. Aggregation needs none (`docs/decisions/0003-state-per-query-column.md`);
joins of tuples from different epochs will.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

ALL = -1
"""The changelog-set of a time with respect to itself."""


def changelog_set(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Bits of the slots that hold the same query (or nobody) before and after.

    >>> bin(changelog_set({0: 1, 1: 2}, {0: 1, 1: 3}) & 0b11)
    '0b1'
    """
    changed = 0
    for slot in before.keys() | after.keys():
        if before.get(slot) != after.get(slot):
            changed |= 1 << slot
    return ~changed


def words(bits: int, slots: int) -> NDArray[np.uint64]:
    """The lowest `slots` bits as 64-bit words, lowest first; bits beyond them are zero.

    >>> words(ALL, 65).tolist() == [2**64 - 1, 1]
    True
    """
    count = -(-slots // 64)
    masked = bits & ((1 << slots) - 1)
    return np.frombuffer(masked.to_bytes(8 * count, "little"), dtype="<u8").astype(np.uint64)


class ChangelogSets:
    """Changelog-sets between any two remembered times, by the dynamic programming of AStream's Eq. 1.

    Times are consecutive integers (epochs). A table row costs one integer per remembered earlier time it was
    asked for; `forget` keeps the table as small as the state that needs it.
    """

    def __init__(self, first: int = 0, slots: Mapping[int, int] | None = None) -> None:
        self._first = self._last = first
        self._slots = dict(slots or {})
        self._steps: dict[int, int] = {}
        self._table: dict[tuple[int, int], int] = {}

    @property
    def first(self) -> int:
        """The oldest time remembered."""
        return self._first

    @property
    def last(self) -> int:
        return self._last

    def append(self, slots: Mapping[int, int]) -> int:
        """Go on by one time, at which `slots` hold these queries; the changelog-set to the time before."""
        self._last += 1
        step = changelog_set(self._slots, slots)
        self._steps[self._last] = step
        self._slots = dict(slots)
        return step

    def between(self, i: int, j: int) -> int:
        """Bits of the slots that kept their query at all times from one to the other, in either order."""
        if i < j:
            i, j = j, i
        if j < self._first or i > self._last:
            raise IndexError(f"times {j} and {i} are not within [{self._first}, {self._last}]")
        known = i
        while known > j and (known, j) not in self._table:
            known -= 1
        found = self._table.get((known, j), ALL)
        for time in range(known + 1, i + 1):
            found &= self._steps[time]
            self._table[time, j] = found
        return found

    def forget(self, before: int) -> None:
        """Drop what concerns times before `before`; nobody holds tuples from then any more."""
        before = min(before, self._last)
        if before <= self._first:
            return
        self._first = before
        self._steps = {time: step for time, step in self._steps.items() if time > before}
        self._table = {(i, j): bits for (i, j), bits in self._table.items() if j >= before}
