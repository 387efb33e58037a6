"""What the epochs of groups did, as the controller reads it: from commits and counts of tuples to `GroupEpoch`s."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from headrace.engine.conductor.levels import Level
from headrace.engine.conductor.measured import Measured
from headrace.engine.conductor.reading import EpochReader, parts_of, since
from headrace.model.query import QueryId
from headrace.optimizer.grouping.statistics import GroupEpoch
from headrace.optimizer.grouping.values import FunctionName, OperatorId

WATCHED_S = 6.0
"""How far back a group's epochs are looked at. Three of them are looked at in any case."""

KEPT = 64
"""So many epochs of a group are kept at most."""

OCCUPIED = 0.85
"""A group that runs epochs for less than this share of the time waits for input now and then, so it keeps up. But what
is between two epochs counts as waiting only from BETWEEN on.
"""

BETWEEN = 0.25
"""From one epoch to the next it takes a moment, however much waits. So little of an interval is no rest. Else a short
epoch between long ones, of a chunk that did not fit into these, would look like one.
"""


@dataclass(slots=True)
class Books:
    """The last epochs of every group, and what joins made of tuples. Not thread-safe."""

    epochs: dict[str, deque[Measured]] = field(default_factory=dict)
    accepted: dict[QueryId, float] = field(default_factory=dict)
    joined: dict[QueryId, float] = field(default_factory=dict)
    functions: dict[QueryId, FunctionName] = field(default_factory=dict)
    """The function that each query calls; the dearest one, if it calls several."""
    levels: dict[str, Level] = field(default_factory=dict)
    """What the joins of each group find now, beside what is usual."""

    def add(self, measured: Measured) -> None:
        """Note an epoch. What a group did with quite other members or tasks says nothing about it any more."""
        kept = self.epochs.setdefault(measured.group, deque(maxlen=KEPT))
        if kept and (kept[-1].tasks != measured.tasks or are_others(kept[-1].members, measured.members)):
            kept.clear()
            self.levels.pop(measured.group, None)
        kept.append(measured)
        while len(kept) > 4 and measured.at - kept[1].at > WATCHED_S:
            kept.popleft()
        usual = self._usual_of(measured)
        for query, count in measured.accepted.items():
            self._fade(self.accepted, query, count)
        for query, count in measured.made.items():
            if query in measured.joins:
                self._fade(self.joined, query, count)
        found = sum(measured.made.get(query, 0) for query in usual)
        level = self.levels.get(measured.group, Level())
        now = self._usual_of(measured, usual)
        self.levels[measured.group] = level.after(found, sum(usual.values()), sum(now.values()))
        for spent in measured.operators.values():
            for name, called in sorted(spent.functions.items(), key=lambda item: item[1].seconds):
                self.functions |= {
                    QueryId(query): FunctionName(name) for query in called.wanted.queries.tolist()
                }

    def forget(self, groups: Iterable[str], queries: Iterable[QueryId]) -> None:
        """Keep only these groups and queries."""
        listed, live = set(groups), set(queries)
        self.epochs = {name: kept for name, kept in self.epochs.items() if name in listed}
        self.levels = {name: level for name, level in self.levels.items() if name in listed}
        self.accepted = {query: count for query, count in self.accepted.items() if query in live}
        self.joined = {query: count for query, count in self.joined.items() if query in live}
        self.functions = {query: name for query, name in self.functions.items() if query in live}

    def parts(self) -> dict[QueryId, tuple[OperatorId, ...]]:
        """What each query takes part in, of the plan that its group ran last."""
        found: dict[QueryId, tuple[OperatorId, ...]] = {}
        for kept in self.epochs.values():
            found |= parts_of(kept[-1])
        return found

    def matches(self, joins: Iterable[QueryId]) -> dict[QueryId, float]:
        """Rows that each of these joins makes of a tuple it accepts. A query that is no join has one for each."""
        factors = {
            query: level.factor
            for group, level in self.levels.items()
            if level.factor != 1.0
            for query in self.epochs[group][-1].members
        }
        return {
            query: found * factors.get(query, 1.0)
            for query in joins
            if (found := self._usual(query)) is not None
        }

    def _usual(self, query: QueryId) -> float | None:
        """Rows that a join has made of a tuple it accepts, on average; None if it has accepted none."""
        accepted = self.accepted.get(query, 0.0)
        return self.joined.get(query, 0.0) / accepted if accepted > 0 else None

    def _usual_of(self, measured: Measured, some: Collection[QueryId] | None = None) -> dict[QueryId, float]:
        """The rows that are usual for the tuples of an epoch, by the joins of which something is known; or by some."""
        every = ((query, self._usual(query)) for query in (measured.joins if some is None else some))
        return {query: each * measured.accepted.get(query, 0) for query, each in every if each is not None}

    def epoch_s(self, groups: Collection[str]) -> float | None:
        """How far the epochs of one of these groups are apart (median); None before there were any."""
        paces = [
            float(np.median([after.at - before.at for before, after in pairwise(kept)]))
            for name, kept in self.epochs.items()
            if name in groups and len(kept) > 1
        ]
        return max(1e-3, float(np.median(paces))) if paces else None

    def lagging(self, interval_s: float) -> set[str]:
        """The groups whose last epochs look like back-pressure, without a look at anything else."""
        return {name for name, kept in self.epochs.items() if _lags(kept, interval_s)}

    def overhead_s(self) -> float | None:
        """What an epoch with tuples costs by itself: what its tasks did not take.

        A fifth of the epochs took less than that. In others, tasks waited for each other or for somebody else's.
        """
        spent = [
            max(0.0, one.metrics.seconds - one.metrics.cpu_seconds / max(1, one.tasks))
            for kept in self.epochs.values()
            for one in kept
            if one.metrics.cpu_seconds > 0
        ]
        return float(np.quantile(spent, 0.2)) if spent else None

    @staticmethod
    def _fade(sums: dict[QueryId, float], query: QueryId, count: int) -> None:
        sums[query] = 0.9 * sums.get(query, 0.0) + count


