"""Joined rows meet the tuples of one stock: which pairs of equal key does some query want?

Pairs are tried one by one (a list) or, where many tuples look alike, by groups of them: pairs of groups that no query
wants are never taken apart. Either way pairs are in memory in blocks only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from headrace.model.ways import FamilyWay, Finding
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.join.groups import Groups, average_group, group_rows, sampled
from headrace.operators.join.probing import (
    Candidates,
    Pairs,
    Rows,
    Tuples,
    drop_empty,
    pairs_of_groups,
    probe,
    search,
)
from headrace.operators.join.side import Stock
from headrace.operators.join.windows import Containment
from headrace.optimizer.layout import (
    Layout,
    Partners,
    decide_layout,
    estimate_groups_ns,
    estimate_list_ns,
)

BLOCK_ROWS = 1 << 18
"""Pairs that are in memory at a time."""

SCAN_ROWS = 32
"""A row with at most this many partners of its key tries them all; with more it first searches those near in time."""

LIST_PAIRS = 1 << 18
"""So few pairs are tried one by one, whatever they look like."""

SCORED_ROWS, SCORED_TUPLES = 1 << 9, 1 << 12
"""So many rows and tuples are scored at a time."""

MayScore = Callable[[Ints, slice], Bools]
"""Which pairs [row, tuple] may score high enough, of some rows and a range of the stock's tuples."""


@dataclass(slots=True)
class Meeting:
    """Rows with their query-sets and, per earlier position, their moments and how these share windows with the stock's.

    `keys[row]` is the row's key in the stock, or -1. `near` says between which times partners of some rows lie.
    `may_score` says which pairs of rows and tuples are worth a look; without it all are. `ways` gets what was chosen.
    """

    keys: Ints
    sets: Array
    moments: Sequence[Ints]
    contains: Sequence[Containment]
    near: Callable[[Ints], tuple[Ints, Ints]]
    stock: Stock
    role: int
    may_score: MayScore | None = None
    ways: list[FamilyWay] = field(default_factory=list)

    def pairs(self) -> Iterator[Pairs]:
        """All pairs, block by block; no block is empty."""
        row = np.flatnonzero(self.keys >= 0)
        if len(row) == 0:
            return
        candidates = self._candidates(row)
        if self.may_score is not None:
            yield from self._by_score(candidates, self.may_score)
        elif self._layout(candidates) is Layout.GROUPS:
            yield from self._by_groups(candidates)
        else:
            tuples = Tuples(self.stock.content.sets[self.role], self.stock.row_moments)
            yield from probe(candidates, Rows(self.sets, self.moments), tuples, self.contains, BLOCK_ROWS)

    def _by_score(self, candidates: Candidates, may_score: MayScore) -> Iterator[Pairs]:
        """All pairs whose score may be high enough; blocks of rows and tuples are looked at as a whole."""
        order = np.lexsort((candidates.first, self.keys[candidates.row]))
        row, first, last = candidates.row[order], candidates.first[order], candidates.last[order]
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
                        found = self._wanted(at[cut : cut + BLOCK_ROWS], other[cut : cut + BLOCK_ROWS])
                        if len(found[0]):
                            yield found

    def _wanted(self, left: Ints, right: Ints) -> Pairs:
        """The pairs of these that some query wants and has a window for."""
        both = np.take(self.sets, left, axis=1)
        both &= np.take(self.stock.content.sets[self.role], right, axis=1)
        left, right, both = drop_empty(left, right, both)
        theirs = self.stock.moment(right)
        for contains, ours in zip(self.contains, self.moments, strict=True):
            contains.restrict(both, ours[left], theirs)
        return drop_empty(left, right, both)

    def _candidates(self, row: Ints) -> Candidates:
        """For each row the tuples of the stock that are of equal key, and near enough in time."""
        keys, offsets, content = self.keys[row], self.stock.keys.offsets, self.stock.content
        first, last = offsets[keys], offsets[keys + 1]
        many = np.flatnonzero(last - first > SCAN_ROWS)
        if len(many):
            early, late = self.near(row[many])
            low, high = first[many], last[many]
            search(content.time, early - content.base, late - content.base, low, high)
            first[many], last[many] = low, high
        return Candidates(row, first, last)

    def _layout(self, candidates: Candidates) -> Layout:
        rows, pairs = len(candidates.row) + self.stock.content.rows, candidates.pairs
        if pairs < max(LIST_PAIRS, rows):
            self._note(candidates, Layout.LIST, None)
            return Layout.LIST
        some = candidates.row[sampled(len(candidates.row))]
        left = average_group(self.keys[some], [m[some] for m in self.moments], self.sets[:, some])
        partners = Partners(rows, pairs, left, self.stock.sampled_group_rows(self.role))
        layout = decide_layout(partners)
        self._note(candidates, layout, partners)
        return layout

    def _note(self, candidates: Candidates, layout: Layout, partners: Partners | None) -> None:
        """Remember what was chosen and why."""
        self.ways.append(
            FamilyWay(
                "",
                (),
                0,
                Finding.LIST if layout is Layout.LIST else Finding.GROUPS,
                tuples=len(candidates.row),
                candidates=candidates.pairs,
                cells_ms=None if partners is None else estimate_groups_ns(partners) / 1e6,
                matches_ms=None if partners is None else estimate_list_ns(partners) / 1e6,
            )
        )

    def _by_groups(self, candidates: Candidates) -> Iterator[Pairs]:
        """All pairs by way of pairs of groups that some query wants."""
        row = candidates.row
        left = group_rows(self.keys[row], [m[row] for m in self.moments], np.take(self.sets, row, axis=1))
        right, stock = self.stock.groups(self.role), self.stock
        heads, moment = row[left.heads], stock.moment(right.heads)
        begin, end = self._group_ranges(left, right, moment, candidates)
        groups = Candidates(np.arange(len(heads)), begin, end)
        ours = Rows(np.take(self.sets, heads, axis=1), [m[heads] for m in self.moments])
        theirs = Tuples(np.take(stock.content.sets[self.role], right.heads, axis=1), moment)
        left = Groups(row[left.order], left.offsets, left.keys)
        for a, b, both in probe(groups, ours, theirs, self.contains, BLOCK_ROWS):
            yield from pairs_of_groups(left, right, a, b, both, BLOCK_ROWS)

    def _group_ranges(
        self, left: Groups, right: Groups, moment: Ints, candidates: Candidates
    ) -> tuple[Ints, Ints]:
        """First and last group of the stock for each group of rows: those with a tuple in the rows' ranges of time.

        A stock that plans with other window edges have sliced is not in order of slices; there, all groups of the key.
        """
        low = np.minimum.reduceat(candidates.first[left.order], left.offsets[:-1])
        high = np.maximum.reduceat(candidates.last[left.order], left.offsets[:-1])
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
