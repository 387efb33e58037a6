"""An input as a join sees it: the parts that hold its tuples, one per segment and one for the new ones.

Nothing is put together: a row is named by its part and its place in it, so what an epoch costs does not grow with the
state but with the rows that are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.model.predicate import Operand
from headrace.operators.encode import Ints, to_arrow
from headrace.operators.join_groups import Groups, average_group, group_rows, sampled
from headrace.operators.join_keys import KeyTable, key_column, match_keys
from headrace.operators.join_logic import InputLogic, carried_name
from headrace.operators.join_rows import Body, KeyedRows, concat_codes
from headrace.operators.join_windows import Moments


@dataclass(slots=True, eq=False)
class Part:
    """Some of an input's tuples in the order of key and time.

    `moments[code]` is the moment of a code; `starts` is when moments begin, ascending.
    """

    spec: InputLogic
    keys: KeyTable
    body: Body
    moments: Ints
    starts: Ints
    _groups: dict[int, Groups] = field(default_factory=dict)
    _sampled: dict[int, float] = field(default_factory=dict)
    _in_order: bool | None = None

    @property
    def in_order(self) -> bool:
        """Whether slices begin in the order of their tuples, key by key; not after plans with other windows."""
        if self._in_order is None:
            began = self.starts[self.moments[self.body.code]]
            falls = np.flatnonzero(began[1:] < began[:-1]) + 1
            self._in_order = bool(np.isin(falls, self.keys.offsets).all())
        return self._in_order

    def moment(self, rows: Ints) -> Ints:
        return self.moments[self.body.code[rows]]

    def groups(self, role: int) -> Groups:
        """All rows by key, moment and query-set of a role; worked out once."""
        if role not in self._groups:
            moments = self.moments[self.body.code]
            self._groups[role] = group_rows(self.keys.of_rows(), [moments], self.body.sets[role])
        return self._groups[role]

    def sampled_group_rows(self, role: int) -> float:
        """How many rows a group of these has on average, about."""
        if role not in self._sampled:
            rows = sampled(self.body.rows)
            keys = np.searchsorted(self.keys.offsets, rows, "right") - 1
            sets = np.take(self.body.sets[role], rows, axis=1)
            self._sampled[role] = average_group(keys, [self.moment(rows)], sets)
        return self._sampled[role]

    def column(self, operand: Operand, rows: Ints) -> pa.Array:
        """What these rows hold: a carried operand, a key, or the event time."""
        name = carried_name(operand)
        if operand == self.spec.input.event_time:
            return to_arrow(self.body.times_of(rows), None, operand.type)
        if name in self.spec.carried:
            return self.body.carried[name].take(pa.array(rows))
        keys = np.searchsorted(self.keys.offsets, rows, "right") - 1
        return key_column(self.keys, self.spec.input.keys, operand, keys)


class Side:
    """All parts of an input: `old` ones that were there before, then the `fresh` one, if there are new tuples."""

    def __init__(self, spec: InputLogic, old: Sequence[KeyedRows], fresh: KeyedRows | None) -> None:
        every = [*old, *([] if fresh is None else [fresh])]
        self.spec = spec
        self.moments = Moments.of(concat_codes([rows.body.codes for rows in every]))
        self.parts: list[Part] = []
        first = 0
        for rows in every:
            last = first + rows.body.codes.count
            moments = self.moments.of_code[first:last]
            self.parts.append(Part(spec, rows.keys, rows.body, moments, self.moments.start))
            first = last
        self.old = self.parts[: len(old)]
        self.fresh = None if fresh is None else self.parts[-1]
        self._matches: dict[tuple[int, Part], Ints] = {}

    def matches(self, start: Side, part: Part) -> Ints:
        """For each key of another side's new tuples, the equal key of one of our parts, or -1."""
        at = (start.spec.number, part)
        if at not in self._matches:
            assert start.fresh is not None
            self._matches[at] = match_keys(start.fresh.keys, part.keys)
        return self._matches[at]
