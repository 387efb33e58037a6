"""An input as a join sees it: the stocks that hold its tuples, one per segment and one for the new ones.

Nothing is put together: a row is named by its stock and its place in it, so what an epoch costs does not grow with the
state but with the rows that are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.model.predicate import Operand
from headrace.operators.common.arrays import Ints
from headrace.operators.common.encode import to_arrow
from headrace.operators.join.groups import Groups, average_group, group_rows, sampled
from headrace.operators.join.keys import KeyTable, key_values, match_keys
from headrace.operators.join.logic import InputLogic, carried_name
from headrace.operators.join.rows import Content, KeyedRows, concat_codes
from headrace.operators.join.windows import Moments


@dataclass(slots=True, eq=False)
class Held:
    """Tuples of one input in any order: those of a stock, or those that rows from another partition are made of.

    `of_code[code]` is the moment of a code.
    """

    spec: InputLogic
    content: Content
    moments: Moments
    of_code: Ints

    def moment(self, rows: Ints) -> Ints:
        return self.of_code[self.content.code[rows]]

    def holds(self, operand: Operand) -> bool:
        """Whether the tuples themselves have this value, and not their keys alone."""
        return operand == self.spec.input.event_time or carried_name(operand) in self.content.carried

    def column(self, operand: Operand, rows: Ints) -> pa.Array:
        """What these rows hold: a carried operand or the event time."""
        if operand == self.spec.input.event_time:
            return to_arrow(self.content.times_of(rows), None, operand.type)
        return self.content.carried[carried_name(operand)].take(pa.array(rows))


@dataclass(slots=True, eq=False)
class Stock(Held):
    """Some of an input's tuples in the order of key and time."""

    keys: KeyTable
    _groups: dict[int, Groups] = field(default_factory=dict)
    _sampled: dict[int, float] = field(default_factory=dict)
    _in_order: bool | None = None
    _row_moments: Ints | None = None

    @property
    def starts(self) -> Ints:
        """When moments begin, ascending."""
        return self.moments.start

    @property
    def in_order(self) -> bool:
        """Whether slices begin in the order of their tuples, key by key; not after plans with other windows."""
        if self._in_order is None:
            began = self.starts[self.row_moments]
            falls = np.flatnonzero(began[1:] < began[:-1]) + 1
            self._in_order = bool(np.isin(falls, self.keys.offsets).all())
        return self._in_order

    @property
    def row_moments(self) -> Ints:
        """The moment of each row; worked out once."""
        if self._row_moments is None:
            self._row_moments = self.of_code[self.content.code]
        return self._row_moments

    def groups(self, role: int) -> Groups:
        """All rows by key, moment and query-set of a role; worked out once."""
        if role not in self._groups:
            sets = self.content.sets[role]
            self._groups[role] = group_rows(self.keys.of_rows(), [self.row_moments], sets)
        return self._groups[role]

    def sampled_group_rows(self, role: int) -> float:
        """How many rows a group of these has on average, about."""
        if role not in self._sampled:
            rows = sampled(self.content.rows)
            keys = np.searchsorted(self.keys.offsets, rows, "right") - 1
            sets = np.take(self.content.sets[role], rows, axis=1)
            self._sampled[role] = average_group(keys, [self.moment(rows)], sets)
        return self._sampled[role]

    def column(self, operand: Operand, rows: Ints) -> pa.Array:
        """What these rows hold: a carried operand, a key, or the event time."""
        if self.holds(operand):
            return Held.column(self, operand, rows)
        keys = np.searchsorted(self.keys.offsets, rows, "right") - 1
        return key_values(self.keys, self.spec.input.keys, operand, keys)


@dataclass(slots=True, eq=False)
class Probe:
    """The keys by which rows meet tuples, and where each of them is in the stocks that were met."""

    keys: KeyTable
    _found: dict[Stock, Ints] = field(default_factory=dict)

    def places(self, stock: Stock) -> Ints:
        """For each key the equal key of the stock, or -1; worked out once."""
        if stock not in self._found:
            self._found[stock] = match_keys(self.keys, stock.keys)
        return self._found[stock]


class Side:
    """All stocks of an input: `old` ones that were there before, then the `fresh` one, if there are new tuples."""

    def __init__(self, spec: InputLogic, old: Sequence[KeyedRows], fresh: KeyedRows | None) -> None:
        every = [*old, *([] if fresh is None else [fresh])]
        self.spec = spec
        self.stocks: list[Stock] = []
        moments = Moments.of(concat_codes([rows.content.codes for rows in every]))
        first = 0
        for rows in every:
            last = first + rows.content.codes.count
            self.stocks.append(Stock(spec, rows.content, moments, moments.of_code[first:last], rows.keys))
            first = last
        self.old = self.stocks[: len(old)]
        self.fresh = None if fresh is None else self.stocks[-1]
        self.probe = None if fresh is None else Probe(fresh.keys)
