"""Closed windows: combine partials of slices, find the rows that have a tuple, and pick their values, in one pass each.

Partials are [entry, slice, key], or [entry, place] where a place is a window and a key. Numpy goes over the whole of
them for every step and makes an index of each row; where few keys have a tuple in a window, most of that is spent on
what nobody gets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int8, int16, int32, int64, types

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.compiled.compiling import compiled, given, made


def _any_order(dtype: Any) -> Any:
    """Partials [entry, window, key] that are only read; their axes may be swapped."""
    return types.Array(dtype, 3, "A", readonly=True)


@compiled(
    *(
        (given(dtype), given(int64), given(int64), given(int64), given(int64), made(int64), made(int32))
        for dtype in (int32, int64)
    )
)
def pick_rows(
    counts: Ints, start: Ints, first: Ints, last: Ints, bounds: Ints, runs: Ints, picked: Ints
) -> None:
    """The places at which queries have a tuple, by query and window, and how many each query has in each window.

    Query q has the windows [first[q], last[q]), and the places of window w are [bounds[w], bounds[w + 1]). There are
    counts[start[q] + place] of its tuples at a place. `picked` has room for every place of every query, and one more.
    """
    at = run = 0
    for q in range(len(start)):
        for w in range(first[q], last[q]):
            before = at
            for place in range(bounds[w], bounds[w + 1]):
                picked[at] = place  # written in any case: a jump that nobody can foresee costs more
                at += counts[np.uint64(start[q] + place)] > 0
            runs[run] = at - before
            run += 1


@compiled(
    *(
        (given(dtype), given(int64), given(int64), given(int32), made(into))
        for dtype, into in ((int32, int64), (int64, int64), (float64, float64))
    )
)
def pick_values(partials: Array, start: Ints, bounds: Ints, picked: Ints, values: Array) -> None:
    """The partials of picked places: query q's are [bounds[q], bounds[q + 1]), at partials[start[q] + place]."""
    for q in range(len(start)):
        for i in range(bounds[q] - bounds[0], bounds[q + 1] - bounds[0]):
            values[i] = partials[np.uint64(start[q] + picked[i])]


@compiled(
    *(
        (given(dtype, 3), given(int64), given(int64), given(int64), given(int64), made(into, 3))
        for dtype, into in ((int32, int32), (int32, int64), (int64, int64))
    )
)
def subtract_totals(running: Ints, low: Ints, high: Ints, first: Ints, last: Ints, sums: Ints) -> None:
    """sums[e, r]: rows low[e] to high[e] of slices first[r] to last[r], where `running` are totals over both."""
    for e in range(len(low)):
        for r in range(len(first)):
            above, below = running[high[e]], running[low[e]]
            for k in range(running.shape[2]):
                sums[e, r, k] = (
                    above[last[r], k] - below[last[r], k] - above[first[r], k] + below[first[r], k]
                )


@compiled((_any_order(int64), given(int64), given(int64), made(int64, 3)))
def add_ranges(partials: Ints, first: Ints, last: Ints, sums: Ints) -> None:
    """sums[e, r] += partials[e, s] for every slice s from first[r] up to last[r]."""
    for e in range(partials.shape[0]):
        for r in range(len(first)):
            for s in range(first[r], last[r]):
                for k in range(partials.shape[2]):
                    sums[e, r, k] += partials[e, s, k]


@compiled((_any_order(int64), given(int64), given(int64), boolean, made(int64, 3)))
def extreme_ranges(partials: Ints, first: Ints, last: Ints, least: bool, found: Ints) -> None:
    """found[e, r]: the least (or greatest) of itself and partials[e, s], for every slice s in [first[r], last[r])."""
    for e in range(partials.shape[0]):
        for r in range(len(first)):
            for s in range(first[r], last[r]):
                if least:
                    for k in range(partials.shape[2]):
                        found[e, r, k] = min(found[e, r, k], partials[e, s, k])
                else:
                    for k in range(partials.shape[2]):
                        found[e, r, k] = max(found[e, r, k], partials[e, s, k])


