"""Which tuples are state themselves: those that are stored so, and new ones where that is estimated to be quicker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.ways import FamilyWay, add_ways
from headrace.model.window import Window
from headrace.operators.common.arrays import Ints
from headrace.operators.windows.held import HeldSegment
from headrace.operators.windows.lifted import Lifted
from headrace.operators.windows.needed import Idle
from headrace.operators.windows.pool import Pooled, merge_sources
from headrace.operators.windows.pool_steps import KNOWN_LANES, fresh_source, stored_sources
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.sparse import MOST_OVERLAPPING
from headrace.optimizer.pools import FEW_KEYS, PoolBatch, PoolTimes, decide_pool, estimate_pools

Clock = tuple[int, int]
"""The watermarks before and after an epoch."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """This epoch's tuples, the key of each out of so many `keys`, and what is stored without being read."""

    lifted: Lifted
    of_tuples: Ints
    keys: int
    idle: Idle

    def batch(self, windows: Sequence[Window], clock: Clock) -> PoolBatch:
        """What there is to know of them, which costs a few passes over them."""
        slices = len(self.lifted.slice_starts)
        codes, size = self.of_tuples * slices + self.lifted.slice, self.keys * slices
        if size <= 16 * len(codes) + (1 << 22):
            seen = np.zeros(size, bool)
            seen[codes] = True
            pairs = int(np.count_nonzero(seen))
        else:
            pairs = len(np.unique(codes))
        used = int(np.count_nonzero(np.bincount(self.of_tuples)))
        return PoolBatch(len(codes), used, pairs, self._span_us(windows, clock))

    def _span_us(self, windows: Sequence[Window], clock: Clock) -> int:
        """About how much time they span: as much as the watermark went on, or as their slices are apart."""
        closed_us, watermark_us = clock
        if NEVER_US < closed_us < watermark_us < FOREVER_US:
            return watermark_us - closed_us
        starts = self.lifted.slice_starts
        return int(starts[-1] - starts[0]) + min(window.slide_us for window in windows)


def gather_pool(
    logic: AggregationLogic,
    arrived: Arrived | None,
    before: Sequence[HeldSegment],
    keys: int,
    clock: Clock,
    ways: list[FamilyWay],
) -> tuple[Pooled | None, Ints | None, PoolTimes | None]:
    """(all tuples that are state themselves, how many new ones each state column accepts, what was estimated). Stored
    ones that stay where they are, and are in no window that closes, are left out.

    There are no such counts when what has arrived is to be partials, and no estimates where nothing was to be chosen.
    """
    sources, counts, times = stored_sources(logic, before), None, None
    stays = bool(sources) or (arrived is not None and arrived.idle.pooled)
    if arrived is not None and _may_be_pooled(logic, arrived, stays):
        times = estimate_pools(logic.window_work, arrived.batch(logic.operator.windows, clock))
        if decide_pool(times, stays):
            fresh, counts = fresh_source(logic, arrived.lifted, arrived.of_tuples, ways)
            sources.append(fresh)
    return merge_sources(logic, sources, keys) if sources else None, counts, times


def with_times(ways: Sequence[FamilyWay], times: PoolTimes | None) -> list[FamilyWay]:
    """The ways of a task's families, each with what was estimated for all of them together."""
    if times is None:
        return [*ways]
    return [
        replace(w, pool_ms=times.pool_ns / 1e6, partials_ms=times.partials_ns / 1e6) for w in add_ways(ways)
    ]


def _may_be_pooled(logic: AggregationLogic, arrived: Arrived, stays: bool) -> bool:
    """Whether new tuples may be kept themselves. Bags know grids only.

    Where tuples are kept now (`stays`), keys are not counted: in an epoch in which no window closes only its own keys
    are known, and the way would change to and fro.
    """
    windows = logic.operator.windows
    overlap = max(window.per_tuple for window in windows)
    known = not logic.bags and all(isinstance(one, KNOWN_LANES) for one in logic.lanes)
    many = stays or max(arrived.keys, arrived.idle.keys) >= FEW_KEYS
    return known and many and overlap <= MOST_OVERLAPPING
