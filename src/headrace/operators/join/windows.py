"""Which tuples share a window: a table over pairs of slices, as AStream's changelog-sets are (3.1.3, equation 1).

Of a query, a window is named by its end; ends lie on a lattice `phase + k * slide` that all sides share. A tuple
is in the windows with `first <= k <= last`, and `first` and `last` change at slice edges only. Intervals on a line that
meet in pairs meet all at once (Helly), so checking sides pair by pair is exact for joins of any number of sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.model.window import Window
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.join.rows import Codes, distinct_rows

TABLE_ELEMENTS = 1 << 22
"""Tables of pairs of slices, in words, are at most this large; else windows are compared pair by pair of tuples."""

TABLE_WORK = 1 << 26
"""And no table may take more comparisons than this."""


@dataclass(frozen=True, slots=True)
class PairWindows:
    """The windows of two sides that some queries have: their bits are set in `mask[word]`."""

    left: Window
    right: Window
    mask: Array

    @property
    def phase_us(self) -> int:
        return (self.left.offset_us + self.left.range_us) % self.left.slide_us


@dataclass(slots=True, eq=False)
class Moments:
    """The distinct (slice, bound) of some codes, and which of them each code has."""

    start: Ints
    bound: Ints
    of_code: Ints

    @staticmethod
    def of(codes: Codes) -> Moments:
        first, of_code = distinct_rows(codes.start, codes.bound)
        return Moments(codes.start[first], codes.bound[first], of_code)

    def ends(self, window: Window, phase_us: int) -> tuple[Ints, Ints]:
        """(first, last) window on the lattice that holds each moment and counts its tuples."""
        first = (np.maximum(self.start, self.bound) - phase_us) // window.slide_us + 1
        return first, (self.start + window.range_us - phase_us) // window.slide_us


class Containment:
    """Keeps, of candidate pairs, the queries that have a window with both. Made for one pair of sides and epoch.

    `table[word, left * width + right]` has the queries that have a window for two moments, where it is small enough.
    """

    def __init__(self, pairs: Sequence[PairWindows], words: int, left: Moments, right: Moments) -> None:
        self._ends = [
            (p.mask, *left.ends(p.left, p.phase_us), *right.ends(p.right, p.phase_us)) for p in pairs
        ]
        self.width = len(right.start)
        self.table: Array | None = None
        size = len(left.start) * self.width
        if size * words <= TABLE_ELEMENTS and size * len(pairs) <= TABLE_WORK:
            self.table = self._fill(words, size)

    def _fill(self, words: int, size: int) -> Array:
        table = np.zeros((words, size), np.uint64)
        for mask, first, last, right_first, right_last in self._ends:
            meet = np.maximum(first[:, None], right_first) <= np.minimum(last[:, None], right_last)
            flat = meet.ravel()
            for word in np.flatnonzero(mask):
                table[word] |= np.where(flat, mask[word], np.uint64(0))
        return table

    def restrict(self, sets: Array, left: Ints, right: Ints) -> None:
        """Clear the bits of queries without a window for the moments `left[i]` and `right[i]`, in place."""
        if self.table is not None:
            at = left * self.width + right
            for words, table in zip(sets, self.table, strict=True):
                words &= table[at]
            return
        allowed = np.zeros_like(sets)
        for mask, first, last, right_first, right_last in self._ends:
            meet = np.maximum(first[left], right_first[right]) <= np.minimum(last[left], right_last[right])
            for word in np.flatnonzero(mask):
                allowed[word] |= np.where(meet, mask[word], np.uint64(0))
        sets &= allowed
