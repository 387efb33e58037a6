"""Events: what Headrace decided by itself, or could not keep to, in words that people read."""

from __future__ import annotations

from collections.abc import Sequence
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

    def concerns(self, group: str) -> bool:
        """Whether it says why a group is as it is."""
        return self.kind not in (EventKind.VIOLATION, EventKind.ERROR) and group in (self.group, *self.others)

    @property
    def regroups(self) -> bool:
        """Whether it changed who shares with whom."""
        return self.kind in (EventKind.MERGED, EventKind.SPLIT)


def why_as_it_is(events: Sequence[Event], group: str) -> str | None:
    """Why a group is as it is, of events from the oldest to the newest: its last merge or split. If there was none, the
    last of other things that were decided about it; None if nothing was.

    >>> told = [Event(0, 0.0, EventKind.MERGED, "main", "merged"), Event(1, 1.0, EventKind.TASKS, "main", "2 tasks")]
    >>> why_as_it_is(told, "main"), why_as_it_is(told[1:], "main"), why_as_it_is(told, "alerts")
    ('merged', '2 tasks', None)
    """
    about = [event for event in events if event.concerns(group)]
    found = [event for event in about if event.regroups] or about
    return found[-1].reason if found else None


codec.register(EventKind, Event)
