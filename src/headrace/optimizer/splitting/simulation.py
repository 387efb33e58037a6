"""A split on a cluster that nobody here has: windows are dealt to splitters at random, and the busiest part decides.

The simulation uses the same cost model and the same decisions as a real split. It adds what the equations leave out:
random windows load splitters unequally, a network interface carries only so much, a router gets slower with every
process it feeds, and a cluster has a number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.optimizer.splitting.costs import Costs, Shares, Work, work_of
from headrace.optimizer.splitting.planning import SplitLayout


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines, and what a router's window costs on them."""

    cores: int
    network_bits: float
    """What one network interface carries, in bits per second."""
    window_s: float
    """CPU seconds of a router per window, whatever its size."""
    destination_s: float
    """CPU seconds per window and process that the router feeds."""

    def router_rate(self, window: int, fan_out: int) -> float:
        """Bits per second that one router hands on: the network's rate, unless handling windows takes longer."""
        bits = window * 8
        busy = max(bits / self.network_bits, self.window_s + fan_out * self.destination_s)
        return bits / busy


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulated split reached. Rates are bits per second of the input stream."""

    rate: float
    bottleneck: str
    work: Work

    @property
    def efficiency(self) -> float:
        return self.work.efficiency


@dataclass(frozen=True, slots=True)
class Stream:
    """The stream that is split: how large its tuples are, and where they go."""

    tuple_bytes: int
    shares: Shares


def simulate_split(
    layout: SplitLayout,
    costs: Costs,
    stream: Stream,
    cluster: Cluster,
    *,
    operator: float = 0.0,
    windows: int = 20_000,
    seed: int = 0,
) -> Simulated:
    """Play many windows through a split and see which part of it takes longest. `operator` is seconds per tuple."""
    bits = stream.tuple_bytes * 8
    shares, q, p = stream.shares, layout.sub_streams, layout.splitters
    dealt = np.random.default_rng(seed).multinomial(windows, np.full(p, 1 / p))
    busiest = float(dealt.max()) / windows
    # the operator's own cost is no part of the efficiency, but it takes time
    work = work_of(costs, shares, p, q, levels=len(layout.fan_outs))
    loaded = work_of(costs, shares, p, q, levels=len(layout.fan_outs), operator=operator)
    received = shares.received(q)
    seconds_per_tuple = {
        "router": bits / min(cluster.router_rate(layout.window, fan_out) for fan_out in layout.fan_outs),
        "splitter": busiest * max(loaded.splitters, shares.sent(q) * bits / cluster.network_bits),
        "processor": received * max(costs.processor(p, operator), bits / cluster.network_bits),
        "cores": loaded.total / cluster.cores,
    }
    bottleneck = max(seconds_per_tuple, key=lambda part: seconds_per_tuple[part])
    return Simulated(bits / seconds_per_tuple[bottleneck], bottleneck, work)
