"""EXPLAIN for people: how a query runs, in a few lines that say one thing each. VERBOSE has the plan's own words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from headrace.model.plan import (
    AggregationOperator,
    GroupingOperator,
    JoinOperator,
    Operator,
    SelectionOperator,
    SessionOperator,
    SharedPlan,
)
from headrace.model.query import Fallback, Query
from headrace.model.strategy import Choice, Strategy
from headrace.planner.explain import queries_of
from headrace.sql.text.arrange import arrange_sql

Line = tuple[str, str]
"""What it is about, and what is to say."""

WIDTH = 11


def summarize_query(
    query: Query, plan: SharedPlan | None, choice: Choice, head: str, lines: Iterable[Line]
) -> str:
    """The head, how it runs and why, what else is known of it, and the plain Spark SQL it equals."""
    found = [
        ("reads", ", ".join(query.plan.streams)),
        ("runs as", _runs_as(choice)),
        *_because(choice),
        *_shares(query, plan),
        *lines,
    ]
    text = [head, *(f"  {word:<{WIDTH}}{said}" for word, said in found)]
    sql = arrange_sql(query.plan.plain_sql)
    return "\n".join([*text, "plain Spark SQL:", *(f"  {line}" for line in sql.splitlines())])


def summarize_plan(plan: SharedPlan, names: Mapping[int, str], lines: Iterable[Line]) -> str:
    """What all queries share, one line per shared operator, and the queries that run on their own."""
    shared = {query for operator in plan.operators for query in queries_of(operator)}
    apart = len(plan.fallbacks)
    text = [
        f"shared plan: {_queries(len(shared))} in {_operators(len(plan.operators))}, {apart:,} on their own"
    ]
    text += [f"  {kind_of(operator)}: {_queries(len(queries_of(operator)))}" for operator in plan.operators]
    text += [
        f"  on its own: query {names[int(f.query)]} over {', '.join(f.streams)}: {f.reason}"
        for f in plan.fallbacks
    ]
    return "\n".join([*text, *(f"  {word}: {said}" for word, said in lines)])


def _queries(number: int) -> str:
    return f"{number:,} {'query' if number == 1 else 'queries'}"


def _operators(number: int) -> str:
    return f"{number:,} shared {'operator' if number == 1 else 'operators'}"


_RUNS_AS = {
    Strategy.WINDOWS: "shared aggregation of windows",
    Strategy.SESSIONS: "shared aggregation of sessions",
    Strategy.SELECTION: "shared selection of tuples",
    Strategy.JOINED_ROWS: "shared join",
    Strategy.READ_GROUPS: "shared join whose rows are grouped when they are read",
    Strategy.JOINED_GROUPS: "shared join that feeds a shared aggregation",
    Strategy.PRODUCT: "shared aggregation of a join by its key, for which nothing is joined",
}


def _runs_as(choice: Choice) -> str:
    if choice.strategy is Strategy.PLAIN_SPARK:
        return f"not shared: {choice.reason}"
    return _RUNS_AS[choice.strategy]


_CHOSEN = frozenset((Strategy.READ_GROUPS, Strategy.JOINED_GROUPS, Strategy.PRODUCT))
"""Strategies that have alternatives worth a line. VERBOSE has the reason for all others too."""


def _because(choice: Choice) -> Iterator[Line]:
    """The reason for the strategy, and the reason against the one that comes closest."""
    if choice.strategy in _CHOSEN:
        yield "because", choice.reason
        for closest in choice.rejected[:1]:
            yield "not as", f"{closest.strategy.value}: {closest.reason}"


def _shares(query: Query, plan: SharedPlan | None) -> Sequence[Line]:
    """With how many others the query shares each of its operators."""
    if plan is None or isinstance(query.plan.body, Fallback):
        return ()
    mine = [operator for operator in plan.operators if query.id in queries_of(operator)]
    if not mine:
        return (("shares", "nothing at the moment: it is not active"),)
    return [("shares", f"{kind_of(o)} with {_others(len(queries_of(o)) - 1)}") for o in mine]


def _others(number: int) -> str:
    return f"{number:,} other {'query' if number == 1 else 'queries'}"


def kind_of(operator: Operator) -> str:
    match operator:
        case GroupingOperator():
            return f"the aggregation of joined rows of {operator.join}"
        case AggregationOperator():
            return f"the aggregation of {operator.stream}"
        case SessionOperator():
            return f"the sessions of {operator.stream}"
        case SelectionOperator():
            return f"the selection of {operator.stream}"
        case JoinOperator():
            return f"the join of {', '.join(operator.clock)}"
        case never:
            assert_never(never)
