"""A stable 64-bit hash of texts, eight bytes at a time."""

from __future__ import annotations

import numpy as np
from numba import int64, uint8, uint64

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.compiled.compiling import compiled, given, made

_FIRST, _SECOND = np.uint64(0x7FB5D329728EA185), np.uint64(0x81DADEF4BC2DD44D)


@compiled((given(int64), given(uint8), made(uint64)))
def hash_texts(offsets: Ints, data: Array, hashes: Array) -> None:
    """hashes[i] is the hash of the bytes data[offsets[i]] up to data[offsets[i + 1]].

    The length goes in first, then every eight bytes as one word, lowest byte first, filled up with zeros.
    """
    for i in range(len(hashes)):
        first, last = offsets[i], offsets[i + 1]
        mixed = np.uint64(last - first)
        mixed = (mixed ^ (mixed >> np.uint64(31))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        mixed ^= mixed >> np.uint64(33)
        for begin in range(first, last, 8):
            word = np.uint64(0)
            for at in range(begin, min(begin + 8, last)):
                word |= np.uint64(data[at]) << np.uint64(8 * (at - begin))
            mixed ^= word
            mixed = (mixed ^ (mixed >> np.uint64(31))) * _FIRST
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
            mixed ^= mixed >> np.uint64(33)
        hashes[i] = mixed
