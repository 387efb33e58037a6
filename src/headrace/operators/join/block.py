"""Joined rows: each combination once, with the set of queries it is a row of. Columns are gathered when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.epoch import NEVER_US
from headrace.model.plan import AcrossPositions
from headrace.model.predicate import Op, Operand
from headrace.model.tables import JoinedTable, joined_column
from headrace.model.types import Column, Kind, SqlType
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.encode import Physical, canonical_floats, to_arrow, to_ordered, to_physical
from headrace.operators.join.keys import KeyTable
from headrace.operators.join.logic import JoinLogic, Words
from headrace.operators.join.prefix import Chosen, column_of


class JoinedBlock:
    """Rows of one chain. `words` says which words of the query-sets are at hand; the others are zero."""

    def __init__(
        self, tuples: Sequence[Chosen], keys: tuple[KeyTable, Ints], sets: Array, words: Words
    ) -> None:
        self._tuples = tuples
        self._keys = keys
        self._sets = sets
        self._words = words
        self._times: dict[int, Ints] = {}

    @property
    def rows(self) -> int:
        return int(self._sets.shape[1])

    @property
    def sets(self) -> Array:
        """Query-sets [word, row], a bit per slot: every row has one."""
        if len(self._words) > self._words[-1]:
            return self._sets
        full = np.zeros((self._words[-1] + 1, self.rows), np.uint64)
        full[list(self._words)] = self._sets
        return full

    @property
    def words_at_hand(self) -> Array:
        """The words of the query-sets that are at hand: the words that the join works with."""
        return self._sets

    @property
    def positions(self) -> int:
        """How many streams are joined."""
        return len(self._tuples)

    @property
    def bound(self) -> Ints:
        """Only windows that end later than this hold the row; NEVER_US for most."""
        found = np.full(self.rows, NEVER_US)
        for held, rows in self._tuples:
            bounds = held.content.codes.bound
            if (bounds != NEVER_US).any():
                np.maximum(found, bounds[held.content.code[rows]], out=found)
        return found

    def event_time(self, position: int) -> Operand:
        return self._tuples[position][0].spec.input.event_time

    def times(self, position: int) -> Ints:
        """Event times of the tuples at one position, in microseconds; worked out once."""
        if position not in self._times:
            held, rows = self._tuples[position]
            self._times[position] = held.content.times_of(rows)
        return self._times[position]

    @property
    def latest_us(self) -> int:
        """No row's tuples are all later than this."""
        return min(int(self.times(position).max()) for position in range(self.positions))

    def column(self, position: int, operand: Operand) -> pa.Array:
        """What the tuples at one position hold: a carried operand, a key, or the event time."""
        if operand == self.event_time(position):
            return to_arrow(self.times(position), None, operand.type)
        return column_of(self._tuples[position], self._keys, operand)


def stored_rows(logic: JoinLogic, chain: int, block: JoinedBlock, epoch: int) -> pa.Table:
    """The rows as result files hold them: outputs, event times, epoch, bound and query-set words."""
    spec = logic.operator.chains[chain]
    carried: dict[Column, pa.Array] = {}
    times = ((position, block.event_time(position)) for position in range(len(spec.leaves)))
    for position, operand in (*spec.outputs, *times):
        leaf = spec.leaves[position]
        column = Column(joined_column(leaf.name, leaf.role, operand), operand.type)
        if column not in carried:
            carried[column] = block.column(position, operand)
    epochs, sets = pa.array(np.full(block.rows, epoch, np.int64)), block.sets
    words = (pa.array(word.view(np.int64)) for word in sets)
    table = JoinedTable(tuple(carried), tuple(range(len(sets))))
    return table.rows([*carried.values(), epochs, pa.array(block.bound), *words])


_COMPARE = {
    Op.LT: (np.less, pc.less),
    Op.LE: (np.less_equal, pc.less_equal),
    Op.GT: (np.greater, pc.greater),
    Op.GE: (np.greater_equal, pc.greater_equal),
    Op.EQ: (np.equal, pc.equal),
}


def holds_across(condition: AcrossPositions, tuples: Mapping[int, Chosen]) -> Bools:
    """Where a condition between the tuples at two positions is TRUE."""
    numbers, arrays = _COMPARE[condition.op]
    columns = []
    for position, operand in (
        (condition.left_position, condition.left),
        (condition.right_position, condition.right),
    ):
        held, rows = tuples[position]
        columns.append(held.column(operand, rows))
    type_ = condition.left.type
    if not type_.fits_int64 and type_.kind is not Kind.FLOATING:
        return np.asarray(arrays(*columns).fill_null(False))
    left, right = (_ordered(column, type_) for column in columns)
    answer = numbers(left.values, right.values)
    for side in (left, right):
        if side.valid is not None:
            answer &= side.valid
    return answer


def _ordered(column: pa.Array, type_: SqlType) -> Physical:
    """Values as int64 that compare as Spark compares the values themselves."""
    physical = to_physical(column, type_)
    if type_.kind is Kind.FLOATING:
        physical = Physical(canonical_floats(physical.values), physical.valid)
    return Physical(to_ordered(physical, type_), physical.valid)
