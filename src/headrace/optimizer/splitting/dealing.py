"""Which worker runs which sub-streams of a split: those that it has instances of, unless another one is much busier.

To move an instance costs reading its state anew, so that only a clear imbalance is worth it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

UNEVEN = 0.3
"""Sub-streams move when two workers differ by more than this share of what a worker does on average."""

LEAST_GAP_S = 0.02
"""And by more than so many seconds: of less, the state that has to be read takes longer."""

MOVES = 4
"""So many move in an epoch at most."""


def deal_sub_streams(
    sub_streams: int, kept: Sequence[Collection[int]], seconds: Mapping[int, float]
) -> list[list[int]]:
    """The sub-streams of each worker. `kept` are those that each has instances of, `seconds` what each cost in an
    epoch.

    >>> deal_sub_streams(5, [{0, 1}, {2}], {})
    [[0, 1, 4], [2, 3]]
    >>> deal_sub_streams(4, [{0, 1}, {2, 3}], {0: 5.0, 1: 1.0, 2: 1.0, 3: 1.0})
    [[0], [1, 2, 3]]
    """
    dealt: list[list[int]] = []
    free = set(range(sub_streams))
    for mine in kept:
        dealt.append(sorted(free.intersection(mine)))
        free.difference_update(mine)
    least = max(max(seconds.values(), default=0.0) * 1e-3, 1e-9)
    weights = {number: max(least, seconds.get(number, 0.0)) for number in range(sub_streams)}
    loads = [sum(weights[number] for number in mine) for mine in dealt]
    for number in sorted(free, key=lambda number: (-weights[number], number)):
        at = loads.index(min(loads))
        dealt[at].append(number)
        loads[at] += weights[number]
    for _ in range(MOVES):
        if not _move(dealt, loads, weights):
            break
    return [sorted(mine) for mine in dealt]


def _move(dealt: list[list[int]], loads: list[float], weights: Mapping[int, float]) -> bool:
    """Move one sub-stream from the busiest worker to the idlest if that is worth it; whether it was."""
    busiest, idlest = loads.index(max(loads)), loads.index(min(loads))
    gap = loads[busiest] - loads[idlest]
    fitting = [number for number in dealt[busiest] if weights[number] <= 0.75 * gap]
    if gap <= max(LEAST_GAP_S, UNEVEN * sum(loads) / len(loads)) or not fitting:
        return False
    moved = min(fitting, key=lambda number: (abs(weights[number] - gap / 2), number))
    dealt[busiest].remove(moved)
    dealt[idlest].append(moved)
    loads[busiest] -= weights[moved]
    loads[idlest] += weights[moved]
    return True
