"""What the epochs have added up to since opening, and each of the last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headrace.engine.records import Commit, Metrics
from headrace.looking.showing import show_seconds, show_time
from headrace.model.epoch import FOREVER_US, NEVER_US, Create, Epoch
from headrace.model.grouping import MAIN
from headrace.optimizer.place import Place
from headrace.planner.joins import is_joined


@dataclass(frozen=True, slots=True)
class EpochInfo:
    """One epoch as `hr.recent_epochs()` tells it. `newest_end_us` is the end of the last window it delivered."""

    epoch: int
    committed_at: float
    newest_end_us: int | None
    changes: int
    cost: Metrics
    group: str = MAIN

    HEADERS: ClassVar = (
        "epoch",
        "group",
        "committed",
        "took",
        "tuples",
        "late",
        "rows",
        "queries",
        "changes",
        "newest end",
        "ran in",
    )

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS; times are in UTC."""
        committed, cost = show_time(int(self.committed_at) * 1_000_000), self.cost
        end = None if self.newest_end_us is None else show_time(self.newest_end_us)
        counts = (cost.input_rows, cost.late_rows, cost.result_rows, cost.active_queries, self.changes)
        place = Place.OWN_WORKER if cost.own_worker else Place.SPARK
        return (self.epoch, self.group, committed, show_seconds(cost.seconds), *counts, end, place.value)


@dataclass(slots=True)
class Totals:
    """What the epochs since opening added up to. Latencies are seconds; the event-time one is the last epoch's."""

    input_rows: int = 0
    result_rows: int = 0
    late_rows: int = 0
    query_changes: int = 0
    event_time_latency: float | None = None
    deployments: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    recent: deque[EpochInfo] = field(default_factory=lambda: deque(maxlen=4000))

    def add(self, epoch: Epoch, commit: Commit, home: Callable[[int], str | None]) -> None:
        """Add what a group delivered in an epoch. `home` tells the group that a query lives in then.

        The main group runs every epoch, so that what is about the epoch itself is counted with it.
        """
        main = commit.group == MAIN
        self.result_rows += commit.metrics.result_rows
        if main:
            self.input_rows += commit.metrics.input_rows
            self.late_rows += commit.metrics.late_rows
            self.query_changes += len(epoch.changes)
        for change in epoch.changes:
            created = home(int(change.query.id)) if isinstance(change, Create) else MAIN
            if created == commit.group:
                self.deployments.append(max(0.0, commit.committed_at - change.requested_at))
        newest = _newest_end(epoch, commit)
        if main or newest is not None:
            self.event_time_latency = None if newest is None else commit.committed_at - newest / 1e6
        changes = len(epoch.changes) if main else 0
        self.recent.append(
            EpochInfo(commit.epoch, commit.committed_at, newest, changes, commit.metrics, commit.group)
        )


def _newest_end(epoch: Epoch, commit: Commit) -> int | None:
    """The end of the last window that a group delivered in an epoch; None when it delivered none."""
    new = [file for file in commit.results if file.first_epoch == file.last_epoch == commit.epoch]
    # joined rows are stored before they show
    seen = epoch.watermark_us([inflow.stream for inflow in epoch.streams])
    ends = [
        min(file.max_us, seen) if is_joined(file.signature) else file.max_us
        for file in new
        if file.max_us and file.max_us not in (NEVER_US, FOREVER_US)
    ]
    return max((end for end in ends if end not in (NEVER_US, FOREVER_US)), default=None)
