"""What tasks counted of a join in an epoch as work per closed window: the figures that strategies are chosen by."""

from __future__ import annotations

from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.query import Join, Query
from headrace.model.statistics import JoinCount, JoinWork, SideCount, expected_keys


def measure_join(query: Query, count: JoinCount, epoch: Epoch) -> JoinWork | None:
    """What an epoch tells of an aggregation of a join by its key; None when it closed no certain number of windows.

    A product counts the keys of windows that close. Where rows are joined, the keys of a window follow from the tuples
    that each side let in and from how many of these shared a key.
    """
    body = query.plan.body
    assert isinstance(body, Join)
    closed_us, watermark_us = epoch.closed_us(query.plan.streams), epoch.watermark_us(query.plan.streams)
    if closed_us == NEVER_US or watermark_us == FOREVER_US:
        return None
    windows = body.sides[0].window.ends_between(closed_us, watermark_us)
    keys = count.keys + windows * sum(_keys_per_window(side, epoch) for side in count.sides)
    return JoinWork(query.id, windows, keys, count.rows)


def _keys_per_window(side: SideCount, epoch: Epoch) -> float:
    """About how many keys a side has in a window, if tuples come as fast as in this epoch."""
    inflow = epoch.of(side.stream)
    if inflow is None or side.tuples == 0 or inflow.watermark_us <= inflow.closed_us:
        return 0.0
    tuples = side.tuples * side.range_us / (inflow.watermark_us - inflow.closed_us)
    return expected_keys(side.tuples, side.keys, tuples)
