"""How each query runs, which other ways there are, and the reason for and against each.

A query in the catalog is logical. What is possible follows from the query alone, so it needs no record. Where two
strategies give the same rows at different cost, statistics decide (`optimizer/strategies`), and that choice is
recorded, because the state of the query depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from headrace.model.lanes import is_factor
from headrace.model.predicate import TRUE, operands_of
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Body,
    Fallback,
    Join,
    JoinedRows,
    Projection,
    Query,
    QueryId,
)
from headrace.model.strategy import Alternative, Choice, Strategy
from headrace.model.types import Kind
from headrace.model.window import SessionWindow

UNKNOWN = "nothing is known yet of how often keys repeat, and a product costs no more however often they do"
"""The reason for a product when there are no statistics."""

_NOT_ALONE = Alternative(
    Strategy.PLAIN_SPARK, "a shared operator covers it, and reads each tuple once for all"
)
_NOT_READ = Alternative(
    Strategy.READ_GROUPS,
    "kernels know its aggregates, so joined rows need not be stored for a reader to group",
)

_DIVIDED = frozenset((Kind.DECIMAL, Kind.INTERVAL, Kind.MONTHS))
"""Averages of these are a SUM divided by a COUNT when they are finished."""


def choice_of(query: Query, recorded_choices: Mapping[QueryId, Choice]) -> Choice:
    """How a query runs: as was recorded, or by default. A record that the query does not allow is refused."""
    recorded = recorded_choices.get(query.id)
    if recorded is None:
        return default_choice(query.plan.body)
    if recorded.strategy not in possible_strategies(query.plan.body):
        raise ValueError(f"query {query.name} cannot run as {recorded.strategy.value}")
    return recorded


def possible_strategies(body: Body) -> tuple[Strategy, ...]:
    """The strategies that give the query's rows, the default first."""
    match body:
        case Projection():
            return (Strategy.SELECTION,)
        case Aggregation(window=SessionWindow()):
            return (Strategy.SESSIONS,)
        case Aggregation():
            return (Strategy.WINDOWS,)
        case Fallback():
            return (Strategy.PLAIN_SPARK,)
        case Join(then=JoinedRows(groups=None)):
            return (Strategy.JOINED_ROWS,)
        case Join(then=JoinedRows()):
            return (Strategy.READ_GROUPS,)
        case Join():
            if product_obstacle(body) is not None:
                return (Strategy.JOINED_GROUPS,)
            return (Strategy.PRODUCT, Strategy.JOINED_GROUPS)
        case _:
            assert_never(body)


def default_choice(body: Body) -> Choice:
    """The choice when nothing is measured, with a reason that follows from the query alone."""
    match body:
        case Projection():
            return Choice(
                Strategy.SELECTION, "it keeps no state and looks at each tuple by itself", (_NOT_ALONE,)
            )
        case Aggregation(window=SessionWindow()):
            return Choice(Strategy.SESSIONS, "it aggregates sessions of one stream", (_NOT_ALONE,))
        case Aggregation():
            return Choice(Strategy.WINDOWS, "it aggregates windows of one stream", (_NOT_ALONE,))
        case Fallback(reason):
            return Choice(Strategy.PLAIN_SPARK, reason)
        case Join(then=JoinedRows() as then):
            return _read_choice(then)
        case Join():
            obstacle = product_obstacle(body)
            if obstacle is None:
                return group_choice(
                    Strategy.PRODUCT, UNKNOWN, "it may have many more rows to join than there are keys"
                )
            rejected = (Alternative(Strategy.PRODUCT, obstacle), _NOT_READ, _NOT_ALONE)
            return Choice(
                Strategy.JOINED_GROUPS,
                "its rows have to be joined; they are grouped in the same job, so none is stored",
                rejected,
            )
        case _:
            assert_never(body)


def group_choice(strategy: Strategy, reason: str, against: str) -> Choice:
    """A choice between a product and grouping joined rows, with the reason against the one that was not taken."""
    other = Strategy.JOINED_GROUPS if strategy is Strategy.PRODUCT else Strategy.PRODUCT
    return Choice(strategy, reason, (Alternative(other, against), _NOT_READ, _NOT_ALONE))


def _read_choice(then: JoinedRows) -> Choice:
    if then.groups is None:
        reason = "it asks for the joined rows themselves; each is stored once for all queries that want it"
        return Choice(Strategy.JOINED_ROWS, reason, (_NOT_ALONE,))
    obstacle = then.unshared or "no kernel knows its aggregates"
    rejected = (
        Alternative(Strategy.JOINED_GROUPS, obstacle),
        Alternative(Strategy.PRODUCT, obstacle),
        Alternative(Strategy.PLAIN_SPARK, "the join is shared, and only its groups are made by Spark"),
    )
    return Choice(
        Strategy.READ_GROUPS,
        "no kernel makes its groups, so Spark makes them of the stored rows when they are read",
        rejected,
    )


def product_obstacle(body: Join) -> str | None:
    """Why an aggregation of a join is no product of its streams' aggregations; None when it is one."""
    return next(_obstacles(body), None)


def _obstacles(body: Join) -> Iterator[str]:
    then = body.then
    if not isinstance(then, Aggregation):
        yield "it asks for the joined rows themselves"
        return
    if len(body.hubs) > 1:
        yield "the streams are joined on different keys"
    if body.across:
        yield "a condition compares values of two streams, so not all tuples of a key meet"
    if body.called != TRUE:
        yield "a function decides which tuples of a key meet"
    yield from _key_obstacles(body, then)
    for aggregate in then.aggregates:
        yield from _aggregate_obstacles(body, then, aggregate)


def _key_obstacles(body: Join, then: Aggregation) -> Iterator[str]:
    named, hub = {carried.name: carried for carried in body.carried}, body.hubs[0]
    found: set[int] = set()
    for key in then.keys:
        carried = named[key.sql]
        parts = hub.keys[hub.sides.index(carried.side)] if carried.side in hub.sides else ()
        if carried.operand not in parts:
            stream = body.sides[carried.side].stream
            yield f"it groups by {carried.operand.sql} of {stream}, which is no key of the join"
        else:
            found.add(parts.index(carried.operand))
    if len(found) < len(hub.keys[0]):
        yield "it groups by less than the whole key of the join"


def _aggregate_obstacles(body: Join, then: Aggregation, aggregate: Aggregate) -> Iterator[str]:
    name = aggregate.function.value.upper()
    if not is_factor(aggregate.function):
        yield f"{name} does not follow from the streams' own aggregates"
    if len(sides_of(body, aggregate)) > 1:
        yield f"{name} with its FILTER is over more than one stream"
    divided = aggregate.function is AggregateFunction.SUM and aggregate.type.kind in _DIVIDED
    if divided and any(_counts_same(aggregate, other) for other in then.aggregates):
        yield "an average of decimals or intervals is divided by a count, which a product can make too large for it"


def _counts_same(total: Aggregate, other: Aggregate) -> bool:
    return (
        other.function is AggregateFunction.COUNT
        and other.input == total.input
        and other.filter == total.filter
    )


def sides_of(body: Join, aggregate: Aggregate) -> frozenset[int]:
    """The sides that an aggregate's input and FILTER are over."""
    named = {carried.name: carried.side for carried in body.carried}
    operands = {*operands_of(aggregate.filter), *((aggregate.input,) if aggregate.input else ())}
    return frozenset(named[part.sql] for operand in operands for part in operand.read)
