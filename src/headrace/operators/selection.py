"""Shared stateless selection: each tuple finds its query-set once and is stored once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.model.plan import SelectionOperator, SharedPlan
from headrace.model.tables import WORD, TupleTable, output_column
from headrace.operators.common.bitrows import count_bits
from headrace.operators.common.cells import family_indexes
from headrace.operators.common.placing import Portion
from headrace.operators.common.regions import regions_of
from headrace.operators.protocol import (
    Batch,
    Columns,
    Items,
    MapOutlet,
    Mapped,
    OperatorKind,
    Received,
    Reduced,
    ReduceOutlet,
)


class SelectionLogic:
    """A selection operator made ready to run."""

    def __init__(self, operator: SelectionOperator) -> None:
        self.operator = operator
        slots = np.array(operator.slots, np.int64)
        ready = family_indexes(operator.families, operator.operands, operator.predicates, slots)
        self._columns = [np.array(family.columns) for family, _ in ready]
        self._slots = [slots[columns] for columns in self._columns]
        self._families = [index for _, index in ready]
        self._words = max(operator.slots, default=0) // WORD + 1
        self._table = TupleTable(operator.outputs, tuple(range(self._words)))
        self._nobody = np.zeros((self._words, 1), np.uint64)

    def select(self, columns: Columns, rows: int, epoch: int) -> tuple[pa.Table, np.ndarray]:
        """(accepted tuples with their query-set words `qs0..`, accepted tuples per query of the operator)."""
        operator = self.operator
        regions = [regions_of(columns[index.operand], index) for index in operator.operands]
        sets = np.zeros((self._words, rows), np.uint64)
        counts = np.zeros(len(operator.queries), np.int64)
        for queries, index, slots in zip(self._columns, self._families, self._slots, strict=True):
            if not index.static and index.boxes is not None and rows:
                found = np.zeros_like(sets)
                mine = [regions[operand] for operand in index.operands]
                index.matcher(regions).put_words(mine, slots, found)
                sets |= found
                counts[queries] += count_bits(found.T)[slots]
                continue
            for block, cells in index.blocks(regions, rows):
                words = np.append(pack_sets(cells.membership, slots, self._words), self._nobody, axis=1)
                sets[:, block] |= words[:, cells.ids]
                sizes = np.bincount(cells.ids[cells.ids >= 0], minlength=cells.count)
                counts[queries] += sizes @ cells.membership
        accepted = np.flatnonzero(sets.any(axis=0))
        taken = pa.array(accepted)
        outputs = {output_column(o): columns[o].take(taken) for o in operator.outputs}
        epochs = pa.array(np.full(len(accepted), epoch, np.int64))
        packed = (pa.array(word[accepted].view(np.int64)) for word in sets)
        return self._table.rows([*outputs.values(), epochs, *packed]), counts


def pack_sets(membership: np.ndarray, slots: np.ndarray, words: int) -> np.ndarray:
    """Query-set words [word, cell] from membership [cell, column]."""
    packed = np.zeros((words, len(membership)), np.uint64)
    for column, slot in enumerate(slots.tolist()):
        packed[slot // WORD] |= membership[:, column].astype(np.uint64) << np.uint64(slot % WORD)
    return packed


class Selections:
    """A selection as a kind of operator: map tasks store the tuples, and there is no state."""

    def __init__(self, operator: SelectionOperator, plan: SharedPlan) -> None:
        self._operator = operator
        self._logic = SelectionLogic(operator)

    def map(self, batch: Batch, outlet: MapOutlet) -> Mapped:
        operator = self._operator
        table, counts = self._logic.select(batch.columns, batch.rows, batch.epoch)
        if table.num_rows == 0:
            return Mapped()
        outlet.emit(operator.signature, table, operator.queries, batch.watermark_us)
        found = {int(q): int(count) for q, count in zip(operator.queries, counts, strict=True) if count}
        return Mapped(rows=found, matched=found)

    def reduce(self, received: Received, outlet: ReduceOutlet) -> Reduced:
        raise AssertionError("a selection has no reduce stage")


def _no_state(items: Items, operator: str, portion: Portion) -> None:
    raise ValueError("a selection has no segments")


SELECTIONS = OperatorKind(Selections, _no_state, stages=lambda operator, rebuilds: 0)
