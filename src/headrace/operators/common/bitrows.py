"""Bit rows: for each region of each operand, the queries of a family that accept it, one bit per query.

They serve families with so many possible cells that nearly every tuple would have a cell of its own: there, cells save
nothing. A predicate has bit rows when it is a conjunction whose parts read one operand each, whatever they do with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.model.plan import OperandIndex
from headrace.model.predicate import TRUE, And, Operand, Predicate, conjunction, operands_of
from headrace.model.tables import WORD
from headrace.operators.common.encode import Array, Bools, Floats, Ints
from headrace.operators.common.regions import Regions, Truth, region_count
from headrace.operators.compiled.matches import order_by_row

COUNTED_ROWS = 1 << 14
"""Bits become bytes to be counted: of so many rows at a time."""


def by_operand(predicate: Predicate) -> Mapping[Operand, Predicate] | None:
    """The predicate as one predicate per operand, all of which must be TRUE; None when some part reads several.

    >>> from headrace.model.predicate import Compare, Op, Or
    >>> from headrace.model.types import BIGINT
    >>> a, b = (Compare(Operand(name, BIGINT), Op.GT, 3) for name in "ab")
    >>> [operand.sql for operand in by_operand(And((a, b)))]
    ['a', 'b']
    >>> by_operand(Or((a, b))) is None
    True
    """
    parts: dict[Operand, Predicate] = {}
    for child in predicate.children if isinstance(predicate, And) else (predicate,):
        found = by_operand(child) if isinstance(child, And) else None
        reads = operands_of(child)
        if found is None and len(reads) != 1:
            return None
        for operand, part in (found or {next(iter(reads)): child}).items():
            parts[operand] = conjunction(parts.get(operand, TRUE), part)
    return parts


@dataclass(frozen=True, slots=True)
class Matches:
    """Tuples in the order of their rows, and where their bit rows are: what the compiled kernels take.

    `mask` has the queries that keep the partial in question, and `entries` says where in the lane each keeps it.
    """

    codes: Ints
    table: Ints
    mask: Ints
    entries: Ints
    order: Ints
    bounds: Ints

    @property
    def arguments(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        return self.codes, self.table, self.mask, self.entries, self.order, self.bounds


class BitRows:
    """The bit rows of one family: `table[offset of the operand + region]`, 64 queries to a word.

    A query's bit is its position in the family, or the one that `bits` gives it.
    """

    def __init__(
        self,
        indexes: Sequence[OperandIndex],
        predicates: Sequence[Mapping[Operand, Predicate]],
        bits: Ints | None = None,
    ) -> None:
        self._bits = np.arange(len(predicates)) if bits is None else bits
        self.columns = int(self._bits.max()) + 1
        counts = [region_count(index) for index in indexes]
        self._offsets = np.append(0, np.cumsum(counts))[:-1].astype(np.int32)
        self.table = np.concatenate([self._bit_rows(index, predicates) for index in indexes])

    def codes(self, regions: Sequence[Regions]) -> Ints:
        """[tuple, operand]: the rows of the table that must all have a query's bit."""
        codes = np.empty((len(regions[0]), len(regions)), np.int32)
        for i, (part, offset) in enumerate(zip(regions, self._offsets, strict=True)):
            np.add(part, offset, out=codes[:, i], casting="unsafe")
        return codes

    def words(self, regions: Sequence[Regions]) -> Ints:
        """[tuple, word]: the queries that accept each tuple."""
        found = self.table[regions[0] + self._offsets[0]]
        for part, offset in zip(regions[1:], self._offsets[1:], strict=True):
            found &= self.table[part + offset]
        return found

    def matching(self, regions: Sequence[Regions]) -> Floats:
        """The share of these tuples that each query accepts."""
        return count_bits(self.words(regions))[: self.columns] / max(len(regions[0]), 1)

    def mask(self, columns: Ints) -> Ints:
        """The words in which just these queries have their bit."""
        wanted = np.zeros((1, self.columns), bool)
        wanted[0, columns] = True
        return pack_words(wanted)[0]

    def _bit_rows(self, index: OperandIndex, predicates: Sequence[Mapping[Operand, Predicate]]) -> Ints:
        """[region, word] of one operand; a predicate that does not read it accepts every region."""
        count = region_count(index)
        table = np.zeros((count, -(-self.columns // WORD)), np.uint64)
        for low in range(0, len(predicates), WORD):  # answers are kept for a few queries at a time
            truth = Truth((index,), (np.arange(count),), count)
            some = slice(low, low + WORD)
            for bit, predicate in zip(self._bits[some].tolist(), predicates[some], strict=True):
                accepted = truth.of(predicate.get(index.operand, TRUE)).astype(np.uint64)
                table[:, bit // WORD] |= accepted << np.uint64(bit % WORD)
        return table


def pack_words(membership: Bools) -> Ints:
    """[row, query] bits as [row, word], query q in bit q % 64 of word q // 64.

    >>> pack_words(np.array([[True, False, True]])).tolist()
    [[5]]
    """
    packed = np.packbits(membership, axis=1, bitorder="little")
    words = np.zeros((len(membership), -(-membership.shape[1] // WORD) * (WORD // 8)), np.uint8)
    words[:, : packed.shape[1]] = packed
    return words.view("<u8").astype(np.uint64)


def count_bits(words: Ints) -> Ints:
    """How many rows of [row, word] have each bit.

    >>> count_bits(np.array([[5], [4]], np.uint64))[:4].tolist()
    [1, 0, 2, 0]
    """
    counts = np.zeros(words.shape[1] * WORD, np.int64)
    for low in range(0, len(words), COUNTED_ROWS):
        some = np.ascontiguousarray(words[low : low + COUNTED_ROWS]).astype("<u8").view(np.uint8)
        counts += np.unpackbits(some, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
    return counts


def as_given(values: Array) -> Array:
    """The values as kernels take them: contiguous and aligned, which a view of a message need not be."""
    return np.require(values, requirements=["C_CONTIGUOUS", "ALIGNED"])


def ordered_by_row(row: Ints, rows: int) -> tuple[Ints, Ints]:
    """(tuples by ascending row, where each row's tuples begin, with the end behind them)."""
    order, bounds = np.empty(len(row), np.int64), np.zeros(rows + 1, np.int64)
    order_by_row(as_given(row.astype(np.int64, copy=False)), order, bounds)
    return order, bounds
