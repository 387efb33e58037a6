"""Whether a query shares its work, and what it costs when it does not: said when the query is created."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.catalog.queries import QueryEntry
from headrace.engine.delivered import Delivered
from headrace.looking.showing import count
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.query import Fallback, QueryPlan
from headrace.model.window import SessionWindow
from headrace.running.totals import EpochInfo

MEASURED = 20
"""So many of the last epochs are averaged."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """`reason` says why a query is not shared. `seconds` is what such a query has taken per epoch here, on average;
    `rows` is about how many tuples it reads each time. None where nothing is known.
    """

    shared: bool
    reason: str | None = None
    seconds: float | None = None
    rows: int | None = None
    again: bool = False

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        if self.shared:
            return "shared with the other queries of its kind"
        return f"not shared: {self.reason}; {self.cost}"

    @property
    def cost(self) -> str | None:
        """What it costs in each epoch, in words; None when it is shared."""
        if self.shared:
            return None
        what = "reads the log of its open windows again" if self.again else "reads the new tuples by itself"
        rows = "" if self.rows is None else f", about {count(self.rows, 'tuple')}"
        taken = (
            ""
            if self.seconds is None
            else f"; such queries have taken {self.seconds:.2g} seconds each per epoch here"
        )
        return f"it {what} each epoch{rows}{taken}"


def sharing_of(
    plan: QueryPlan, group: Delivered, epochs: Sequence[EpochInfo], entries: Iterable[QueryEntry]
) -> Sharing:
    """What is known of the cost of a query by the epochs that have been run; reads no tuples."""
    if not isinstance(plan.body, Fallback):
        return Sharing(shared=True)
    again = plan.window is not None
    return Sharing(False, plan.body.reason, _average(epochs, entries), _rows(plan, group), again)


def _average(epochs: Sequence[EpochInfo], entries: Iterable[QueryEntry]) -> float | None:
    """Seconds per epoch and query of the queries that were not shared; None when there was none."""
    alone = [entry for entry in entries if isinstance(entry.query.plan.body, Fallback)]
    seconds = [
        info.cost.fallback_seconds / count
        for info in epochs[-MEASURED:]
        if info.cost.fallback_seconds and (count := sum(entry.active_in(info.epoch) for entry in alone))
    ]
    return sum(seconds) / len(seconds) if seconds else None


def _rows(plan: QueryPlan, group: Delivered) -> int | None:
    """About how many tuples of the log a query reads per epoch: those of open windows, or of the last epoch."""
    last = group.sealed
    if last < 0:
        return None
    epochs = range(last, last + 1) if plan.window is None else range(group.first_epoch, last + 1)
    watermark_us = group.watermark_at(plan.streams, last)
    oldest = NEVER_US
    if plan.window is not None and not isinstance(plan.window, SessionWindow):
        if watermark_us == FOREVER_US:
            return 0
        oldest = max(NEVER_US, watermark_us - plan.window.range_us)
    found = (
        item.chunk
        for stream in plan.streams
        for item in group.index.chunks(stream, epochs.start, epochs.stop)
    )
    return sum(chunk.rows for chunk in found if chunk.max_us is not None and chunk.max_us > oldest)
