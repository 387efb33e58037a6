"""Algorithm 1: what it merges is what the paper's loop merges, and theorem 2 holds for it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping_cases import LINEAR, Case, random_case
from headrace.model.query import QueryId
from headrace.optimizer.grouping.merging import decide_merges
from headrace.optimizer.grouping.provisioning import (
    Part,
    grouping_cost,
    merge_threshold,
    provision,
    usable_tasks,
)
from headrace.optimizer.grouping.settings import Scaling, Settings
from headrace.optimizer.grouping.values import Merged

SEEDS = st.integers(0, 2**32)
ROOMY = Settings(headroom=0.15, scaling=Scaling(overhead_s=0.0, serial=0.03))


def as_written(case: Case) -> set[tuple[frozenset[QueryId], int]]:
    """Algorithm 1 as the paper writes it: all pairs again after every merge, Equation 1 in both directions."""
    settings = case.situation.settings
    spread = settings.scaling.serial
    groups: list[tuple[frozenset[QueryId], int, Part]] = []
    for group in case.situation.grouping.groups:
        busy = case.situation.health[group.name].busy
        useful = busy / (1 + spread * (group.tasks - 1))
        groups.append((frozenset(group.members), group.tasks, Part(case.load(group.members), busy, useful)))
    while True:
        found = []
        for i, j in combinations(range(len(groups)), 2):
            (left, left_tasks, a), (right, right_tasks, b) = groups[i], groups[j]
            union, tasks = case.load(left | right), left_tasks + right_tasks
            costs = [float(grouping_cost(union, part.load, tasks, part.busy)) for part in (a, b)]
            limits = [merge_threshold(tasks, part.busy, part.demand, settings) for part in (a, b)]
            if all(cost < limit + 1e-6 for cost, limit in zip(costs, limits, strict=True)):
                found.append((max(costs), i, j, union, tasks))
        if not found:
            return {(members, tasks) for members, tasks, _ in groups}
        _, i, j, union, at_most = min(found)
        parts = [groups[i][2], groups[j][2]]
        tasks = provision(union, parts, at_most, settings) or at_most
        demand = max(part.demand / part.load for part in parts) * union
        merged = Part(union, min(tasks, demand * (1 + spread * (tasks - 1))), demand)
        members = groups[i][0] | groups[j][0]
        groups = [g for k, g in enumerate(groups) if k not in (i, j)] + [(members, tasks, merged)]


@given(SEEDS, st.integers(2, 9), st.sampled_from([LINEAR, ROOMY]))
def test_merges_are_those_of_the_algorithm_as_written(seed: int, queries: int, settings: Settings) -> None:
    case = random_case(seed, queries, settings)
    found = {(frozenset(g.members), g.tasks) for g in decide_merges(case.situation).grouping.groups}
    assert found == as_written(case)


@given(SEEDS, st.integers(2, 14), st.floats(0.3, 1.0), st.sets(st.integers(0, 13)))
def test_theorem_2_merging_keeps_every_rate_and_leaves_pressed_queries_alone(
    seed: int, queries: int, threshold: float, pressed: set[int]
) -> None:
    """An exact model, tasks that scale linearly, a threshold of at most 1: all groups stay sharing groups."""
    settings = Settings(threshold=threshold, headroom=0.0, scaling=LINEAR.scaling)
    case = random_case(seed, queries, settings)
    singles = [(group.members, group.tasks) for group in case.situation.grouping.groups]
    case = case.with_groups(singles, pressed=pressed)
    before, health = case.situation.grouping.by_query(), case.situation.health
    after = decide_merges(case.situation).grouping
    assert after.tasks <= case.situation.grouping.tasks
    for group in after.groups:
        assert group.tasks <= case.situation.isolated_tasks(group.members)
        if len(group.members) == 1:
            continue
        assert not set(group.members) & {QueryId(q) for q in pressed}, "a pressed query was merged"
        reached = group.tasks / case.load(group.members)
        for query in group.members:
            assert reached >= health[before[query].name].share * (1 - 1e-6)


@given(SEEDS, st.integers(2, 12), st.sampled_from([LINEAR, ROOMY]))
def test_a_second_step_finds_nothing_more_to_merge(seed: int, queries: int, settings: Settings) -> None:
    case = random_case(seed, queries, settings)
    first = decide_merges(case.situation).grouping
    again = case.with_groups([(group.members, group.tasks) for group in first.groups])
    assert not [c for c in decide_merges(again.situation).changes if isinstance(c, Merged)]


@given(st.floats(0.1, 10), st.floats(0, 10), st.integers(1, 40), st.floats(0.05, 1), st.floats(0, 0.5))
def test_the_threshold_says_that_tasks_are_enough(
    load: float, more: float, tasks: int, utilisation: float, headroom: float
) -> None:
    """Equation 1 is below the threshold exactly if the tasks do the union at the rate of the part."""
    settings = Settings(headroom=headroom, scaling=Scaling(overhead_s=0.1, serial=0.01))
    busy, union = utilisation * tasks * 0.9, load + more
    demand = busy / 1.05
    enough = usable_tasks(tasks, settings) - demand * union / load
    if abs(enough) > 1e-6 and demand / usable_tasks(1.0, settings) >= busy:
        cost = float(grouping_cost(union, load, tasks, busy))
        assert (cost < merge_threshold(tasks, busy, demand, settings)) == (enough > 0)


def test_a_merge_says_what_it_cost_and_saves() -> None:
    case = random_case(4, 6)
    changes = decide_merges(case.situation).changes
    merged = [change for change in changes if isinstance(change, Merged)]
    assert merged
    assert all(0 <= change.cost <= change.threshold <= 1 for change in merged)
    assert merged[0].reason.startswith(f"merged with {len(merged[0].groups) - 1} quer")
    saved = sum(change.saved_tasks for change in merged)
    assert saved == case.situation.grouping.tasks - decide_merges(case.situation).grouping.tasks


def test_a_threshold_above_1_is_refused() -> None:
    with pytest.raises(ValueError, match="slow queries"):
        Settings(threshold=1.1)


def test_more_groups_than_the_driver_can_run_are_merged_at_whatever_cost() -> None:
    tight = Settings(headroom=0.9, scaling=Scaling(overhead_s=0.2, interval_s=1.0), driver_threads=1)
    case = random_case(1, 12, tight)
    decision = decide_merges(case.situation)
    assert tight.max_groups == 5
    assert len(decision.grouping.groups) == 5
    assert any("more groups than the driver can run" in change.reason for change in decision.changes)


def test_a_group_that_a_person_made_is_left_alone() -> None:
    case = random_case(4, 6)
    groups = tuple(replace(g, apart=i < 3) for i, g in enumerate(case.situation.grouping.groups))
    grouping = replace(case.situation.grouping, groups=groups)
    after = decide_merges(replace(case.situation, grouping=grouping)).grouping
    assert set(groups[:3]) <= set(after.groups)
