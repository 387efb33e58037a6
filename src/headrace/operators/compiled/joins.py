"""Joined rows meet tuples: ranges of time are searched, pairs that some query wants are found, groups are taken apart.

Kernels that write pairs fill what they are given and stop. A cursor says where they go on, so memory stays bounded
however many pairs a key has.
"""

from __future__ import annotations

import numpy as np
from numba import int32, int64, uint64

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.compiled.compiling import called, compiled, given, made, trailing_zeros


@called
def first_from(times: Ints, low: int, high: int, bound: int) -> int:
    """The first place in [low, high) whose time is not before `bound`; `high` without one."""
    while low < high:
        middle = (low + high) >> 1
        if times[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(*((given(dtype), given(int64), given(int64), made(int64), made(int64)) for dtype in (int32, int64)))
def narrow_ranges(times: Ints, early: Ints, late: Ints, first: Ints, last: Ints) -> None:
    """[first[i], last[i]) of ascending times shrinks to those that are in [early[i], late[i])."""
    for i in range(len(first)):
        first[i] = first_from(times, first[i], last[i], early[i])
        last[i] = first_from(times, first[i], last[i], late[i])


_RANGES = (given(int64), given(int64), given(int64), given(int64))


STRIDE = 512
"""Candidates that are looked at together: what is noted of them fits the nearest cache."""


@compiled(
    (
        *_RANGES,
        given(uint64, 2),
        given(uint64, 2),
        given(int64),
        given(uint64, 2),
        *(made(int64),) * 3,
        made(uint64, 2),
    )
)
def probe_ranges(
    row: Ints,
    first: Ints,
    last: Ints,
    base: Ints,
    sets: Array,
    theirs: Array,
    moment: Ints,
    table: Array,
    cursor: Ints,
    rows: Ints,
    tuples: Ints,
    words: Array,
) -> None:
    """The pairs (r, t) that some query wants, where r is row[i] and t is in [first[i], last[i]).

    They have a bit that is in sets[:, r], in theirs[:, t] and in the table at [:, base[r] + moment[t]]. The table is
    looked up only where the other two have a bit. Before the first call, `cursor` is (0, -1, 0). After each call it
    holds the next i and t, and how many pairs were written; all is done when i is len(row).
    """
    both, hits = np.empty(STRIDE, np.uint64), np.empty(STRIDE, np.int64)
    count = 0
    for i in range(cursor[0], len(row)):
        t, end, number = max(first[i], cursor[1]), last[i], row[i]
        cursor[1] = -1
        while t < end:
            if count == len(rows):
                cursor[0], cursor[1], cursor[2] = i, t, count
                return
            size = min(min(end - t, STRIDE), len(rows) - count)  # so many fit, even if all are wanted
            start = np.uint64(t)
            for w in range(len(sets)):
                mine = sets[w, number]
                if w == 0:
                    for k in range(np.uint64(size)):
                        both[k] = mine & theirs[0, start + k]
                elif mine:
                    for k in range(np.uint64(size)):
                        both[k] |= mine & theirs[w, start + k]
            found = np.uint64(0)
            for k in range(np.uint64(size)):
                hits[found] = start + k  # in any case: a jump that nobody can foresee costs more
                found += np.uint64(both[k] != 0)
            for hit in range(found):
                at = hits[hit]
                place, any_ = base[number] + moment[at], np.uint64(0)
                for w in range(len(sets)):
                    word = sets[w, number] & theirs[w, at] & table[w, place]
                    words[w, count] = word
                    any_ |= word
                rows[count], tuples[count] = number, at
                count += any_ != 0
            t += size
    cursor[0], cursor[2] = len(row), count


_GROUPS = (given(int64), given(int64))


@compiled(
    (given(int64), given(int64), given(uint64, 2), *_GROUPS, *_GROUPS, *(made(int64),) * 3, made(uint64, 2))
)
def pair_groups(
    left: Ints,
    right: Ints,
    sets: Array,
    order: Ints,
    offsets: Ints,
    other_order: Ints,
    other_offsets: Ints,
    cursor: Ints,
    rows: Ints,
    tuples: Ints,
    words: Array,
) -> None:
    """All pairs of a row of group left[p] and a tuple of group right[p], with the words sets[:, p].

    Group g has the rows order[offsets[g]] up to order[offsets[g + 1]]. Before the first call, `cursor` is (0, 0, 0, 0).
    After each it holds the next p, how many of its rows, and how many tuples of the next row, are behind it, and how
    many pairs were written; all is done when p is len(left).
    """
    count = 0
    for p in range(cursor[0], len(left)):
        begin, end = offsets[left[p]], offsets[left[p] + 1]
        other, size = other_offsets[right[p]], other_offsets[right[p] + 1] - other_offsets[right[p]]
        for at in range(begin + cursor[1], end):
            done, number = cursor[2], order[at]
            taken = min(size - done, len(rows) - count)
            for k in range(taken):
                rows[count + k] = number
                tuples[count + k] = other_order[other + done + k]
            for w in range(len(sets)):
                for k in range(taken):
                    words[w, count + k] = sets[w, p]
            count += taken
            cursor[2] = 0
            if done + taken < size:
                cursor[0], cursor[1], cursor[2], cursor[3] = p, at - begin, done + taken, count
                return
        cursor[1] = 0
    cursor[0], cursor[3] = len(left), count


@compiled((given(uint64), made(int64)))
def add_runs_of_bits(words: Array, counts: Ints) -> None:
    """counts[b] grows by the number of words that have bit b. Equal words that follow each other are added at once."""
    at = 0
    while at < len(words):
        word, begin = words[at], at
        while at < len(words) and words[at] == word:
            at += 1
        while word:
            counts[trailing_zeros(word)] += at - begin
            word &= word - np.uint64(1)


@compiled((given(uint64, 2), given(int64, 2), *(given(int64),) * 4, given(int64, 2), *(made(int64),) * 5))
def repeat_rows(
    sets: Array,
    times: Ints,
    low: Ints,
    windows: Ints,
    slides: Ints,
    phases: Ints,
    ranges: Ints,
    cursor: Ints,
    rows: Ints,
    ends: Ints,
    places: Ints,
    counts: Ints,
) -> None:
    """Each row once for every bit of its set and every window of that bit's query that holds the row.

    The windows of bit b have number w = windows[b], or -1 for no query. They end after low[row], at phases[w] plus a
    multiple of slides[w], and hold a tuple at times[p, row] until ranges[w, p] after it. `counts[b]` grows by each.
    Before the first call, `cursor` is (0, 0, 0). After each call it holds the next row, how many of its repetitions are
    behind it, and how many were written; all is done when the row is the number of rows.
    """
    count = 0
    for row in range(cursor[0], sets.shape[1]):
        seen = 0
        for word in range(sets.shape[0]):
            bits = sets[word, row]
            while bits:
                place = (word << 6) + np.int64(trailing_zeros(bits))
                bits &= bits - np.uint64(1)
                w = windows[place]
                if w < 0:
                    continue
                slide = slides[w]
                first, last = low[row] - (low[row] - phases[w]) % slide + slide, times[0, row] + ranges[w, 0]
                for p in range(1, times.shape[0]):
                    last = min(last, times[p, row] + ranges[w, p])
                number = max((last - first) // slide + 1, 0)
                done = max(cursor[1] - seen, 0)
                for k in range(done, number):
                    if count == len(rows):
                        cursor[0], cursor[1], cursor[2] = row, seen + k, count
                        return
                    rows[count], ends[count], places[count] = row, first + k * slide, place
                    counts[place] += 1
                    count += 1
                seen += number
        cursor[1] = 0
    cursor[0], cursor[2] = sets.shape[1], count
