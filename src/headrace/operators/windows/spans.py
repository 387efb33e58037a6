"""Spans of event time that are asked for, of all windows at once: windows that close, slices that are still needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.model.window import Window
from headrace.operators.common.arrays import Ints
from headrace.operators.common.encode import ranges


@dataclass(frozen=True, slots=True)
class Edges:
    """Several windows, as one number of each for all of them. `w` says below which window each time is asked about."""

    range_us: Ints
    slide_us: Ints
    offset_us: Ints
    remainder_us: Ints

    @classmethod
    def of(cls, windows: Sequence[Window]) -> Edges:
        numbers = [(w.range_us, w.slide_us, w.offset_us, w.remainder_us) for w in windows]
        return cls(*np.array(numbers, np.int64).reshape(-1, 4).T)

    def slice_starts(self, w: Ints, times: Ints) -> Ints:
        """Start of the window's own slice for each time."""
        phase, remainder = (times - self.offset_us[w]) % self.slide_us[w], self.remainder_us[w]
        return times - phase + np.where(phase >= remainder, remainder, 0)

    def slice_ends(self, w: Ints, starts: Ints) -> Ints:
        """The next edge of the window after each own slice's start."""
        phase, remainder = (starts - self.offset_us[w]) % self.slide_us[w], self.remainder_us[w]
        return starts - phase + np.where(phase < remainder, remainder, self.slide_us[w])

    def last_ends(self, w: Ints, times: Ints) -> Ints:
        """End of the youngest window that contains each time."""
        return times - (times - self.offset_us[w]) % self.slide_us[w] + self.range_us[w]

    def first_starts(self, w: Ints, starts: Ints) -> Ints:
        """Start of the oldest window that contains each own slice."""
        slide = self.slide_us[w]
        last = starts - (starts - self.offset_us[w]) % slide
        return last - (self.range_us[w] - (starts - last) - 1) // slide * slide


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans [low, high) by window and time: those of number first + i are [of[i], of[i + 1]). Both ends ascend in each.

    Two windows, of which the second has no span:

    >>> Spans.by_window(2, np.array([0, 0]), np.array([0, 5]), np.array([10, 15])).of.tolist()
    [0, 2, 2]
    """

    first: int
    of: Ints
    low: Ints
    high: Ints

    @classmethod
    def by_window(cls, windows: int, w: Ints, low: Ints, high: Ints) -> Spans:
        """Spans of window w[i] each, which ascend."""
        return cls(0, np.searchsorted(w, np.arange(windows + 1)), low, high)

    @property
    def counts(self) -> Ints:
        """How many spans each window has."""
        return np.diff(self.of)

    def some(self, first: int, last: int, low: int, high: int) -> Spans:
        """The spans [low, high) of the windows [first, last)."""
        of = np.clip(self.of[first - self.first : last - self.first + 1], low, high) - low
        return Spans(first, of, self.low[low:high], self.high[low:high])


def union_by_window(some: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """(window, time) of all that occur in some lists of them, each once and ascending.

    >>> one, two = (np.array([0, 1]), np.array([5, 3])), (np.array([0, 0]), np.array([2, 5]))
    >>> [found.tolist() for found in union_by_window([one, two])]
    [[0, 0, 1], [2, 5, 3]]
    """
    if not some:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    w, times = (np.concatenate(each) for each in zip(*some, strict=True))
    order = np.lexsort((times, w))
    w, times = w[order], times[order]
    first = np.append(True, (w[1:] != w[:-1]) | (times[1:] != times[:-1]))[: len(w)]
    return w[first], times[first]


def closing_spans(edges: Edges, w: Ints, starts: Ints, closed_us: int, watermark_us: int) -> Spans:
    """The windows that hold one of some own slices and end in (closed, watermark]. Slices ascend by window and start.

    This is `closing_windows` for all windows at once, and costs as little.
    """
    windows = len(edges.slide_us)
    if len(starts) == 0 or watermark_us <= closed_us:
        none = np.empty(0, np.int64)
        return Spans.by_window(windows, none, none, none)
    slide, range_us = edges.slide_us[w], edges.range_us[w]
    newest, oldest = starts - (starts - edges.offset_us[w]) % slide, edges.first_starts(w, starts)
    # where all is open or all has ended, the watermarks may be as far away as numbers go
    floor = max(closed_us, int(oldest.min())) - range_us + 1
    ceiling = min(watermark_us, int(newest.max() + range_us.max())) - range_us
    oldest = np.maximum(oldest, floor + (edges.offset_us[w] - floor) % slide)
    newest = np.minimum(newest, ceiling - (ceiling - edges.offset_us[w]) % slide)
    alone = np.append(True, w[1:] != w[:-1])
    covered = np.where(alone, oldest - slide, np.append(0, newest[:-1]))
    begin = np.maximum(oldest, covered + slide)
    counts = np.maximum((newest - begin) // slide + 1, 0)
    each = np.repeat(np.arange(len(w)), counts)
    low = begin[each] + ranges(np.zeros(len(w), np.int64), counts) * slide[each]
    return Spans.by_window(windows, w[each], low, low + range_us[each])


def live_spans(edges: Edges, w: Ints, starts: Ints, watermark_us: int) -> Spans:
    """The own slices that a window needs which ends after the watermark."""
    live = edges.last_ends(w, starts) > watermark_us
    w, starts = w[live], starts[live]
    return Spans.by_window(len(edges.slide_us), w, starts, edges.slice_ends(w, starts))
