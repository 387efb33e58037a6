"""Splits and merges where all groups share the cores: each brings somebody nearer to isolation, and hurts nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping_cases import RATE, Case, random_case
from headrace.engine.conductor.placing import idle_tasks
from headrace.optimizer.grouping.merging import decide_merges
from headrace.optimizer.grouping.monitor import GroupHealth
from headrace.optimizer.grouping.regions import query_samples
from headrace.optimizer.grouping.settings import Scaling, Settings
from headrace.optimizer.grouping.shared_cores import Outlook, shares_of_cores
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.splitting import decide_splits
from headrace.optimizer.grouping.values import Decision, Merged, SplitOff

SEEDS = st.integers(0, 2**32)
CORES = 4


FREE = Settings(cores=CORES, task_budget=CORES, scaling=Scaling(overhead_s=0.0, serial=0.0))


def on_shared_cores(seed: int, queries: int, over: float, settings: Settings = FREE) -> Case:
    """All queries in one group, which needs so many times the cores that there are."""
    case = random_case(seed, queries, settings, tasks=CORES)
    case = case.dearer(over * CORES / case.load(range(queries)))
    return measured(case.with_groups([(range(queries), CORES)]))


def measured(case: Case) -> Case:
    """The same when every group gets what it needs of the cores, up to the same part."""
    groups = {group.name: group for group in case.situation.grouping.groups}
    needs = {name: case.load(group.members) for name, group in groups.items()}
    shares = shares_of_cores(needs, CORES, {})
    health = {
        name: GroupHealth(
            rate=RATE,
            throughput=RATE * share,
            lag=0.0,
            lag_growth=RATE * (1 - share),
            busy=needs[name] * share,
            shared=needs[name] * share,
        )
        for name, share in shares.items()
    }
    return replace(case, situation=replace(case.situation, health=health))


def content(case: Case) -> float:
    outlook = Outlook.of(case.situation)
    groups = case.situation.grouping.groups
    return outlook.content((group.name, outlook.isolated(group.members)) for group in groups)


def worst(case: Case) -> float:
    outlook = Outlook.of(case.situation)
    groups = case.situation.grouping.groups
    return min(outlook.worst(group.name, outlook.isolated(group.members)) for group in groups)


def after(case: Case, decide: Callable[[Situation], Decision] = decide_splits) -> tuple[Case, Decision]:
    decision = decide(case.situation)
    return measured(replace(case, situation=replace(case.situation, grouping=decision.grouping))), decision


@given(SEEDS, st.integers(2, 16), st.floats(0.5, 6.0))
def test_splits_come_to_an_end_and_queries_get_ever_more_of_their_isolated_throughput(
    seed: int, queries: int, over: float
) -> None:
    case = on_shared_cores(seed, queries, over)
    before, splits = content(case), 0
    while True:
        case, decision = after(case)
        found = [change for change in decision.changes if isinstance(change, SplitOff)]
        if not found:
            break
        splits += len(found)
        assert splits < queries
        assert len(found) > 1 or content(case) >= before - 1e-6
        before = content(case)
    assert after(case)[1].changes == decision.changes


@given(SEEDS, st.integers(2, 16), st.floats(0.5, 6.0))
def test_merges_on_shared_cores_make_nobody_slower_than_alone(seed: int, queries: int, over: float) -> None:
    """Even if tasks would allow a merge: others may want the same cores."""
    case = on_shared_cores(seed, queries, over)
    groups = [([query], CORES) for query in range(queries)]
    case = measured(case.with_groups(groups))
    least = min(0.95, worst(case))
    merged, decision = after(case, decide_merges)
    forced = [
        change
        for change in decision.changes
        if isinstance(change, Merged) and "than the driver" in change.reason
    ]
    assert forced or worst(merged) >= least - 0.02


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("over", [1.0, 2.0, 4.0])
def test_after_a_merge_step_there_are_no_more_groups_than_the_driver_can_run(seed: int, over: float) -> None:
    """Merges that would slow somebody are made as well then, if there are no others."""
    few = Settings(
        cores=CORES, task_budget=CORES, scaling=Scaling(overhead_s=0.2, serial=0.0), driver_threads=1
    )
    case = on_shared_cores(seed, 8, over, few)
    case = measured(case.with_groups([([query], CORES) for query in range(8)]))
    assert few.max_groups == 5
    merged, _ = after(case, decide_merges)
    assert len(merged.situation.grouping.groups) <= 5
    assert sorted(q for group in merged.situation.grouping.groups for q in group.members) == list(range(8))


def test_new_queries_find_no_room_in_cores_that_another_group_keeps_busy() -> None:
    case = on_shared_cores(3, 6, over=0.9).with_groups([(range(3), CORES), (range(3, 6), CORES)])
    busy = GroupHealth(RATE, RATE, 0.0, 0.0, busy=1.7, shared=1.7)
    groups = case.situation.grouping.groups
    situation = replace(case.situation, health={group.name: busy for group in groups})
    most = CORES * (1 - situation.settings.headroom)
    assert [idle_tasks(situation, group) for group in groups] == pytest.approx([most - 3.4] * 2)
    alone = replace(situation, health={groups[0].name: busy})
    assert idle_tasks(alone, groups[0]) == pytest.approx(most - 1.7)


def test_what_keeps_up_is_left_alone() -> None:
    case = on_shared_cores(3, 8, over=0.9)
    assert decide_splits(case.situation).changes == ()


@pytest.mark.parametrize("light", [3, 30, 300])
def test_a_dear_query_leaves_though_isolated_throughput_is_little_among_so_many(light: int) -> None:
    """If all ran alone, light ones would have to share the cores with hundreds of others."""
    base = on_shared_cores(1, light + 1, over=1.0)
    wanted = np.zeros_like(base.table.wanted)
    wanted[0, :light], wanted[1:, light] = True, True
    tuples, matches = base.table.tuples.copy(), base.table.matches.copy()
    tuples[0] = matches[0] = 1.0
    table = replace(base.table, wanted=wanted, tuples=tuples, matches=matches)
    statistics = replace(
        base.situation.statistics, regions={table.operator: table}, samples=query_samples(table)
    )
    case = replace(base, table=table, situation=replace(base.situation, statistics=statistics))
    case = case.dearer(case.factor * 3 * CORES / case.load(range(light + 1)))
    case = measured(case.with_groups([(range(light + 1), CORES)]))
    (change,) = decide_splits(case.situation).changes
    assert isinstance(change, SplitOff)
    assert change.queries == (light,)
    assert change.reason == "split off 1 query: it needs most, and the group processed 33% of its input"
