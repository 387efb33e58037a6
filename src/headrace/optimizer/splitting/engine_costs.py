"""What a split costs on this engine: parasplit's equations 3, 4 and 7 with what is different here.

Three things are. A splitter writes a broadcast tuple once, and not once for each sub-stream. Work comes in epochs, so
that every task, every file and every sub-stream has a cost of its own, however few tuples there are. And sub-streams
are dealt to as many processors as there are cores: each opens the files of all splitters once, for all sub-streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import ceil

import numpy as np

from headrace.optimizer.splitting.costs import Shares


@dataclass(frozen=True, slots=True)
class Cut:
    """An epoch of a split: its tuples, where they go, and how many sub-streams, splitters and processors there are."""

    tuples: int
    shares: Shares
    sub_streams: int
    splitters: int = 1
    processors: int = 1

    @property
    def kept(self) -> float:
        """How many tuples splitters write."""
        return self.tuples * (self.shares.routed + self.shares.broadcast)

    @property
    def received(self) -> float:
        """How many tuples all sub-streams receive together."""
        return self.tuples * self.shares.sent(self.sub_streams)


@dataclass(frozen=True, slots=True)
class SplitterCosts:
    """CPU seconds of splitters: per task, per tuple that comes (crW and cs of the paper), per tuple that is written
    (ce, and putting it in order), and per sub-stream and file.
    """

    task: float
    route: float
    emit: float
    place: float

    @staticmethod
    def amounts(cut: Cut) -> tuple[float, ...]:
        """How often all splitters of an epoch pay each cost."""
        return (cut.splitters, cut.tuples, cut.kept, cut.splitters * cut.sub_streams)

    def seconds(self, cut: Cut) -> float:
        """All splitters together."""
        return _sum(self, self.amounts(cut))

    def rate(self, cut: Cut) -> float:
        """Tuples per second of splitters that have a core each."""
        return cut.tuples / (self.seconds(cut) / cut.splitters)


@dataclass(frozen=True, slots=True)
class ProcessorCosts:
    """CPU seconds of processors without operators: per file that a task opens, per tuple that it copies to have several
    files as one table, per sub-stream, per file of a sub-stream (cp of the paper), and per tuple that is received (cr
    and cm).
    """

    file: float
    copy: float
    sub_stream: float
    piece: float
    merge: float

    @staticmethod
    def amounts(cut: Cut) -> tuple[float, ...]:
        """How often all processors of an epoch pay each cost."""
        pieces = cut.splitters * cut.sub_streams
        copied = cut.kept * cut.processors if cut.splitters > 1 else 0.0
        return (cut.splitters * cut.processors, copied, cut.sub_streams, pieces, cut.received)

    def seconds(self, cut: Cut) -> float:
        """All processors together."""
        return _sum(self, self.amounts(cut))

    def rate(self, cut: Cut) -> float:
        """Tuples per second of the input that processors take in when they have a core each."""
        return cut.tuples / (self.seconds(cut) / cut.processors)


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """What splitters and processors cost here."""

    splitter: SplitterCosts
    processor: ProcessorCosts

    def efficiency(self, cut: Cut) -> float:
        """Equation 7: the part of the CPU time that goes into splitting."""
        split = self.splitter.seconds(cut)
        return split / (split + self.processor.seconds(cut))

    def splitters_for(self, desired: float, cut: Cut) -> int:
        """How many splitters keep up with so many tuples per second. Each has a cost of its own, so that in an epoch of
        few tuples no number may be enough: then the best one.
        """
        # with more, a task's own cost is more than nine tenths of what it does
        most = max(1, ceil(10 * cut.tuples * self._per_tuple(cut.shares) / max(self.splitter.task, 1e-6)))
        best, reached = 1, 0.0
        for splitters in range(1, most + 1):
            rate = self.splitter.rate(replace(cut, splitters=splitters))
            if rate > reached:
                best, reached = splitters, rate
            if rate >= desired:
                return splitters
        return best

    def _per_tuple(self, shares: Shares) -> float:
        costs = self.splitter
        return costs.route + costs.emit * (shares.routed + shares.broadcast)


def _sum(costs: object, amounts: Sequence[float]) -> float:
    names = [field.name for field in fields(costs)]  # type: ignore[arg-type]
    return float(sum(getattr(costs, name) * amount for name, amount in zip(names, amounts, strict=True)))


def fitted(amounts: Sequence[Sequence[float]], seconds: Sequence[float]) -> tuple[float, ...]:
    """The costs that come nearest to measured seconds, none of them below 0. Each measurement weighs by its share that
    is missed, so that small ones count as large ones do.

    >>> [round(cost, 6) for cost in fitted([(1, 10), (1, 1000), (2, 10)], [3.0, 201.0, 4.0])]
    [1.0, 0.2]
    """
    wanted = np.asarray(seconds, float)
    rows = np.asarray(amounts, float) / wanted[:, None]
    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    return tuple((_least(rows / scale, np.ones(len(wanted))) / scale).tolist())


def _least(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Least squares with nothing below 0: costs that would be are left out one by one, the lowest first."""
    free = list(range(rows.shape[1]))
    found = np.zeros(rows.shape[1])
    while free:
        some, *_ = np.linalg.lstsq(rows[:, free], wanted, rcond=None)
        if some.min() >= 0:
            found[free] = some
            break
        free.pop(int(np.argmin(some)))
    return found
