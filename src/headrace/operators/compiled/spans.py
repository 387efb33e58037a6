"""Spans of event time of many windows: their partials out of new and stored ones, for all windows in one pass.

A span is a window that closes, or a slice that later epochs need. Partials of spans lie one window after the other,
and those of a window as [entry, span, key]. The entries of window w are [entries[w], entries[w + 1]) of a lane, and its
spans are [spans[w], spans[w + 1]).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int8, int16, int32, int64, uint8

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.compiled.compiling import called, compiled, given, made


@compiled((given(int64), given(int64), made(int64), made(boolean)))
def find_slices(times: Ints, starts: Ints, index: Ints, present: Array) -> None:
    """The slice of each time: the last one that starts by then, and which slices occur.

    Tuples come nearly in the order of time, so a time is most often in the slice of the one before. None is before
    the first slice.
    """
    at, count = 0, len(starts)
    for i in range(len(times)):
        time = times[i]
        if time < starts[at] or (at + 1 < count and time >= starts[at + 1]):
            low, high = 0, count
            while high - low > 1:
                middle = (low + high) >> 1
                if starts[middle] <= time:
                    low = middle
                else:
                    high = middle
            at = low
        index[i] = at
        present[at] = True


@compiled(
    *(
        (given(dtype, 3), *(given(int64),) * 6, made(into))
        for dtype, into in ((int32, int32), (int32, int64), (int64, int64))
    )
)
def put_totals(
    running: Ints, low: Ints, high: Ints, entries: Ints, spans: Ints, first: Ints, last: Ints, into: Ints
) -> None:
    """Partials as differences of running totals: rows low[e] to high[e] of slices first[s] to last[s]."""
    keys, at = running.shape[2], 0
    for w in range(len(spans) - 1):
        for e in range(entries[w], entries[w + 1]):
            above, below = running[high[e]], running[low[e]]
            for s in range(spans[w], spans[w + 1]):
                for k in range(keys):
                    into[at + k] = (
                        above[last[s], k] - below[last[s], k] - above[first[s], k] + below[first[s], k]
                    )
                at += keys


_SUMMED = (given(int64, 2), given(int64), given(int64), int64, *(given(int64),) * 4)
"""Partials [entry, row]; the key of each row (none: all keys one after the other), where the rows of each slice begin,
and how many keys there are; entries, spans, and the slices [first, last) that each span is made of."""


@compiled((*_SUMMED, made(int64)))
def add_slices(
    partials: Ints,
    keys: Ints,
    bounds: Ints,
    count: int,
    entries: Ints,
    spans: Ints,
    first: Ints,
    last: Ints,
    into: Ints,
) -> None:
    """Partials of spans as sums over their slices."""
    at = 0
    for w in range(len(spans) - 1):
        for e in range(entries[w], entries[w + 1]):
            mine = partials[e]
            for s in range(spans[w], spans[w + 1]):
                for k in range(count):
                    into[at + k] = 0
                for g in range(first[s], last[s]):
                    if len(keys):
                        for j in range(bounds[g], bounds[g + 1]):
                            into[np.uint64(at + keys[j])] += mine[j]
                    else:
                        for k in range(count):
                            into[at + k] += mine[bounds[g] + k]
                at += count


@compiled((*_SUMMED, boolean, int64, made(int64)))
def keep_slices(
    partials: Ints,
    keys: Ints,
    bounds: Ints,
    count: int,
    entries: Ints,
    spans: Ints,
    first: Ints,
    last: Ints,
    least: bool,
    nothing: int,
    into: Ints,
) -> None:
    """Partials of spans as the least, or the greatest, of their slices."""
    at = 0
    for w in range(len(spans) - 1):
        for e in range(entries[w], entries[w + 1]):
            mine = partials[e]
            for s in range(spans[w], spans[w + 1]):
                for k in range(count):
                    into[at + k] = nothing
                for g in range(first[s], last[s]):
                    if len(keys):
                        for j in range(bounds[g], bounds[g + 1]):
                            to = np.uint64(at + keys[j])
                            into[to] = min(into[to], mine[j]) if least else max(into[to], mine[j])
                    elif least:
                        for k in range(count):
                            into[at + k] = min(into[at + k], mine[bounds[g] + k])
                    else:
                        for k in range(count):
                            into[at + k] = max(into[at + k], mine[bounds[g] + k])
                at += count


@compiled((*(given(int64),) * 5, made(int32), made(int32)))
def place_rows(slices: Ints, rows: Ints, low: Ints, high: Ints, spans: Ints, first: Ints, last: Ints) -> None:
    """Which spans of its window each stored row is in: [first, last), counted from the first one of the window.

    The rows of window w are [rows[w], rows[w + 1]), and span s is [low[s], high[s]). Both ends ascend in each window.
    """
    for w in range(len(spans) - 1):
        begin, count = spans[w], spans[w + 1] - spans[w]
        for r in range(rows[w], rows[w + 1]):
            a, b = 0, count  # the first span that ends after the slice begins
            while a < b:
                middle = (a + b) >> 1
                if high[begin + middle] <= slices[r]:
                    a = middle + 1
                else:
                    b = middle
            first[r] = a
            while a < count and low[begin + a] <= slices[r]:
                a += 1
            last[r] = a


@compiled((*(given(int64),) * 4, *(made(int64),) * 3))
def match_ids(
    ids: Ints, entries: Ints, stored: Ints, begin: Ints, found: Ints, at: Ints, bounds: Ints
) -> None:
    """The stored entries that somebody asks for: `found` counts from the first stored one of a window, `at` from the
    first one that is asked for, and those of window w are [bounds[w], bounds[w + 1]) of both.

    Ids ascend in each window. Window w has `stored` ones at [begin[2w], begin[2w + 1]).
    """
    count = 0
    for w in range(len(entries) - 1):
        bounds[w] = count
        e = entries[w]
        for i in range(begin[2 * w], begin[2 * w + 1]):
            while e < entries[w + 1] and ids[e] < stored[i]:
                e += 1
            if e < entries[w + 1] and ids[e] == stored[i]:
                found[count], at[count] = i - begin[2 * w], e - entries[w]
                count += 1
    bounds[len(entries) - 1] = count


_WIDTHS = (int8, int16, int32, int64)
_STORED = (
    *(given(dtype) for dtype in _WIDTHS),
    *(given(dtype) for dtype in (uint8, int64, int64)),
    *(given(int64),) * 3,
    *(given(int64),) * 6,
    *(given(int64), given(int64), int64),
)
"""Stored partials: the same bytes as numbers of each width; which width those of each window have (0: there are none),
at which of its numbers they begin, and how many rows they have; what `match_ids` found; the row and key of what is
wanted, in runs of rows that are in the same spans: where each run begins, its spans, and where each window's runs
begin; entries, spans and the number of keys."""


@called
def add_wanted(
    stored: Ints, begin: int, to: int, rows: Ints, keys: Ints, runs: Any, some: Any, into: Ints
) -> None:
    (starts, first, last), (low, high, count) = runs, some
    for g in range(low, high):
        for s in range(first[g], last[g]):
            base = to + s * count
            for j in range(starts[g], starts[g + 1]):
                into[np.uint64(base + keys[j])] += stored[np.uint64(begin + rows[j])]


@compiled(*((*_STORED, made(dtype)) for dtype in (int32, int64)))
def add_stored_rows(
    bytes_: Ints,
    shorts: Ints,
    ints: Ints,
    longs: Ints,
    width: Ints,
    begin: Ints,
    length: Ints,
    found: Ints,
    at: Ints,
    bounds: Ints,
    rows: Ints,
    keys: Ints,
    starts: Ints,
    first: Ints,
    last: Ints,
    of: Ints,
    entries: Ints,
    spans: Ints,
    count: int,
    into: Ints,
) -> None:
    """Add what is stored to the partials of spans."""
    base, runs = 0, (starts, first, last)
    for w in range(len(spans) - 1):
        size = (spans[w + 1] - spans[w]) * count
        some = of[w], of[w + 1], count
        for i in range(bounds[w], bounds[w + 1] if width[w] else bounds[w]):
            to, source = base + at[i] * size, begin[w] + found[i] * length[w]
            if width[w] == 1:
                add_wanted(bytes_, source, to, rows, keys, runs, some, into)
            elif width[w] == 2:
                add_wanted(shorts, source, to, rows, keys, runs, some, into)
            elif width[w] == 4:
                add_wanted(ints, source, to, rows, keys, runs, some, into)
            else:
                add_wanted(longs, source, to, rows, keys, runs, some, into)
        base += (entries[w + 1] - entries[w]) * size


@called
def keep_wanted(
    stored: Ints,
    begin: int,
    to: int,
    rows: Ints,
    keys: Ints,
    runs: Any,
    some: Any,
    least: bool,
    nothing: Any,
    into: Ints,
) -> None:
    (starts, first, last), (low, high, count) = runs, some
    for g in range(low, high):
        for s in range(first[g], last[g]):
            base = to + s * count
            for j in range(starts[g], starts[g + 1]):
                place, value = np.uint64(base + keys[j]), np.int64(stored[np.uint64(begin + rows[j])])
                before = into[place]
                better = min(before, value) if least else max(before, value)
                into[place] = better if value != nothing else before


@compiled((*_STORED, boolean, made(int64)))
def keep_stored_rows(
    bytes_: Ints,
    shorts: Ints,
    ints: Ints,
    longs: Ints,
    width: Ints,
    begin: Ints,
    length: Ints,
    found: Ints,
    at: Ints,
    bounds: Ints,
    rows: Ints,
    keys: Ints,
    starts: Ints,
    first: Ints,
    last: Ints,
    of: Ints,
    entries: Ints,
    spans: Ints,
    count: int,
    least: bool,
    into: Ints,
) -> None:
    """The same with the least, or the greatest, in place of the sum. The last number of a width stands for nothing."""
    base, runs = 0, (starts, first, last)
    for w in range(len(spans) - 1):
        size = (spans[w + 1] - spans[w]) * count
        some = of[w], of[w + 1], count
        most = (np.int64(1) << (8 * np.int64(max(width[w], 1)) - 1)) - 1
        nothing = most if least else -most - 1
        for i in range(bounds[w], bounds[w + 1] if width[w] else bounds[w]):
            to, source = base + at[i] * size, begin[w] + found[i] * length[w]
            if width[w] == 1:
                keep_wanted(bytes_, source, to, rows, keys, runs, some, least, nothing, into)
            elif width[w] == 2:
                keep_wanted(shorts, source, to, rows, keys, runs, some, least, nothing, into)
            elif width[w] == 4:
                keep_wanted(ints, source, to, rows, keys, runs, some, least, nothing, into)
            else:
                keep_wanted(longs, source, to, rows, keys, runs, some, least, nothing, into)
        base += (entries[w + 1] - entries[w]) * size
