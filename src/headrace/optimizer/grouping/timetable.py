"""When to look: penalties are looked for every 10 s, merges every 60 s. Time is given, never asked for."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.optimizer.grouping.settings import Settings
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.strategies import Grouper
from headrace.optimizer.grouping.values import Decision


@dataclass(frozen=True, slots=True)
class Timetable:
    """When the next looks are due, in seconds on whatever clock the caller has."""

    watch_at: float
    merge_at: float

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
        timetable = Timetable(now + settings.watch_every_s, timetable.merge_at)
        helped = grouper.help(situation)
        if helped.changes:
            return timetable, helped
    if now >= timetable.merge_at:
        timetable = Timetable(timetable.watch_at, now + settings.merge_every_s)
        return timetable, grouper.merge(situation)
    return timetable, Decision(situation.grouping)
