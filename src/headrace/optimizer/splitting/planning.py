"""How many splitters, how large a window, how many routers: parasplit's heuristics, equations 5 and 6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from headrace.optimizer.splitting.costs import Costs, Shares

BROADCAST = 0.01
"""The broadcast share that is assumed where none was measured."""

LEAST_GAIN = 0.0015
"""A larger window must bring this part more, or the search for the window size ends."""

FIRST_WINDOW = 64
LARGEST_WINDOW = 1 << 30
"""Bytes."""


def splitters_by_heuristic(
    desired: float, one_splitter: float, sub_streams: int, broadcast: float = BROADCAST
) -> int:
    """Equation 6: how many splitters keep up with the desired rate.

    `one_splitter` is the measured rate of one splitter with one sub-stream. Rates may have any unit, if it is the same.
    Nothing is assumed to be omitted, so there may be a few splitters more than needed.

    >>> splitters_by_heuristic(500, 123.7, 512)
    25
    """
    if desired <= 0 or one_splitter <= 0 or sub_streams < 1 or not 0 <= broadcast <= 1:
        raise ValueError(f"no such split: {desired}, {one_splitter}, {sub_streams}, {broadcast}")
    per_tuple = (1 - broadcast) + broadcast * sub_streams
    return max(1, ceil(desired / one_splitter * per_tuple))


def splitters_by_model(desired: float, costs: Costs, shares: Shares, sub_streams: int) -> int:
    """How many splitters keep up with the desired tuples per second, by equation 3 and all measured costs."""
    return max(1, ceil(desired * costs.splitter(shares, sub_streams)))


@dataclass(frozen=True, slots=True)
class WindowProfile:
    """How the router's rate grew with the window size: (bytes, rate) per round."""

    rounds: tuple[tuple[int, float], ...]

    @property
    def window(self) -> int:
        """The window size with the best rate; the smaller one of equals."""
        return max(self.rounds, key=lambda measured: (measured[1], -measured[0]))[0]

    @property
    def rate(self) -> float:
        return max(rate for _, rate in self.rounds)


def profile_window(
    measure: Callable[[int], float], first: int = FIRST_WINDOW, largest: int = LARGEST_WINDOW
) -> WindowProfile:
    """Double the window size until the measured rate of the router gains less than 0.15 %."""
    rounds = [(first, measure(first))]
    while rounds[-1][0] * 2 <= largest:
        window = rounds[-1][0] * 2
        rounds.append((window, measure(window)))
        if rounds[-1][1] < rounds[-2][1] * (1 + LEAST_GAIN):
            break
    return WindowProfile(tuple(rounds))


def router_fan_outs(splitters: int, most: int) -> tuple[int, ...]:
    """How many processes a router of each level feeds. There are as few levels as can be; all fan out about equally.

    One router slows down when it feeds very many processes, so no router feeds more than `most`.

    >>> router_fan_outs(64, 64), router_fan_outs(512, 64), router_fan_outs(10_000, 64)
    ((64,), (23, 23), (22, 22, 21))
    """
    if splitters < 1 or most < 2:
        raise ValueError(f"no tree of routers has {splitters} ends and a fan-out up to {most}")
    levels = 1
    while most**levels < splitters:
        levels += 1
    fan_outs = []
    left = splitters
    for level in range(levels, 0, -1):
        fan_out = next(n for n in range(1, most + 1) if n**level >= left)
        fan_outs.append(fan_out)
        left = ceil(left / fan_out)
    return tuple(fan_outs)


@dataclass(frozen=True, slots=True)
class SplitLayout:
    """The processes of a split: routers by level, p splitters and q sub-streams."""

    sub_streams: int
    splitters: int
    window: int
    fan_outs: tuple[int, ...]

    @property
    def routers(self) -> int:
        """All routers of the tree: on each level as many as are needed to feed the level below."""
        count, fed = 0, self.splitters
        for fan_out in reversed(self.fan_outs):
            fed = ceil(fed / fan_out)
            count += fed
        return count

    @property
    def processes(self) -> int:
        return self.routers + self.splitters + self.sub_streams


def plan_layout(sub_streams: int, splitters: int, window: int, most_fan_out: int) -> SplitLayout:
    """The layout with a single router where that is enough, else with a tree."""
    return SplitLayout(sub_streams, splitters, window, router_fan_outs(splitters, most_fan_out))
