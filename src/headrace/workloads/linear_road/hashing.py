"""Random numbers by name: a hash of numbers, so that any part of the traffic can be made without the rest."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[Any]

_ODD = 0xD1342543DE82EF95
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_A, _B, _C = np.uint64(30), np.uint64(27), np.uint64(31)


def mixed(words: Ints) -> Ints:
    """64 well mixed bits for every word of 64 bits (the finaliser of splitmix64)."""
    words = words + _GOLDEN
    words ^= words >> _A
    words *= _FIRST
    words ^= words >> _B
    words *= _SECOND
    words ^= words >> _C
    return words


def named(*numbers: Any) -> Ints:
    """64 random bits for a tuple of numbers; arrays give one for each of their entries."""
    once, arrays, factor = 0, [], _ODD
    for number in numbers:
        if isinstance(number, np.ndarray):
            arrays.append(number.astype(np.uint64) * np.uint64(factor))
        else:
            once += int(number) * factor
        factor = factor * _ODD % 2**64
    words = np.full(1, once % 2**64, np.uint64)
    for array in arrays:
        words = words + array
    return mixed(mixed(words))


def share(words: Ints, bit: int, bits: int) -> Ints:
    """The number in `bits` bits of each word, from bit `bit` up."""
    return ((words >> np.uint64(bit)) & np.uint64((1 << bits) - 1)).astype(np.int64)


def below(words: Ints, bit: int, limit: int) -> Ints:
    """A number from 0 up to `limit` (excluded, at most 4,096) from 16 bits of each word."""
    return (share(words, bit, 16) * limit) >> 16
