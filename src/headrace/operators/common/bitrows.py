"""Words of bits, one bit per query, and tuples in the order of their rows."""

from __future__ import annotations

import numpy as np

from headrace.model.tables import WORD
from headrace.operators.common.encode import Array, Bools, Ints
from headrace.operators.compiled.matches import order_by_row

COUNTED_ROWS = 1 << 14
"""Bits become bytes to be counted: of so many rows at a time."""


def pack_words(membership: Bools) -> Ints:
    """[row, query] bits as [row, word], query q in bit q % 64 of word q // 64.

    >>> pack_words(np.array([[True, False, True]])).tolist()
    [[5]]
    """
    packed = np.packbits(membership, axis=1, bitorder="little")
    words = np.zeros((len(membership), -(-membership.shape[1] // WORD) * (WORD // 8)), np.uint8)
    words[:, : packed.shape[1]] = packed
    return words.view("<u8").astype(np.uint64)


def count_bits(words: Ints) -> Ints:
    """How many rows of [row, word] have each bit.

    >>> count_bits(np.array([[5], [4]], np.uint64))[:4].tolist()
    [1, 0, 2, 0]
    """
    counts = np.zeros(words.shape[1] * WORD, np.int64)
    for low in range(0, len(words), COUNTED_ROWS):
        some = np.ascontiguousarray(words[low : low + COUNTED_ROWS]).astype("<u8").view(np.uint8)
        counts += np.unpackbits(some, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
    return counts


def as_given(values: Array) -> Array:
    """The values as kernels take them: contiguous and aligned, which a view of a message need not be."""
    return np.require(values, requirements=["C_CONTIGUOUS", "ALIGNED"])


def ordered_by_row(row: Ints, rows: int) -> tuple[Ints, Ints]:
    """(tuples by ascending row, where each row's tuples begin, with the end behind them)."""
    order, bounds = np.empty(len(row), np.int64), np.zeros(rows + 1, np.int64)
    order_by_row(as_given(row.astype(np.int64, copy=False)), order, bounds)
    return order, bounds
