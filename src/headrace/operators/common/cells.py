"""Cells: where the regions of a family's operands meet. Only cells that occur, or that somebody wants, exist."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from headrace.model.plan import Family, OperandIndex
from headrace.model.predicate import Predicate
from headrace.model.tables import WORD
from headrace.model.ways import FamilyWay, Finding
from headrace.operators.common.arrays import Bools, Ints
from headrace.operators.common.boxes import Box, BoxMaker, BoxTable
from headrace.operators.common.matching import HOMES_SAMPLE, Matcher, codes_of, homes_for, some_of
from headrace.operators.common.regions import Regions, Truth, region_count
from headrace.optimizer.membership import is_worth_rehoming

DENSE_CELLS = 1 << 14
"""Families with at most this many possible cells use the mixed-radix code itself as the cell id."""

MEMBER_ELEMENTS = 1 << 25
"""Tuples of any other family are worked off in blocks, so that no membership has more elements than this."""


REHOMING_BATCHES = 64
"""How often a family's lists are looked at that have been in use for long."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cell of each tuple (-1: no query of the family wants it) and `membership[cell, column]`.

    `static` says that the membership is the same for every batch.
    """

    ids: Ints
    membership: Bools
    static: bool

    @property
    def count(self) -> int:
        return len(self.membership)


class FamilyIndex:
    """Membership of one family, computed once per plan where the cells are few enough to enumerate.

    `places` are the bits that queries have in query-sets, if not their positions in the family. `boxes` are those of
    each query, where somebody has worked them out.
    """

    def __init__(
        self,
        family: Family,
        indexes: Sequence[OperandIndex],
        predicates: Sequence[Predicate],
        places: Ints | None = None,
        boxes: Sequence[list[Box] | None] | None = None,
    ) -> None:
        self._places, self._boxes = places, boxes
        self.operands = family.operands
        self._indexes = tuple(indexes[i] for i in family.operands)
        self._predicates = [predicates[c] for c in family.columns]
        self._radices = [region_count(index) for index in self._indexes]
        self._size = prod(self._radices)
        self._static: tuple[Ints, Bools] | None = None
        self._matcher: Matcher | None = None
        self._batches = 0

    @cached_property
    def boxes(self) -> BoxTable | None:
        """The family's boxes; None when it has no operand, or a predicate that needs too many boxes."""
        if not self._indexes:
            return None
        maker = BoxMaker(self._indexes)
        found = self._boxes or [maker.boxes(predicate) for predicate in self._predicates]
        known = [boxes for boxes in found if boxes is not None]
        return BoxTable.of(self._indexes, known) if len(known) == len(found) else None

    def matcher(self, regions: Sequence[Regions], passes: int = 1) -> Matcher:
        """What finds the queries of these tuples, given the operator's regions; only for families that have boxes.
        They are found for so many measures.

        It is made when it is first asked for, and made anew when the tuples have changed so much that another one would
        be clearly faster. That is looked at after 1, 2, 4, .. batches, and then after every 64. Otherwise nothing is
        worked out per query.
        """
        assert self.boxes is not None
        mine = [regions[operand] for operand in self.operands]
        tuples = len(mine[0])
        self._batches += 1
        due = self._batches & (self._batches - 1) == 0 or self._batches % REHOMING_BATCHES == 0
        if self._matcher is None or (due and tuples > self.boxes.boxes > WORD):
            some = codes_of(self.boxes, [r[some_of(tuples, HOMES_SAMPLE)] for r in mine])
            homes = homes_for(self.boxes, some, passes)
            if self._matcher is None or is_worth_rehoming(self._matcher.homes, homes, passes):
                self._matcher = Matcher(self.boxes, homes, self._places)
        return self._matcher

    @property
    def known_matcher(self) -> Matcher | None:
        """The one that was made last."""
        return self._matcher

    @property
    def static(self) -> bool:
        """Whether the membership is the same for every batch."""
        return self._size <= DENSE_CELLS and self._size * len(self._predicates) <= MEMBER_ELEMENTS

    @property
    def matched(self) -> bool:
        """Whether queries are better found by matches, where no partials are to be updated: cells are too many."""
        return not self.static and self.boxes is not None

    def way(
        self, tuples: int, matches: float, matcher: Matcher | None, codes: Ints | None = None
    ) -> FamilyWay:
        """What was done for so many tuples; `codes` are those of some of them, for what they met."""
        names = tuple(index.operand.sql for index in self._indexes)
        filters = len(self._predicates)
        if matcher is None or codes is None:
            finding = Finding.CELLS if self.static else Finding.SPARSE_CELLS
            return FamilyWay("", names, filters, finding, None, tuples)
        words, met = tuples * matcher.words, tuples * matcher.candidates_of(codes)
        return FamilyWay("", names, filters, matcher.finding, None, tuples, words, met, matches)

    def blocks(self, regions: Sequence[Regions], rows: int) -> Iterator[tuple[slice, Cells]]:
        """The tuples in as many blocks as memory asks for, each with its cells: one where these are few."""
        step = max(rows, 1)
        if not self.static:
            step = max(MEMBER_ELEMENTS // len(self._predicates), 1)
        for low in range(0, rows, step):
            block = slice(low, min(low + step, rows))
            yield block, self.locate([r[block] for r in regions], block.stop - low)

    def locate(self, regions: Sequence[Regions], rows: int) -> Cells:
        """Cells of `rows` tuples, given the operator's regions per operand."""
        mine = [regions[operand] for operand in self.operands]
        codes = mine[0] if len(mine) == 1 else _mixed_radix(mine, self._radices, rows)
        if self.static:
            if self._static is None:
                every = np.unravel_index(np.arange(self._size), self._radices) if self._radices else ()
                self._static = self._membership(every, self._size)
            lookup, membership = self._static
            return Cells(lookup.take(codes), membership, static=True)
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        if self.boxes is None or rows == 0:
            lookup, membership = self._membership([part[first] for part in mine], len(first))
        else:
            lookup, membership = merge_cells(self._accepted(self.matcher(regions), [r[first] for r in mine]))
        return Cells(lookup[inverse], membership, static=False)

    def _accepted(self, matcher: Matcher, regions: Sequence[Regions]) -> Bools:
        """[cell, query] by what finds matches: the queries of each cell, not each query's cells."""
        places = np.arange(len(self._predicates)) if self._places is None else self._places
        words = np.zeros((int(places.max()) // WORD + 1, len(regions[0])), np.uint64)
        matcher.put_words(regions, places, words)
        bits = np.ascontiguousarray(words.T).astype("<u8").view(np.uint8)
        return np.unpackbits(bits, axis=1, bitorder="little")[:, places].astype(bool)

    def _membership(self, regions: Sequence[Regions], count: int) -> tuple[Ints, Bools]:
        """Drop cells nobody wants and merge neighbours that the same columns want."""
        truth = Truth(self._indexes, tuple(regions), count)
        if not self._predicates:
            return merge_cells(np.zeros((count, 0), bool))
        return merge_cells(np.stack([truth.of(p) for p in self._predicates], axis=1))


def family_indexes(
    families: Sequence[Family],
    indexes: Sequence[OperandIndex],
    predicates: Sequence[Predicate],
    places: Ints | None = None,
) -> list[tuple[Family, FamilyIndex]]:
    """The families made ready. Queries that have boxes and those that have none become families of their own.

    `places` gives each predicate its bit in query-sets, where somebody asks for these.
    """
    found = []
    for family in families:
        mine = [predicates[column] for column in family.columns]
        bits = None if places is None else places[np.array(family.columns)]
        for at, index in _ready(family.operands, indexes, mine, bits):
            found.append((Family(family.operands, tuple([family.columns[i] for i in at])), index))
    return found


Half = tuple[list[int], FamilyIndex]
"""Positions in a family, and what is made ready for them."""

FAMILIES = 64
"""A process keeps so many families ready, those that were asked for last."""

_KNOWN: dict[Hashable, tuple[Sequence[Predicate], list[Half]]] = {}
"""Predicates are kept with what is made of them: while they are there, no other ones can have their ids."""


def _ready(
    operands: tuple[int, ...],
    indexes: Sequence[OperandIndex],
    predicates: Sequence[Predicate],
    places: Ints | None,
) -> list[Half]:
    """The one or two halves of a family. Most families of a plan are those of the plan before, and stay ready."""
    constants = tuple(indexes[i] for i in operands)
    key = (operands, constants, tuple(map(id, predicates)), None if places is None else places.tobytes())
    known = _KNOWN.pop(key, None) or (predicates, _halves(operands, indexes, predicates, places))
    while len(_KNOWN) >= FAMILIES:
        del _KNOWN[next(iter(_KNOWN))]
    _KNOWN[key] = known
    return known[1]


def _halves(
    operands: tuple[int, ...],
    indexes: Sequence[OperandIndex],
    predicates: Sequence[Predicate],
    places: Ints | None,
) -> list[Half]:
    maker = BoxMaker([indexes[i] for i in operands])
    boxes = [maker.boxes(predicate) for predicate in predicates]
    found = []
    for fits in (True, False):
        at = [i for i, one in enumerate(boxes) if (one is not None) is fits]
        if at:
            half, bits = Family(operands, tuple(at)), None if places is None else places[np.array(at)]
            found.append((at, FamilyIndex(half, indexes, predicates, bits, [boxes[i] for i in at])))
    return found


def _mixed_radix(regions: Sequence[Regions], radices: Sequence[int], rows: int) -> Ints:
    """One code per combination of regions. Codes are made dense before they could outgrow 64 bits."""
    codes, size = np.zeros(rows, np.int64), 1
    for part, radix in zip(regions, radices, strict=True):
        if size * radix >= 2**62:
            found, codes = np.unique(codes, return_inverse=True)
            size = len(found)
        codes = codes * radix + part
        size *= radix
    return codes


def merge_cells(membership: Bools) -> tuple[Ints, Bools]:
    """(new cell of each cell, membership of the new cells): cells nobody wants become -1, equal neighbours one.

    >>> lookup, merged = merge_cells(np.array([[0, 0], [1, 0], [1, 0], [1, 1]], bool))
    >>> lookup.tolist(), merged.tolist()
    ([-1, 0, 0, 1], [[True, False], [True, True]])
    """
    packed = np.packbits(membership, axis=1)
    kept = np.flatnonzero(membership.any(axis=1))
    changes = np.ones(len(kept), bool)
    if len(kept) > 1:
        changes[1:] = (packed[kept[1:]] != packed[kept[:-1]]).any(axis=1)
    lookup = np.full(len(membership), -1, np.int64)
    lookup[kept] = np.cumsum(changes) - 1
    return lookup, membership[kept[changes]]
