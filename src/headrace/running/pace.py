"""How large an epoch may become: so large that the fastest group runs it in a few seconds.

When all groups are behind, whatever has arrived meanwhile could become one epoch. Each would take longer than the one
before, and nobody can leave a group in the middle of one.
"""

from __future__ import annotations

from collections.abc import Mapping

LONGEST_S = 4.0
"""An epoch in the background should not take longer than this."""

LEAST_ROWS = 1_000
"""Epochs are not cut into pieces that cost more to begin than to run."""


def epoch_bound(paces: Mapping[str, float], most: int) -> int:
    """The tuples that the next epoch may have, from the tuples per second that groups have run last; `most` at most.

    A pace that comes of small epochs is too low, because they cost something by themselves. The next is faster then,
    and so the bound rises.

    >>> epoch_bound({"main": 10_000.0, "plain-1": 50.0}, 1_000_000)
    40000
    >>> epoch_bound({}, 1_000_000), epoch_bound({"main": 10.0}, 1_000_000)
    (1000000, 1000)
    """
    if not paces:
        return most
    return min(most, max(LEAST_ROWS, round(LONGEST_S * max(paces.values()))))
