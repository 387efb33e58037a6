"""Let every tuple update the partials of the queries that it matches, by bit rows and by candidates.

A *box* is a set of regions for each operand, and a query is one box or a few that do not overlap. Boxes are found in
two ways. A *bit row* says, for one region of one operand, which boxes have it: one bit each. The bit rows of a tuple's
regions, ANDed word by word, are the boxes that the tuple is in. This costs one AND per 64 boxes and operand. Boxes that
few tuples come near are *candidates* instead: they are in a list for each region of one operand, their home. The lists
of a tuple's regions are short, and what is in them is compared with the tuple's other regions.

All kernels take the tuples in the order of their rows (see `order_by_row`) and share the two walks over matches. A walk
calls an action with the number of a box, a tuple, its row and whatever the action changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int32, int64, types, uint64

from headrace.operators.common.encode import Array, Floats, Ints
from headrace.operators.compiled.compiling import called, compiled, given, inlined, made, trailing_zeros

TILE = 8
"""Rows of a tile: as many partials as fit a cache line."""

Found = tuple[Any, ...]
"""What finds the boxes of tuples, as `Matches.arguments` of `operators/common/matching.py` has it."""

_LISTS = (given(int64), given(int32), given(int32, 2), given(int32, 2), given(int32), given(int32))
_FOUND: Any = types.Tuple(  # type: ignore[no-untyped-call]
    (given(int32, 2), given(uint64, 2), given(uint64), *_LISTS, given(int64), given(int64), given(int64))
)


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


@called
def boxes_of(codes: Ints, table: Ints, mask: Ints, tuple_: int, w: int) -> Any:
    """Word w of the boxes with bit rows that a tuple is in."""
    word = mask[w]
    for o in range(codes.shape[1]):
        word &= table[codes[tuple_, o], w]
    return word


@inlined
def walk_bits(matches: Found, first: int, last: int, act: Any, state: Any) -> None:
    """Call act(box, tuple, row, state) for the tuples of rows [first, last) and the boxes of bit rows they are in."""
    codes, table, mask, _, _, _, _, _, _, _, order, bounds = matches
    for r in range(first, last):
        for at in range(bounds[r], bounds[r + 1]):
            tuple_ = order[at]
            for w in range(len(mask)):
                word = boxes_of(codes, table, mask, tuple_, w)
                while word:
                    act((w << 6) + trailing_zeros(word), tuple_, r, state)
                    word &= word - np.uint64(1)


@inlined
def walk_lists(matches: Found, first: int, last: int, act: Any, state: Any) -> None:
    """The same for the boxes that are candidates: those whose home has the tuple's region, and all others too."""
    codes, _, mask, offsets, listed, ranges, counts, lows, highs, entries, order, bounds = matches
    base = len(mask) << 6
    for r in range(first, last):
        for at in range(bounds[r], bounds[r + 1]):
            tuple_ = order[at]
            for home in range(codes.shape[1]):
                code = codes[tuple_, home]
                for place in range(offsets[code], offsets[code + 1]):
                    box = listed[place]
                    if entries[box] >= 0 and is_inside(
                        codes, ranges, counts, lows, highs, tuple_, box - base, home
                    ):
                        act(box, tuple_, r, state)


@called
def is_inside(
    codes: Ints, ranges: Ints, counts: Ints, lows: Ints, highs: Ints, tuple_: int, box: int, home: int
) -> bool:
    """Whether a tuple's regions are in a box's sets, of all operands but its home."""
    for o in range(codes.shape[1]):
        if o == home:
            continue
        code, at = codes[tuple_, o], ranges[box, o]
        last = at + counts[box, o]
        while at < last and highs[at] <= code:
            at += 1
        if at == last or lows[at] > code:
            return False
    return True


@called
def add_to_tile(box: int, tuple_: int, row: int, state: Any) -> None:
    tile, values, first = state
    tile[box, row - first] += values[tuple_]


@called
def add_in_place(box: int, tuple_: int, row: int, state: Any) -> None:
    into, values, entries = state
    into[entries[box], row] += values[tuple_]


