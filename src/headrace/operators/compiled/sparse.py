"""Partials of few keys: the rows (key, slice) that exist, and the windows that they are in.

Where most keys have no tuple in most slices, rows are listed in the order of keys, and of slices within a key. Then the
rows of a key in a window lie side by side, and a window costs its rows, not its keys.
"""

from __future__ import annotations

from numba import boolean, float64, int32, int64

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.compiled.compiling import compiled, given, made


@compiled((given(int64), made(int64), made(int64), made(int64)))
def list_distinct(values: Ints, seen: Ints, found: Ints, count: Ints) -> None:
    """The distinct values as they come, `count[0]` of them, where `found` has room for all; else `count[0]` is -1.

    `seen` is a table of values met before, whose length is a power of two. At first it holds one value everywhere, and
    this value is the first of `found`.
    """
    mask = len(seen) - 1
    for i in range(len(values)):
        value = values[i]
        at = (value ^ (value >> 20) ^ (value >> 40)) & mask
        if seen[at] == value:
            continue
        seen[at] = value
        known = False
        for n in range(count[0]):
            known |= found[n] == value
        if known:
            continue
        if count[0] == len(found):
            count[0] = -1
            return
        found[count[0]] = value
        count[0] += 1


@compiled((given(int32), made(int64), given(int32), made(int32)))
def sort_rows(values: Ints, ends: Ints, before: Ints, after: Ints) -> None:
    """One pass of a radix sort: the rows `before`, in the order of their values, where equal ones stay as they are.

    `ends` is zero, one longer than there are values, and is used up.
    """
    for i in range(len(values)):
        ends[values[i] + 1] += 1
    for v in range(1, len(ends)):
        ends[v] += ends[v - 1]
    for i in range(len(before)):
        row = before[i]
        after[ends[values[row]]] = row
        ends[values[row]] += 1


@compiled((given(int32), given(int32), given(int32), made(int64), made(int32, 2), made(int64)))
def name_places(slots: Ints, keys: Ints, order: Ints, places: Ints, distinct: Ints, count: Ints) -> None:
    """The place of each row among the distinct (key, slot): `count[0]` of them, in the given order of rows.

    `distinct` has room for every row, and gets the keys and the slots of places.
    """
    last = -1
    for i in range(len(order)):
        row = order[i]
        if i == 0 or keys[row] != distinct[0, last] or slots[row] != distinct[1, last]:
            last += 1
            distinct[0, last], distinct[1, last] = keys[row], slots[row]
        places[row] = last
    count[0] = last + 1


_ROWS = (given(int32), given(int32), given(int64), given(int64))


@compiled((*_ROWS, made(int64)))
def count_keys(keys: Ints, slots: Ints, first: Ints, last: Ints, counts: Ints) -> None:
    """counts[w]: how many keys have a row in window w. Rows are by key and slot; a slot is in windows [first, last)."""
    for row in range(len(keys)):
        low, high = first[slots[row]], last[slots[row]]
        if row and keys[row] == keys[row - 1]:  # an earlier row has brought the key into these already
            low = max(low, last[slots[row - 1]])
        for w in range(low, high):
            counts[w] += 1


@compiled((*_ROWS, given(int64), made(int64), made(int32), made(int64, 2)))
def list_keys(
    keys: Ints, slots: Ints, first: Ints, last: Ints, until: Ints, next_: Ints, found: Ints, runs: Ints
) -> None:
    """The keys that `count_keys` counted, and the rows [runs[0], runs[1]) of each in the window.

    Those of window w, whose slots are before until[w], are put from next_[w] on, which moves forward.
    """
    for row in range(len(keys)):
        low, high = first[slots[row]], last[slots[row]]
        if row and keys[row] == keys[row - 1]:
            low = max(low, last[slots[row - 1]])
        end = row + 1
        for w in range(low, high):
            while end < len(keys) and keys[end] == keys[row] and slots[end] < until[w]:
                end += 1
            found[next_[w]] = keys[row]
            runs[0, next_[w]], runs[1, next_[w]] = row, end
            next_[w] += 1


@compiled(*((given(dtype, 2), given(int64, 2), made(dtype, 2)) for dtype in (int64, float64)))
def add_runs(partials: Array, runs: Ints, sums: Array) -> None:
    """sums[e, i]: the rows [runs[0, i], runs[1, i]) of an entry, none of which is empty, added one after the other."""
    for e in range(partials.shape[0]):
        for i in range(runs.shape[1]):
            total = partials[e, runs[0, i]]
            for row in range(runs[0, i] + 1, runs[1, i]):
                total += partials[e, row]
            sums[e, i] = total


@compiled((given(int64, 2), given(int64, 2), boolean, made(int64, 2)))
def extremes_of_runs(partials: Ints, runs: Ints, least: bool, found: Ints) -> None:
    """The same with the least, or the greatest, in place of the sum."""
    for e in range(partials.shape[0]):
        for i in range(runs.shape[1]):
            kept = partials[e, runs[0, i]]
            for row in range(runs[0, i] + 1, runs[1, i]):
                kept = min(kept, partials[e, row]) if least else max(kept, partials[e, row])
            found[e, i] = kept
