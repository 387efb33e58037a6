"""Keys as small numbers: whole numbers, and codes that stand for several columns, are numbered as they first occur."""

from __future__ import annotations

import numpy as np
from numba import int64

from headrace.operators.common.arrays import Ints
from headrace.operators.compiled.compiling import compiled, given, made, trailing_zeros

_MADE = (made(int64), made(int64), made(int64))


@compiled((given(int64), int64, *_MADE, made(int64)))
def number_near(values: Ints, least: int, numbers: Ints, ids: Ints, first: Ints, count: Ints) -> None:
    """ids[i]: the number of values[i], where the count[0] distinct values are numbered as they first occur, at `first`.

    numbers[value - least] is -1 for every value at first, so values may not be far apart.
    """
    found = 0
    for i in range(len(values)):
        at = np.uint64(values[i] - least)
        known = numbers[at]
        if known < 0:
            known = numbers[at] = found
            first[found] = i
            found += 1
        ids[i] = known
    count[0] = found


@compiled((given(int64), made(int64, 2), made(int64), made(int64), made(int64)))
def number_far(values: Ints, table: Ints, ids: Ints, first: Ints, count: Ints) -> None:
    """The same for any values. A table of twice as many rows or more, a power of two of them, has -1 in table[:, 1].

    A value's place is the upper bits of a product, which all bits of the value decide: those of floats and of keys that
    are put together differ in their upper bits only.
    """
    found, mask = 0, np.uint64(len(table) - 1)
    shift = np.uint64(64) - np.uint64(trailing_zeros(np.uint64(len(table))))
    for i in range(len(values)):
        value = values[i]
        word = np.uint64(value)
        at = ((word ^ (word >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)) >> shift
        while table[at, 1] >= 0 and table[at, 0] != value:
            at = (at + np.uint64(1)) & mask
        if table[at, 1] < 0:
            table[at, 0], table[at, 1] = value, found
            first[found] = i
            found += 1
        ids[i] = table[at, 1]
    count[0] = found
