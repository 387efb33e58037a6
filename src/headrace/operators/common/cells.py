"""Cells: where the regions of a family's operands meet. Only cells that occur, or that somebody wants, exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from headrace.model.plan import Family, OperandIndex
from headrace.model.predicate import Predicate
from headrace.operators.common.bitrows import BitRows, by_operand
from headrace.operators.common.encode import Bools, Ints
from headrace.operators.common.regions import Regions, Truth, region_count

DENSE_CELLS = 1 << 14
"""Families with at most this many possible cells use the mixed-radix code itself as the cell id."""

MEMBER_ELEMENTS = 1 << 25
"""Tuples of any other family are worked off in blocks, so that no membership has more elements than this."""


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

    `bits` are the positions that queries have in bit rows, if not their positions in the family.
    """

    def __init__(
        self,
        family: Family,
        indexes: Sequence[OperandIndex],
        predicates: Sequence[Predicate],
        bits: Ints | None = None,
    ) -> None:
        self._bits = bits
        self.operands = family.operands
        self._indexes = tuple(indexes[i] for i in family.operands)
        self._predicates = [predicates[c] for c in family.columns]
        self._radices = [region_count(index) for index in self._indexes]
        self._size = prod(self._radices)
        self._static: tuple[Ints, Bools] | None = None

    @cached_property
    def bit_rows(self) -> BitRows | None:
        """The family's bit rows; None when it has no operand, or a predicate that is no conjunction by operand."""
        parts = [by_operand(predicate) for predicate in self._predicates]
        known = [part for part in parts if part is not None]
        fits = self._indexes and len(known) == len(parts) > 0
        return BitRows(self._indexes, known, self._bits) if fits else None

    @property
    def static(self) -> bool:
        """Whether the membership is the same for every batch."""
        return self._size <= DENSE_CELLS

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
        codes = _mixed_radix(mine, self._radices, rows)
        if self.static:
            if self._static is None:
                every = np.unravel_index(np.arange(self._size), self._radices) if self._radices else ()
                self._static = self._membership(every, self._size)
            lookup, membership = self._static
            return Cells(lookup[codes], membership, static=True)
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        lookup, membership = self._membership([part[first] for part in mine], len(first))
        return Cells(lookup[inverse], membership, static=False)

    def _membership(self, regions: Sequence[Regions], count: int) -> tuple[Ints, Bools]:
        """Drop cells nobody wants and merge neighbours that the same columns want."""
        truth = Truth(self._indexes, tuple(regions), count)
        if not self._predicates:
            return merge_cells(np.zeros((count, 0), bool))
        return merge_cells(np.stack([truth.of(p) for p in self._predicates], axis=1))


def split_family(family: Family, predicates: Sequence[Predicate]) -> list[Family]:
    """The queries that can have bit rows, and the others, as families of their own."""
    fit = [by_operand(predicates[column]) is not None for column in family.columns]
    halves = [
        tuple(c for c, fits in zip(family.columns, fit, strict=True) if fits is side)
        for side in (True, False)
    ]
    return [Family(family.operands, columns) for columns in halves if columns]


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
