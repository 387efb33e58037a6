"""Shared aggregations: of windows, of joined rows and of sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from headrace.model.plan.reads import Family, OperandIndex, Read, ScanPath, StateColumn
from headrace.model.predicate import Operand
from headrace.model.query import AggregateFunction, QueryId, StreamName
from headrace.model.types import SqlType
from headrace.model.window import SessionWindow, Window


class LaneKind(Enum):
    """A partial aggregate that slices keep. COUNT = ROWS - NULLS; AVG = SUM / COUNT; MOMENTS hold mean and M2.

    A BAG holds every value with how often it came.
    """

    ROWS = "rows"
    NULLS = "nulls"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MOMENTS = "moments"
    BAG = "bag"


@dataclass(frozen=True, slots=True)
class Measure:
    """What a tuple contributes: one kind of partial of one input (None for ROWS)."""

    kind: LaneKind
    input: int | None

    @property
    def name(self) -> str:
        return self.kind.value if self.input is None else f"{self.kind.value}{self.input}"


@dataclass(frozen=True, slots=True)
class Lane:
    """All partials of one kind and domain, whatever their inputs: kernels work them off as one array.

    Entry i keeps measure `measures[i]` for state column `columns[i]` (ascending). `ids[i]` is that entry's name for
    ever (ascending inside a window), so that segments of older plans can be matched. `domain` is `int`, `float`, or
    `words` and the text of the one input whose strings or rows the partials rank. A BAG is of one input too, and says
    `values` and its text where no vocabulary is needed.
    """

    kind: LaneKind
    domain: str
    columns: tuple[int, ...]
    measures: tuple[int, ...]
    ids: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.kind.value}:{self.domain}"


@dataclass(frozen=True, slots=True)
class OutputAggregate:
    """How a result column is lowered: which aggregate, in what type, from which lanes (by kind) or from which bag."""

    function: AggregateFunction
    type: SqlType
    lanes: tuple[int, ...]
    bag: int | None = None
    fractions: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """Queries of one window whose result rows have the same make-up.

    `base[i]` is the state column whose ROWS decide whether a group of query `queries[i]` has a row. For aggregate j,
    `columns[j][i]` is the query's state column and `inputs[j][i]` its input (-1: none).
    """

    window: int
    signature: str
    aggregates: tuple[OutputAggregate, ...]
    queries: tuple[QueryId, ...]
    base: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class AggregatingOperator:
    """What keeps partial aggregates of tuples from epoch to epoch: same stream, same grouping keys, same scan path.

    `columns` are ordered by window, so the columns of one window are contiguous. Windows close by the least watermark
    of the streams in `clock`. `bags` are the lanes of kind BAG; they are sparse and kept apart from the dense `lanes`.
    """

    id: str
    stream: StreamName
    clock: tuple[StreamName, ...]
    path: ScanPath
    event_time: Operand
    keys: tuple[Operand, ...]
    inputs: tuple[Operand, ...]
    operands: tuple[OperandIndex, ...]
    columns: tuple[StateColumn, ...]
    families: tuple[Family, ...]
    measures: tuple[Measure, ...]
    lanes: tuple[Lane, ...]
    outputs: tuple[Output, ...]
    bags: tuple[Lane, ...] = field(default=(), kw_only=True)

    @property
    def queries(self) -> tuple[QueryId, ...]:
        return tuple(dict.fromkeys(column.query for column in self.columns))

    @property
    def reads(self) -> tuple[Read, ...]:
        return (Read(self.stream, self.path, self.scanned),)

    @property
    def scanned(self) -> tuple[Operand, ...]:
        """The distinct operands a map task must read for this operator."""
        inputs = (part for operand in self.inputs for part in operand.read)
        wanted = (self.event_time, *self.keys, *inputs, *(index.operand for index in self.operands))
        return tuple(dict.fromkeys(wanted))


@dataclass(frozen=True, slots=True)
class AggregationOperator(AggregatingOperator):
    """A shared windowed aggregation. The rows of one with a `product` are factors of that, and no results."""

    windows: tuple[Window, ...]
    product: str | None = None


@dataclass(frozen=True, slots=True)
class GroupingOperator(AggregationOperator):
    """A shared aggregation of joined rows: no stream is read for it, chains of the join operator `join` feed it.

    A tuple here is a joined row for one of its queries and windows. Its event time is the window's last moment, so
    windows are as long as their slide, and every column asks for its own query.
    """

    join: str = field(kw_only=True)

    @property
    def reads(self) -> tuple[Read, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class SessionOperator(AggregatingOperator):
    """A shared aggregation over sessions: `StateColumn.window` and `Output.window` index `gaps`, which ascend.

    A query's sessions are those of the tuples that its base column (its WHERE) accepts.
    """

    gaps: tuple[SessionWindow, ...]
