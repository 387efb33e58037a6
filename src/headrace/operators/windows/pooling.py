"""Which tuples are state themselves: those that are stored so, and new ones where that is estimated to be quicker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.ways import FamilyWay
from headrace.model.window import Window
from headrace.operators.common.encode import Ints
from headrace.operators.windows.held import HeldSegment
from headrace.operators.windows.lifted import Lifted
from headrace.operators.windows.needed import Idle
from headrace.operators.windows.pool import Pooled, merge_sources
from headrace.operators.windows.pool_steps import KNOWN_LANES, fresh_source, stored_sources
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.sparse import MOST_OVERLAPPING
from headrace.optimizer.pools import FEW_KEYS, PoolBatch, decide_pool

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
) -> tuple[Pooled | None, Ints | None]:
    """(all tuples that are state themselves, how many new ones each state column accepts). Stored ones that stay where
    they are, and are in no window that closes, are left out.

    There are no such counts when what has arrived is to be partials.
    """
    sources, counts = stored_sources(logic, before, *clock), None
    if arrived is not None and _is_pooled(logic, arrived, clock, stays=bool(sources) or arrived.idle.pooled):
        fresh, counts = fresh_source(logic, arrived.lifted, arrived.of_tuples, ways)
        sources.append(fresh)
    return merge_sources(logic, sources, keys) if sources else None, counts


def _is_pooled(logic: AggregationLogic, arrived: Arrived, clock: Clock, *, stays: bool) -> bool:
    """Whether new tuples are kept themselves; `stays` says that earlier ones are. Bags know grids only."""
    windows = logic.operator.windows
    overlap = max(window.per_tuple for window in windows)
    known = not logic.bags and all(isinstance(one, KNOWN_LANES) for one in logic.lanes)
    if not known or overlap > MOST_OVERLAPPING or max(arrived.keys, arrived.idle.keys) < FEW_KEYS:
        return False
    return decide_pool(logic.window_work, arrived.batch(windows, clock), stays)