@compiled(
    (_FOUND, boolean, given(int64), made(int64, 2)), (_FOUND, boolean, given(float64), made(float64, 2))
)
def add_values(matches: Found, sparse: bool, values: Array, into: Array) -> None:
    """into[entries[b], row] += value for every tuple and every box b that it is in; `entries` is -1 where nobody asks.

    Partials of one row are far apart. Where matches are many, those of 8 rows are added up in a tile that stays in the
    cache, and the tile is added to the partials when its rows are done. Where they are few (`sparse`), that would
    cost more than it saves. Integers add up modulo 2**64. A query that does not match never meets a value, be it huge
    or not finite.
    """
    _, _, mask, _, listed, _, _, _, _, entries, _, bounds = matches
    rows = len(bounds) - 1
    if sparse:
        if len(mask):
            walk_bits(matches, 0, rows, add_in_place, (into, values, entries))
        if len(listed):
            walk_lists(matches, 0, rows, add_in_place, (into, values, entries))
        return
    tile = np.zeros((len(entries), TILE), into.dtype)
    for first in range(0, rows, TILE):
        last = min(first + TILE, rows)
        if bounds[first] == bounds[last]:
            continue
        if len(mask):
            walk_bits(matches, first, last, add_to_tile, (tile, values, first))
        if len(listed):
            walk_lists(matches, first, last, add_to_tile, (tile, values, first))
        for b in range(len(entries)):
            if entries[b] >= 0:
                for r in range(first, last):
                    into[entries[b], r] += tile[b, r - first]
                    tile[b, r - first] = 0


@called
def lower_in_tile(box: int, tuple_: int, row: int, state: Any) -> None:
    tile, values, first = state
    tile[box, row - first] = min(tile[box, row - first], values[tuple_])


@called
def raise_in_tile(box: int, tuple_: int, row: int, state: Any) -> None:
    tile, values, first = state
    tile[box, row - first] = max(tile[box, row - first], values[tuple_])


@called
def lower_in_place(box: int, tuple_: int, row: int, state: Any) -> None:
    into, values, entries = state
    into[entries[box], row] = min(into[entries[box], row], values[tuple_])


@called
def raise_in_place(box: int, tuple_: int, row: int, state: Any) -> None:
    into, values, entries = state
    into[entries[box], row] = max(into[entries[box], row], values[tuple_])


@called
def extremes_in_place(matches: Found, values: Ints, into: Ints, least: bool) -> None:
    _, _, mask, _, listed, _, _, _, _, entries, _, bounds = matches
    rows, state = len(bounds) - 1, (into, values, entries)
    if len(mask) and least:
        walk_bits(matches, 0, rows, lower_in_place, state)
    elif len(mask):
        walk_bits(matches, 0, rows, raise_in_place, state)
    if len(listed) and least:
        walk_lists(matches, 0, rows, lower_in_place, state)
    elif len(listed):
        walk_lists(matches, 0, rows, raise_in_place, state)


@compiled((_FOUND, boolean, given(int64), made(int64, 2), boolean))
def keep_extremes(matches: Found, sparse: bool, values: Ints, into: Ints, least: bool) -> None:
    """into[entries[b], row] becomes the least (or greatest) of itself and the values of the matching tuples."""
    if sparse:
        extremes_in_place(matches, values, into, least)
        return
    _, _, mask, _, listed, _, _, _, _, entries, _, bounds = matches
    rows = len(bounds) - 1
    nothing = np.int64(2**63 - 1) if least else np.int64(-(2**63))
    tile = np.full((len(entries), TILE), nothing, np.int64)
    for first in range(0, rows, TILE):
        last = min(first + TILE, rows)
        if bounds[first] == bounds[last]:
            continue
        state = (tile, values, first)
        if len(mask) and least:
            walk_bits(matches, first, last, lower_in_tile, state)
        elif len(mask):
            walk_bits(matches, first, last, raise_in_tile, state)
        if len(listed) and least:
            walk_lists(matches, first, last, lower_in_tile, state)
        elif len(listed):
            walk_lists(matches, first, last, raise_in_tile, state)
        for b in range(len(entries)):
            if entries[b] >= 0:
                for r in range(first, last):
                    known, found = into[entries[b], r], tile[b, r - first]
                    into[entries[b], r] = min(known, found) if least else max(known, found)
                    tile[b, r - first] = nothing


