"""Shared stateless selection: each tuple finds its query-set once and is stored once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.model.metrics import QueryCounts
from headrace.model.plan import SelectionOperator, SharedPlan
from headrace.model.predicate import Operand
from headrace.model.tables import WORD, TupleTable, output_column
from headrace.model.ways import FamilyWay
from headrace.operators.common.bitrows import count_bits
from headrace.operators.common.encode import taken_from
from headrace.operators.common.placing import Portion
from headrace.operators.common.query_sets import QuerySets
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
    sources_of,
)


class SelectionLogic:
    """A selection operator made ready to run."""

    def __init__(self, operator: SelectionOperator) -> None:
        self.operator = operator
        self._slots = np.array(operator.slots, np.int64)
        self._words = max(operator.slots, default=0) // WORD + 1
        self._sets = QuerySets(
            operator.families, operator.operands, operator.predicates, self._slots, self._words
        )
        self._table = TupleTable(operator.outputs, tuple(range(self._words)))

    def select(
        self, columns: Columns, rows: int, epoch: int, ways: list[FamilyWay]
    ) -> tuple[pa.Table, np.ndarray]:
        """(accepted tuples with their query-set words `qs0..`, accepted tuples per query of the operator)."""
        operator = self.operator
        regions = [regions_of(columns[index.operand], index) for index in operator.operands]
        sets = self._sets.of(regions, rows, ways)
        counts = count_bits(sets)[self._slots]
        accepted = np.flatnonzero(sets.any(axis=0))
        taken = pa.array(accepted)
        outputs = {output_column(o): taken_from(columns[o], taken) for o in operator.outputs}
        epochs = pa.array(np.full(len(accepted), epoch, np.int64))
        packed = (pa.array(word[accepted].view(np.int64)) for word in sets)
        return self._table.rows([*outputs.values(), epochs, *packed]), counts


class Selections:
    """A selection as a kind of operator: map tasks store the tuples, and there is no state."""

    def __init__(self, operator: SelectionOperator, plan: SharedPlan) -> None:
        self._operator = operator
        self._logic = SelectionLogic(operator)

    def map(self, batch: Batch, outlet: MapOutlet) -> Mapped:
        operator = self._operator
        ways: list[FamilyWay] = []
        table, counts = self._logic.select(batch.columns, batch.rows, batch.epoch, ways)
        if table.num_rows == 0:
            return Mapped(ways=ways)
        outlet.emit(operator.signature, table, operator.queries, batch.watermark_us)
        found = QueryCounts.of(operator.queries, counts)
        return Mapped(rows=found, matched=found, ways=ways)

    def reduce(self, received: Received, outlet: ReduceOutlet) -> Reduced:
        raise AssertionError("a selection has no reduce stage")


def _no_state(items: Items, operator: str, portion: Portion) -> None:
    raise ValueError("a selection has no segments")


def _looked_up(operator: SelectionOperator, read: int) -> Sequence[Operand]:
    """What predicates and calls read. Outputs alone are strings from beginning to end."""
    compared = (index.operand for index in operator.operands)
    return sources_of([*compared, *(output for output in operator.outputs if output.calls)])


SELECTIONS = OperatorKind(Selections, _no_state, stages=lambda operator, rebuilds: 0, encoded=_looked_up)
