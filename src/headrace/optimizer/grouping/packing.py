"""Splits that keep to the number of groups that the driver can run.

Queries that leave a group become groups of their own, however many that makes. If these are too many, the cheapest
pairs are merged within the same decision, as in a merge step, until they are not. So nobody who is slowed has to wait
for a merge step to make room.

That is for queries with tasks of their own. On shared cores nobody leaves when there are as many groups as can run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from headrace.model.query import QueryId
from headrace.optimizer.grouping.merging import Union, merge_pairs, unite
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
    SplitOff,
)
from headrace.optimizer.grouping.wording import why_merged


def make_room(situation: Situation, split: Decision) -> Decision:
    """The same decision with as many groups as the driver can run, and no fewer than that.

    What was measured of groups that the decision changes is about other members or tasks, so it is predicted.
    """
    before = situation.grouping
    if len(split.grouping.groups) <= max(situation.settings.max_groups, len(before.groups)):
        return split
    unchanged = set(before.groups)
    groups = [group for group in split.grouping.groups if not group.apart]
    measured = {
        group.name: situation.health[group.name]
        for group in groups
        if group in unchanged and group.name in situation.health
    }
    unions = merge_pairs(
        replace(situation, grouping=split.grouping, health=measured),
        groups,
        behind=_behind(situation, groups),
        estranged=_estranged(groups, split),
        just_enough=True,
    )
    after = Decision(split.grouping)
    merged: list[tuple[Union, list[SharingGroup]]] = []
    for union in (union for union in unions if len(union.groups) > 1):
        parts = [groups[i] for i in union.groups]
        merged.append((union, parts))
        after = unite(after, parts, union, before.by_name())
    changes = [told for change in split.changes if (told := _told(change, split, after.grouping)) is not None]
    found = (_merged(before, after.grouping, union, parts) for union, parts in merged)
    return Decision(after.grouping, (*changes, *(change for change in found if change is not None)))


def _behind(situation: Situation, groups: list[SharingGroup]) -> dict[GroupName, float]:
    """By how many seconds of input each group is behind: as far as the group that its members come from."""
    homes = situation.grouping.by_query()
    lags = {name: health.behind_s for name, health in situation.health.items()}
    return {group.name: max(lags.get(homes[q].name, 0.0) for q in group.members) for group in groups}


def _estranged(groups: list[SharingGroup], split: Decision) -> Bits:
    """Those who left a group, and the rest of it: what comes of them together was measured, and was too slow."""
    place = {group.name: i for i, group in enumerate(groups)}
    found = np.zeros((len(groups), len(groups)), dtype=bool)
    for change in split.changes:
        if isinstance(change, SplitOff):
            left, rest = [place[name] for name in change.into], place[change.group]
            if not change.everybody:
                found[left, rest] = found[rest, left] = True
    return found


def _told(change: Change, split: Decision, after: Grouping) -> Change | None:
    """A change by where its queries and groups are in the end; None if nothing is left of it.

    Only those who are not with the rest of their group in the end have left it. All of these may be in a third group:
    then two groups were merged.
    """
    match change:
        case SplitOff():
            homes, rest = after.by_query(), split.grouping.by_name()[change.group].members[0]
            gone: tuple[QueryId, ...] = tuple(q for q in change.queries if homes[q] != homes[rest])
            into = tuple(sorted({homes[q].name for q in gone}))
            return replace(change, queries=gone, into=into) if gone else None
        case Resized():
            group = after.by_name().get(change.group)
            if group is None or group.tasks == change.before:
                return None
            return replace(change, after=group.tasks)
        case _:
            return change


def _merged(before: Grouping, after: Grouping, union: Union, parts: list[SharingGroup]) -> Merged | None:
    """Groups that were there before and are one now; None if only queries that left others joined."""
    old: Mapping[GroupName, SharingGroup] = before.by_name()
    came = [part for part in parts if part.name in old]
    if len(came) < 2:
        return None
    home = after.by_query()[parts[0].members[0]]
    saved = max(0, sum(part.tasks for part in parts) - union.tasks)
    others = len(home.members) - max(len(part.members) for part in parts)
    return Merged(
        home.name,
        tuple(sorted(part.name for part in came)),
        union.cost,
        union.threshold,
        saved,
        why_merged(others, union.cost, saved, forced=True),
    )
