"""Strategies forced on queries, and ways on kernels, for tests that compare what they deliver."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from headrace.model.query import Query
from headrace.model.strategy import Choice, Strategies, Strategy
from headrace.operators.windows import pooling
from headrace.planner.strategies import default_choice, possible_strategies


def forced_choice(query: Query, strategy: Strategy) -> Choice:
    """The strategy where it is possible for the query, else the query's own."""
    if strategy in possible_strategies(query.plan.body):
        return Choice(strategy, "a test asks for it")
    return default_choice(query.plan.body)


def forced(queries: Iterable[Query], strategy: Strategy) -> Strategies:
    return Strategies.of({query.id: forced_choice(query, strategy) for query in queries})


def force_pools(monkeypatch: pytest.MonkeyPatch, decide: Callable[[], bool]) -> None:
    """Let aggregations keep tuples in place of partials when `decide` says so, however few keys there are.

    This holds for tasks that run in this process.
    """
    monkeypatch.setattr(pooling, "FEW_KEYS", 0)
    monkeypatch.setattr(pooling, "MOST_OVERLAPPING", 10**9)
    monkeypatch.setattr(pooling, "decide_pool", lambda *_: decide())
