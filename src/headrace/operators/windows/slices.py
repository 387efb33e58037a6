"""Event time cut at window edges: fine slices that no edge crosses, and each window's own, coarser slices."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from headrace.model.window import Window
from headrace.operators.common.arrays import Bools, Ints
from headrace.operators.common.bitrows import as_given
from headrace.operators.compiled.spans import find_slices

EDGE_BUDGET = 1 << 16
"""More edges than this (or than tuples) in the data's span are not worth listing one by one."""


def slice_starts(window: Window, times: Ints) -> Ints:
    """Start of the window's own slice for each time: no edge of the window lies inside a slice."""
    phase = (times - window.offset_us) % window.slide_us
    starts = times - phase
    if window.remainder_us:
        starts = starts + np.where(phase >= window.remainder_us, window.remainder_us, 0)
    return starts


def last_ends(window: Window, times: Ints) -> Ints:
    """End of the youngest window that contains each time."""
    return times - (times - window.offset_us) % window.slide_us + window.range_us


def first_starts(window: Window, slice_start: Ints) -> Ints:
    """Start of the oldest window that contains each own slice."""
    last = slice_start - (slice_start - window.offset_us) % window.slide_us
    back = (window.range_us - (slice_start - last) - 1) // window.slide_us
    return last - back * window.slide_us


def distinct_of(times: Ints) -> Ints:
    """The times that occur, which ascend already. A few of them take a quarter of the time of `np.unique`."""
    return times[np.append(True, times[1:] != times[:-1])] if len(times) else times


def union_of(some: Sequence[Ints]) -> Ints:
    """The times that occur in any of some lists, each of which is ascending and distinct.

    >>> union_of([np.array([1, 5]), np.array([], np.int64), np.array([3, 5])]).tolist()
    [1, 3, 5]
    """
    present = [times for times in some if len(times)]
    if len(present) < 2:
        return present[0] if present else np.empty(0, np.int64)
    return distinct_of(np.sort(np.concatenate(present)))


def fine_slices(times: Ints, windows: Sequence[Window]) -> tuple[Ints, Ints]:
    """(slice index per tuple, start of the slice: the last edge of any window before it), slices ascending.

    Every slice lies between two consecutive edges of the union of all windows. When edges in the data's span are
    many, slices are found on the windows' common grid instead, and only those that occur exist.
    """
    if len(times) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low, high = int(times.min()), int(times.max())
    span = high - low
    edges = sum((span // w.slide_us + 2) * (2 if w.remainder_us else 1) for w in windows)
    if edges <= min(EDGE_BUDGET, max(1024, len(times))):
        starts = np.unique(np.concatenate([_edges(w, low, high) for w in windows]))
        index, present = np.empty(len(times), np.int64), np.zeros(len(starts), np.bool_)
        find_slices(as_given(times), starts, index, present)
        if not present.all():
            index = (np.cumsum(present) - 1)[index]
        return index, _last_edges(starts[present], windows)
    grid = 0
    for w in windows:
        grid = gcd(grid, w.slide_us, w.remainder_us)
    for w in windows:
        grid = gcd(grid, w.offset_us - windows[0].offset_us)
    _, first, index = np.unique(
        (times - windows[0].offset_us) // grid, return_index=True, return_inverse=True
    )
    starts, slice_of = np.unique(_last_edges(times[first], windows), return_inverse=True)
    return slice_of[index], starts


def _last_edges(times: Ints, windows: Sequence[Window]) -> Ints:
    return np.maximum.reduce([slice_starts(w, times) for w in windows])


def _edges(window: Window, low: int, high: int) -> Ints:
    """The window's edges in [low's slice start, high]."""
    first = window.last_start(low)
    starts = np.arange(first, high + 1, window.slide_us, dtype=np.int64)
    return np.concatenate([starts, starts + window.remainder_us]) if window.remainder_us else starts


def in_closing(window: Window, starts: Ints, closed_us: int, watermark_us: int) -> Bools:
    """Which slices, of which these are the starts, are in a window that ends in (closed, watermark].

    No edge of the window lies inside of a slice. Of the windows that hold it, the last one that has ended decides. So
    no window is listed, and the cost is a few passes over the slices.

    >>> in_closing(Window(10, 5), np.array([0, 5, 40]), 5, 49).tolist()
    [True, True, True]
    >>> in_closing(Window(10, 5), np.array([0, 5, 40]), 10, 20).tolist()
    [False, True, False]
    """
    if watermark_us <= closed_us:
        return np.zeros(len(starts), bool)
    last = last_ends(window, starts)
    # where all has ended, the watermark may be as far away as numbers go
    end = min(watermark_us, int(last.max(initial=closed_us)))
    end -= (end - window.range_us - window.offset_us) % window.slide_us
    if end <= closed_us:
        return np.zeros(len(starts), bool)
    ends = np.minimum(last, end)
    found: Bools = (ends > closed_us) & (ends > starts)
    return found


def closing_windows(window: Window, own_starts: Ints, closed_us: int, watermark_us: int) -> Ints:
    """Starts of the windows that hold one of these (ascending) slices and end in (closed, watermark], ascending.

    Costs one step per slice and window found, whatever the time span.

    >>> closing_windows(Window(10, 5), np.array([0, 5, 40]), 5, 50).tolist()
    [0, 5, 35, 40]
    """
    if len(own_starts) == 0 or watermark_us <= closed_us:
        return np.empty(0, np.int64)
    newest = own_starts - (own_starts - window.offset_us) % window.slide_us
    oldest = first_starts(window, own_starts)
    if closed_us > int(oldest[0]):
        floor = closed_us - window.range_us + 1
        oldest = np.maximum(oldest, floor + (window.offset_us - floor) % window.slide_us)
    if watermark_us < int(newest[-1]) + window.range_us:
        ceiling = watermark_us - window.range_us
        newest = np.minimum(newest, ceiling - (ceiling - window.offset_us) % window.slide_us)
    covered = np.append(oldest[0] - window.slide_us, np.maximum.accumulate(newest)[:-1])
    begin = np.maximum(oldest, covered + window.slide_us)
    counts = np.maximum((newest - begin) // window.slide_us + 1, 0)
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(begin, counts) + steps * window.slide_us
