"""When to look: penalties are looked for every 10 s, merges every 60 s. Time is given, never asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.model.query import QueryId
from headrace.optimizer.grouping.policies import Grouper
from headrace.optimizer.grouping.settings import Settings
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.values import Decision, GroupName, SharingGroup, SplitOff

CHANGED = 0.25
"""A load that has changed by this part of it, or less, may have done so by chance."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """When the next looks are due, in seconds on whatever clock the caller has.

    `left` are the groups after the last merge step, with the load that each had then (None: not measured yet). Groups
    that could not be compared, because they were far behind, are not among them. `parted` are queries that were split
    off and have not caught up since. Nobody merges with them: their first epochs alone tell little, and what has just
    been parted would be merged and parted again as long as more comes in than all cores can process.
    """

    watch_at: float
    merge_at: float
    left: Mapping[SharingGroup, float | None] = field(default_factory=dict)
    parted: frozenset[QueryId] = frozenset()

    @staticmethod
    def start(now: float, settings: Settings) -> Timetable:
        return Timetable(now + settings.watch_every_s, now + settings.merge_every_s)


def decide(
    grouper: Grouper, timetable: Timetable, now: float, situation: Situation
) -> tuple[Timetable, Decision]:
    """What is due now: first help for the penalised, and if nobody needs any, merges. At most one of the two.

    A merge that is due while somebody is helped is put off to the next look, because the statistics are about groups
    that are no longer there.
    """
    settings = situation.settings
    timetable = replace(timetable, parted=_still_behind(timetable.parted, situation))
    if now >= timetable.watch_at:
        timetable = replace(timetable, watch_at=now + settings.watch_every_s)
        helped = grouper.help(situation)
        if helped.changes:
            left = (q for change in helped.changes if isinstance(change, SplitOff) for q in change.queries)
            return replace(timetable, parted=timetable.parted.union(left)), helped
    if now >= timetable.merge_at:
        settled = _settled(timetable, situation)
        decision = grouper.merge(replace(situation, settled=settled, parted=timetable.parted))
        due = now + settings.merge_every_s
        return replace(timetable, merge_at=due, left=_left(situation, decision)), decision
    return timetable, Decision(situation.grouping)


def _still_behind(parted: frozenset[QueryId], situation: Situation) -> frozenset[QueryId]:
    """The queries whose group has not caught up with the input yet, or has not run an epoch."""
    homes, health, enough = situation.grouping.by_query(), situation.health, situation.settings.meet_within_s
    return frozenset(
        query
        for query in parted
        if (home := homes.get(query)) is not None
        and (home.name not in health or health[home.name].behind_s > enough)
    )


def _left(situation: Situation, decision: Decision) -> dict[SharingGroup, float | None]:
    """The groups that a merge step leaves as they are now."""
    health, homes = situation.health, situation.grouping.by_query()
    behind = {
        group: max((health[n].behind_s for q in group.members if (n := homes[q].name) in health), default=0.0)
        for group in decision.grouping.groups
    }
    unchanged = set(situation.grouping.groups)
    return {
        group: health[group.name].load if group in unchanged and group.name in health else None
        for group in decision.grouping.groups
        if behind[group] <= situation.settings.meet_within_s
    }


def _settled(timetable: Timetable, situation: Situation) -> frozenset[GroupName]:
    """The groups that are what they were in the last merge step, and have about the load that they had then.

    If the load has changed by more than chance, what was refused then is looked at as if for the first time.
    """
    found = set[GroupName]()
    for group in situation.grouping.groups:
        if group in timetable.left:
            before, health = timetable.left[group], situation.health.get(group.name)
            if before is None or health is None or abs(health.load - before) <= CHANGED * before:
                found.add(group.name)
    return frozenset(found)
