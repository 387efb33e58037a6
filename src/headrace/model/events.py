"""Events: what Headrace decided by itself, or could not keep to, in words that people read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from headrace.model import codec


class EventKind(Enum):
    """What happened. A violation is a query that does not get what was asked for it."""

    PLACED = "placed"
    MERGED = "merged"
    SPLIT = "split"
    TASKS = "tasks"
    RESIZED = "resized"
    BALANCED = "balanced"
    VIOLATION = "violation"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a group at a moment, in seconds since 1970.

    `others` are further groups that it is about: those that were merged, or that queries went to. `queries` are names,
    the first few of them; `count` is how many there are. `reason` says why in words. `figures` are
    the numbers that it was decided by. `delay_s` is from the decision to the first epoch in the new shape; None while
    that has not been run, or where nobody moves.
    """

    number: int
    at: float
    kind: EventKind
    group: str
    reason: str
    queries: tuple[str, ...] = ()
    count: int = 0
    figures: dict[str, float] | None = None
    delay_s: float | None = None
    others: tuple[str, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether it says why the groups that it is about are as they are."""
        return self.kind not in (EventKind.VIOLATION, EventKind.ERROR)

    @property
    def regroups(self) -> bool:
        """Whether it changed who shares with whom."""
        return self.kind in (EventKind.MERGED, EventKind.SPLIT)


def why_as_they_are(events: Iterable[Event]) -> dict[str, str]:
    """Why each group is as it is, of events from the oldest to the newest: its last merge or split. If there was none,
    the last of other things that were decided about it. Groups of which nothing was decided are absent.

    >>> told = [Event(0, 0.0, EventKind.MERGED, "main", "merged"), Event(1, 1.0, EventKind.TASKS, "main", "2 tasks")]
    >>> why_as_they_are(told), why_as_they_are(told[1:])
    ({'main': 'merged'}, {'main': '2 tasks'})
    """
    last: dict[str, Event] = {}
    for event in events:
        for group in (event.group, *event.others) if event.decides else ():
            if event.regroups or group not in last or not last[group].regroups:
                last[group] = event
    return {group: event.reason for group, event in last.items()}


codec.register(EventKind, Event)
