"""Algorithm 1: what it merges is what the paper's loop merges, and theorem 2 holds for it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping_cases import LINEAR, RATE, Case, random_case
from headrace.model.query import QueryId
from headrace.optimizer.grouping.merging import decide_merges
from headrace.optimizer.grouping.policies import FunctionalIsolation
from headrace.optimizer.grouping.provisioning import (
    MergedGroup,
    grouping_cost,
    merge_threshold,
    provision,
    usable_tasks,
)
from headrace.optimizer.grouping.settings import Scaling, Settings
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.throughput import isolated_load
from headrace.optimizer.grouping.timetable import Timetable, decide
from headrace.optimizer.grouping.values import Decision, FunctionName, Merged, SplitCause, SplitOff

SEEDS = st.integers(0, 2**32)
ROOMY = Settings(headroom=0.15, scaling=Scaling(overhead_s=0.0, serial=0.01))
STRICT = Settings(threshold=0.6, headroom=0.0, scaling=LINEAR.scaling)


def as_written(case: Case) -> dict[frozenset[QueryId], tuple[int, float]]:
    """Algorithm 1 as the paper writes it: all pairs again after every merge, Equation 1 in both directions.

    Gives the tasks of every group, and the highest cost of the merges that made it.
    """
    settings = case.situation.settings
    spread = settings.scaling.serial
    highest: dict[frozenset[QueryId], float] = {}
    groups: list[tuple[frozenset[QueryId], int, MergedGroup]] = []
    for group in case.situation.grouping.groups:
        busy = case.situation.health[group.name].busy
        useful = busy / (1 + spread * (group.tasks - 1))
        groups.append(
            (frozenset(group.members), group.tasks, MergedGroup(case.load(group.members), busy, useful))
        )
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
            return {members: (tasks, highest.get(members, 0.0)) for members, tasks, _ in groups}
        cost, i, j, union, at_most = min(found)
        parts = [groups[i][2], groups[j][2]]
        tasks = provision(union, parts, at_most, settings) or at_most
        demand = max(part.demand / part.load for part in parts) * union
        merged = MergedGroup(union, min(tasks, demand * (1 + spread * (tasks - 1))), demand)
        members = groups[i][0] | groups[j][0]
        highest[members] = max(cost, highest.get(groups[i][0], 0.0), highest.get(groups[j][0], 0.0))
        groups = [g for k, g in enumerate(groups) if k not in (i, j)] + [(members, tasks, merged)]


@given(SEEDS, st.integers(2, 9), st.sampled_from([LINEAR, ROOMY, STRICT]))
def test_merges_are_those_of_the_algorithm_as_written(seed: int, queries: int, settings: Settings) -> None:
    case = random_case(seed, queries, settings)
    decision = decide_merges(case.situation)
    costs = {change.into: change.cost for change in decision.changes if isinstance(change, Merged)}
    expected = as_written(case)
    assert {frozenset(g.members): g.tasks for g in decision.grouping.groups} == {
        members: tasks for members, (tasks, _) in expected.items()
    }
    for group in decision.grouping.groups:
        assert costs.get(group.name, 0.0) == pytest.approx(expected[frozenset(group.members)][1], abs=1e-4)


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


@given(SEEDS, st.integers(2, 12), st.sampled_from([LINEAR, ROOMY, STRICT]))
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


@pytest.mark.parametrize(("headroom", "seed", "queries", "tasks"), [(0.7, 28, 42, 4), (0.5, 64, 34, 5)])
def test_groups_that_were_merged_by_cost_are_gone_when_others_have_to_be_merged(
    headroom: float, seed: int, queries: int, tasks: int
) -> None:
    tight = Settings(headroom=headroom, scaling=Scaling(overhead_s=0.2, interval_s=1.0), driver_threads=1)
    case = random_case(seed, queries, tight, regions=40, tasks=tasks)
    decision = decide_merges(case.situation)
    assert len(decision.grouping.groups) == tight.max_groups
    assert sorted(q for g in decision.grouping.groups for q in g.members) == list(range(queries))


def test_a_group_that_a_person_made_is_left_alone() -> None:
    case = random_case(4, 6)
    groups = tuple(replace(g, apart=i < 3) for i, g in enumerate(case.situation.grouping.groups))
    grouping = replace(case.situation.grouping, groups=groups)
    after = decide_merges(replace(case.situation, grouping=grouping)).grouping
    assert set(groups[:3]) <= set(after.groups)


def merged_groups(case: Case, **changes: Any) -> int:
    """How many groups are left after a merge step in a situation with these changes."""
    return len(decide_merges(replace(case.situation, **changes)).grouping.groups)


def test_what_was_refused_a_minute_ago_is_merged_only_if_it_pays_by_more_than_chance() -> None:
    fewer = 0
    for seed in range(20):
        case = random_case(seed, 3, replace(ROOMY, hysteresis=0.2))
        everybody = frozenset(group.name for group in case.situation.grouping.groups)
        plain, settled = merged_groups(case), merged_groups(case, settled=everybody)
        assert settled >= plain
        fewer += settled > plain
        steady = replace(ROOMY, hysteresis=0.0, chance=0.0)
        assert merged_groups(case, settled=everybody, settings=steady) == plain
    assert fewer > 0


def test_a_pair_of_few_sampled_tuples_has_to_pay_by_more() -> None:
    """The same costs, told by fewer tuples of the sample: what was refused is then merged less readily."""
    left = []
    for thinner in (1.0, 1e-3):
        found = 0
        for seed in range(20):
            case = random_case(seed, 3, replace(ROOMY, hysteresis=0.0))
            table = case.table
            table = replace(
                table,
                tuples=table.tuples * 100 * thinner,
                matches=table.matches * 100 * thinner,
                sampled=table.sampled * 100 * thinner,
            )
            statistics = replace(case.situation.statistics, regions={table.operator: table})
            everybody = frozenset(group.name for group in case.situation.grouping.groups)
            found += merged_groups(case, settled=everybody, statistics=statistics)
        left.append(found)
    assert left[0] < left[1]


def settled_in(situations: list[Situation], parted: frozenset[QueryId] = frozenset()) -> list[set[str]]:
    """The settled groups of merge steps in these situations, one a minute, in which nothing is merged."""
    seen: list[set[str]] = []

    class Watched(FunctionalIsolation):
        def merge(self, situation: Situation) -> Decision:
            seen.append(set(situation.settled))
            return Decision(situation.grouping)

    timetable = Timetable(1e9, 0.0, parted=parted)
    for step, situation in enumerate(situations):
        timetable, _ = decide(Watched(), timetable, 60.0 * step, situation)
    return seen


def faring(case: Case, **health: Any) -> Situation:
    """The situation in which the first group fares otherwise."""
    first = case.situation.grouping.groups[0].name
    other = replace(case.situation.health[first], **health)
    return replace(case.situation, health={**case.situation.health, first: other})


@pytest.mark.parametrize(
    ("load", "behind_s", "looked_at_anew"),
    [(1.0, 0.0, False), (1.1, 0.0, False), (0.5, 0.0, True), (1.0, 60.0, True)],
)
def test_what_was_refused_under_other_conditions_is_looked_at_anew(
    load: float, behind_s: float, looked_at_anew: bool
) -> None:
    """A margin is for chance alone: not for a load that has changed since, nor for a group that was far behind."""
    case = random_case(4, 2)
    busy = load * case.situation.health[case.situation.grouping.groups[0].name].busy
    seen = settled_in([faring(case, lag=behind_s * RATE), faring(case, busy=busy)])
    assert seen == [set(), {"g1"} if looked_at_anew else {"g0", "g1"}]


def test_groups_that_are_all_as_far_behind_were_compared() -> None:
    """Epochs of three seconds: so much input always waits, and that is more than cursors may differ by."""
    case = random_case(4, 2, replace(LINEAR, meet_within_s=2.0))
    waits = {name: replace(health, lag=3 * RATE) for name, health in case.situation.health.items()}
    assert settled_in([replace(case.situation, health=waits)] * 2)[-1] == {"g0", "g1"}


def test_a_load_that_changes_little_by_little_has_changed() -> None:
    case = random_case(4, 2)
    busy = case.situation.health[case.situation.grouping.groups[0].name].busy
    seen = settled_in([faring(case, busy=busy * 0.8**step) for step in range(5)])
    assert [("g0" in step) for step in seen] == [False, True, False, True, False]


def test_what_could_not_be_compared_was_not_refused() -> None:
    """Groups that are not measured, that a person made, or that were just parted are in no pair."""
    case = random_case(4, 2)
    now = case.situation
    assert settled_in([now, now])[-1] == {"g0", "g1"}
    left, right = now.grouping.groups
    unmeasured = replace(now, health={right.name: now.health[right.name]})
    assert settled_in([unmeasured, now])[-1] == {"g1"}
    by_hand = replace(now, grouping=replace(now.grouping, groups=(replace(left, apart=True), right)))
    assert settled_in([by_hand, by_hand])[-1] == {"g1"}
    falls_behind = faring(case, lag_growth=0.5 * RATE)
    assert settled_in([falls_behind, now], frozenset(left.members))[-1] == {"g1"}


def test_groups_merge_when_their_cursors_are_near_each_other() -> None:
    case = random_case(4, 2)
    left, right = sorted(case.situation.health)
    health = case.situation.health
    behind = {left: replace(health[left], lag=100 * RATE), right: health[right]}
    both = {**behind, right: replace(health[right], lag=95 * RATE)}
    assert [merged_groups(case, health=h) for h in (health, behind, both)] == [1, 2, 1]


@pytest.mark.parametrize(
    "behind", [{"lag": 100 * RATE}, {"lag": RATE, "lag_growth": 0.5 * RATE, "throughput": 0.5 * RATE}]
)
def test_what_was_split_off_is_merged_when_it_has_caught_up(behind: dict[str, Any]) -> None:
    """Two groups that were split off one after the other: they are overloaded, or far behind the light group."""
    case = random_case(4, 3, replace(LINEAR, meet_within_s=2.0))
    light, *heavy = case.situation.grouping.groups
    slow = {group.name: replace(case.situation.health[group.name], **behind) for group in heavy}
    parted = frozenset(query for group in heavy for query in group.members)

    class Splits(FunctionalIsolation):
        def help(self, situation: Situation) -> Decision:
            off = (
                SplitOff(light.name, g.members, (g.name,), SplitCause.PENALTY, "slower alone") for g in heavy
            )
            return Decision(situation.grouping, tuple(off))

    pulse = replace(case.situation, health={**case.situation.health, **slow})
    timetable, _ = decide(Splits(), Timetable(60.0, 60.0), 60.0, pulse)
    still, decision = decide(FunctionalIsolation(), replace(timetable, watch_at=999.0), 60.0, pulse)
    assert still.parted == parted and not decision.changes
    near, decision = decide(FunctionalIsolation(), replace(still, merge_at=120.0), 120.0, case.situation)
    assert not near.parted and decision.changes


@pytest.mark.parametrize("idle", [False, True])
def test_groups_whose_epochs_take_seconds_catch_up_too(idle: bool) -> None:
    """So much input always waits for all of them. A group that gets no input is no measure of that."""
    case = random_case(4, 3, replace(LINEAR, meet_within_s=2.0))
    groups, health = case.situation.grouping.groups, case.situation.health
    waits = {name: replace(one, lag=3 * RATE) for name, one in health.items()}
    if idle:
        waits[groups[2].name] = replace(health[groups[2].name], rate=0.0, throughput=0.0)
    parted = frozenset(groups[0].members)
    found, decision = decide(
        FunctionalIsolation(),
        Timetable(1e9, 60.0, parted=parted),
        60.0,
        replace(case.situation, health=waits),
    )
    assert not found.parted
    assert groups[0] not in decision.grouping.groups


def test_a_group_that_catches_up_is_provisioned_for_its_input_alone() -> None:
    case = random_case(4, 2, tasks=60)
    twice = {
        name: replace(h, throughput=2 * h.throughput, busy=2 * h.busy, lag_growth=-RATE)
        for name, h in case.situation.health.items()
    }
    plain = decide_merges(case.situation).grouping
    assert len(plain.groups) == 1
    assert decide_merges(replace(case.situation, health=twice)).grouping.tasks == plain.tasks


@pytest.mark.parametrize(("width", "groups"), [(1, 2), (60, 1)])
def test_a_function_that_is_too_narrow_for_both_keeps_groups_apart(width: int, groups: int) -> None:
    """Each query's calls keep most of one task busy. Both together need more than one, whatever tasks there are."""
    slow = FunctionName("slow")
    case = random_case(4, 2, tasks=60)
    facts = {q: replace(f, function=slow, width=width) for q, f in case.situation.queries.items()}
    costs = replace(case.situation.costs, functions={slow: 1.0})
    per_row = max(
        load.function
        for q in facts
        if (load := isolated_load(replace(case.situation, queries=facts, costs=costs), q)) is not None
    )
    costs = replace(costs, functions={slow: 0.85 / per_row})
    assert merged_groups(case, queries=facts, costs=costs) == groups
