"""Parasplit's cluster of 70 nodes as a value, and the curves of the paper's figures 4 to 7 by simulation.

The paper's text gives some of the numbers: a network of 1 Gbps of which 980 Mbps were reached, 975 Mbps when one router
feeds 128 splitters, 123.7 Mbps for one splitter, tuples of 72 bytes, and the shares of Linear Road. It does not give
the costs of reading, polling and merging. These are chosen here, so that merging 512 inputs costs more than splitting,
and are marked. The figures' curves are compared by their shape, and by the few numbers of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.optimizer.splitting.costs import Costs, Shares
from headrace.optimizer.splitting.planning import (
    SplitLayout,
    router_fan_outs,
    splitters_by_heuristic,
    splitters_by_model,
)
from headrace.optimizer.splitting.simulation import Cluster, Simulated, Stream, simulate_split

TUPLE_BITS = 72 * 8
MEGA = 1e6
ONE_SPLITTER = 123.7 * MEGA
DESIRED = 1_000 * MEGA
WINDOW = 16_384
MOST_FAN_OUT = 64
"""Up to here, a single router reached the network's rate."""

LINEAR_ROAD = Stream(72, Shares(routed=0.99, broadcast=0.005, omitted=0.005))

CLUSTER = Cluster(cores=560, network_bits=980 * MEGA, window_s=40e-6, destination_s=0.738e-6)
"""A router that feeds 128 processes spends 134.4 us on a window of 16 kB, which makes 975 Mbps. 40 us is our choice:
with it, the rate stops growing at windows of 16 kB, as in the paper."""

COSTS = Costs(
    read_window=0.02e-6,  # chosen: negligible, as the paper assumes
    route_window=0.08e-6,  # chosen: a window's cost over its tuples
    split=TUPLE_BITS / ONE_SPLITTER / 2,  # half of the measured sum is chosen for each of the two
    emit=TUPLE_BITS / ONE_SPLITTER / 2,
    read=1.0e-6,  # chosen
    merge=0.05e-6,  # chosen
)

Choice = Callable[[int], tuple[int, bool]]
"""From q to p, and whether the routers form a tree."""

CHOICES: dict[str, Choice] = {
    "heuristic, tree": lambda q: (splitters_by_heuristic(DESIRED, ONE_SPLITTER, q), True),
    "heuristic, single router": lambda q: (splitters_by_heuristic(DESIRED, ONE_SPLITTER, q), False),
    "cost model, single router": lambda q: (
        splitters_by_model(DESIRED / TUPLE_BITS, COSTS, LINEAR_ROAD.shares, q),
        False,
    ),
    "p = 1": lambda q: (1, False),
    "p = q": lambda q: (q, False),
}
"""The curves of figures 6 and 7, without the paper's older maxtree."""


def layout_of(choice: Choice, sub_streams: int) -> SplitLayout:
    """The processes that a choice leads to; a tree has two levels of equal fan-out, as in section 4.1."""
    splitters, tree = choice(sub_streams)
    narrow = max(2, next(n for n in range(1, splitters + 1) if n * n >= splitters))
    return SplitLayout(
        sub_streams, splitters, WINDOW, router_fan_outs(splitters, narrow) if tree else (splitters,)
    )


def router_by_window(windows: Sequence[int], fan_out: int) -> list[float]:
    """Figure 4: the router's rate for growing windows."""
    return [CLUSTER.router_rate(window, fan_out) for window in windows]


def router_by_fan_out(splitters: Sequence[int], most: int | None = None) -> list[float]:
    """Figure 5: the router's rate for more splitters; with `most`, by a tree of that fan-out at most."""
    trees = [(p,) if most is None else router_fan_outs(p, most) for p in splitters]
    return [min(CLUSTER.router_rate(WINDOW, fan_out) for fan_out in tree) for tree in trees]


def scale_up(choice: str, sub_streams: Sequence[int]) -> list[Simulated]:
    """Figures 6 and 7: rate and efficiency for more sub-streams."""
    return [simulate_split(layout_of(CHOICES[choice], q), COSTS, LINEAR_ROAD, CLUSTER) for q in sub_streams]
