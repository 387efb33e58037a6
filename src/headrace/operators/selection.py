"""Shared stateless selection: each tuple finds its query-set once and is stored once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.model.plan import SelectionOperator
from headrace.operators.cells import FamilyIndex
from headrace.operators.regions import regions_of
from headrace.operators.tuples import Columns
from headrace.planner.signatures import output_column

WORD = 64


class SelectionLogic:
    """A selection operator made ready to run."""

    def __init__(self, operator: SelectionOperator) -> None:
        self.operator = operator
        self._families = [FamilyIndex(f, operator.operands, operator.predicates) for f in operator.families]
        self._slots = [np.array([operator.slots[c] for c in f.columns]) for f in operator.families]
        self._words = max(operator.slots, default=0) // WORD + 1
        self._nobody = np.zeros((self._words, 1), np.uint64)

    def select(self, columns: Columns, rows: int, epoch: int) -> tuple[pa.Table, np.ndarray]:
        """(accepted tuples with their query-set words `qs0..`, accepted tuples per query of the operator)."""
        operator = self.operator
        regions = [regions_of(columns[index.operand], index) for index in operator.operands]
        sets = np.zeros((self._words, rows), np.uint64)
        counts = np.zeros(len(operator.queries), np.int64)
        for family, index, slots in zip(operator.families, self._families, self._slots, strict=True):
            for block, cells in index.blocks(regions, rows):
                words = np.append(pack_sets(cells.member, slots, self._words), self._nobody, axis=1)
                sets[:, block] |= words[:, cells.ids]
                sizes = np.bincount(cells.ids[cells.ids >= 0], minlength=cells.count)
                counts[list(family.columns)] += sizes @ cells.member
        accepted = np.flatnonzero(sets.any(axis=0))
        taken = pa.array(accepted)
        data = {output_column(o): columns[o].take(taken) for o in operator.outputs}
        data["epoch"] = pa.array(np.full(len(accepted), epoch, np.int64))
        for i in range(self._words):
            data[f"qs{i}"] = pa.array(sets[i, accepted].view(np.int64))
        return pa.table(data), counts


def pack_sets(member: np.ndarray, slots: np.ndarray, words: int) -> np.ndarray:
    """Query-set words [word, cell] from membership [cell, column]."""
    packed = np.zeros((words, len(member)), np.uint64)
    for column, slot in enumerate(slots.tolist()):
        packed[slot // WORD] |= member[:, column].astype(np.uint64) << np.uint64(slot % WORD)
    return packed
