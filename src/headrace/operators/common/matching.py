"""How the tuples of a family find the queries that accept them: by bit rows, by candidates, or by some of both.

`operators/compiled/matches.py` says what these are. How often tuples are in a box decides which way it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headrace.model.tables import WORD
from headrace.model.ways import Finding
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import ordered_by_row, pack_words
from headrace.operators.common.boxes import BoxTable
from headrace.operators.common.encode import ranges
from headrace.operators.common.regions import Regions
from headrace.operators.compiled.matches import count_matches, list_matches, put_pairs, put_words
from headrace.optimizer.membership import Homes, decide_homes

LISTED_REGIONS = 64
"""All lists together may have this many entries for each box and each region."""

MOST_LISTED = 1 << 24
"""So many candidates are looked at once for all measures; more of them once for each."""

SAMPLE = 512
"""So many tuples tell about how many queries of a family match one."""

HOMES_SAMPLE = 1 << 13
"""So many tell how often each box's regions occur."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Tuples in the order of their rows, and what finds their boxes: what the compiled kernels take.

    `entries` says where in the lane each box's query keeps its partial (-1: nowhere), and `mask` has those that are
    somewhere. `sparse` says that matches are few beside the partials.
    """

    matcher: Matcher
    codes: Ints
    mask: Ints
    entries: Ints
    order: Ints
    bounds: Ints
    sparse: bool = False

    @property
    def found(self) -> tuple[Ints, ...]:
        m = self.matcher
        lists = (m.offsets, m.listed, m.sets, m.table.lows, m.table.highs)
        return (self.codes, m.bits, self.mask, *lists, self.entries, self.order, self.bounds)

    @property
    def arguments(self) -> tuple[tuple[Ints, ...], bool]:
        return self.found, self.sparse


class Matcher:
    """The boxes of one family, made ready: boxes with bit rows are numbered first, then the candidates.

    `column[number]` is the query that a box is of, as a position in the family; -1 where a number stands for no box.
    Where `places` gives each query a bit in query-sets, the bit row of a query that is one box has just this bit.
    """

    def __init__(self, table: BoxTable, homes: Homes, places: Ints | None = None) -> None:
        self.table, self.homes = table, homes
        heavy, light = np.flatnonzero(~homes.listed), np.flatnonzero(homes.listed)
        numbers, self.own = self._numbered(heavy, places)
        words = -(-(int(numbers.max(initial=-1)) + 1) // WORD)
        self.column = np.full(words * WORD + len(light), -1, np.int64)
        self.column[numbers] = table.column[heavy]
        self.column[words * WORD :] = table.column[light]
        self.bits = self._bit_rows(heavy, numbers, words)
        self.offsets, self.listed = self._lists(light, homes.home[light], words * WORD)
        self.sets = self._sets(light)

    @property
    def words(self) -> int:
        return self.bits.shape[1]

    @property
    def candidates(self) -> int:
        """How many boxes are found by lists."""
        return len(self.sets)

    def _numbered(self, heavy: Ints, places: Ints | None) -> tuple[Ints, int]:
        """(the number of each box with a bit row, how many words of them are words of query-sets)."""
        if places is None:
            return np.arange(len(heavy)), 0
        alone = np.bincount(self.table.column, minlength=len(places))[self.table.column[heavy]] == 1
        mine = places[self.table.column[heavy]]
        own = -(-(int(mine[alone].max(initial=-1)) + 1) // WORD)
        return np.where(alone, mine, own * WORD + np.cumsum(~alone) - 1), own

    def _bit_rows(self, heavy: Ints, numbers: Ints, words: int) -> Ints:
        """[code, word]: a bit changes where a range begins and where it ends, so changes add up to bit rows."""
        table = self.table
        rows = np.zeros((int(table.offsets[-1]) + 1, words), np.uint64)
        if words:
            sizes = table.counts[heavy].sum(axis=1)
            some = ranges(table.bounds[heavy, 0], sizes)
            bit = np.repeat(numbers, sizes)
            flag = np.uint64(1) << (bit % WORD).astype(np.uint64)
            for edges in (table.lows[some], table.highs[some]):
                np.bitwise_xor.at(rows, (edges, bit // WORD), flag)
            np.bitwise_xor.accumulate(rows, axis=0, out=rows)
        return rows[:-1]

    def _lists(self, light: Ints, home: Ints, base: int) -> tuple[Ints, Ints]:
        """(where the list of each code begins, with the end behind it; the numbers in the lists)."""
        table = self.table
        sizes = table.counts[light, home]
        some = ranges(table.bounds[light, home], sizes)
        lengths = (table.highs[some] - table.lows[some]).astype(np.int64)
        codes = ranges(table.lows[some].astype(np.int64), lengths)
        number = np.repeat(np.repeat(np.arange(len(light)), sizes), lengths) + base
        order, offsets = ordered_by_row(codes, int(table.offsets[-1]))
        return offsets, number[order].astype(np.int32)

    def _sets(self, light: Ints) -> Ints:
        """[candidate, operand]: where its set of regions begins and ends, its first range, and how many it has."""
        at, counts, table = self.table.bounds[light], self.table.counts[light], self.table
        sets = np.zeros((*at.shape, 4), np.int32)
        some = counts > 0
        sets[some, 0], sets[some, 1] = table.lows[at[some]], table.highs[at[some] + counts[some] - 1]
        sets[..., 2], sets[..., 3] = at, counts
        return sets

    def codes(self, regions: Sequence[Regions]) -> Ints:
        """[tuple, operand]: each operand's region among the regions of all."""
        return codes_of(self.table, regions)

    def entries(self, of_column: Ints) -> tuple[Ints, Ints]:
        """(mask, entries) for kernels, given the entry of each query of the family (-1: none)."""
        entries = np.where(self.column >= 0, of_column[self.column], -1)
        flags = entries[: self.words * WORD] >= 0
        return pack_words(flags[None, :])[0], entries

    def matching(self, codes: Ints) -> Ints:
        """How many of these tuples each query accepts, by its position in the family."""
        counts = np.zeros(len(self.column), np.int64)
        count_matches(self._every(codes, np.arange(len(self.column))).found, counts)
        known = self.column >= 0
        return np.bincount(self.column[known], counts[known], self.table.queries).astype(np.int64)

    def pairs(self, codes: Ints) -> tuple[Ints, Ints]:
        """(tuples that match a query, query by query and ascending; how many of them each query has)."""
        counts = self.matching(codes)
        ends = np.cumsum(counts)
        tuples = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
        put_pairs(self._every(codes, self.column).found, tuples, ends - counts)
        if self.candidates and self.words and len(np.unique(self.table.column)) < self.table.boxes:
            query = np.repeat(np.arange(len(counts)), counts)  # a query may have boxes of both kinds
            tuples = tuples[np.lexsort((tuples, query))]
        return tuples, counts

    @cached_property
    def found(self) -> Matcher:
        """Finds the box of a tuple that is nothing but the number of its box: for matches that are known already."""
        boxes = np.arange(len(self.column))
        codes, ones = boxes.astype(np.int32), np.ones((len(boxes), 1), np.int64)
        offsets = np.array([0, len(boxes)], np.int64)
        table = BoxTable(len(boxes), offsets, boxes, boxes[:, None], ones, codes, codes + np.int32(1))
        return Matcher(
            table, Homes(np.ones(len(boxes), bool), np.zeros(len(boxes), np.int64), np.ones(ones.shape), 0.0)
        )

    def listed_matches(self, codes: Ints, order: Ints, bounds: Ints) -> tuple[Ints, Ints] | None:
        """(box, tuple) of all matches in the order of rows, boxes as codes for `found`; None where not all boxes are
        candidates, or too many of them would have to be looked at.
        """
        if self.words:
            return None
        most = int(self._lengths.take(codes).sum())
        if most > MOST_LISTED:
            return None
        boxes, tuples, count = np.empty((most, 1), np.int32), np.empty(most, np.int64), np.zeros(1, np.int64)
        every = Matches(self, codes, np.empty(0, np.uint64), np.arange(len(self.column)), order, bounds)
        list_matches(every.found, boxes, tuples, count)
        return boxes[: count[0]], tuples[: count[0]]

    def put_words(self, regions: Sequence[Regions], places: Ints, words: Ints) -> None:
        """Set the bit `places[query]` of [word, tuple] for every query that accepts a tuple."""
        entries = np.where(self.column >= 0, places[self.column], -1)
        put_words(self._every(self.codes(regions), entries).found, words, self.own)

    def _every(self, codes: Ints, entries: Ints) -> Matches:
        """The tuples in their own order, as one row."""
        flags = self.column[: self.words * WORD] >= 0
        order, bounds = np.arange(len(codes)), np.array([0, len(codes)])
        return Matches(self, codes, pack_words(flags[None, :])[0], entries, order, bounds)

    @property
    def finding(self) -> Finding:
        if not self.candidates:
            return Finding.BIT_ROWS
        return Finding.BOTH if self.words else Finding.CANDIDATES

    def sampled(self, regions: Sequence[Regions]) -> Ints:
        """The codes of some of these tuples."""
        return self.codes([part[some_of(len(part), SAMPLE)] for part in regions])

    def candidates_of(self, codes: Ints) -> float:
        """How many candidates these tuples have on average."""
        return float(self._lengths.take(codes).sum()) / max(len(codes), 1)

    @cached_property
    def _lengths(self) -> Ints:
        """How many candidates the list of each code has."""
        return np.diff(self.offsets)


def codes_of(table: BoxTable, regions: Sequence[Regions]) -> Ints:
    """[tuple, operand]: each operand's region among the regions of all."""
    codes = np.empty((len(regions[0]), len(regions)), np.int32)
    for i, (part, offset) in enumerate(zip(regions, table.offsets[:-1], strict=True)):
        np.add(part, np.int32(offset), out=codes[:, i], casting="unsafe")
    return codes


def homes_for(table: BoxTable, codes: Ints, passes: int) -> Homes:
    """Which boxes are candidates, and by which operand, given the codes of some tuples and the number of measures."""
    tuples = np.bincount(codes.ravel(), minlength=int(table.offsets[-1]))
    lengths = table.weights(np.ones(int(table.offsets[-1]), np.int64))
    most = LISTED_REGIONS * (table.boxes + int(table.offsets[-1]))
    return decide_homes(table.weights(tuples), lengths, np.diff(table.offsets), len(codes), most, passes)


def some_of(count: int, sample: int) -> slice:
    """About so many of `count` tuples, spread evenly."""
    return slice(None, None, max(1, count // sample))
