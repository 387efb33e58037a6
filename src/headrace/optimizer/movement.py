"""Combine before you move, or route tuples once: whichever ships fewer bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Movement:
    """What is known of a batch before anything is shipped.

    `capacity` bounds the distinct (slice, key, region) combinations; `sampled` and `distinct` are the size of a sample
    and how many combinations it held.
    """

    rows: int
    capacity: int
    sampled: int
    distinct: int
    tuple_bytes: int
    partial_bytes: int


def estimate_partials(movement: Movement) -> int:
    """How many partials the batch would combine to: at most one per tuple and per possible combination."""
    if movement.sampled == 0:
        return 0
    by_sample = movement.rows * movement.distinct // movement.sampled
    return min(movement.rows, movement.capacity, by_sample)


def decide_combine(movement: Movement) -> bool:
    """True when partial aggregates are fewer bytes than the tuples themselves.

    >>> decide_combine(Movement(1_000_000, 40_000, 50_000, 30_000, 24, 40))
    True
    >>> decide_combine(Movement(1_000_000, 10**12, 50_000, 49_000, 24, 120))
    False
    """
    return estimate_partials(movement) * movement.partial_bytes < movement.rows * movement.tuple_bytes
