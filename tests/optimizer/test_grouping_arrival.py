"""Where new queries start, and what the other policies do with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping_cases import JOIN, LINEAR, Case, random_case
from headrace.model.query import QueryId
from headrace.optimizer.grouping.costs import Coefficients
from headrace.optimizer.grouping.policies import Policy, grouper_of
from headrace.optimizer.grouping.regions import query_samples
from headrace.optimizer.grouping.settings import Scaling, Settings
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import QuerySample
from headrace.optimizer.grouping.timetable import Timetable, decide
from headrace.optimizer.grouping.values import (
    Change,
    Grouping,
    Merged,
    OperatorId,
    Placed,
    Resized,
    SplitCause,
    SplitOff,
    relocations,
)

FUNCTIONAL = grouper_of(Policy.FUNCTIONAL)


def without(case: Case, newcomers: int) -> tuple[Situation, list[QueryId]]:
    """The situation before the last queries came."""
    come = sorted(case.situation.queries)[-newcomers:]
    old = [g for g in case.situation.grouping.groups if g.members[0] not in come]
    grouping = Grouping(tuple(old), case.situation.grouping.next_number)
    return replace(case.situation, grouping=grouping), come


@given(st.integers(0, 2**32), st.integers(2, 10), st.integers(1, 4))
def test_a_new_query_joins_only_where_it_slows_nobody(seed: int, queries: int, newcomers: int) -> None:
    case = random_case(seed, queries + newcomers)
    situation, come = without(case, newcomers)
    decision = FUNCTIONAL.place(situation, come)
    homes = decision.grouping.by_query()
    assert sorted(homes) == sorted(situation.queries)
    assert sorted(c.query for c in decision.changes if isinstance(c, Placed)) == come
    old = situation.grouping.by_query()
    for group in decision.grouping.groups:
        came_from = {old[q].name for q in group.members if q in old}
        assert len(came_from) <= 1, "groups that were there are not merged when a query comes"
        assert group.tasks <= situation.isolated_tasks(group.members)
        if len(group.members) > 1:
            reached = group.tasks / case.load(group.members)
            for query in group.members:
                share = situation.health[old[query].name].share if query in old else 1.0
                alone = min(1.0, situation.queries[query].tasks / case.load([query]))
                assert reached >= min(share, alone) * (1 - 1e-6)


def test_a_query_that_nothing_is_known_of_starts_alone_and_says_why() -> None:
    situation, come = without(random_case(4, 6), 1)
    for unknown in (
        replace(situation, statistics=replace(situation.statistics, regions={}, samples={})),
        replace(situation, costs=Coefficients()),
    ):
        decision = FUNCTIONAL.place(unknown, come)
        assert decision.grouping.by_query()[come[0]].members == (come[0],)
    (change,) = FUNCTIONAL.place(
        replace(situation, statistics=replace(situation.statistics, regions={}, samples={})), come
    ).changes
    assert change.reason == "alone: no sample tells yet what it would cost others"


def test_a_thousand_queries_at_once_are_not_a_thousand_groups() -> None:
    settings = Settings(scaling=Scaling(overhead_s=0.2, interval_s=1.0), driver_threads=4)
    case = random_case(1, 1_000, settings, regions=30, tasks=2)
    situation = replace(case.situation, grouping=Grouping(), health={}, costs=Coefficients())
    decision = FUNCTIONAL.place(situation, situation.queries)
    sizes = [len(group.members) for group in decision.grouping.groups]
    assert (len(sizes), sum(sizes)) == (20, 1_000)
    assert max(sizes) <= 4 * min(sizes)
    assert "the driver cannot run more groups" in decision.changes[0].reason


def test_queries_of_other_operators_are_not_joined() -> None:
    situation, come = without(random_case(4, 6), 1)
    other = replace(situation.queries[come[0]], operator=OperatorId("other"))
    alone = FUNCTIONAL.place(replace(situation, queries={**situation.queries, come[0]: other}), come)
    assert alone.grouping.by_query()[come[0]].members == (come[0],)
    assert len(FUNCTIONAL.place(situation, come).grouping.by_query()[come[0]].members) > 1


@pytest.mark.parametrize("policy", Policy)
def test_every_policy_keeps_every_query_in_one_group(policy: Policy) -> None:
    grouper = grouper_of(policy)
    case = random_case(9, 12)
    situation, come = without(case, 5)
    for decision in (
        grouper.place(situation, come),
        grouper.merge(case.situation),
        grouper.help(case.situation),
    ):
        members = sorted(q for g in decision.grouping.groups for q in g.members)
        assert members == sorted(case.situation.queries)[: len(members)]
        for group in decision.grouping.groups:
            assert group.tasks <= case.situation.isolated_tasks(group.members)


def groups_of(policy: Policy, case: Case) -> set[tuple[int, ...]]:
    return {group.members for group in grouper_of(policy).merge(case.situation).grouping.groups}


def test_the_rules_of_the_other_policies() -> None:
    case = random_case(0, 4, LINEAR, regions=4)
    table = replace(
        case.table,
        wanted=np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=bool),
        tuples=np.array([30.0, 1.0, 2.0, 60.0]),
        matches=np.ones(4),
        sampled=100.0,
    )
    statistics = replace(case.situation.statistics, regions={JOIN: table}, samples=query_samples(table))
    case = replace(case, situation=replace(case.situation, statistics=statistics))
    assert groups_of(Policy.ISOLATED, case) == {(0,), (1,), (2,), (3,)}
    assert groups_of(Policy.FULL, case) == {(0, 1, 2, 3)}
    assert groups_of(Policy.OVERLAP, case) == {(0, 1), (2,), (3,)}
    assert groups_of(Policy.SELECTIVITY, case) == {(0, 3), (1, 2)}


def test_help_comes_every_ten_seconds_and_before_merges() -> None:
    case = random_case(7, 6)
    settings = case.situation.settings
    table = Timetable.start(0.0, settings)
    assert (table.watch_at, table.merge_at) == (10.0, 60.0)
    table, nothing = decide(FUNCTIONAL, table, 9.0, case.situation)
    assert not nothing.changes
    table, nothing = decide(FUNCTIONAL, table, 10.0, case.situation)
    assert not nothing.changes
    assert (table.watch_at, table.merge_at) == (20.0, 60.0)
    crowded = case.dearer(4.0).with_groups([(range(6), 1)])
    late, helped = decide(FUNCTIONAL, table, 60.0, crowded.situation)
    assert [type(change) for change in helped.changes] == [Resized]
    assert late.merge_at == late.watch_at == 70.0, "the merge is due with the next look"
    late, nothing = decide(FUNCTIONAL, late, 60.5, case.situation)
    assert not nothing.changes, "what was measured is about groups that are no longer there"
    table, merged = decide(FUNCTIONAL, late, 70.0, case.situation)
    assert merged.changes
    assert table.merge_at == 130.0


def test_rules_say_who_leaves_and_who_comes_together_and_make_up_no_figures() -> None:
    case = random_case(0, 6, replace(LINEAR, low_selectivity=0.1), regions=4)
    samples = {QueryId(i): QuerySample(0.01 if i < 4 else 0.5, 1.0) for i in range(6)}
    statistics = replace(case.situation.statistics, samples=samples)
    case = replace(case, situation=replace(case.situation, statistics=statistics))

    def told(groups: list[list[int]], policy: Policy = Policy.SELECTIVITY) -> list[Change]:
        situation = case.with_groups([(members, 2) for members in groups]).situation
        decision = grouper_of(policy).merge(situation)
        return [change for change in decision.changes if not isinstance(change, Resized)]

    [split] = told([[0, 1, 2, 3, 4, 5]])
    assert isinstance(split, SplitOff)
    assert (split.group, split.queries, split.cause) == ("g0", (4, 5), SplitCause.RULE)
    assert split.reason == "split off 2 queries by selectivity sharing"
    [merge] = told([[0, 1, 2], [3], [4, 5]])
    assert isinstance(merge, Merged)
    assert (merge.into, merge.groups, merge.cost, merge.threshold) == ("g0", ("g0", "g1"), None, None)
    assert merge.reason.startswith("merged with 1 query by selectivity sharing")
    assert [(type(change), change.reason.split(" by")[0]) for change in told([[0, 1, 2, 4], [3], [5]])] == [
        (SplitOff, "split off 1 query"),
        (Merged, "merged with 1 query"),
        (Merged, "merged with 1 query"),
    ]
    assert told([[0, 1, 2, 3], [4, 5]]) == []


def moved_by(case: Case, overheads: Sequence[float]) -> list[tuple[int, int]]:
    """(groups, queries that move) of isolated queries that all begin in one group, as an epoch's cost changes."""
    situation, found = case.with_groups([(range(300), 2)]).situation, []
    for overhead in overheads:
        settings = Settings(bounded=True, scaling=Scaling(overhead, 1.0))
        situation = replace(situation, settings=settings, health={})
        decision = grouper_of(Policy.ISOLATED).merge(situation)
        found.append((len(decision.grouping.groups), len(relocations(situation.grouping, decision.grouping))))
        situation = replace(situation, grouping=decision.grouping)
    return found


