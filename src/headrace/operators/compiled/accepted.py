"""Tuples that are state themselves, each with the state columns that accepted it: partials of runs of them.

A *run* is some tuples side by side, as those of a key in a window. For each run, the set bits of its tuples that are
asked for are gone through, and each updates one partial of [entry, run]. The partials of neighbouring runs are
neighbours, so those that are updated stay near to the processor however many entries there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int64, uint64

from headrace.operators.common.arrays import Array, Floats, Ints
from headrace.operators.compiled.compiling import called, compiled, given, inlined, made, trailing_zeros

_ASKED: Any = (given(uint64, 2), given(int64, 2), int64, given(uint64), given(int64), given(int64))


@inlined
def walk_accepted(
    sets: Array, runs: Ints, first: int, mask: Array, entries: Ints, rows: Ints, act: Any, state: Any
) -> None:
    """Call act(entry, row, tuple, run, state) for all tuples [runs[0, r], runs[1, r]) of every run r, and every bit
    of theirs that `mask` has: its bits are those of a tuple from bit `first` on. For bit b, entries[b] is updated
    by row rows[b] of what tuples bring.

    Bits are shifted so that those of most windows are one word: a jump for each word costs more than a shift.
    """
    base, shift = first >> 6, np.uint64(first & 63)
    most = sets.shape[0] - 1
    for r in range(runs.shape[1]):
        for tuple_ in range(runs[0, r], runs[1, r]):
            at = np.uint64(tuple_)
            for w in range(len(mask)):
                low = sets[np.uint64(base + w), at] >> shift
                high = sets[np.uint64(min(base + w + 1, most)), at] << np.uint64(1)
                word = (low | (high << (np.uint64(63) - shift))) & mask[np.uint64(w)]
                while word:
                    bit = np.uint64(w << 6) + trailing_zeros(word)
                    act(np.uint64(entries[bit]), np.uint64(rows[bit]), at, np.uint64(r), state)
                    word &= word - np.uint64(1)


@called
def add_one(entry: int, row: int, tuple_: int, run: int, state: Any) -> None:
    values, into = state
    into[entry, run] += values[row, tuple_]


@compiled(*((*_ASKED, given(dtype, 2), made(dtype, 2)) for dtype in (int64, float64)))
def add_accepted(
    sets: Array,
    runs: Ints,
    first: int,
    mask: Array,
    entries: Ints,
    rows: Ints,
    values: Array,
    into: Array,
) -> None:
    """into[entry, run] += values[row, tuple] for every tuple of a run and every bit of it that is asked for."""
    walk_accepted(sets, runs, first, mask, entries, rows, add_one, (values, into))


@called
def keep_least(entry: int, row: int, tuple_: int, run: int, state: Any) -> None:
    values, into = state
    into[entry, run] = min(into[entry, run], values[row, tuple_])


@called
def keep_most(entry: int, row: int, tuple_: int, run: int, state: Any) -> None:
    values, into = state
    into[entry, run] = max(into[entry, run], values[row, tuple_])


@compiled((*_ASKED, given(int64, 2), boolean, made(int64, 2)))
def keep_accepted(
    sets: Array,
    runs: Ints,
    first: int,
    mask: Array,
    entries: Ints,
    rows: Ints,
    values: Ints,
    least: bool,
    into: Ints,
) -> None:
    """The same with the least, or the greatest, in place of the sum."""
    if least:
        walk_accepted(sets, runs, first, mask, entries, rows, keep_least, (values, into))
    else:
        walk_accepted(sets, runs, first, mask, entries, rows, keep_most, (values, into))


@called
def merge_one(entry: int, bit: int, tuple_: int, run: int, state: Any) -> None:
    of_counts, of_means, of_spreads, ints, floats, into_counts, into_means, into_spreads = state
    count, mean = ints[of_counts[bit], tuple_], floats[of_means[bit], tuple_]
    if count:
        known = into_counts[entry, run]
        total = known + count
        apart, share = mean - mean, 1.0
        if known:
            apart, share = mean - into_means[entry, run], known * (count / total)
            into_means[entry, run] += apart * (count / total)
        else:
            into_means[entry, run] = mean
        # infinity minus itself is NaN, and for all else this adds 0
        spread = floats[of_spreads[bit], tuple_]
        into_spreads[entry, run] += spread + apart * apart * share + (apart - apart)
        into_counts[entry, run] = total


@compiled(
    (
        *(*_ASKED, given(int64), given(int64), given(int64, 2), given(float64, 2)),
        *(made(int64, 2), made(float64, 2), made(float64, 2)),
    )
)
def merge_accepted(
    sets: Array,
    runs: Ints,
    first: int,
    mask: Array,
    entries: Ints,
    of_counts: Ints,
    of_means: Ints,
    of_spreads: Ints,
    ints: Ints,
    floats: Floats,
    into_counts: Ints,
    into_means: Floats,
    into_spreads: Floats,
) -> None:
    """The same with (count, mean, M2), merged by the deviation of the means as `merge_moments_of` does it. Each of the
    three has rows of its own.
    """
    bits = np.arange(len(entries))
    state = (of_counts, of_means, of_spreads, ints, floats, into_counts, into_means, into_spreads)
    walk_accepted(sets, runs, first, mask, entries, bits, merge_one, state)
