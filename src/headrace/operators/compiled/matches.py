"""Update the partials of every query that a tuple matches, by bit rows.

A *bit row* says, for one region of one operand, which queries accept it: one bit each. The bit rows of a tuple's
regions, ANDed word by word, are the queries that accept the tuple. The work is one AND per 64 queries and one update
per match, which nobody can avoid.

All kernels take the tuples in the order of their rows (see `order_by_row`). Queries of one row are updated in a small
tile of 8 rows that stays in the cache, and the tile is added to the partials [entry, row] when its rows are done.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int32, int64, uint64

from headrace.operators.common.encode import Array, Floats, Ints
from headrace.operators.compiled.compiling import compiled, given, inlined, made, trailing_zeros

TILE = 8
"""Rows of a tile: as many partials as fit a cache line."""

_MATCHES = (given(int32, 2), given(uint64, 2), given(uint64), given(int64), given(int64), given(int64))
"""codes, table, mask, entries, order, bounds: see `add_values`."""


@compiled((given(int64), made(int64), made(int64)))
def order_by_row(row: Ints, order: Ints, bounds: Ints) -> None:
    """Counting sort: `order` are the tuples by ascending row, those of row r at bounds[r] up to bounds[r + 1]."""
    for i in range(len(row)):
        bounds[row[i] + 1] += 1
    for r in range(1, len(bounds)):
        bounds[r] += bounds[r - 1]
    # the starts move forward while tuples are placed, so that each ends up where the next row's was
    for i in range(len(row)):
        place = bounds[row[i]]
        order[place] = i
        bounds[row[i]] = place + 1
    for r in range(len(bounds) - 1, 0, -1):
        bounds[r] = bounds[r - 1]
    bounds[0] = 0


@inlined
def accepting(codes: Ints, table: Ints, mask: Ints, tuple_: int, w: int) -> Any:
    """Word w of the queries that accept a tuple: see `add_values` for the arguments."""
    word = mask[w]
    for o in range(codes.shape[1]):
        word &= table[codes[tuple_, o], w]
    return word


@compiled((*_MATCHES, given(int64), made(int64, 2)), (*_MATCHES, given(float64), made(float64, 2)))
def add_values(
    codes: Ints,
    table: Ints,
    mask: Ints,
    entries: Ints,
    order: Ints,
    bounds: Ints,
    values: Array,
    into: Array,
) -> None:
    """into[entries[q], row] += value for every tuple and every query q of `mask` that matches it.

    `codes[tuple]` are the tuple's rows in `table`, one per operand; `entries` is -1 for queries outside the mask.
    Integers add up modulo 2**64. A query that does not match never meets a value, be it huge or not finite.
    """
    tile = np.zeros((len(entries), TILE), into.dtype)
    for first in range(0, len(bounds) - 1, TILE):
        last = min(first + TILE, len(bounds) - 1)
        if bounds[first] == bounds[last]:
            continue
        for r in range(first, last):
            for at in range(bounds[r], bounds[r + 1]):
                tuple_ = order[at]
                value = values[tuple_]
                for w in range(len(mask)):
                    word = accepting(codes, table, mask, tuple_, w)
                    while word:
                        tile[(w << 6) + trailing_zeros(word), r - first] += value
                        word &= word - np.uint64(1)
        for q in range(len(entries)):
            if entries[q] >= 0:
                for r in range(first, last):
                    into[entries[q], r] += tile[q, r - first]
                    tile[q, r - first] = 0


@compiled((*_MATCHES, given(int64), made(int64, 2), boolean))
def keep_extremes(
    codes: Ints,
    table: Ints,
    mask: Ints,
    entries: Ints,
    order: Ints,
    bounds: Ints,
    values: Ints,
    into: Ints,
    least: bool,
) -> None:
    """into[entries[q], row] becomes the least (or greatest) of itself and the values of the matching tuples."""
    for r in range(len(bounds) - 1):
        for at in range(bounds[r], bounds[r + 1]):
            tuple_ = order[at]
            value = values[tuple_]
            for w in range(len(mask)):
                word = accepting(codes, table, mask, tuple_, w)
                while word:
                    entry = entries[(w << 6) + trailing_zeros(word)]
                    known = into[entry, r]
                    if value < known if least else value > known:
                        into[entry, r] = value
                    word &= word - np.uint64(1)


@compiled(
    (
        *_MATCHES,
        *(given(int64), given(float64), given(float64)),
        *(made(int64, 2), made(float64, 2), made(float64, 2)),
    )
)
def merge_moments_of(
    codes: Ints,
    table: Ints,
    mask: Ints,
    entries: Ints,
    order: Ints,
    bounds: Ints,
    counts: Ints,
    means: Floats,
    spreads: Floats,
    into_counts: Ints,
    into_means: Floats,
    into_spreads: Floats,
) -> None:
    """Merge (count, mean, M2) of every matching tuple into those of its queries, by the deviation of the means.

    Equal values deviate by exactly 0. A value that is not finite makes M2 NaN, even when it is alone, as in Spark.
    """
    for r in range(len(bounds) - 1):
        for at in range(bounds[r], bounds[r + 1]):
            tuple_ = order[at]
            count = counts[tuple_]
            if count == 0:
                continue
            mean, spread = means[tuple_], spreads[tuple_]
            for w in range(len(mask)):
                word = accepting(codes, table, mask, tuple_, w)
                while word:
                    entry = entries[(w << 6) + trailing_zeros(word)]
                    known = into_counts[entry, r]
                    total = known + count
                    apart, share = mean - mean, 1.0
                    if known:
                        apart, share = mean - into_means[entry, r], known * (count / total)
                        into_means[entry, r] += apart * (count / total)
                    else:
                        into_means[entry, r] = mean
                    # infinity minus itself is NaN, and for all else this adds 0
                    into_spreads[entry, r] += spread + apart * apart * share + (apart - apart)
                    into_counts[entry, r] = total
                    word &= word - np.uint64(1)
