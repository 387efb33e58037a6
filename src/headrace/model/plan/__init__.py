"""Plan nodes: what one sharing group runs in an epoch. EXPLAIN and the engine read the same objects."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.plan.aggregations import (
    AggregatingOperator,
    AggregationOperator,
    GroupingOperator,
    Lane,
    LaneKind,
    Measure,
    Output,
    OutputAggregate,
    SessionOperator,
)
from headrace.model.plan.joins import (
    AcrossPositions,
    Factor,
    InputRole,
    JoinChain,
    JoinedQuery,
    JoinFilter,
    JoinHub,
    JoinInput,
    JoinLeaf,
    JoinOperator,
    JoinStep,
    ProductOperator,
    ProductOutput,
    at_position,
)
from headrace.model.plan.reads import Family, OperandIndex, Read, ScanPath, StateColumn
from headrace.model.predicate import Operand, Predicate
from headrace.model.query import QueryId, StreamName

__all__ = [
    "AcrossPositions",
    "AggregatingOperator",
    "AggregationOperator",
    "Factor",
    "FallbackQuery",
    "Family",
    "GroupingOperator",
    "InputRole",
    "JoinChain",
    "JoinFilter",
    "JoinHub",
    "JoinInput",
    "JoinLeaf",
    "JoinOperator",
    "JoinStep",
    "JoinedQuery",
    "Lane",
    "LaneKind",
    "Measure",
    "OperandIndex",
    "Operator",
    "Output",
    "OutputAggregate",
    "ProductOperator",
    "ProductOutput",
    "Read",
    "ScanPath",
    "SelectionOperator",
    "SessionOperator",
    "SharedPlan",
    "StateColumn",
    "at_position",
]


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
    def clock(self) -> tuple[StreamName, ...]:
        return (self.stream,)

    @property
    def reads(self) -> tuple[Read, ...]:
        return (Read(self.stream, self.path, self.scanned),)

    @property
    def scanned(self) -> tuple[Operand, ...]:
        return tuple(dict.fromkeys((*self.outputs, *(index.operand for index in self.operands))))


@dataclass(frozen=True, slots=True)
class FallbackQuery:
    """A query that plain Spark runs over the log, and why."""

    query: QueryId
    streams: tuple[StreamName, ...]
    reason: str
    signature: str


Operator = AggregationOperator | SessionOperator | SelectionOperator | JoinOperator


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Everything a sharing group runs. `version` names the content: equal plans have equal versions."""

    version: str
    operators: tuple[Operator, ...]
    fallbacks: tuple[FallbackQuery, ...]
    products: tuple[ProductOperator, ...] = ()
