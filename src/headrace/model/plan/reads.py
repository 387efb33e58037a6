"""What operators read of streams, and how predicates find their tuples."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.model.predicate import Operand, Predicate, Value
from headrace.model.query import QueryId, StreamName


class ScanPath(Enum):
    """How tuples reach the kernels: pyarrow reads the chunk, or Spark evaluates expressions first."""

    FAST = "fast"
    CATALYST = "catalyst"


@dataclass(frozen=True, slots=True)
class Read:
    """What an operator asks of one stream."""

    stream: StreamName
    path: ScanPath
    scanned: tuple[Operand, ...]

    @property
    def sources(self) -> tuple[Operand, ...]:
        """What has to be scanned for it; calls of functions are made of that."""
        return tuple(dict.fromkeys(source for operand in self.scanned for source in operand.sources))


@dataclass(frozen=True, slots=True)
class OperandIndex:
    """All constants that any predicate of the operator compares `operand` with, sorted, without repeats."""

    operand: Operand
    constants: tuple[Value, ...]


COLUMNS_PER_QUERY = 1024
"""State column ids are query id times this plus an ordinal."""

ENTRIES_PER_COLUMN = 1024
"""Lane entry ids are column id times this plus the ordinal of the input in its query."""


@dataclass(frozen=True, slots=True)
class StateColumn:
    """One filter of one query: the tuples it accepts are aggregated into this column of the state.

    `id` is unique for ever (query id and ordinal), so segments of older plans can be matched to newer ones.
    """

    id: int
    query: QueryId
    window: int
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Family:
    """State columns whose predicates read the same operands: one cell per tuple decides all of them."""

    operands: tuple[int, ...]
    columns: tuple[int, ...]
