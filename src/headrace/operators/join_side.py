"""An input as a join sees it: the tuples of all held segments and the new ones, under one numbering of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.model.predicate import Operand
from headrace.model.types import Kind
from headrace.operators.encode import (
    Array,
    Ints,
    Physical,
    canonical_floats,
    one_chunk,
    to_arrow,
    to_ordered,
    to_physical,
)
from headrace.operators.join_keys import match_keys
from headrace.operators.join_logic import InputLogic, carried_name
from headrace.operators.join_rows import KeyedRows, concat_codes
from headrace.operators.join_windows import Moments


class Side:
    """Rows of the older parts come first, those of the `fresh` part last; there is at least one part.

    Columns are put together when they are asked for.
    """

    def __init__(self, spec: InputLogic, old: Sequence[KeyedRows], fresh: KeyedRows | None) -> None:
        self.spec = spec
        self.old = len(old)
        self.fresh = fresh
        self.parts = parts = [*old, *([] if fresh is None else [fresh])]
        self.bases = np.cumsum([0, *(part.body.rows for part in parts)])
        self.times: Ints = _concat([part.body.times for part in parts])
        self._codes = concat_codes([part.body.codes for part in parts])
        self.bounds = self._codes.bound
        self.epochs = self._codes.epoch
        firsts = np.cumsum([0, *(part.body.codes.count for part in parts)])
        code = [part.body.code + first for part, first in zip(parts, firsts, strict=False)]
        self.code: Ints = _concat(code)
        self.sets: Array = _concat([part.body.sets for part in parts], axis=2)
        self._moments: Moments | None = None
        self._moment: Ints | None = None
        self._matches: dict[tuple[int, int], Ints] = {}
        self._columns: dict[Operand, pa.Array] = {}
        self._ordered: dict[Operand, Physical] = {}

    @property
    def moments(self) -> Moments:
        if self._moments is None:
            self._moments = Moments.of(self._codes)
        return self._moments

    @property
    def moment(self) -> Ints:
        """The moment (slice and bound) of each row."""
        if self._moment is None:
            self._moment = self.moments.of_code[self.code]
        return self._moment

    def matches(self, start: Side, part: int) -> Ints:
        """For each key of another side's new tuples, the equal key of one of our parts, or -1."""
        at = (start.spec.number, part)
        if at not in self._matches:
            assert start.fresh is not None
            self._matches[at] = match_keys(start.fresh.keys, self.parts[part].keys)
        return self._matches[at]

    def column(self, operand: Operand) -> pa.Array:
        """All values of what rows hold: carried, key, or event time."""
        if operand not in self._columns:
            self._columns[operand] = self._column(operand)
        return self._columns[operand]

    def _column(self, operand: Operand) -> pa.Array:
        input_ = self.spec.input
        name = carried_name(operand)
        if operand == input_.event_time:
            return to_arrow(self.times, None, operand.type)
        if name in self.spec.carried:
            return pa.concat_arrays([part.body.carried[name] for part in self.parts])
        if operand not in input_.keys:
            raise KeyError(f"input {input_.id} does not keep {operand.sql}")
        if self.spec.exact:
            values = [np.repeat(p.keys.hashes, np.diff(p.keys.offsets)) for p in self.parts]
            return to_arrow(_concat(values), None, operand.type)
        at = f"k{input_.keys.index(operand)}"
        columns = []
        for part in self.parts:
            assert part.keys.table is not None
            column = one_chunk(part.keys.table.column(at)).take(pa.array(part.keys.of_rows()))
            columns.append(column.cast(operand.type.arrow))
        return pa.concat_arrays(columns)

    def ordered(self, operand: Operand) -> Physical:
        """All values as int64 that compare as Spark compares the values themselves."""
        if operand not in self._ordered:
            physical = to_physical(self.column(operand), operand.type)
            if operand.type.kind is Kind.FLOATING:
                physical = Physical(canonical_floats(physical.values), physical.valid)
            self._ordered[operand] = Physical(to_ordered(physical, operand.type), physical.valid)
        return self._ordered[operand]


def _concat(arrays: Sequence[Array], axis: int = 0) -> Array:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axis)