def test_a_bound_that_changes_by_one_moves_few_and_one_that_grows_a_little_moves_nobody() -> None:
    case = random_case(0, 300, LINEAR, regions=4, tasks=2)
    groups, moved = zip(*moved_by(case, (0.2, 0.19, 0.2, 0.21, 0.05, 0.048, 0.0)), strict=True)
    assert groups == (20, 20, 20, 19, 80, 80, 300)
    assert (moved[1], moved[2], moved[5]) == (0, 0, 0)
    assert 0 < moved[3] <= 16, "the smaller one of the two smallest groups"


def test_several_new_groups_have_several_names_also_where_there_is_no_main_group() -> None:
    situation = random_case(0, 3, LINEAR, regions=4).with_groups([(range(3), 2)]).situation
    decision = grouper_of(Policy.ISOLATED).merge(situation)
    assert {group.name for group in decision.grouping.groups} == {"g0", "main", "auto-1"}


def test_queries_that_are_too_many_are_packed_evenly_and_by_operator() -> None:
    case = random_case(0, 90, Settings(bounded=True), regions=4, tasks=2)
    facts = {
        query: replace(fact, operator=OperatorId("ab"[query % 2]))
        for query, fact in case.situation.queries.items()
    }
    decision = grouper_of(Policy.ISOLATED).merge(replace(case.situation, queries=facts))
    sizes = [len(group.members) for group in decision.grouping.groups]
    assert (len(sizes), min(sizes) * 2) >= (20, max(sizes))
    assert all(len({query % 2 for query in group.members}) == 1 for group in decision.grouping.groups)


def test_a_load_that_goes_up_and_down_a_little_gives_nobody_other_tasks() -> None:
    grouper, case = grouper_of(Policy.FULL), random_case(0, 8, Settings(), tasks=3)
    rng, whole = np.random.default_rng(5), case.load(range(8))
    for load in np.linspace(1.0, 9.0, 17):
        grouping = case.situation.grouping
        for step in range(20):
            costs = case.dearer(load / whole * rng.uniform(0.96, 1.04)).situation.costs
            decision = grouper.help(replace(case.situation, grouping=grouping, costs=costs, health={}))
            assert step == 0 or not decision.changes, (load, decision.changes)
            grouping = decision.grouping
