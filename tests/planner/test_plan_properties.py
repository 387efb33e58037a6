"""The shared plan: the same for members in any order, and the same after it was written and read."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from headrace.model import codec
from headrace.model.plan import AggregationOperator, SelectionOperator, SessionOperator, SharedPlan
from headrace.model.predicate import Compare, Op, Operand
from headrace.model.query import Aggregation, Fallback, Projection, Query
from headrace.model.types import DOUBLE
from headrace.model.window import SessionWindow, Window
from headrace.planner.group import Member, plan_group
from plan_strategies import STREAM, predicates, queries

STREAMS = {STREAM.name: STREAM}


def planned(found: list[Query]) -> SharedPlan:
    return plan_group([Member(query, query.id % 70) for query in found], STREAMS)


@given(queries(), st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(found: list[Query], rng: random.Random) -> None:
    plan = planned(found)
    shuffled = list(found)
    rng.shuffle(shuffled)
    assert codec.dumps(planned(shuffled)) == codec.dumps(plan)


@given(queries())
def test_plans_come_back(found: list[Query]) -> None:
    plan = planned(found)
    data = codec.dumps(plan)
    back = codec.loads(data)
    assert type(back) is SharedPlan
    assert codec.dumps(back) == data
    assert planned(list(codec.loads(codec.dumps(found)))).version == plan.version


def test_a_comparison_with_nan_is_itself_when_it_comes_back() -> None:
    """Or a query's filters would be counted in another way after a restart, and its state be taken for another's."""
    one, other = (Compare(Operand("x", DOUBLE), Op.GT, float("nan")) for _ in range(2))
    assert one == other == codec.loads(codec.dumps(one)) and hash(one) == hash(other)


@given(predicates())
def test_predicates_come_back(predicate: object) -> None:
    assert repr(codec.loads(codec.dumps(predicate))) == repr(predicate)


@given(queries())
def test_every_query_runs_in_exactly_one_place(found: list[Query]) -> None:
    plan = planned(found)
    places: dict[int, list[str]] = {int(query.id): [] for query in found}
    for operator in plan.operators:
        match operator:
            case AggregationOperator() | SessionOperator():
                ids = [id_ for output in operator.outputs for id_ in output.queries]
                assert sorted(set(ids)) == sorted({column.query for column in operator.columns})
            case SelectionOperator():
                ids = list(operator.queries)
        for id_ in ids:
            places[id_].append(type(operator).__name__)
    for fallback in plan.fallbacks:
        places[fallback.query].append("Fallback")
    expected = {Projection: "SelectionOperator", Fallback: "Fallback"}
    windows = {Window: "AggregationOperator", SessionWindow: "SessionOperator"}
    for query in found:
        body = query.plan.body
        place = windows[type(body.window)] if isinstance(body, Aggregation) else expected[type(body)]
        assert places[int(query.id)] == [place]
