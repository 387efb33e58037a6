"""Algorithm 1: merge groups, cheapest pair first, while that slows nobody; then give back tasks that are idle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from headrace.model.grouping import MAIN
from headrace.model.query import QueryId
from headrace.optimizer.grouping.pairs import Candidates, Pair, PairCosts
from headrace.optimizer.grouping.provisioning import tasks_for
from headrace.optimizer.grouping.shared_cores import Uniting
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import Bits
from headrace.optimizer.grouping.values import (
    Change,
    Decision,
    Grouping,
    GroupName,
    Merged,
    Resized,
    SharingGroup,
)
from headrace.optimizer.grouping.wording import why_fewer, why_merged
from headrace.optimizer.grouping.work import Work, estimate_work


@dataclass(slots=True)
class Union:
    """What has been merged so far at one position. `cost` is the highest of its merges."""

    groups: list[int]
    cost: float = 0.0
    threshold: float = 1.0
    tasks: int = 0
    forced: bool = False


def decide_merges(situation: Situation) -> Decision:
    """All merges of one step, as one decision.

    A merged group gets the tasks it needs at once, before the next pair is looked at. So what is compared is what the
    groups will really have, and the next step finds nothing more to merge if nothing changes.

    Where all groups share the cores, what a group may have is no promise: others may want it, too. There a pair is
    merged only if that makes nobody slower than now and than alone, or if the driver cannot run so many groups.
    """
    groups = [group for group in situation.grouping.groups if not group.apart]
    decision = Decision(situation.grouping)
    for union in (union for union in merge_pairs(situation, groups) if len(union.groups) > 1):
        decision = unite(decision, [groups[i] for i in union.groups], union)
    return release_tasks(replace(situation, grouping=decision.grouping), decision)


def merge_pairs(
    situation: Situation,
    groups: list[SharingGroup],
    residents: int = 0,
    *,
    behind: Mapping[GroupName, float] | None = None,
    estranged: Bits | None = None,
    just_enough: bool = False,
) -> list[Union]:
    """Merge cheapest first until nothing is left to merge. The first `residents` groups are not merged together.

    Then, if there are more groups than the driver can run, go on at whatever cost until there are not. With
    `just_enough`, no more is merged than it takes until the driver can run them. `behind` says by how many seconds of
    input groups are behind that were not measured yet. Pairs that are `estranged` are merged at last only.
    """
    if not groups:
        return []
    wanted = {query: situation.queries[query] for group in groups for query in group.members}
    work = estimate_work(wanted, situation.statistics, situation.costs)
    candidates = _candidates_of(situation, groups, work, residents, behind or {})
    pairs = PairCosts(replace(candidates, estranged=estranged), situation.settings)
    unions = {i: Union([i]) for i in range(len(groups))}
    uniting = None
    if situation.settings.cores is not None and not residents:
        uniting = Uniting(situation, groups, work)
    most = situation.settings.max_groups - sum(group.apart for group in situation.grouping.groups)
    while not just_enough or pairs.groups > most:
        pair = pairs.cheapest()
        if pair is not None and (not pairs.forced or pairs.groups > most):
            if uniting is not None:
                both = unions[pair.left].groups, unions[pair.right].groups
                if not pairs.forced and uniting.hurts(*both):
                    pairs.refuse(pair)
                    continue
                uniting.unite(*both)
            _unite(unions, pair, pairs)
        elif pairs.forced or pairs.groups <= most:
            return list(unions.values())
        else:
            pairs.force()
    return list(unions.values())


def _candidates_of(
    situation: Situation,
    groups: list[SharingGroup],
    work: Work,
    residents: int,
    lags: Mapping[GroupName, float],
) -> Candidates:
    """The groups as arrays. What was not measured yet is predicted."""
    settings = situation.settings
    columns = work.of_groups([group.members for group in groups])
    loads = columns.weights @ columns.needs + columns.own
    n = len(groups)
    busy, share = np.zeros(n), np.ones(n)
    pressed = np.zeros(n, dtype=bool)
    behind = np.zeros(n)
    for i, group in enumerate(groups):
        health = situation.health.get(group.name)
        if health is None:
            share[i] = min(1.0, settings.scaling.useful(group.tasks) / loads[i]) if loads[i] > 0 else 1.0
            spread = 1 + settings.scaling.serial * (group.tasks - 1)
            busy[i] = min(group.tasks, share[i] * loads[i] * spread)
            behind[i] = lags.get(group.name, 0.0)
            continue
        share[i] = health.share
        # a group that catches up is busier than its input asks for
        catching_up = min(1.0, health.rate / health.throughput) if health.throughput > 0 else 1.0
        busy[i] = min(group.tasks, health.busy * catching_up)
        pressed[i] = health.pressed(group.tasks, settings)
        behind[i] = health.behind_s
    return Candidates(
        columns,
        loads,
        np.array([group.tasks for group in groups], dtype=float),
        busy,
        share,
        pressed,
        behind,
        np.array([situation.isolated_tasks(group.members) for group in groups], dtype=float),
        np.arange(n) < residents,
        np.array([group.name in situation.settled for group in groups]),
        np.array([not situation.parted.isdisjoint(group.members) for group in groups]),
    )


def _unite(unions: dict[int, Union], pair: Pair, pairs: PairCosts) -> None:
    left, right = unions[pair.left], unions.pop(pair.right)
    left.groups += right.groups
    left.cost = max(left.cost, right.cost, pair.cost)
    united = pairs.merge(pair)
    left.tasks = united.tasks
    left.threshold = min(left.threshold, right.threshold, united.threshold)
    left.forced |= right.forced or pairs.forced


def unite(
    decision: Decision, groups: list[SharingGroup], union: Union, there: Collection[GroupName] = ()
) -> Decision:
    """The group with most members keeps its name, because its state need not move then. The main group stays anyway.

    If only some of them are `there` already, it is one of these: the members of the others have to move anyway. That
    counts for more, since a main group that had no queries is a new group like others.
    """
    main_stays = not there or MAIN in there
    keeper = max(
        groups,
        key=lambda g: (g.name == MAIN and main_stays, g.name in there, len(g.members), g.tasks, g.name),
    )
    members: tuple[QueryId, ...] = tuple(sorted(q for group in groups for q in group.members))
    saved = sum(group.tasks for group in groups) - union.tasks
    merged = replace(keeper, members=members, tasks=union.tasks)
    others = len(members) - len(keeper.members)
    change = Merged(
        keeper.name,
        tuple(sorted(group.name for group in groups)),
        union.cost,
        union.threshold,
        saved,
        why_merged(others, union.cost, saved, union.forced),
    )
    grouping = decision.grouping.replaced((group.name for group in groups), [merged])
    return Decision(grouping, (*decision.changes, change))


def release_tasks(situation: Situation, decision: Decision) -> Decision:
    """Take tasks from groups that have had no use for them, and from groups whose members were dropped.

    A query that is alone keeps what it would have alone. A tenth of a group's tasks is not worth a change, and tasks
    that a slightly higher load would ask back are not given away.
    """
    changes: list[Change] = []
    grouping: Grouping = decision.grouping
    for group in decision.grouping.groups:
        health = situation.health.get(group.name)
        most = situation.isolated_tasks(group.members)
        after = min(group.tasks, most)
        merged = any(isinstance(change, Merged) and change.into == group.name for change in decision.changes)
        if health is not None and len(group.members) > 1 and not merged and not health.lags:
            steady = health.busy * (1 + situation.settings.hysteresis)
            needed = tasks_for(steady, after, situation.settings)
            after = needed if needed <= 0.9 * after else after
        if after < group.tasks and not group.apart:
            busy = health.busy if health is not None else float(after)
            reason = why_fewer(group.tasks, after, busy)
            changes.append(Resized(group.name, group.tasks, after, reason))
            grouping = grouping.replaced([group.name], [replace(group, tasks=after)])
    return Decision(grouping, (*decision.changes, *changes))