def are_others(before: frozenset[QueryId], after: frozenset[QueryId]) -> bool:
    """Whether a fifth of a group's members, or more, came or went. Where queries come and go all the time, some do."""
    return len(before ^ after) * 5 >= max(len(before), len(after), 1)


def group_epochs(
    kept: Sequence[Measured],
    reader: EpochReader,
    interval_s: float,
) -> list[GroupEpoch]:
    """A group's epochs, each with what came in since the one before.

    A group that waits for input now and then does not fall behind. What comes in by fits and starts would look like
    lag otherwise. Nor does one whose input waits for less than two intervals: so much always does.
    """
    pairs = list(pairwise(kept))
    found = [reader.read(before, after) for before, after in pairs]
    if not found or _falls_behind(pairs, found, interval_s):
        return found
    return [_kept_up(epoch) for epoch in found]


def while_lagging(
    kept: Sequence[Measured], epochs: Sequence[GroupEpoch], interval_s: float
) -> Sequence[GroupEpoch]:
    """The epochs that say how a group fares now.

    If it falls behind, these are the last ones in which it ran all of the time: what came before was another load.
    """
    if not epochs or all(epoch.arrived == epoch.processed for epoch in epochs):
        return epochs
    occupied = [_are_occupied([pair], interval_s) for pair in pairwise(kept)]
    return epochs[max((i + 1 for i, busy in enumerate(occupied) if not busy), default=0) :] or epochs


def came_since(
    measured: Measured, arrived: Mapping[str, int], operators: Mapping[QueryId, OperatorId]
) -> int:
    """The tuples for a group that have come in since its last epoch was committed. They wait, too.

    A group may be in a long epoch. What waited when that began says little about now.
    """
    mine = {operators[query] for query in measured.members if query in operators}
    streams = {stream for operator in mine for stream in operator.split("+")}
    return sum(since(arrived, measured.arrived, stream) for stream in streams)


def _falls_behind(
    pairs: Sequence[tuple[Measured, Measured]], epochs: Sequence[GroupEpoch], interval_s: float
) -> bool:
    elapsed = sum(epoch.elapsed_s for epoch in epochs)
    arrived = sum(epoch.arrived for epoch in epochs)
    return _are_occupied(pairs, interval_s) and epochs[-1].lag > 2 * interval_s * arrived / elapsed


def _are_occupied(pairs: Sequence[tuple[Measured, Measured]], interval_s: float) -> bool:
    """Whether a group has run all of the time in its last two epochs. One long epoch alone may be chance."""
    return all(
        after.at - before.at - after.metrics.seconds
        <= max((1 - OCCUPIED) * (after.at - before.at), BETWEEN * interval_s)
        for before, after in pairs[-2:]
    )


def _lags(kept: Sequence[Measured], interval_s: float) -> bool:
    """Whether a group falls behind, by the tuples of all streams that it has counted."""
    if len(kept) < 3 or not _are_occupied(list(pairwise(kept)), interval_s):
        return False
    first, last = kept[0], kept[-1]
    arrived = sum(since(last.arrived, first.arrived, stream) for stream in last.processed)
    lag = sum(max(0, last.arrived.get(stream, 0) - done) for stream, done in last.processed.items())
    return lag > 2 * interval_s * arrived / max(1e-6, last.at - first.at)


def _kept_up(epoch: GroupEpoch) -> GroupEpoch:
    return GroupEpoch(
        epoch.group,
        epoch.epoch,
        epoch.tasks,
        epoch.elapsed_s,
        epoch.processed,
        epoch.processed,
        epoch.lag,
        epoch.idle_s,
        epoch.operators,
        epoch.rows,
        epoch.finishing_s,
        epoch.functions,
    )
