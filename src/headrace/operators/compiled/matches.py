"""Let every tuple update the partials of the queries that it matches, by bit rows and by candidates.

A *box* is a set of regions for each operand, and a query is one box or a few that do not overlap. Boxes are found in
two ways. A *bit row* says, for one region of one operand, which boxes have it: one bit each. The bit rows of a tuple's
regions, ANDed word by word, are the boxes that the tuple is in. This costs one AND per 64 boxes and operand. Boxes that
few tuples come near are *candidates* instead: they are in a list for each region of one operand, their home. The lists
of a tuple's regions are short, and what is in them is compared with the tuple's other regions.

All kernels take the tuples in the order of their rows (see `order_by_row`). All but `update_four` share the two walks
over matches; that one notes the boxes of a tuple before it goes through them. A walk calls an action with the number of
a box, a tuple, its row and whatever the action changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int32, int64, types, uint64

from headrace.operators.common.arrays import Array, Floats, Ints
from headrace.operators.compiled.compiling import (
    called,
    compiled,
    given,
    inlined,
    made,
    population,
    trailing_zeros,
)

TILE = 8
"""Rows of a tile: as many partials as fit a cache line."""

Found = tuple[Any, ...]
"""What finds the boxes of tuples, as `Matches.arguments` of `operators/common/matching.py` has it."""

_LISTS = (given(int64), given(int32), given(int32, 3), given(int32), given(int32))
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
    codes, table, mask, _, _, _, _, _, _, order, bounds = matches
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
    codes, _, mask, offsets, listed, sets, lows, highs, entries, order, bounds = matches
    base = len(mask) << 6
    for r in range(first, last):
        for at in range(bounds[r], bounds[r + 1]):
            tuple_ = order[at]
            for home in range(codes.shape[1]):
                code = codes[tuple_, home]
                for place in range(offsets[code], offsets[code + 1]):
                    box = listed[place]
                    if entries[box] >= 0 and is_inside(codes, sets, lows, highs, tuple_, box - base, home):
                        act(box, tuple_, r, state)


@called
def is_inside(codes: Ints, sets: Ints, lows: Ints, highs: Ints, tuple_: int, box: int, home: int) -> bool:
    """Whether a tuple's regions are in a box's sets, of all operands but its home.

    sets[box, o] is where a set begins and ends, where its ranges are, and how many it has. Most have one, and then
    nothing else is looked at.
    """
    for o in range(codes.shape[1]):
        if o == home:
            continue
        code = codes[tuple_, o]
        if code < sets[box, o, 0] or code >= sets[box, o, 1]:
            return False
        at, last = sets[box, o, 2], sets[box, o, 2] + sets[box, o, 3]
        if last - at > 1:
            while highs[at] <= code:
                at += 1
            if lows[at] > code:
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


@compiled(*((_FOUND, boolean, given(dtype), made(dtype, 2)) for dtype in (int64, float64)))
def add_values(matches: Found, sparse: bool, values: Array, into: Array) -> None:
    """into[entries[b], row] += value for every tuple and every box b that it is in; `entries` is -1 where nobody asks.

    Partials of one row are far apart. Where matches are many, those of 8 rows are added up in a tile that stays in the
    cache, and the tile is added to the partials when its rows are done. Where they are few (`sparse`), that would
    cost more than it saves. Integers add up modulo 2**64. A query that does not match never meets a value, be it huge
    or not finite.
    """
    _, _, mask, _, listed, _, _, _, entries, _, bounds = matches
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


FOUR = 4
"""Measures of whole numbers that are worked off together: two sums, a minimum and a maximum."""

AHEAD = 4
"""So many bits of a word are noted before it is known how many it has: a processor guesses that better."""


@called
def note_bits(codes: Ints, table: Ints, mask: Ints, tuple_: int, found: Ints) -> int:
    """How many boxes of bit rows a tuple is in. Their numbers are put into `found`, which has room for AHEAD more."""
    count = 0
    for w in range(len(mask)):
        word = boxes_of(codes, table, mask, tuple_, w)
        at = count
        count += population(word)
        while at < count:
            for i in range(AHEAD):
                found[at + i] = (w << 6) + trailing_zeros(word)
                word &= word - np.uint64(1)
            at += AHEAD
    return count


@called
def clear_box(tile: Ints, box: int) -> None:
    for r in range(tile.shape[1]):
        tile[box, r, 0] = 0
        tile[box, r, 1] = 0
        tile[box, r, 2] = np.int64(2**63 - 1)
        tile[box, r, 3] = np.int64(-(2**63))


@called
def put_tile(
    tile: Ints, first: int, last: int, places: Ints, one: Ints, two: Ints, least: Ints, most: Ints
) -> None:
    """Combine a tile of rows [first, last) with the partials of all boxes, and clear it."""
    for b in range(len(places)):
        mine = places[b]
        if mine[0] >= 0:
            for r in range(first, last):
                one[mine[0], r] += tile[b, r - first, 0]
        if mine[1] >= 0:
            for r in range(first, last):
                two[mine[1], r] += tile[b, r - first, 1]
        if mine[2] >= 0:
            for r in range(first, last):
                least[mine[2], r] = min(least[mine[2], r], tile[b, r - first, 2])
        if mine[3] >= 0:
            for r in range(first, last):
                most[mine[3], r] = max(most[mine[3], r], tile[b, r - first, 3])
        clear_box(tile, b)


NOTED = 4_096
"""So many matches are noted before they are put in place."""


@called
def keep_noted(noted: Ints, count: int, places: Ints, measure: int, kept: Ints) -> int:
    """How many of the noted matches (box, tuple, row) keep a measure; `kept` gets (place, tuple, row) of these."""
    found = 0
    for i in range(count):
        place = places[noted[i, 0], measure]
        kept[found, 0], kept[found, 1], kept[found, 2] = place, noted[i, 1], noted[i, 2]
        found += place >= 0
    return found


@called
def put_noted(
    noted: Ints,
    count: int,
    kept: Ints,
    values: Ints,
    places: Ints,
    one: Ints,
    two: Ints,
    least: Ints,
    most: Ints,
) -> None:
    """Update the partials of noted matches where they are, one measure after the other.

    Most of these partials are in no near cache. Without a jump between two updates a processor fetches several at once.
    """
    for i in range(keep_noted(noted, count, places, 0, kept)):
        one[kept[i, 0], kept[i, 2]] += values[kept[i, 1], 0]
    for i in range(keep_noted(noted, count, places, 1, kept)):
        two[kept[i, 0], kept[i, 2]] += values[kept[i, 1], 1]
    for i in range(keep_noted(noted, count, places, 2, kept)):
        at, row = kept[i, 0], kept[i, 2]
        least[at, row] = min(least[at, row], values[kept[i, 1], 2])
    for i in range(keep_noted(noted, count, places, 3, kept)):
        at, row = kept[i, 0], kept[i, 2]
        most[at, row] = max(most[at, row], values[kept[i, 1], 3])


@compiled((_FOUND, boolean, given(int64, 2), given(int64, 2), *(made(int64, 2),) * FOUR))
def update_four(
    matches: Found, sparse: bool, values: Ints, places: Ints, one: Ints, two: Ints, least: Ints, most: Ints
) -> None:
    """Every tuple updates the partials of all its boxes, of up to four measures at once: values[tuple, measure].

    Measures 0 and 1 are added up modulo 2**64, of measure 2 the least is kept, and of measure 3 the greatest. Box b
    keeps measure m in row places[b, m] of its partials, or nowhere where that is -1. The boxes of a tuple are found
    once. In a tile those of a row lie side by side, and all four of a box are updated without asking which it keeps.
    """
    codes, table, mask, offsets, listed, sets, lows, highs, entries, order, bounds = matches
    rows, boxes, base = len(bounds) - 1, len(places), len(mask) << 6
    found = np.empty(boxes + AHEAD, np.int64)
    tile = np.empty((0 if sparse else boxes, TILE, FOUR), np.int64)
    noted = np.empty((NOTED + boxes if sparse else 0, 3), np.int64)
    kept, waiting = np.empty((len(noted) + 1, 3), np.int64), 0
    for b in range(len(tile)):
        clear_box(tile, b)
    for first in range(0, rows, TILE):
        last = min(first + TILE, rows)
        if bounds[first] == bounds[last]:
            continue
        for r in range(first, last):
            for at in range(bounds[r], bounds[r + 1]):
                tuple_ = order[at]
                count = note_bits(codes, table, mask, tuple_, found)
                for home in range(codes.shape[1] if len(listed) else 0):
                    code = codes[tuple_, home]
                    for place in range(offsets[code], offsets[code + 1]):
                        box = listed[place]
                        if entries[box] >= 0 and is_inside(
                            codes, sets, lows, highs, tuple_, box - base, home
                        ):
                            found[count] = box
                            count += 1
                if sparse:
                    for i in range(count):
                        noted[waiting, 0], noted[waiting, 1], noted[waiting, 2] = found[i], tuple_, r
                        waiting += 1
                    if waiting >= NOTED:
                        put_noted(noted, waiting, kept, values, places, one, two, least, most)
                        waiting = 0
                    continue
                for i in range(count):
                    box = found[i]
                    tile[box, r - first, 0] += values[tuple_, 0]
                    tile[box, r - first, 1] += values[tuple_, 1]
                    tile[box, r - first, 2] = min(tile[box, r - first, 2], values[tuple_, 2])
                    tile[box, r - first, 3] = max(tile[box, r - first, 3], values[tuple_, 3])
        if not sparse:
            put_tile(tile, first, last, places, one, two, least, most)
    put_noted(noted, waiting, kept, values, places, one, two, least, most)


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
    _, _, mask, _, listed, _, _, _, entries, _, bounds = matches
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
    _, _, mask, _, listed, _, _, _, _, _, bounds = matches
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
    _, _, mask, _, listed, _, _, _, entries, _, bounds = matches
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
    bounds = matches[10]
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
    codes, table, mask, _, listed, _, _, _, entries, _, bounds = matches
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
