"""Plan nodes: what one sharing group runs in an epoch. EXPLAIN and the engine read the same objects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.model.predicate import Operand, Predicate, Value
from headrace.model.query import AggregateFunction, QueryId, StreamName
from headrace.model.types import SqlType
from headrace.model.window import Window


class ScanPath(Enum):
    """How tuples reach the kernels: pyarrow reads the chunk, or Spark evaluates expressions first."""

    FAST = "fast"
    CATALYST = "catalyst"


@dataclass(frozen=True, slots=True)
class OperandIndex:
    """All constants that any predicate of the operator compares `operand` with, sorted, without repeats."""

    operand: Operand
    constants: tuple[Value, ...]


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


class LaneKind(Enum):
    """A partial aggregate that slices keep. COUNT = ROWS - NULLS; AVG = SUM / COUNT; MOMENTS hold mean and M2."""

    ROWS = "rows"
    NULLS = "nulls"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MOMENTS = "moments"


@dataclass(frozen=True, slots=True)
class Lane:
    """A partial aggregate of one input, kept for the state columns that need it (ascending)."""

    kind: LaneKind
    input: int | None
    columns: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.kind.value if self.input is None else f"{self.kind.value}{self.input}"


@dataclass(frozen=True, slots=True)
class OutputAggregate:
    """How a result column is lowered from lanes: which aggregate, of which input, in what type."""

    function: AggregateFunction
    input: int | None
    type: SqlType


@dataclass(frozen=True, slots=True)
class Output:
    """Queries of one window whose result rows have the same make-up.

    `columns[i]` are the state columns of query `queries[i]`: first its base filter, which decides whether a group
    has a row, then one per aggregate.
    """

    window: int
    signature: str
    aggregates: tuple[OutputAggregate, ...]
    queries: tuple[QueryId, ...]
    columns: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class AggregationOperator:
    """A shared windowed aggregation: same stream, same grouping keys, same scan path.

    `columns` are ordered by window, so the columns of one window are contiguous.
    """

    id: str
    stream: StreamName
    path: ScanPath
    event_time: Operand
    keys: tuple[Operand, ...]
    inputs: tuple[Operand, ...]
    operands: tuple[OperandIndex, ...]
    windows: tuple[Window, ...]
    columns: tuple[StateColumn, ...]
    families: tuple[Family, ...]
    lanes: tuple[Lane, ...]
    outputs: tuple[Output, ...]

    @property
    def scanned(self) -> tuple[Operand, ...]:
        """The distinct operands a map task must read for this operator."""
        wanted = (self.event_time, *self.keys, *self.inputs, *(index.operand for index in self.operands))
        return tuple(dict.fromkeys(wanted))


@dataclass(frozen=True, slots=True)
class SelectionOperator:
    """Shared stateless filters: each accepted tuple is stored once with its query-set.

    `slots[i]` and `queries[i]` belong to `predicates[i]`; `families[j].columns` index these.
    """

    id: str
    stream: StreamName
    path: ScanPath
    signature: str
    outputs: tuple[Operand, ...]
    operands: tuple[OperandIndex, ...]
    queries: tuple[QueryId, ...]
    slots: tuple[int, ...]
    predicates: tuple[Predicate, ...]
    families: tuple[Family, ...]

    @property
    def scanned(self) -> tuple[Operand, ...]:
        return tuple(dict.fromkeys((*self.outputs, *(index.operand for index in self.operands))))


@dataclass(frozen=True, slots=True)
class FallbackQuery:
    """A query that plain Spark runs over the log, and why."""

    query: QueryId
    stream: StreamName
    reason: str
    signature: str


Operator = AggregationOperator | SelectionOperator


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Everything a sharing group runs. `version` names the content: equal plans have equal versions."""

    version: str
    operators: tuple[Operator, ...]
    fallbacks: tuple[FallbackQuery, ...]
