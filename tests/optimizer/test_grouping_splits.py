"""Algorithm 2: back-pressure first, then more tasks, then singletons; and theorem 1 holds for it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grouping_cases import JOIN, RATE, Case, health_of, random_case
from headrace.model.grouping import MAIN, auto_group
from headrace.model.query import QueryId
from headrace.optimizer.grouping.monitor import GroupHealth
from headrace.optimizer.grouping.settings import Scaling, Settings
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.splitting import decide_splits
from headrace.optimizer.grouping.throughput import fair_tasks, isolated_share, penalised_queries
from headrace.optimizer.grouping.values import (
    Decision,
    FunctionName,
    Grouping,
    GroupName,
    Merged,
    OperatorId,
    Resized,
    SplitCause,
    SplitOff,
    relocations,
)

SLOW = FunctionName("slow")
SEEDS = st.integers(0, 2**32)


def random_partition(case: Case, rng: np.random.Generator, *, full: bool) -> Case:
    """Random groups, each with all the tasks that it may have, or with some of them."""
    home = rng.integers(0, max(1, len(case.situation.queries) // 3), len(case.situation.queries))
    groups = []
    for place in np.unique(home):
        members = np.flatnonzero(home == place).tolist()
        most = case.situation.isolated_tasks(QueryId(q) for q in members)
        groups.append((members, most if full else int(rng.integers(1, most + 1))))
    return case.with_groups(groups)


def run(case: Case) -> tuple[Case, Decision]:
    decision = decide_splits(case.situation)
    again = case.with_groups([(group.members, group.tasks) for group in decision.grouping.groups])
    return again, decision


def penalised(case: Case) -> set[QueryId]:
    return {q for g in case.situation.grouping.groups for q in penalised_queries(case.situation, g)}


@given(SEEDS, st.integers(1, 16), st.floats(1.0, 6.0))
def test_theorem_1_sharing_groups_come_back_within_n_executions(
    seed: int, queries: int, factor: float
) -> None:
    """Queries are provisioned for a slower stream, so that many cannot keep up, and are grouped at random."""
    case = random_case(seed, queries).dearer(factor)
    case = random_partition(case, np.random.default_rng(seed), full=True)
    executions = 0
    while penalised(case):
        executions += 1
        assert executions <= queries
        touched = {g.name for g in case.situation.grouping.groups if penalised_queries(case.situation, g)}
        before = {g for g in case.situation.grouping.groups if g.name not in touched}
        case, decision = run(case)
        assert before <= set(decision.grouping.groups), "a group without penalty was changed"


@given(SEEDS, st.integers(1, 16), st.floats(1.0, 4.0))
def test_isolation_comes_back_with_fewer_splits_than_queries_and_never_more_tasks_than_alone(
    seed: int, queries: int, factor: float
) -> None:
    case = random_case(seed, queries).dearer(factor)
    case = random_partition(case, np.random.default_rng(seed), full=False)
    isolated = case.situation.isolated_tasks(case.situation.queries)
    splits = 0
    for _ in range(4 * queries):
        if not penalised(case):
            break
        case, decision = run(case)
        splits += sum(isinstance(change, SplitOff) for change in decision.changes)
        assert case.situation.grouping.tasks <= isolated
        for group in case.situation.grouping.groups:
            assert group.tasks <= case.situation.isolated_tasks(group.members)
    assert not penalised(case)
    assert splits < max(queries, 2)


def with_function(case: Case, users: int, *, tasks: int, function_load: float, width: int | None) -> Case:
    """All queries in one group; the first ones use a function that takes so many CPU seconds per second."""
    facts = {
        q: replace(f, function=SLOW if q < users else None, width=width if q < users else None)
        for q, f in case.situation.queries.items()
    }
    case = case.with_groups([(sorted(facts), tasks)])
    group = case.situation.grouping.groups[0]
    load = case.load(group.members)
    free = tasks if width is None else min(tasks, load + width)
    health = health_of(load, free, function=function_load)
    situation = replace(case.situation, queries=facts, health={group.name: health})
    return replace(case, situation=situation)


def test_queries_that_cause_back_pressure_leave_first() -> None:
    case = random_case(3, 6, tasks=40)
    case = with_function(case, 2, tasks=60, function_load=100.0, width=None)
    _, decision = run(case)
    (change,) = decision.changes
    assert isinstance(change, SplitOff)
    assert change.cause is SplitCause.BACK_PRESSURE
    assert change.queries == (0, 1)
    assert len(change.into) == 2
    assert change.reason.startswith("split off 2 queries: `slow` after the shared part held the group at ")
    assert {g.members for g in decision.grouping.groups} == {(0,), (1,), (2, 3, 4, 5)}


@pytest.mark.parametrize("cores", [2, 8, 64])
def test_a_group_that_one_busy_task_holds_up_loses_its_dearest_function(cores: int) -> None:
    """Most of its tasks rest, so by what all of them could do, the group would keep up."""
    case = random_case(3, 6, tasks=cores).dearer(0.01)
    facts = {q: replace(f, function=SLOW if q < 2 else None) for q, f in case.situation.queries.items()}
    case = case.with_groups([(range(6), cores)])
    (group,) = case.situation.grouping.groups
    held = GroupHealth(
        rate=RATE,
        throughput=0.5 * RATE,
        lag=0.0,
        lag_growth=0.5 * RATE,
        busy=1.2,
        shared=0.3,
        functions={SLOW: 0.9},
    )
    settings = replace(case.situation.settings, cores=cores, task_budget=cores)
    situation = replace(case.situation, queries=facts, health={group.name: held}, settings=settings)
    (change,) = decide_splits(situation).changes
    assert isinstance(change, SplitOff)
    assert (change.queries, change.cause) == ((0, 1), SplitCause.BACK_PRESSURE)
    cheap = replace(held, functions={SLOW: 0.1}, shared=1.1)
    left = decide_splits(replace(situation, health={group.name: cheap})).changes
    assert not [change for change in left if change.reason.startswith("split off 2 queries: `slow`")]


def test_a_function_that_cannot_use_more_tasks_leaves_though_the_group_could_have_more() -> None:
    case = random_case(3, 6, tasks=40)
    case = with_function(case, 2, tasks=40, function_load=0.0, width=1)
    group = case.situation.grouping.groups[0]
    narrow = GroupHealth(
        rate=RATE,
        throughput=0.8 * RATE,
        lag=0.0,
        lag_growth=0.2 * RATE,
        busy=36.0,
        shared=34.0,
        functions={SLOW: 1.6},
    )
    assert not narrow.pressed(group.tasks, case.situation.settings)
    decision = decide_splits(replace(case.situation, health={group.name: narrow}))
    assert [change.queries for change in decision.changes if isinstance(change, SplitOff)] == [(0, 1)]


def test_users_of_a_narrow_function_are_parted_from_each_other_when_there_is_nobody_else() -> None:
    """More tasks would help none of them, though the group might have more."""
    case = random_case(3, 4, tasks=40)
    case = with_function(case, 4, tasks=40, function_load=0.0, width=1)
    group = case.situation.grouping.groups[0]
    narrow = GroupHealth(RATE, 0.5 * RATE, 0.0, 0.5 * RATE, busy=20.0, shared=19.0, functions={SLOW: 1.0})
    costs = replace(case.situation.costs, functions={SLOW: 1e-9})
    decision = decide_splits(replace(case.situation, health={group.name: narrow}, costs=costs))
    assert {g.members for g in decision.grouping.groups} == {(0,), (1,), (2,), (3,)}
    assert [type(change) for change in decision.changes] == [SplitOff]


def test_without_back_pressure_the_group_gets_more_tasks_and_only_then_is_split() -> None:
    case = random_case(7, 6).dearer(3.0)
    everybody = sorted(case.situation.queries)
    most = case.situation.isolated_tasks(everybody)
    poor = case.with_groups([(everybody, 1)])
    case, decision = run(poor)
    (change,) = decision.changes
    assert isinstance(change, Resized)
    assert 1 < change.after <= most
    assert f"to {change.after} tasks: " in change.reason
    budget = replace(poor.situation.settings, task_budget=1)
    limited = decide_splits(replace(poor.situation, settings=budget))
    assert [type(change) for change in limited.changes] == [SplitOff]


def test_a_group_that_lags_with_tasks_that_should_do_gets_all_it_may_have() -> None:
    """The model said that these tasks are enough. It was wrong, so there is no third try with a few more."""
    case = random_case(7, 6, tasks=50).with_groups([(range(6), 100)])
    group = case.situation.grouping.groups[0]
    wrong = replace(
        health_of(10.0, 100), throughput=0.8 * RATE, lag_growth=0.2 * RATE, busy=8.0, shared=200.0
    )
    decision = decide_splits(replace(case.situation, health={group.name: wrong}))
    assert [change.after for change in decision.changes if isinstance(change, Resized)] == [300]


def test_splits_keep_to_the_number_of_groups_that_the_driver_can_run() -> None:
    tight = Settings(tolerance=0.0, scaling=Scaling(overhead_s=0.2, interval_s=1.0), driver_threads=1)
    case = random_case(3, 12, tight, tasks=40)
    case = with_function(case, 11, tasks=60, function_load=100.0, width=None)
    _, decision = run(case)
    assert len(decision.grouping.groups) == tight.max_groups == 5
    assert sorted(q for g in decision.grouping.groups for q in g.members) == list(range(12))


def crowded(seed: int, queries: int, *, main: bool) -> Situation:
    """Random groups that cannot keep up, some with a function that is too narrow, and room for five groups.

    Without `main`, the main group has no queries, so that new groups may be called that.
    """
    rng = np.random.default_rng(seed)
    tight = Settings(tolerance=0.0, scaling=Scaling(overhead_s=0.2, interval_s=1.0), driver_threads=1)
    case = random_case(seed, queries, tight).dearer(rng.uniform(1, 4))
    situation = random_partition(case, rng, full=True).situation
    names = {
        group.name: GroupName(MAIN if main and i == 0 else auto_group(i))
        for i, group in enumerate(situation.grouping.groups)
    }
    calling = rng.choice([0.3, 0.6, 1.0])
    facts = {
        q: replace(f, function=SLOW, width=1) if rng.random() < calling else f
        for q, f in situation.queries.items()
    }
    health = {names[n]: replace(h, functions={SLOW: rng.uniform(0, 2)}) for n, h in situation.health.items()}
    groups = tuple(replace(group, name=names[group.name]) for group in situation.grouping.groups)
    return replace(situation, queries=facts, health=health, grouping=Grouping(groups, len(groups)))


@given(SEEDS, st.integers(4, 17), st.booleans())
@example(109, 15, False)  # the rest of a group moved to a new main group, and nobody told
@example(137, 15, False)  # the same with a group that nobody left
@example(
    134, 12, False
)  # the leavers of a group and its rest were together in another one, and told as parted
@example(585, 15, True)
def test_changes_tell_of_every_query_that_moves_and_of_no_split_that_parts_nobody(
    seed: int, queries: int, main: bool
) -> None:
    situation = crowded(seed, queries, main=main)
    decision = decide_splits(situation)
    before, homes = situation.grouping.by_name(), decision.grouping.by_query()
    told = set[tuple[QueryId, GroupName, GroupName]]()
    for change in decision.changes:
        if isinstance(change, SplitOff):
            assert {homes[q].name for q in change.queries} == set(change.into)
            rest = set(before[change.group].members) - set(change.queries)
            assert not {homes[q].name for q in rest} & set(change.into), (
                "they are told as parted, and are not"
            )
            told |= {(q, change.group, homes[q].name) for q in change.queries}
        elif isinstance(change, Merged):
            for name in change.groups:
                told |= {(q, name, change.into) for q in before[name].members}
    moved = relocations(situation.grouping, decision.grouping)
    assert {(move.query, move.source, move.target) for move in moved} <= told


def test_nobody_is_penalised_who_would_be_as_slow_alone() -> None:
    case = random_case(5, 4, tasks=1).dearer(50.0)
    case = case.with_groups([(range(4), 4)])
    group = case.situation.grouping.groups[0]
    reached = case.situation.health[group.name].share
    assert reached < 1
    expected = {q for q in group.members if isolated_share(case.situation, q) > reached}
    assert set(penalised_queries(case.situation, group)) == expected


def test_isolated_queries_share_the_cores_that_there_are() -> None:
    case = random_case(5, 6, tasks=8).dearer(20.0).with_groups([(range(6), 6)])
    group = case.situation.grouping.groups[0]
    loads = [case.load([i]) for i in range(6)]
    found = []
    for cores in (1, 4, 16, 64, 1_000):
        settings = replace(case.situation.settings, cores=cores)
        situation = replace(case.situation, settings=settings)
        fair = fair_tasks(situation)
        taken = sum(min(load, fair) for load in loads)
        assert taken == pytest.approx(min(sum(loads), settings.scaling.useful(cores)))
        found.append(set(penalised_queries(situation, group, fair)))
    assert all(few <= many for few, many in pairwise(found))
    assert found[0] < found[-1] == set(penalised_queries(case.situation, group)), found


def test_an_operator_that_others_do_not_use_leaves_with_all_its_queries() -> None:
    other = OperatorId("person+auction")
    case = random_case(4, 6, tasks=8).with_groups([(range(6), 8)])
    group = case.situation.grouping.groups[0]
    queries = {
        q: replace(facts, operator=other if q in (2, 5) else facts.operator)
        for q, facts in case.situation.queries.items()
    }
    slow = GroupHealth(
        rate=RATE,
        throughput=0.4 * RATE,
        lag=0.0,
        lag_growth=0.6 * RATE,
        busy=8.0,
        shared=7.9,
        operators={other: 7.0, JOIN: 0.9},
    )
    samples = {
        q: replace(sample, selectivity=1e-4) for q, sample in case.situation.statistics.samples.items()
    }
    statistics = replace(case.situation.statistics, samples=samples)
    situation = replace(case.situation, queries=queries, statistics=statistics, health={group.name: slow})
    decision = decide_splits(situation)
    (change,) = decision.changes
    assert isinstance(change, SplitOff)
    assert change.queries == (2, 5)
    assert len(change.into) == 1, "they stay together"
    assert "their work on person and auction held the group at 40%" in change.reason


@pytest.mark.parametrize("cores", [None, 4])
def test_a_group_that_has_processed_nothing_is_looked_at_later(cores: int | None) -> None:
    """All of its last epochs may have been without tuples of its streams, while more came in."""
    case = random_case(7, 6, tasks=4).with_groups([(range(6), 24)])
    (group,) = case.situation.grouping.groups
    nothing = GroupHealth(RATE, 0.0, RATE, RATE, busy=4.0, shared=4.0, functions={SLOW: 1.0})
    settings = replace(case.situation.settings, cores=cores, task_budget=cores)
    decision = decide_splits(replace(case.situation, health={group.name: nothing}, settings=settings))
    assert not [change for change in decision.changes if isinstance(change, SplitOff) and cores is not None]


def test_within_the_cores_a_split_has_to_pay() -> None:
    """The same situation asks for a split where everybody has tasks of their own, as the paper has it."""
    case = random_case(7, 6, tasks=4).dearer(3.0).with_groups([(range(6), 4)])
    group = case.situation.grouping.groups[0]
    slow = replace(health_of(10.0, 4), throughput=0.13 * RATE, lag_growth=0.87 * RATE, busy=4.0, shared=4.0)
    situation = replace(
        case.situation,
        health={group.name: slow},
        settings=replace(case.situation.settings, cores=4, task_budget=4),
    )
    assert case.load(range(6)) > 4
    rich = replace(situation, settings=replace(situation.settings, cores=None))
    assert penalised_queries(situation, group)
    assert [type(change) for change in decide_splits(rich).changes] == [SplitOff]
    assert not decide_splits(situation).changes, "there is more work than all cores can do"
