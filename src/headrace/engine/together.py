"""Epochs that are run together: a plain group that lags behind takes several of them at once.

What plain Spark does for an epoch costs much the same for several epochs as for one: it reads the log of the windows
that closed, and gives their rows. Which tuples are late is judged by each tuple's own epoch, so the rows are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from headrace.catalog.queries import QueryEntry
from headrace.model.epoch import Epoch, StreamEpoch
from headrace.model.query import Fallback

MOST_EPOCHS = 64


def last_together(first: int, sealed: int, members: Callable[[int], Sequence[QueryEntry]]) -> int:
    """The last epoch that a group can run together with `first`; `members` tells who lives in it in an epoch.

    All of these epochs have the same members, each of which plain Spark runs. Queries on their way to another group
    meet it at a certain epoch, so they take one epoch at a time. The first epoch of a query is run by itself: that is
    when it becomes active, which people are told.
    """
    there, last = members(first), first
    if there and all(_runs_together(entry, first) for entry in there):
        while last < min(sealed, first + MOST_EPOCHS - 1) and members(last + 1) == there:
            last += 1
    return last


def _runs_together(entry: QueryEntry, epoch: int) -> bool:
    plain = isinstance(entry.query.plan.body, Fallback)
    return plain and entry.wish is None and entry.first_epoch is not None and entry.first_epoch < epoch


def gather(epochs: Iterable[Epoch], most: int) -> Epoch:
    """As many epochs in a row as are run together, as one: all tuples, from the first W(e-1) to the last W(e).

    Together they have as many tuples as one epoch may have: more would need more memory than that.
    """
    first, *others = epochs
    streams = {inflow.stream: inflow for inflow in first.streams}
    last, tuples = first, first.rows
    for epoch in others[: MOST_EPOCHS - 1]:
        tuples += epoch.rows
        if tuples > most:
            break
        for inflow in epoch.streams:
            before = streams.get(inflow.stream)
            streams[inflow.stream] = inflow if before is None else _joined(before, inflow)
        last = epoch
    return replace(last, streams=tuple(streams.values()), changes=())


def _joined(before: StreamEpoch, after: StreamEpoch) -> StreamEpoch:
    return replace(
        after,
        chunks=(*before.chunks, *after.chunks),
        closed_us=before.closed_us,
        late_rows=before.late_rows + after.late_rows,
    )
