"""Strategies forced on queries, for tests that compare what they deliver."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.query import Query
from headrace.model.strategy import Choice, Strategies, Strategy
from headrace.planner.strategies import default_choice, possible_strategies


def forced_choice(query: Query, strategy: Strategy) -> Choice:
    """The strategy where it is possible for the query, else the query's own."""
    if strategy in possible_strategies(query.plan.body):
        return Choice(strategy, "a test asks for it")
    return default_choice(query.plan.body)


def forced(queries: Iterable[Query], strategy: Strategy) -> Strategies:
    return Strategies.of({query.id: forced_choice(query, strategy) for query in queries})
