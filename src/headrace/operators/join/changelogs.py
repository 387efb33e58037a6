"""Changelog-sets: which slots kept their query between two times, as bits (AStream 2.1.2).

A set is a Python integer, bit k for slot k. Integers have as many leading ones as anybody asks for, so a slot that
nobody ever held counts as unchanged; no tuple carries its bit. Ids of queries are never used again, so comparing the
two times is enough, and AStream's table over all times between them (Eq. 1) is not needed. Aggregation needs no sets at
all (`docs/decisions/0003-state-per-query-column.md`); joins of tuples from different epochs do.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


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

    >>> words(-1, 65).tolist() == [2**64 - 1, 1]
    True
    """
    count = -(-slots // 64)
    masked = bits & ((1 << slots) - 1)
    return np.frombuffer(masked.to_bytes(8 * count, "little"), dtype="<u8").astype(np.uint64)
