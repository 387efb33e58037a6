"""Joined rows meet the tuples of one stock: which pairs of equal key does some query want?

Pairs are tried one by one (a list) or, where many tuples look alike, by groups of them: pairs of groups that no query
wants are never taken apart. Either way pairs are in memory in blocks only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headrace.operators.common.encode import Array, Bools, Ints
from headrace.operators.join.groups import Groups, average_group, group_rows, sampled
from headrace.operators.join.side import Stock
from headrace.operators.join.windows import Containment
from headrace.optimizer.layout import Layout, Partners, decide_layout

BLOCK_ROWS = 1 << 18
"""Pairs that are in memory at a time."""

SCAN_ROWS = 16
"""A row with at most this many partners of its key tries them all; with more it first searches those near in time."""

LIST_PAIRS = 1 << 16
"""So few pairs are tried one by one, whatever they look like."""

SCORED_ROWS, SCORED_TUPLES = 1 << 9, 1 << 12
"""So many rows and tuples are scored at a time."""

MayScore = Callable[[Ints, slice], Bools]
"""Which pairs [row, tuple] may score high enough, of some rows and a range of the stock's tuples."""

Pairs = tuple[Ints, Ints, Array]
"""(row, tuple, query-set) of pairs that some query wants."""


@dataclass(slots=True)
class Meeting:
    """Rows with their query-sets and, per earlier position, their moments and how these share windows with the stock's.

    `keys[row]` is the row's key in the stock, or -1. `near` says between which times partners of some rows lie.
    `may_score` says which pairs of rows and tuples are worth a look; without it all are.
    """

    keys: Ints
    sets: Array
    moments: Sequence[Ints]
    contains: Sequence[Containment]
    near: Callable[[Ints], tuple[Ints, Ints]]
    stock: Stock
    role: int
    may_score: MayScore | None = None

    def pairs(self) -> Iterator[Pairs]:
        """All pairs, block by block; no block is empty."""
        row = np.flatnonzero(self.keys >= 0)
        if len(row) == 0:
            return
        first, last = self._ranges(row)
        if self.may_score is not None:
            yield from self._by_score(row, first, last, self.may_score)
            return
        counts = last - first
        if self._layout(row, int(counts.sum())) is Layout.GROUPS:
            yield from self._by_groups(row, first, last)
            return
        mine = self.stock.content.sets[self.role]
        for at, right in candidates(first, counts):
            found = self._wanted(self.sets, self.moments, mine, self.stock.moment, row[at], right)
            if len(found[0]):
                yield found

    def _by_score(self, row: Ints, first: Ints, last: Ints, may_score: MayScore) -> Iterator[Pairs]:
        """All pairs whose score may be high enough; blocks of rows and tuples are looked at as a whole."""
        order = np.lexsort((first, self.keys[row]))
        row, first, last = row[order], first[order], last[order]
        mine = self.stock.content.sets[self.role]
        edges = np.flatnonzero(np.diff(self.keys[row], prepend=-1)).tolist()
        for begin, end in pairwise([*edges, len(row)]):
            for low in range(begin, end, SCORED_ROWS):
                some = slice(low, min(low + SCORED_ROWS, end))
                for left in range(int(first[some].min()), int(last[some].max()), SCORED_TUPLES):
                    right = np.arange(left, min(left + SCORED_TUPLES, int(last[some].max())))
                    near = (right >= first[some, None]) & (right < last[some, None])
                    at, other = np.nonzero(may_score(row[some], slice(left, left + len(right))) & near)
                    at, other = row[some][at], right[other]
                    for cut in range(0, len(at), BLOCK_ROWS):
                        block = slice(cut, cut + BLOCK_ROWS)
                        found = self._wanted(
                            self.sets, self.moments, mine, self.stock.moment, at[block], other[block]
                        )
                        if len(found[0]):
                            yield found

    def _ranges(self, row: Ints) -> tuple[Ints, Ints]:
        """First and last tuple of the stock for each row: of equal key, and near enough in time."""
        keys, offsets, content = self.keys[row], self.stock.keys.offsets, self.stock.content
        first, last = offsets[keys], offsets[keys + 1]
        many = np.flatnonzero(last - first > SCAN_ROWS)
        if len(many):
            low, high = self.near(row[many])
            first[many] = _bisect(content.time, first[many], last[many], low - content.base)
            last[many] = _bisect(content.time, first[many], last[many], high - content.base)
        return first, last

    def _layout(self, row: Ints, pairs: int) -> Layout:
        rows = len(row) + self.stock.content.rows
        if pairs < max(LIST_PAIRS, rows):
            return Layout.LIST
        some = row[sampled(len(row))]
        left = average_group(self.keys[some], [m[some] for m in self.moments], self.sets[:, some])
        return decide_layout(Partners(rows, pairs, left, self.stock.sampled_group_rows(self.role)))

    def _by_groups(self, row: Ints, first: Ints, last: Ints) -> Iterator[Pairs]:
        left = group_rows(self.keys[row], [m[row] for m in self.moments], np.take(self.sets, row, axis=1))
        right = self.stock.groups(self.role)
        heads, theirs = row[left.heads], right.heads
        sets, moments = np.take(self.sets, heads, axis=1), [m[heads] for m in self.moments]
        mine, moment = np.take(self.stock.content.sets[self.role], theirs, axis=1), self.stock.moment(theirs)
        begin, end = self._group_ranges(left, right, moment, first, last)
        for at, group in candidates(begin, end - begin):
            a, b, both = self._wanted(sets, moments, mine, moment.__getitem__, at, group)
            for i, j, pair in _rows_of(left, right, a, b):
                yield row[i], j, np.take(both, pair, axis=1)

    def _group_ranges(
        self, left: Groups, right: Groups, moment: Ints, first: Ints, last: Ints
    ) -> tuple[Ints, Ints]:
        """First and last group of the stock for each group of rows: those with a tuple in the rows' ranges of time.

        A stock that plans with other window edges have sliced is not in order of slices; there, all groups of the key.
        """
        low = np.minimum.reduceat(first[left.order], left.offsets[:-1])
        high = np.maximum.reduceat(last[left.order], left.offsets[:-1])
        if not self.stock.in_order:
            begin = np.searchsorted(right.keys, left.keys, "left")
            return begin, np.where(low < high, np.searchsorted(right.keys, left.keys, "right"), begin)
        starts = self.stock.starts
        some = np.flatnonzero(low < high)
        early, late = (starts[self.stock.moment(rows)] for rows in (low[some], high[some] - 1))
        places = right.keys * len(starts) + moment
        keys = left.keys[some] * len(starts)
        begin, end = np.zeros_like(low), np.zeros_like(low)
        begin[some] = np.searchsorted(places, keys + np.searchsorted(starts, early, "left"), "left")
        end[some] = np.searchsorted(places, keys + np.searchsorted(starts, late, "right"), "left")
        return begin, end

    def _wanted(
        self,
        sets: Array,
        moments: Sequence[Ints],
        mine: Array,
        moment: Callable[[Ints], Ints],
        left: Ints,
        right: Ints,
    ) -> Pairs:
        """The pairs that some query wants and has a window for."""
        both = np.take(sets, left, axis=1)
        both &= np.take(mine, right, axis=1)
        left, right, both = _drop_empty(left, right, both)
        theirs = moment(right)
        for contains, ours in zip(self.contains, moments, strict=True):
            contains.restrict(both, ours[left], theirs)
        return _drop_empty(left, right, both)


