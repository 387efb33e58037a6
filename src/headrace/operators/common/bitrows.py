"""Words of bits, one bit per query, and tuples in the order of their rows."""

from __future__ import annotations

import numpy as np

from headrace.model.tables import WORD
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.compiled.joins import add_runs_of_bits
from headrace.operators.compiled.matches import order_by_row


def pack_words(membership: Bools) -> Ints:
    """[row, query] bits as [row, word], query q in bit q % 64 of word q // 64.

    >>> pack_words(np.array([[True, False, True]])).tolist()
    [[5]]
    """
    packed = np.packbits(membership, axis=1, bitorder="little")
    words = np.zeros((len(membership), -(-membership.shape[1] // WORD) * (WORD // 8)), np.uint8)
    words[:, : packed.shape[1]] = packed
    return words.view("<u8").astype(np.uint64)


def as_given(values: Array) -> Array:
    """The values as kernels take them: contiguous and aligned, which a view of a message need not be."""
    return np.require(values, requirements=["C_CONTIGUOUS", "ALIGNED"])


def given_ints(values: Ints) -> Ints:
    """Whole numbers of any width as kernels take them, 64 bits wide."""
    return as_given(values.astype(np.int64, copy=False))


def ordered_by_row(row: Ints, rows: int) -> tuple[Ints, Ints]:
    """(tuples by ascending row, where each row's tuples begin, with the end behind them)."""
    order, bounds = np.empty(len(row), np.int64), np.zeros(rows + 1, np.int64)
    order_by_row(given_ints(row), order, bounds)
    return order, bounds


LONG_RUN = 8
"""Runs of equal words that are longer than this on average are counted as runs."""


def count_bits(sets: Array) -> Ints:
    """How often each bit of the words [word, row] is set.

    Where most rows have the set of the row before, runs are counted. Else full adders go over whole arrays, a few
    passes for all bits.

    >>> count_bits(np.array([[5, 4]], np.uint64))[:4].tolist()
    [1, 0, 2, 0]
    """
    return np.concatenate([_count_word(words) for words in sets])


def _count_word(words: Array) -> Ints:
    counts = np.zeros(WORD, np.int64)
    if np.count_nonzero(words[1:] != words[:-1]) < len(words) // LONG_RUN:
        add_runs_of_bits(as_given(words), counts)
        return counts
    weight = 1
    while len(words):
        carries = [words[:0]]
        while len(words) > 3 * WORD:
            third = len(words) // 3
            a, b, c = words[: 3 * third].reshape(3, third)
            half = a ^ b
            carries.append((a & b) | (half & c))
            words = np.concatenate([half ^ c, words[3 * third :]])
        bits = np.unpackbits(words.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        counts += weight * bits.sum(axis=0, dtype=np.int64)
        words = np.concatenate(carries)
        weight *= 2
    return counts
