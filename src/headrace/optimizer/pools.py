"""Whether the tuples of a windowed aggregation are kept themselves, or partials for each query, key and slice.

The coefficients are nanoseconds, as in `optimizer/membership.py`; `headrace_bench.tasks` has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FEW_KEYS = 4_096
"""Below so many keys partials are few. Tuples that are kept already are not counted again."""

ROW_NS, OWN_NS = 4.0, 8.0
"""For each query: to update its partial of a key and fine slice; that of a key and own slice, to store and to read it,
and to combine it. Where most pairs of a key and a slice have many tuples, it is less.
"""

VISIT_NS, MATCH_NS = 12.0, 0.6
"""To visit a tuple for a window that closes, and a query of the window, whether it matches or not."""

READ_NS = 150.0
"""To store a tuple, or to read it and bring it into order: in every epoch, as long as some window needs it."""

STAYING = 1.25
"""What is done now is left only when the other way is so many times as fast."""


@dataclass(frozen=True, slots=True)
class WindowWork:
    """A window of an operator, and how many partials its queries keep of a key and a slice."""

    range_us: int
    slide_us: int
    entries: int

    @property
    def overlap(self) -> float:
        """How many windows a tuple is in, on average."""
        return self.range_us / self.slide_us


@dataclass(frozen=True, slots=True)
class PoolBatch:
    """The tuples of an epoch, the keys and the pairs of a key and a slice that they have, and the time they span."""

    tuples: int
    keys: int
    pairs: int
    span_us: int


@dataclass(frozen=True, slots=True)
class PoolTimes:
    """What tuples that are kept themselves, and partials in their place, are estimated to take."""

    pool_ns: float
    partials_ns: float


def estimate_pools(windows: Sequence[WindowWork], batch: PoolBatch) -> PoolTimes:
    return PoolTimes(estimate_pool_ns(windows, batch), estimate_partials_ns(windows, batch))


def decide_pool(times: PoolTimes, stays: bool) -> bool:
    """Whether tuples are kept, which is estimated to take less time than partials. `stays` says that they are now.

    >>> windows = [WindowWork(5_000_000, 2_500_000, 1_000)]
    >>> decide_pool(estimate_pools(windows, PoolBatch(200_000, 100_000, 200_000, 4_000_000)), False)
    True
    >>> decide_pool(estimate_pools(windows, PoolBatch(200_000, 5_000, 20_000, 4_000_000)), True)
    False
    >>> hour = WindowWork(3_600_000_000, 3_600_000_000, 1_000)
    >>> decide_pool(estimate_pools([hour], PoolBatch(200_000, 50_000, 200_000, 4_000_000)), True)
    False
    """
    return times.pool_ns < times.partials_ns * (STAYING if stays else 1 / STAYING)


def estimate_pool_ns(windows: Sequence[WindowWork], batch: PoolBatch) -> float:
    closing = sum(one.overlap * (VISIT_NS + MATCH_NS * one.entries) for one in windows)
    epochs = 1 + max(one.range_us for one in windows) / batch.span_us
    return batch.tuples * (closing + READ_NS * epochs)


def estimate_partials_ns(windows: Sequence[WindowWork], batch: PoolBatch) -> float:
    """Tuples of later epochs have the same own slices, where these are longer than an epoch."""
    per_us = batch.tuples / batch.keys / batch.span_us
    own = sum(one.entries * min(batch.pairs, batch.tuples / (per_us * one.slide_us)) for one in windows)
    return ROW_NS * batch.pairs * sum(one.entries for one in windows) + OWN_NS * own
