"""From a set of queries to the shared plan a group runs, in steps.

Each step is a pure function from a draft to a draft with more in it. `STEPS` is their order. A step reads the queries
that run with its strategies, and what earlier steps have planned; none changes what another has put there.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.model.pieces import Writer
from headrace.model.plan import (
    AggregationOperator,
    FallbackQuery,
    GroupingOperator,
    Operator,
    ProductOperator,
    ScanPath,
    SharedPlan,
)
from headrace.model.plan.predicates import scan_path
from headrace.model.predicate import Operand
from headrace.model.query import Aggregation, Fallback, Join, Projection, Query, QueryId, Stream, StreamName
from headrace.model.statistics import NOTHING_KNOWN, Statistics
from headrace.model.strategy import DEFAULTS, Strategies, Strategy
from headrace.planner.groupings import ROWS, grouping_body, grouping_id
from headrace.planner.joins import (
    Joining,
    SideQuery,
    join_id,
    plan_joins,
    plan_product,
    product_id,
    side_queries,
)
from headrace.planner.parts import BodyPart, FilterPart, Parts, aggregation_operands
from headrace.planner.shared import (
    aggregating_parts,
    operator_id,
    plan_aggregation,
    plan_selection,
    query_signature,
    selection_path,
    sliding_windows,
)
from headrace.planner.strategies import choice_of


@dataclass(frozen=True, slots=True)
class Member:
    """A query of the group and the slot it holds."""

    query: Query
    slot: int


class Kept:
    """What planning of a group has worked out before: parts of queries, and plans as they are written.

    Whoever plans again and again hands it in each time. A plan does not depend on it, only the time that it takes.
    """

    def __init__(self) -> None:
        self.parts = Parts()
        self._writer = Writer()
        self._text: tuple[str, bytes] = ("", b"")

    def name(self, plan: SharedPlan) -> SharedPlan:
        """The plan with a version that names its content."""
        text = self._writer.write(plan)
        version = hashlib.sha256(text).hexdigest()[:16]
        self._text = (version, text.replace(_UNNAMED, b'"version":"%s"' % version.encode(), 1))
        return replace(plan, version=version)

    def text_of(self, plan: SharedPlan) -> bytes:
        """A plan as it is written, to be read by a `Reader`."""
        version, text = self._text
        return text if version == plan.version else self._writer.write(plan)


_UNNAMED = b'"version":""'


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan in the making: what is asked for, and what the steps so far have planned."""

    members: Mapping[Strategy, tuple[Member, ...]]
    streams: Mapping[StreamName, Stream]
    statistics: Statistics
    kept: Kept
    operators: tuple[Operator, ...] = ()
    products: tuple[ProductOperator, ...] = ()
    fallbacks: tuple[FallbackQuery, ...] = ()

    def running(self, *strategies: Strategy) -> list[Member]:
        """The queries with one of these strategies, by id."""
        found = (member for strategy in strategies for member in self.members.get(strategy, ()))
        return sorted(found, key=lambda member: member.query.id)

    def joinings(self, *strategies: Strategy) -> list[Joining]:
        """The same, of queries that are joins."""
        found = []
        for member in self.running(*strategies):
            body = member.query.plan.body
            assert isinstance(body, Join)
            found.append(Joining(member.query.id, member.slot, body))
        return found

    def adding(self, operators: Iterable[Operator]) -> Draft:
        return replace(self, operators=(*self.operators, *operators))


Step = Callable[[Draft], Draft]


def plan_group(
    members: Iterable[Member],
    streams: Mapping[StreamName, Stream],
    statistics: Statistics = NOTHING_KNOWN,
    strategies: Strategies = DEFAULTS,
    kept: Kept | None = None,
) -> SharedPlan:
    """The shared plan of these queries. Costs time linear in their predicates' atoms; no I/O, no clock.

    The same members in any order give the same plan. Each query runs with the strategy that `strategies` has for it, or
    with its default. `statistics` order the inputs of joins, and decide nothing that state depends on. What `kept` has
    of the queries is not worked out again.
    """
    kept = kept or Kept()
    draft = Draft(classify(members, strategies), streams, statistics, kept)
    for step in STEPS:
        draft = step(draft)
    kept.parts.keep({member.query.id for found in draft.members.values() for member in found})
    return number_version(draft)


def classify(members: Iterable[Member], strategies: Strategies) -> dict[Strategy, tuple[Member, ...]]:
    """The queries by the strategy they run with, each ordered by id."""
    found: dict[Strategy, list[Member]] = defaultdict(list)
    recorded = strategies.by_query()
    for member in sorted(members, key=lambda member: member.query.id):
        found[choice_of(member.query, recorded).strategy].append(member)
    return {strategy: tuple(mine) for strategy, mine in found.items()}


def plan_aggregations(draft: Draft) -> Draft:
    """An operator for each stream, grouping keys, scan path and kind of window. Queries that ask for all values of a
    group have one of their own, so that the tuples of all others can be combined before they travel.
    """
    operators: list[Operator] = []
    for strategy in (Strategy.WINDOWS, Strategy.SESSIONS):
        classes: dict[tuple[StreamName, tuple[Operand, ...], ScanPath, bool], list[BodyPart]]
        classes = defaultdict(list)
        for member in draft.running(strategy):
            plan = member.query.plan
            assert isinstance(plan.body, Aggregation)
            part = draft.kept.parts.of(member.query.id, plan.body)
            classes[plan.stream, plan.body.keys, part.path, part.asks_for_values].append(part)
        operators += [
            plan_aggregation(draft.streams[stream], keys, path, parts)
            for (stream, keys, path, _), parts in classes.items()
        ]
    return draft.adding(operators)


