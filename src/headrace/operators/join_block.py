"""Joined rows: each combination once, with the set of queries it is a row of. Columns are gathered when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.plan import AcrossMembers
from headrace.model.predicate import Op, Operand
from headrace.model.types import Kind
from headrace.operators.encode import Array, Bools, Ints
from headrace.operators.join_logic import JoinLogic
from headrace.operators.join_side import Side
from headrace.planner.signatures import joined_column


class JoinedBlock:
    """Rows of one chain. `sets[word, row]` has a bit for every query that has the row: no column is empty."""

    def __init__(self, sides: Sequence[Side], rows: Sequence[Ints], sets: Array) -> None:
        self._sides = sides
        self._rows = rows
        self._taken: list[pa.Array | None] = [None] * len(rows)
        self.sets = sets

    @property
    def rows(self) -> int:
        return int(self.sets.shape[1])

    @property
    def bound(self) -> Ints:
        """Only windows that end later than this hold the row; NEVER_US for most."""
        return np.maximum.reduce([s.bounds[s.code[r]] for s, r in zip(self._sides, self._rows, strict=True)])

    @property
    def born(self) -> Ints:
        """The epoch in which the first of the row's tuples arrived."""
        return np.minimum.reduce([s.epochs[s.code[r]] for s, r in zip(self._sides, self._rows, strict=True)])

    def times(self, member: int) -> Ints:
        """Event times of one member's tuples, in microseconds."""
        return self._sides[member].times[self._rows[member]]

    def column(self, member: int, operand: Operand) -> pa.Array:
        """What one member's tuples hold: a carried operand, a key, or the event time."""
        taken = self._taken[member]
        if taken is None:
            taken = self._taken[member] = pa.array(self._rows[member])
        return self._sides[member].column(operand).take(taken)


def stored_rows(logic: JoinLogic, chain: int, block: JoinedBlock, epoch: int) -> pa.Table:
    """The rows as result files hold them: outputs, event times, epoch, bound and query-set words."""
    spec = logic.operator.chains[chain]
    data: dict[str, pa.Array] = {}

    def add(position: int, operand: Operand) -> None:
        member = spec.members[position]
        name = joined_column(logic.operator.inputs[member.input].id, member.role, operand)
        if name not in data:
            data[name] = block.column(position, operand)

    for position, operand in spec.outputs:
        add(position, operand)
    for position, member in enumerate(spec.members):
        add(position, logic.operator.inputs[member.input].event_time)
    data["epoch"] = pa.array(np.full(block.rows, epoch, np.int64))
    data["late_us"] = pa.array(block.bound)
    for i, word in enumerate(block.sets):
        data[f"qs{i}"] = pa.array(word.view(np.int64))
    return pa.table(data)


_COMPARE = {
    Op.LT: (np.less, pc.less),
    Op.LE: (np.less_equal, pc.less_equal),
    Op.GT: (np.greater, pc.greater),
    Op.GE: (np.greater_equal, pc.greater_equal),
    Op.EQ: (np.equal, pc.equal),
}


def holds_across(condition: AcrossMembers, sides: Mapping[int, Side], rows: Mapping[int, Ints]) -> Bools:
    """Where a condition between two members, by their positions, is TRUE."""
    numbers, arrays = _COMPARE[condition.op]
    ends = ((condition.left_member, condition.left), (condition.right_member, condition.right))
    kind = condition.left.type
    if kind.fits_int64 or kind.kind is Kind.FLOATING:
        (a, left), (b, right) = ((rows[m], sides[m].ordered(o)) for m, o in ends)
        answer = numbers(left.values[a], right.values[b])
        for side, at in ((left, a), (right, b)):
            if side.valid is not None:
                answer &= side.valid[at]
        return answer
    taken = [sides[m].column(o).take(pa.array(rows[m])) for m, o in ends]
    return np.asarray(arrays(*taken).fill_null(False))