@called
def merge_moment(box: int, tuple_: int, row: int, state: Any) -> None:
    counts, means, spreads, into_counts, into_means, into_spreads, entries = state
    count, mean, entry = counts[tuple_], means[tuple_], entries[box]
    if count == 0:
        return
    known = into_counts[entry, row]
    total = known + count
    apart, share = mean - mean, 1.0
    if known:
        apart, share = mean - into_means[entry, row], known * (count / total)
        into_means[entry, row] += apart * (count / total)
    else:
        into_means[entry, row] = mean
    # infinity minus itself is NaN, and for all else this adds 0
    into_spreads[entry, row] += spreads[tuple_] + apart * apart * share + (apart - apart)
    into_counts[entry, row] = total


@compiled(
    (
        *(_FOUND, boolean, given(int64), given(float64), given(float64)),
        *(made(int64, 2), made(float64, 2), made(float64, 2)),
    )
)
def merge_moments_of(
    matches: Found,
    sparse: bool,
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
    _, _, mask, _, listed, _, _, _, _, entries, _, bounds = matches
    rows = len(bounds) - 1
    state = (counts, means, spreads, into_counts, into_means, into_spreads, entries)
    if len(mask):
        walk_bits(matches, 0, rows, merge_moment, state)
    if len(listed):
        walk_lists(matches, 0, rows, merge_moment, state)


@called
def count_match(box: int, tuple_: int, row: int, state: Any) -> None:
    state[0][box] += 1


@compiled((_FOUND, made(int64)))
def count_matches(matches: Found, counts: Ints) -> None:
    """counts[b] grows by the tuples that are in box b."""
    _, _, mask, _, listed, _, _, _, _, _, _, bounds = matches
    if len(mask):
        walk_bits(matches, 0, len(bounds) - 1, count_match, (counts,))
    if len(listed):
        walk_lists(matches, 0, len(bounds) - 1, count_match, (counts,))


@called
def put_pair(box: int, tuple_: int, row: int, state: Any) -> None:
    tuples, next_, entries = state
    column = entries[box]
    tuples[next_[column]] = tuple_
    next_[column] += 1


@compiled((_FOUND, made(int64), made(int64)))
def put_pairs(matches: Found, tuples: Ints, next_: Ints) -> None:
    """tuples[next_[c]], and what follows it, become the tuples that match column c: that of box b is `entries[b]`."""
    _, _, mask, _, listed, _, _, _, _, entries, _, bounds = matches
    if len(mask):
        walk_bits(matches, 0, len(bounds) - 1, put_pair, (tuples, next_, entries))
    if len(listed):
        walk_lists(matches, 0, len(bounds) - 1, put_pair, (tuples, next_, entries))


@called
def list_match(box: int, tuple_: int, row: int, state: Any) -> None:
    boxes, tuples, count = state
    boxes[count[0]], tuples[count[0]] = box, tuple_
    count[0] += 1


@compiled((_FOUND, made(int32, 2), made(int64), made(int64)))
def list_matches(matches: Found, boxes: Ints, tuples: Ints, count: Ints) -> None:
    """The candidates that tuples are in, as `count[0]` pairs of a box and a tuple in the order of the tuples' rows."""
    bounds = matches[11]
    walk_lists(matches, 0, len(bounds) - 1, list_match, (boxes[:, 0], tuples, count))


@called
def put_bit(box: int, tuple_: int, row: int, state: Any) -> None:
    words, entries, _ = state
    words[entries[box] >> 6, tuple_] |= np.uint64(1) << np.uint64(entries[box] & 63)


@compiled((_FOUND, made(uint64, 2), int64))
def put_words(matches: Found, words: Ints, own: int) -> None:
    """words[w, tuple] gets the bits of all queries that match: the bit of box b is `entries[b]`.

    The first `own` words of bit rows are words of query-sets already, and are put there as they are.
    """
    codes, table, mask, _, listed, _, _, _, _, entries, _, bounds = matches
    for tuple_ in range(len(codes)):
        for w in range(own):
            words[w, tuple_] |= boxes_of(codes, table, mask, tuple_, w)
    if own < len(mask):
        for tuple_ in range(len(codes)):
            for w in range(own, len(mask)):
                word = boxes_of(codes, table, mask, tuple_, w)
                while word:
                    put_bit((w << 6) + trailing_zeros(word), tuple_, 0, (words, entries, 0))
                    word &= word - np.uint64(1)
    if len(listed):
        walk_lists(matches, 0, len(bounds) - 1, put_bit, (words, entries, 0))
