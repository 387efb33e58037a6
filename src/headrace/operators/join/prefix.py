"""Rows that are joined so far: one tuple per position that was met, and the set of queries that may want the row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.predicate import Operand
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.join.keys import KeyTable, key_values
from headrace.operators.join.probing import has_bits
from headrace.operators.join.side import Held, Probe

Chosen = tuple[Held, Ints]
"""The tuples at one position: where they are kept, and which of them."""


@dataclass(slots=True)
class Prefix:
    """`tuples[position]` of each position, `sets[word, row]`, and the key of each row among those of `probe`."""

    probe: Probe
    tuples: dict[int, Chosen]
    keys: Ints
    sets: Array

    @property
    def rows(self) -> int:
        return len(self.keys)

    def take(self, index: Ints) -> Prefix:
        sets = np.take(self.sets, index, axis=1)
        return Prefix(self.probe, take_chosen(self.tuples, index), self.keys[index], sets)

    def wanted_by(self, mask: Array) -> Prefix:
        """The rows that some of these queries may want, with no others in their sets."""
        sets = self.sets & mask[:, None]
        some = np.flatnonzero(has_bits(sets))
        if len(some) == self.rows:
            return Prefix(self.probe, self.tuples, self.keys, sets)
        fewer = np.take(sets, some, axis=1)
        return Prefix(self.probe, take_chosen(self.tuples, some), self.keys[some], fewer)

    def column(self, position: int, operand: Operand) -> pa.Array:
        return column_of(self.tuples[position], (self.probe.keys, self.keys), operand)


def take_chosen(tuples: dict[int, Chosen], index: Ints) -> dict[int, Chosen]:
    return {position: (held, rows[index]) for position, (held, rows) in tuples.items()}


def column_of(chosen: Chosen, keys: tuple[KeyTable, Ints], operand: Operand) -> pa.Array:
    """What some rows' tuples hold: a carried operand, the event time, or a value of the key they were met by.

    Tuples that came from another partition hold whatever is asked of them; others were met by the rows' own keys.
    """
    held, rows = chosen
    if held.holds(operand):
        return held.column(operand, rows)
    return key_values(keys[0], held.spec.input.keys, operand, keys[1])
