"""What one query brings to a shared operator, worked out once and kept from plan to plan.

A part follows from the query alone. So planning again, with one query more or less, only has to put parts together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.model.lanes import keeps_values, lane_domain, lanes_needed
from headrace.model.plan import Family, LaneKind, OperandIndex, ScanPath, StateColumn
from headrace.model.plan.predicates import constants_of, index_constants, scan_path
from headrace.model.plan.reads import COLUMNS_PER_QUERY, ENTRIES_PER_COLUMN
from headrace.model.predicate import Operand, Predicate, Value, conjunction, operands_of
from headrace.model.query import AggregateFunction, Aggregation, QueryId
from headrace.model.types import SqlType

SPARE = 64
"""What is known of so many queries that are gone, and as many as there are, is kept."""

Thing = TypeVar("Thing")
Same = Callable[[Any], Any]
"""Gives equal things as one object, so that they can be told apart by it."""

AggregateShape = tuple[AggregateFunction, SqlType, tuple[tuple[LaneKind, str], ...], tuple[float, ...]]
"""(function, result type, kinds and domains of its lanes, fractions): what a result column is made of."""


@dataclass(frozen=True, slots=True)
class FilterPart:
    """A distinct filter of a query: the predicate on tuples, the operands it reads, in order, and their constants."""

    predicate: Predicate
    operands: tuple[Operand, ...]
    constants: tuple[tuple[Operand, tuple[Value, ...]], ...]


@dataclass(frozen=True, slots=True)
class LanePart:
    """A partial that a query needs: of which kind and domain, behind which of its filters, of which input."""

    kind: LaneKind
    domain: str
    filter: int
    input: Operand
    entry: int


@dataclass(frozen=True, slots=True)
class BodyPart:
    """A query's aggregation, ready to be put together with others.

    `filter_of` and `input_of` are those of its aggregates. Its state columns are numbered by its filters. One that
    `asks_for_values` needs every value of a group.
    """

    query: QueryId
    body: Aggregation
    filters: tuple[FilterPart, ...]
    inputs: tuple[Operand, ...]
    lanes: tuple[LanePart, ...]
    shape: tuple[AggregateShape, ...]
    filter_of: tuple[int, ...]
    input_of: tuple[Operand | None, ...]
    path: ScanPath
    asks_for_values: bool
    _columns: dict[int, tuple[StateColumn, ...]] = field(default_factory=dict, compare=False)

    def columns(self, window: int) -> tuple[StateColumn, ...]:
        """Its state columns, with its window at this place among all; the same objects each time."""
        found = self._columns.get(window)
        if found is None:
            first = self.query * COLUMNS_PER_QUERY
            found = tuple(
                StateColumn(first + ordinal, self.query, window, filter_.predicate)
                for ordinal, filter_ in enumerate(self.filters)
            )
            self._columns[window] = found
        return found


class Parts:
    """The parts of queries, kept while they are asked for. They change no plan, only what it costs. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[QueryId, BodyPart] = {}
        self._filters: dict[QueryId, FilterPart] = {}
        self._same: dict[Any, Any] = {}

    def of(self, query: QueryId, body: Aggregation) -> BodyPart:
        """The part of a query with this body."""
        found = self._known.get(query)
        if found is None or found.body is not body:
            found = self._known[query] = body_part(query, body, self.same)
        return found

    def filter_of(self, query: QueryId, predicate: Predicate) -> FilterPart:
        """The one filter of a query without state."""
        found = self._filters.get(query)
        if found is None or found.predicate is not predicate:
            found = self._filters[query] = _filter_part(predicate, self.same)
        return found

    def same(self, thing: Thing) -> Thing:
        """The first of all things that equal this one."""
        found: Thing = self._same.setdefault(thing, thing)
        return found

    def keep(self, queries: Collection[QueryId]) -> None:
        """Forget most of what is about other queries."""
        known, filters = self._known, self._filters  # another thread may replace them meanwhile
        if len(known) + len(filters) > 2 * len(queries) + SPARE:
            self._known = {query: known[query] for query in queries if query in known}
            self._filters = {query: filters[query] for query in queries if query in filters}
            self._same = {}


