"""When to look: penalties are looked for every 10 s, merges every 60 s. Time is given, never asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.model.query import QueryId
from headrace.optimizer.grouping.policies import Grouper
from headrace.optimizer.grouping.settings import Settings
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.values import Decision, GroupName, SharingGroup, SplitOff

EPOCH_S = 4.0
"""An epoch may take so many seconds, and what came in meanwhile waits. So much waits for groups that keep up, too."""

CHANGED = 0.25
"""A load that has changed by this part of it, or less, may have done so by chance."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """When the next looks are due, in seconds on whatever clock the caller has.

    `left` are the groups after the last merge step, with the load that each had when it was refused (None: made by that
    step, so not measured yet). Groups that could not be compared are not among them: those that are far behind others,
    are parted or apart, or were not measured. `parted` are queries that were split off and have not caught up with the
    other groups since. Nobody merges with them: their first epochs alone tell little, and what has just been parted
    would be merged and parted again as long as more comes in than all cores can process.
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
            put_off = max(timetable.merge_at, timetable.watch_at)
            return replace(timetable, merge_at=put_off, parted=timetable.parted.union(left)), helped
    if now >= timetable.merge_at:
        situation = replace(situation, settled=_settled(timetable, situation), parted=timetable.parted)
        decision = grouper.merge(situation)
        due, refused = now + settings.merge_every_s, _left(timetable.left, situation, decision)
        return replace(timetable, merge_at=due, left=refused), decision
    return timetable, Decision(situation.grouping)


def _still_behind(parted: frozenset[QueryId], situation: Situation) -> frozenset[QueryId]:
    """The queries whose group falls behind, is behind others or its input, or has not run an epoch."""
    homes, health, most = situation.grouping.by_query(), situation.health, situation.settings.meet_within_s
    near = {name for name in _near(situation) if health[name].behind_s <= most + EPOCH_S}
    return frozenset(
        query
        for query in parted
        if (home := homes.get(query)) is not None and (home.name not in near or health[home.name].lags)
    )


def _near(situation: Situation) -> frozenset[GroupName]:
    """The measured groups that are about as far as the one that is least behind.

    How much input waits tells nothing by itself: groups whose epochs take seconds always have seconds of it waiting. A
    group without input is behind nobody, and nobody is behind it.
    """
    names = {group.name for group in situation.grouping.groups}
    measured = {name: health for name, health in situation.health.items() if name in names}
    least = min((health.behind_s for health in measured.values() if health.rate > 0), default=0.0)
    most = least + situation.settings.meet_within_s
    return frozenset(name for name, health in measured.items() if health.behind_s <= most)


def _left(
    before: Mapping[SharingGroup, float | None], situation: Situation, decision: Decision
) -> dict[SharingGroup, float | None]:
    """The groups that a merge step leaves as they are now, except for those that it could not compare with others.

    A group that was settled keeps the load that it had when it was first refused. Otherwise a load that changes little
    by little would never count as changed.
    """
    health, homes, near = situation.health, situation.grouping.by_query(), _near(situation)
    unchanged, left = set(situation.grouping.groups), dict[SharingGroup, float | None]()
    for group in decision.grouping.groups:
        measured = {homes[query].name for query in group.members} & health.keys()
        if group.apart or not measured <= near or not situation.parted.isdisjoint(group.members):
            continue
        if group not in unchanged:
            left[group] = None
        elif group.name in health:
            then = before.get(group) if group.name in situation.settled else None
            left[group] = health[group.name].load if then is None else then
    return left


def _settled(timetable: Timetable, situation: Situation) -> frozenset[GroupName]:
    """The groups that are what they were in the last merge step, and have about the load that they were refused with.

    If the load has changed by more than chance since, what was refused is looked at as if for the first time.
    """
    found = set[GroupName]()
    for group in situation.grouping.groups:
        if group in timetable.left:
            before, health = timetable.left[group], situation.health.get(group.name)
            if before is None or health is None or abs(health.load - before) <= CHANGED * before:
                found.add(group.name)
    return frozenset(found)
