"""Queries in, plan out, a file for each case; HEADRACE_REWRITE_GOLDENS=1 writes the files anew."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from plan_cases import CASES, PlanCase
from plan_text import plan_text

from forced import forced
from headrace.model.query import Query, QueryId, StreamName
from headrace.model.statistics import NOTHING_KNOWN
from headrace.model.strategy import DEFAULTS, Strategies
from headrace.planner.explain import choice_lines
from headrace.planner.group import STEPS, Draft, Kept, Member, classify, plan_group
from headrace.planner.strategies import choice_of
from headrace.sql import parse_query
from sql_fakes import STREAMS, FakeAnalyzer

GOLDENS = Path(__file__).parent / "goldens"
BY_NAME = {StreamName(name): stream for name, stream in STREAMS.items()}


def queries_of(case: PlanCase) -> list[Query]:
    analyzer = FakeAnalyzer()
    plans = [parse_query(text, STREAMS, analyzer) for text in case.queries]
    return [Query(QueryId(i), f"q{i}", plan) for i, plan in enumerate(plans, 1)]


def strategies_of(case: PlanCase) -> Strategies:
    return DEFAULTS if case.strategy is None else forced(queries_of(case), case.strategy)


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    case = CASES[name]
    queries, strategies = queries_of(case), strategies_of(case)
    sections = []
    for query in queries:
        choice = choice_of(query, strategies.by_query())
        sections += [f"query {query.id}: {query.plan.text}", *(f"  {line}" for line in choice_lines(choice))]
    plan = plan_group([Member(query, query.id - 1) for query in queries], BY_NAME, strategies=strategies)
    text = "\n".join([*sections, "", plan_text(replace(plan, version="")), ""])
    path = GOLDENS / f"{name}.txt"
    if os.environ.get("HEADRACE_REWRITE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_every_step_adds_to_the_plan_of_some_case_and_changes_nothing_that_is_there() -> None:
    used = set()
    for case in CASES.values():
        members = [Member(query, query.id - 1) for query in queries_of(case)]
        draft = Draft(classify(members, strategies_of(case)), BY_NAME, NOTHING_KNOWN, Kept())
        for step in STEPS:
            after = step(draft)
            assert after.operators[: len(draft.operators)] == draft.operators
            used |= {step} if after != draft else set()
            draft = after
    assert used == set(STEPS)