def plan_selections(draft: Draft) -> Draft:
    """An operator for each stream and scan path of the queries without state."""
    classes: dict[tuple[StreamName, ScanPath], list[Member]] = defaultdict(list)
    for member in draft.running(Strategy.SELECTION):
        plan = member.query.plan
        assert isinstance(plan.body, Projection)
        classes[plan.stream, selection_path(plan.body)].append(member)
    return draft.adding(
        plan_selection(stream, path, [(member.query, member.slot) for member in mine], _filters(draft, mine))
        for (stream, path), mine in classes.items()
    )


def _filters(draft: Draft, members: Iterable[Member]) -> list[FilterPart]:
    bodies = ((member.query.id, member.query.plan.body) for member in members)
    return [draft.kept.parts.filter_of(id_, b.where) for id_, b in bodies if isinstance(b, Projection)]


def plan_groupings(draft: Draft) -> Draft:
    """The aggregations of joined rows: one for each set of joined inputs and grouping keys."""
    grouped: dict[str, list[Joining]] = defaultdict(list)
    for joining in draft.joinings(Strategy.JOINED_GROUPS):
        grouped[grouping_id(joining)].append(joining)
    operators = []
    for id_, joinings in grouped.items():
        new = Parts()
        parts = [new.of(joining.id, grouping_body(joining)) for joining in joinings]
        made = aggregating_parts(ROWS, parts[0].body.keys, ScanPath.FAST, parts)
        made["clock"] = joinings[0].clock
        join = join_id(joinings[0].clock)
        operators.append(GroupingOperator(id=id_, windows=sliding_windows(parts), join=join, **made))
    return draft.adding(operators)


def plan_shared_joins(draft: Draft) -> Draft:
    """The joins whose rows are stored, and those that feed the aggregations of the step before."""
    joinings = draft.joinings(Strategy.JOINED_ROWS, Strategy.READ_GROUPS, Strategy.JOINED_GROUPS)
    groupings = (operator for operator in draft.operators if isinstance(operator, GroupingOperator))
    feeds = {query: operator.id for operator in groupings for query in operator.queries}
    return draft.adding(plan_joins(joinings, draft.streams, dict(draft.statistics.arrived), feeds))


def plan_products(draft: Draft) -> Draft:
    """The aggregations of the sides of products, and the products they make."""
    products: dict[str, list[Joining]] = defaultdict(list)
    for joining in draft.joinings(Strategy.PRODUCT):
        products[product_id(joining)].append(joining)
    operators: list[AggregationOperator] = []
    planned = []
    for id_, joinings in products.items():
        of_side = _plan_sides(id_, joinings, draft.streams)
        operators += dict.fromkeys(of_side.values())
        planned.append(plan_product(id_, joinings, of_side))
    return replace(draft.adding(operators), products=tuple(planned))


def _plan_sides(
    id_: str, joinings: list[Joining], streams: Mapping[StreamName, Stream]
) -> dict[tuple[QueryId, int], AggregationOperator]:
    """The operator of each side of each query of a product."""
    classes: dict[tuple[StreamName, tuple[Operand, ...], ScanPath, int], list[SideQuery]] = defaultdict(list)
    for joining in joinings:
        for side in side_queries(joining):
            path = scan_path(aggregation_operands(side.body))
            classes[side.stream, side.body.keys, path, side.role].append(side)
    of_side: dict[tuple[QueryId, int], AggregationOperator] = {}
    for (stream, keys, path, role), sides in classes.items():
        new = Parts()
        alone = plan_aggregation(streams[stream], keys, path, [new.of(s.query, s.body) for s in sides])
        assert isinstance(alone, AggregationOperator)
        name = operator_id(f"{id_}-{role}", stream, path, keys)
        operator = replace(alone, id=name, clock=joinings[0].clock, product=id_)
        of_side |= {(side.query, side.side): operator for side in sides}
    return of_side


def plan_fallbacks(draft: Draft) -> Draft:
    """The queries that plain Spark runs."""
    found = []
    for member in draft.running(Strategy.PLAIN_SPARK):
        query = member.query
        assert isinstance(query.plan.body, Fallback)
        reason = query.plan.body.reason
        found.append(FallbackQuery(query.id, query.plan.streams, reason, query_signature(query)))
    return replace(draft, fallbacks=tuple(found))


STEPS: tuple[Step, ...] = (
    plan_aggregations,
    plan_selections,
    plan_groupings,
    plan_shared_joins,
    plan_products,
    plan_fallbacks,
)
"""Groupings come before the joins that feed them, because a join's chain names its grouping."""


def number_version(draft: Draft) -> SharedPlan:
    """The finished plan, with a version that names its content."""
    operators = tuple(sorted(draft.operators, key=lambda operator: operator.id))
    return draft.kept.name(SharedPlan("", operators, draft.fallbacks, draft.products))
