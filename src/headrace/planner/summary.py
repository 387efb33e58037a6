"""EXPLAIN for people: how a query runs, in a few lines that say one thing each. VERBOSE has the plan's own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.model.plan import (
    AggregationOperator,
    GroupingOperator,
    JoinOperator,
    Operator,
    SelectionOperator,
    SessionOperator,
    SharedPlan,
)
from headrace.model.query import Aggregation, Fallback, Join, JoinedRows, Projection, Query
from headrace.model.window import SessionWindow
from headrace.planner.explain import queries_of
from headrace.sql.text.arrange import arrange_sql

Line = tuple[str, str]
"""What it is about, and what is to say."""

WIDTH = 11


def summarize_query(query: Query, plan: SharedPlan | None, head: str, lines: Iterable[Line]) -> str:
    """The head, how it is shared, what else is known of it, and the plain Spark SQL it equals."""
    found = [
        ("reads", ", ".join(query.plan.streams)),
        ("runs as", _runs_as(query)),
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


def _runs_as(query: Query) -> str:
    match query.plan.body:
        case Aggregation(window=SessionWindow()):
            return "shared aggregation of sessions"
        case Aggregation():
            return "shared aggregation of windows"
        case Projection():
            return "shared selection of tuples"
        case Join(then=JoinedRows()):
            return "shared join"
        case Join() as body if body.is_product:
            return "shared aggregation of a join by its key, for which nothing is joined"
        case Join():
            return "shared join that feeds a shared aggregation"
        case Fallback(reason):
            return f"not shared: {reason}"


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