def _rows_of(left: Groups, right: Groups, a: Ints, b: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """(row, tuple, pair of groups) of all that the pairs of groups `a[i]` and `b[i]` hold."""
    sizes, others = left.sizes, right.sizes
    for pair, row in candidates(left.offsets[a], sizes[a]):
        group = b[pair]
        for at, other in candidates(right.offsets[group], others[group]):
            yield left.order[row[at]], right.order[other], pair[at]


def _drop_empty(left: Ints, right: Ints, sets: Array) -> Pairs:
    some = np.flatnonzero(has_bits(sets))
    if len(some) == len(left):
        return left, right, sets
    return left[some], right[some], np.take(sets, some, axis=1)


def has_bits(sets: Array) -> Array:
    """Which columns of [word, row] have a bit."""
    return np.not_equal(sets[0], 0) if len(sets) == 1 else np.logical_or.reduce(sets, axis=0)


def candidates(first: Ints, counts: Ints) -> Iterator[tuple[Ints, Ints]]:
    """(i, partner) for the partners `first[i]` and on, `counts[i]` of them, in blocks of at most BLOCK_ROWS.

    >>> [side.tolist() for side in next(candidates(np.array([5, 8]), np.array([2, 1])))]
    [[0, 0, 1], [5, 6, 8]]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    shift = first - (ends - counts)
    for begin in range(0, total, BLOCK_ROWS):
        stop = min(begin + BLOCK_ROWS, total)
        low, high = np.searchsorted(ends, [begin, stop - 1], "right")
        inside = slice(low, high + 1)
        taken = np.minimum(ends[inside], stop) - np.maximum(ends[inside] - counts[inside], begin)
        at = np.repeat(np.arange(low, high + 1), taken)
        yield at, np.arange(begin, stop) + shift[at]


def _bisect(times: Ints, first: Ints, last: Ints, bound: Ints) -> Ints:
    """In each range [first, last) of ascending times, the first row that is not before `bound`."""
    low, high = first.copy(), last.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        before = times[middle] < bound[open_]
        low[open_[before]] = middle[before] + 1
        high[open_[~before]] = middle[~before]
        open_ = open_[low[open_] < high[open_]]
    return low
