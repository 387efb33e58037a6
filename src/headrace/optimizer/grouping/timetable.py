"""When to look: penalties are looked for every 10 s, merges every 60 s. Time is given, never asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.optimizer.grouping.policies import Grouper
from headrace.optimizer.grouping.settings import Settings
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.values import Decision, SharingGroup


@dataclass(frozen=True, slots=True)
class Timetable:
    """When the next looks are due, in seconds on whatever clock the caller has; the groups after the last merge."""

    watch_at: float
    merge_at: float
    merged: frozenset[SharingGroup] = frozenset()

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
    if now >= timetable.watch_at:
        timetable = replace(timetable, watch_at=now + settings.watch_every_s)
        helped = grouper.help(situation)
        if helped.changes:
            return timetable, helped
    if now >= timetable.merge_at:
        settled = frozenset(g.name for g in situation.grouping.groups if g in timetable.merged)
        decision = grouper.merge(replace(situation, settled=settled))
        due = now + settings.merge_every_s
        return replace(timetable, merge_at=due, merged=frozenset(decision.grouping.groups)), decision
    return timetable, Decision(situation.grouping)
