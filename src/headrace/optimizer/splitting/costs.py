"""What a tuple costs in each process of a split: parasplit's equations 1 to 4 and 7.

A split has three kinds of processes. The *window router* hands on whole physical windows. A *window splitter* unpacks
them and sends each tuple where it belongs. A *query processor* merges the streams of all splitters and runs the
operator. Costs are CPU seconds per tuple, rates are tuples per second of the whole input stream.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shares:
    """Which part of the tuples is routed to one sub-stream, broadcast to all, or omitted."""

    routed: float
    broadcast: float
    omitted: float = 0.0

    def __post_init__(self) -> None:
        parts = (self.routed, self.broadcast, self.omitted)
        if min(parts) < 0 or abs(sum(parts) - 1) > 1e-9:
            raise ValueError(f"every tuple is routed, broadcast or omitted, so {parts} must add up to 1")

    def sent(self, outputs: int) -> float:
        """How many tuples leave for each one that comes: r + b q."""
        return self.routed + self.broadcast * outputs

    def received(self, outputs: int) -> float:
        """Which part of the input one sub-stream receives: r / q + b."""
        return self.routed / outputs + self.broadcast


@dataclass(frozen=True, slots=True)
class Process:
    """One process in the general form of equation 1. What it does not do costs 0."""

    read: float
    inputs: int = 1
    poll: float = 0.0
    merge: float = 0.0
    query: float = 0.0
    selectivity: float = 1.0
    split: float = 0.0
    emit: float = 0.0
    shares: Shares = Shares(1.0, 0.0)
    outputs: int = 1

    def cost(self) -> float:
        """Equation 1: cr + u (cp + cm) + cq + selectivity (cs (o + r + b q) + ce (r + b q))."""
        sent = self.shares.sent(self.outputs)
        splitting = self.split * (self.shares.omitted + sent) + self.emit * sent
        merging = self.inputs * (self.poll + self.merge)
        return self.read + merging + self.query + self.selectivity * splitting


@dataclass(frozen=True, slots=True)
class Costs:
    """The measured parts of a split's costs, in seconds per tuple."""

    read_window: float
    """Reading a tuple as part of a physical window (crW)."""
    route_window: float
    """A tuple's part of handing a window on (csW + ceW)."""
    split: float
    """Evaluating route and broadcast (cs)."""
    emit: float
    """Sending a tuple to one sub-stream (ce)."""
    read: float
    """Reading a single tuple (cr)."""
    merge: float
    """Polling and merging, per input stream (cp + cm)."""

    def router(self) -> float:
        """Equation 2."""
        return Process(self.read_window, emit=self.route_window).cost()

    def splitter(self, shares: Shares, sub_streams: int) -> float:
        """Equation 3: what a splitter spends on a tuple that it receives."""
        return Process(
            self.read_window, split=self.split, emit=self.emit, shares=shares, outputs=sub_streams
        ).cost()

    def processor(self, splitters: int, operator: float = 0.0) -> float:
        """Equation 4: what a query processor spends on a tuple that it receives; `operator` is O."""
        return Process(self.read, inputs=splitters, merge=self.merge, query=operator).cost()


@dataclass(frozen=True, slots=True)
class Work:
    """CPU seconds that each kind of process spends, all its instances together, per tuple of the input stream."""

    routers: float
    splitters: float
    processors: float

    @property
    def total(self) -> float:
        return self.routers + self.splitters + self.processors

    @property
    def efficiency(self) -> float:
        """Equation 7: the part of the CPU time that goes into splitting itself. Leave the operator's own cost out.

        The equation adds up CPU times of processes. Here they are already added up per kind: p C_PS is `splitters`.
        """
        return self.splitters / self.total


def work_of(
    costs: Costs, shares: Shares, splitters: int, sub_streams: int, *, levels: int = 1, operator: float = 0.0
) -> Work:
    """Predicted work per input tuple. A tuple passes `levels` routers, one splitter, and every processor it goes to."""
    received = shares.sent(sub_streams) * costs.processor(splitters, operator)
    return Work(levels * costs.router(), costs.splitter(shares, sub_streams), received)
