"""Events and sharing as people see them: `hr.events()` and `hr.sharing()`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.looking.predictions import GroupPredictions, group_predictions
from headrace.looking.showing import Listing, show_seconds, show_time, text_table
from headrace.model.events import Event, EventKind
from headrace.running.run import Running


@dataclass(frozen=True, slots=True)
class EventInfo:
    """One line of `hr.events()`. `queries` names the first few of `count` queries.

    `figures` are the numbers that a decision was made by. `delay_seconds` is from the decision until the first epoch
    in the new shape began; None while there was none.
    """

    at: float
    kind: EventKind
    group: str
    reason: str
    queries: tuple[str, ...]
    count: int
    figures: dict[str, float]
    delay_seconds: float | None

    HEADERS: ClassVar = ("at", "event", "group", "queries", "took", "reason")

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS; times are in UTC."""
        more = "" if self.count <= len(self.queries) else f" and {self.count - len(self.queries)} more"
        return (
            show_time(int(self.at) * 1_000_000),
            self.kind.value,
            self.group,
            ", ".join(self.queries) + more,
            show_seconds(self.delay_seconds),
            self.reason,
        )


def event_infos(events: Iterable[Event]) -> list[EventInfo]:
    """All events, oldest first."""
    infos: list[EventInfo] = Listing()
    infos += [
        EventInfo(e.at, e.kind, e.group, e.reason, e.queries, e.count, dict(e.figures or {}), e.delay_s)
        for e in events
    ]
    return infos


@dataclass(frozen=True, slots=True)
class SharingInfo:
    """The answer of `hr.sharing()`, about the time since the warehouse was opened.

    `looks` were made in `look_seconds` of CPU time. `prediction_error` is the median of how far the predicted work of
    an epoch was from what it took, of so many `predictions`. `cost_error` is that of the costs alone, when it is known
    what the tuples of the epoch matched, and `groups` has the last predictions about each group.
    `reconfiguration_seconds` is the median time from a
    decision until the first epoch in the new shape began, of so many `reconfigurations`. None stands for what never
    happened.
    """

    policy: str
    looks: int
    look_seconds: float
    predictions: int
    prediction_error: float | None
    reconfigurations: int
    reconfiguration_seconds: float | None
    cost_error: float | None = None
    groups: tuple[GroupPredictions, ...] = ()

    def __str__(self) -> str:
        lines = [f"sharing: {self.policy}; {self.looks} looks took {self.look_seconds:.2f} s of CPU time"]
        if self.prediction_error is not None:
            alone = (
                "" if self.cost_error is None else f"; {self.cost_error:.0%} when it is known what matches"
            )
            lines.append(
                f"work of an epoch: predicted with an error of {self.prediction_error:.0%} (median of "
                f"{self.predictions}){alone}"
            )
        if self.reconfiguration_seconds is not None:
            lines.append(
                f"regrouping: {self.reconfiguration_seconds:.2f} s from decision to first epoch (median of "
                f"{self.reconfigurations})"
            )
        if self.groups:
            lines.append(text_table(GroupPredictions.HEADERS, [group.cells() for group in self.groups]))
        return "\n".join(lines)


def sharing_info(running: Running | None) -> SharingInfo:
    """What the conductor has done; nothing in a session that only reads."""
    if running is None:
        return SharingInfo("read only", 0, 0.0, 0, None, 0, None)
    info = running.conducting.info()
    delay = statistics.median(info.delays_s) if info.delays_s else None
    return SharingInfo(
        info.policy,
        info.looks,
        info.looked_s,
        len(info.errors),
        info.median_error,
        len(info.delays_s),
        delay,
        info.median_cost_error,
        group_predictions(info.errors),
    )
