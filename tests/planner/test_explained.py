"""What EXPLAIN says of queries and plans of each kind; HEADRACE_REWRITE_GOLDENS=1 writes the files anew."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from plan_cases import CASES, PlanCase
from test_plan_goldens import BY_NAME, queries_of, strategies_of
from test_strategies import HOT, SPARSE, statistics_of

from headrace.model.plan import JoinOperator
from headrace.model.strategy import DEFAULTS
from headrace.model.ways import FamilyWay, Finding
from headrace.optimizer.strategies import decide_strategies
from headrace.planner.explain import explain_plan, explain_query
from headrace.planner.group import Member, plan_group
from headrace.planner.strategies import choice_of
from headrace.planner.summary import summarize_plan, summarize_query

GOLDENS = Path(__file__).parent / "goldens" / "explained"


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    queries, strategies = queries_of(CASES[name]), strategies_of(CASES[name])
    plan = plan_group([Member(query, query.id - 1) for query in queries], BY_NAME, strategies=strategies)
    names = {int(query.id): query.name for query in queries}
    parts = [("EXPLAIN", summarize_plan(plan, names, [])), ("EXPLAIN VERBOSE", explain_plan(plan))]
    for query in queries:
        choice = choice_of(query, strategies.by_query())
        parts.append(
            (f"EXPLAIN {query.name}", summarize_query(query, plan, choice, f"query {query.name}", []))
        )
        parts.append((f"EXPLAIN VERBOSE {query.name}", explain_query(query, plan, choice)))
    text = "\n".join(f"-- {title}\n{said}\n" for title, said in parts).replace(plan.version, "VERSION")
    path = GOLDENS / f"{name}.txt"
    if os.environ.get("HEADRACE_REWRITE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_what_tasks_did_is_shown_under_its_family() -> None:
    text = "SELECT COUNT(*) AS n FROM purchases WHERE price > 3 GROUP BY window(ts, '1 minute')"
    (query,) = queries_of(PlanCase((text,)))
    plan = plan_group([Member(query, 0)], BY_NAME)
    (operator,) = plan.operators
    mine = FamilyWay(operator.id, ("price",), 1, Finding.CANDIDATES, True, 10, 0, 20, 5)
    others = (replace(mine, operator="another"), replace(mine, operands=("userID",)))
    for text in (
        explain_plan(plan, [mine, *others]),
        explain_query(query, plan, choice_of(query, {}), [mine]),
    ):
        lines = text.splitlines()
        (at,) = (i for i, line in enumerate(lines) if "found by" in line)
        assert lines[at - 1].startswith("    family on price (1 constants): 1 filters")
        assert (
            "found by candidates, updated in place: of 10 tuples each met 0 words and 2 candidates"
            in lines[at]
        )


def test_how_a_join_found_partners_is_shown() -> None:
    case = next(case for name, case in CASES.items() if name.startswith("join"))
    plan = plan_group([Member(query, query.id - 1) for query in queries_of(case)], BY_NAME)
    operator = next(o for o in plan.operators if isinstance(o, JoinOperator))
    way = FamilyWay(operator.id, ("1",), 0, Finding.GROUPS, None, 100, 0, 5_000, 0, 0.1, 0.9)
    text = explain_plan(plan, [way])
    assert text.count("partners of input 1 found by groups: 100 rows had 5,000 tuples of their keys") == 1
    assert "(estimated 0.10 ms; list 0.90 ms)" in text


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (SPARSE, "shared join that feeds a shared aggregation"),
        (HOT, "shared aggregation of a join by its key, for which nothing is joined"),
    ],
    ids=["sparse keys", "hot keys"],
)
def test_the_figures_behind_a_choice_are_shown(counts: Counter[int], said: str) -> None:
    query = queries_of(CASES["products"])[0]
    statistics = statistics_of(counts)
    strategies = decide_strategies([query], statistics, DEFAULTS, ()).applied_to(DEFAULTS)
    plan = plan_group([Member(query, 0)], BY_NAME, statistics, strategies)
    choice = choice_of(query, strategies.by_query())
    lines = summarize_query(query, plan, choice, "query q1", []).splitlines()
    assert f"  runs as    {said}" in lines
    assert any(
        line.startswith("  because    there are about") and "joined rows per window" in line for line in lines
    )
    assert any(line.startswith("  not as     ") for line in lines)