@compiled(*((_any_order(dtype), made(boolean, 2)) for dtype in (int32, int64)))
def mark_live(counts: Ints, live: Array) -> None:
    """Whether some entry has a tuple of a key in a slot: live[key, slot] becomes true."""
    for e in range(counts.shape[0]):
        for s in range(counts.shape[1]):
            for k in range(counts.shape[2]):
                live[k, s] |= counts[e, s, k] != 0


@compiled(*((_any_order(dtype), int64, made(int64)) for dtype in (int32, int64)))
def find_span(partials: Ints, nothing: int, span: Ints) -> None:
    """Widen the span (least, greatest) by all partials but those that are `nothing`."""
    least, greatest = span[0], span[1]
    for e in range(partials.shape[0]):
        for s in range(partials.shape[1]):
            for k in range(partials.shape[2]):
                value = np.int64(partials[e, s, k])
                least = min(least, value if value != nothing else least)
                greatest = max(greatest, value if value != nothing else greatest)
    span[0], span[1] = least, greatest


@compiled(
    *(
        (_any_order(dtype), given(int64), given(int64), int64, int64, made(into, 2))
        for dtype, into in (
            *((wide, narrow) for wide in (int32, int64) for narrow in (int8, int16, int32, int64)),
            (float64, float64),
        )
    )
)
def pick_cells(partials: Array, slots: Ints, keys: Ints, nothing: int, instead: int, picked: Array) -> None:
    """picked[e, i] = partials[e, slots[i], keys[i]], and `instead` for those that are `nothing`."""
    for e in range(partials.shape[0]):
        for i in range(len(slots)):
            value = partials[e, np.uint64(slots[i]), np.uint64(keys[i])]
            picked[e, i] = value if value != nothing else instead


def _stored(dtype: Any) -> tuple[Any, ...]:
    """Partials [entry, row], which entries and rows of them are wanted, and where these belong."""
    return (types.Array(dtype, 2, "A", readonly=True), *(given(int64) for _ in range(7)))


@compiled(
    *((*_stored(dtype), made(int64, 3)) for dtype in (int8, int16, int32, int64)),
    (*_stored(float64), made(float64, 3)),
)
def add_stored(
    partials: Array,
    wanted: Ints,
    rows: Ints,
    entries: Ints,
    keys: Ints,
    bounds: Ints,
    first: Ints,
    last: Ints,
    into: Array,
) -> None:
    """into[entries[i], s, keys[j]] += partials[wanted[i], rows[j]], for all j in [bounds[g], bounds[g + 1]) and s in
    [first[g], last[g]) of every g.
    """
    for i in range(len(wanted)):
        for g in range(len(first)):
            for s in range(first[g], last[g]):
                mine, stored = into[entries[i], s], partials[wanted[i]]
                for j in range(bounds[g], bounds[g + 1]):
                    mine[np.uint64(keys[j])] += stored[np.uint64(rows[j])]


@compiled(*((*_stored(dtype), boolean, int64, made(int64, 3)) for dtype in (int8, int16, int32, int64)))
def keep_stored(
    partials: Ints,
    wanted: Ints,
    rows: Ints,
    entries: Ints,
    keys: Ints,
    bounds: Ints,
    first: Ints,
    last: Ints,
    least: bool,
    nothing: int,
    into: Ints,
) -> None:
    """The same with the least, or the greatest, in place of the sum. What is `nothing` there is left out."""
    for i in range(len(wanted)):
        for g in range(len(first)):
            for s in range(first[g], last[g]):
                mine, stored = into[entries[i], s], partials[wanted[i]]
                for j in range(bounds[g], bounds[g + 1]):
                    at, value = np.uint64(keys[j]), np.int64(stored[np.uint64(rows[j])])
                    before = mine[at]
                    better = min(before, value) if least else max(before, value)
                    mine[at] = better if value != nothing else before
