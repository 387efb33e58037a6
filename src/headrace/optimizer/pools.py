"""Whether the tuples of a windowed aggregation are kept themselves, or partials for each query, key and slice.

The coefficients are nanoseconds, as in `optimizer/membership.py`; `headrace_bench.tasks` has the measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

FEW_KEYS = 4_096
"""Below so many keys partials are few."""

PARTIAL_NS = 5.0
"""To update a partial, to put it into its own slice, to store and to read it, and to combine it."""

VISIT_NS, MATCH_NS = 12.0, 1.0
"""To visit a tuple for a window that closes, and a query of the window, whether it matches or not."""

STAYING = 1.5
"""What is done now is left only when the other way is so many times as fast."""


@dataclass(frozen=True, slots=True)
class PoolWork:
    """The queries of an operator: how many partials there are for a key and slice. A tuple is in so many windows when
    they close, and would change so many partials of these if all queries matched.
    """

    entries: int
    visits: float
    updates: float


def decide_pool(work: PoolWork, tuples: int, rows: int, stays: bool) -> bool:
    """Whether tuples are kept, given how many there are and the (key, slice) pairs that they fall into.

    >>> work = PoolWork(1_900, 130.0, 4_400.0)
    >>> decide_pool(work, 200_000, 200_000, False), decide_pool(work, 200_000, 10_000, True)
    (True, False)
    """
    partials = PARTIAL_NS * rows * work.entries
    kept = tuples * (VISIT_NS * work.visits + MATCH_NS * work.updates)
    return kept < partials * (STAYING if stays else 1 / STAYING)