def body_part(query: QueryId, body: Aggregation, same: Same) -> BodyPart:
    """The part of a query. Equal operands and shapes in it are one object in all parts."""
    filters = tuple(dict.fromkeys((conjunction(), *(a.filter for a in body.aggregates))))
    if len(filters) > COLUMNS_PER_QUERY or len(body.aggregates) > ENTRIES_PER_COLUMN:
        raise ValueError(f"query {query} has more filters or aggregates than its state columns can number")
    number = {filter_: ordinal for ordinal, filter_ in enumerate(filters)}
    filter_of = tuple(number[aggregate.filter] for aggregate in body.aggregates)
    inputs = tuple(None if a.input is None else same(a.input) for a in body.aggregates)
    return BodyPart(
        query,
        body,
        tuple(_filter_part(conjunction(body.where, filter_), same) for filter_ in filters),
        tuple(dict.fromkeys(input_ for input_ in inputs if input_ is not None)),
        _lane_parts(query, body, filter_of, same),
        same(tuple((a.function, a.type, _lanes(a.function, a.input), a.fractions) for a in body.aggregates)),
        filter_of,
        inputs,
        scan_path(aggregation_operands(body)),
        any(keeps_values(aggregate.function) for aggregate in body.aggregates),
    )


def aggregation_operands(body: Aggregation) -> set[Operand]:
    """All that an aggregation reads."""
    found = set(body.keys) | operands_of(body.where)
    for aggregate in body.aggregates:
        found |= operands_of(aggregate.filter)
        if aggregate.input is not None:
            found.add(aggregate.input)
    return found


def _filter_part(predicate: Predicate, same: Same) -> FilterPart:
    operands = sorted(operands_of(predicate), key=order_of)
    constants = ((same(operand), tuple(found)) for operand, found in constants_of(predicate).items())
    return FilterPart(predicate, same(tuple(map(same, operands))), tuple(constants))


def _lane_parts(
    query: QueryId, body: Aggregation, filter_of: tuple[int, ...], same: Same
) -> tuple[LanePart, ...]:
    """Each partial once, however many aggregates are lowered from it."""
    ordinals = {a.input: i for i, a in enumerate(body.aggregates) if a.input is not None}
    found = []
    for aggregate, filter_ in zip(body.aggregates, filter_of, strict=True):
        for kind, domain in _lanes(aggregate.function, aggregate.input):
            assert aggregate.input is not None
            column = query * COLUMNS_PER_QUERY + filter_
            entry = column * ENTRIES_PER_COLUMN + ordinals[aggregate.input]
            found.append(LanePart(kind, domain, filter_, same(aggregate.input), entry))
    return tuple(dict.fromkeys(found))


def _lanes(function: AggregateFunction, input_: Operand | None) -> tuple[tuple[LaneKind, str], ...]:
    return tuple((kind, lane_domain(kind, input_)) for kind in lanes_needed(function))


def index_of(filters: Iterable[FilterPart]) -> tuple[OperandIndex, ...]:
    """Every operand of the filters with all the constants it meets."""
    found: dict[Operand, set[Value]] = {}
    for filter_ in filters:
        for operand, constants in filter_.constants:
            found.setdefault(operand, set()).update(constants)
    return index_constants(found)


def families_of(filters: Iterable[FilterPart], operands: Sequence[OperandIndex]) -> tuple[Family, ...]:
    """Filters over the same set of operands form a family."""
    place = {index.operand: i for i, index in enumerate(operands)}
    found: dict[tuple[Operand, ...], list[int]] = defaultdict(list)
    for position, filter_ in enumerate(filters):
        found[filter_.operands].append(position)
    read = ((tuple(sorted(place[o] for o in read)), tuple(positions)) for read, positions in found.items())
    return tuple(Family(*family) for family in sorted(read))


def order_of(operand: Operand) -> tuple[str, str]:
    """Operands in plans are ordered by this."""
    return operand.sql, operand.type.name
