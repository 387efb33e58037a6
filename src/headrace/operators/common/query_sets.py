"""The query-set of every tuple of a batch, as words of bits: what selections store and joins route by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.model.plan import Family, OperandIndex
from headrace.model.predicate import Predicate
from headrace.model.tables import WORD
from headrace.model.ways import FamilyWay
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.cells import Cells, family_indexes
from headrace.operators.common.regions import Regions


class QuerySets:
    """Finds query-sets. `bits` gives each predicate its bit in them."""

    def __init__(
        self,
        families: Sequence[Family],
        operands: Sequence[OperandIndex],
        predicates: Sequence[Predicate],
        bits: Ints,
        words: int,
    ) -> None:
        self._words = words
        ready = family_indexes(families, operands, predicates, bits)
        self._families = [index for _, index in ready]
        self._bits = [bits[np.array(family.columns)] for family, _ in ready]
        self._packed: dict[int, Array] = {}

    def of(self, regions: Sequence[Regions], rows: int, ways: list[FamilyWay]) -> Array:
        """[word, tuple] of `rows` tuples, given their regions; how they were found is added to `ways`."""
        sets = np.zeros((self._words, rows), np.uint64)
        for number, index in enumerate(self._families):
            if index.matched and rows:
                mine = [regions[operand] for operand in index.operands]
                matcher = index.matcher(regions)
                matcher.put_words(mine, self._bits[number], sets)
                some = matcher.sampled(mine)
                ways.append(index.way(rows, matcher.matching(some).sum() * rows / len(some), matcher, some))
                continue
            ways.append(index.way(rows, 0, None))
            for block, cells in index.blocks(regions, rows):
                packed = self._pack(number, cells)
                for part, table in zip(sets, packed, strict=True):
                    if table.any():
                        part[block] |= table[cells.ids]
        return sets

    def _pack(self, family: int, cells: Cells) -> Array:
        """[word, cell]; the last cell is nobody's."""
        if cells.static and family in self._packed:
            return self._packed[family]
        packed = pack_sets(cells.membership, self._bits[family], self._words)
        packed = np.append(packed, np.zeros((len(packed), 1), np.uint64), axis=1)
        if cells.static:
            self._packed[family] = packed
        return packed


def pack_sets(membership: Bools, bits: Ints, words: int) -> Array:
    """Query-set words [word, cell] from membership [cell, column]."""
    packed = np.zeros((words, len(membership)), np.uint64)
    for column, bit in enumerate(bits.tolist()):
        packed[bit // WORD] |= membership[:, column].astype(np.uint64) << np.uint64(bit % WORD)
    return packed
