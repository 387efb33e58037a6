"""Where a new query starts: in the group where it slows nobody, or alone when no such group is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.model.query import QueryId
from headrace.optimizer.grouping.merging import Union, merge_pairs
from headrace.optimizer.grouping.pairs import FORCED
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.values import Change, Decision, GroupName, Placed, SharingGroup
from headrace.optimizer.grouping.wording import why_alone, why_joined, why_packed


def decide_places(situation: Situation, newcomers: Iterable[QueryId]) -> Decision:
    """A group for each new query.

    A newcomer is looked at as a group of its own that merges at once, by the costs and thresholds of a merge step.
    Newcomers that come together may share a group with each other. The groups that are there are not merged.
    """
    fresh = sorted(set(newcomers))
    residents = [group for group in situation.grouping.groups if not group.apart]
    singles = [
        SharingGroup(GroupName(f"new {query}"), (query,), situation.queries[query].tasks) for query in fresh
    ]
    unions = merge_pairs(situation, [*residents, *singles], len(residents)) if singles else []
    decision = Decision(situation.grouping)
    for union in unions:
        old = [residents[i] for i in union.groups if i < len(residents)]
        come = sorted(singles[i - len(residents)].members[0] for i in union.groups if i >= len(residents))
        if come:
            decision = _place(decision, situation, old, tuple(come), union)
    return decision


def _place(
    decision: Decision,
    situation: Situation,
    old: list[SharingGroup],
    come: tuple[QueryId, ...],
    union: Union,
) -> Decision:
    grouping = decision.grouping
    if old:
        group = old[0]
        home = replace(group, members=tuple(sorted((*group.members, *come))), tasks=union.tasks)
        grouping = grouping.replaced([group.name], [home])
    else:
        tasks = union.tasks or situation.isolated_tasks(come)
        grouping, made = grouping.named([(come, tasks)])
        home = made[0]
        grouping = grouping.replaced([], made)
    others = len(home.members) - 1
    before = old[0].tasks if old else 0
    changes: list[Change] = []
    for query in come:
        if others == 0:
            why = why_alone(query in situation.statistics.samples)
        elif union.forced and union.cost >= FORCED:
            why = why_packed(others)
        else:
            why = why_joined(others, union.cost, home.tasks - before)
        changes.append(Placed(query, home.name, why))
    return Decision(grouping, (*decision.changes, *changes))
