"""What the epochs of groups did, as the controller reads it: from commits and counts of tuples to `GroupEpoch`s."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from headrace.engine.conductor.levels import Level
from headrace.engine.records import Metrics
from headrace.model.metrics import NOBODY, OperatorMetrics, QueryCounts
from headrace.model.query import QueryId
from headrace.optimizer.grouping.statistics import (
    Floats,
    FunctionEpoch,
    GroupEpoch,
    OperatorEpoch,
    RegionTable,
)
from headrace.optimizer.grouping.values import FunctionName, GroupName, OperatorId

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


@dataclass(frozen=True)
class Measured:
    """One epoch of one group, as it was committed. Looks ask the same epoch again and again, so counts are kept.

    `arrived` and `processed` count the tuples of each stream since its beginning: those that had come in, sealed or
    not, and those of the epochs that the group has run. `users` are the queries of each operator of the plan, and
    `joins` the members that are joins.
    """

    group: str
    epoch: int
    at: float
    tasks: int
    members: frozenset[QueryId]
    metrics: Metrics
    operators: Mapping[str, OperatorMetrics]
    users: Mapping[str, tuple[QueryId, ...]]
    arrived: Mapping[str, int]
    processed: Mapping[str, int]
    joins: frozenset[QueryId] = frozenset()

    @cached_property
    def accepted(self) -> dict[QueryId, int]:
        """The tuples that each query took. Empty if nothing was counted."""
        return _by_query(spent.matched for spent in self.operators.values())

    @cached_property
    def made(self) -> dict[QueryId, int]:
        """The rows that were made of them for each query, before its functions were asked: these are what costs.

        A function is called for a row after everything cheaper, and few rows may be left after it.
        """
        joined = _by_query(spent.joined for spent in self.operators.values())
        found = {query: count for query, count in self.accepted.items() if query not in self.joins}
        found |= {query: joined.get(query, 0) for query in self.joins}
        for spent in self.operators.values():
            for called in spent.functions.values():
                for query, count in _by_query([called.wanted]).items():
                    found[query] = max(found.get(query, 0), count)
        return found


def _by_query(counts: Iterable[QueryCounts]) -> dict[QueryId, int]:
    return {QueryId(query): count for query, count in sum(counts, NOBODY).items()}


@dataclass(slots=True)
class Books:
    """The last epochs of every group, and what joins made of tuples. Not thread-safe."""

    epochs: dict[str, deque[Measured]] = field(default_factory=dict)
    accepted: dict[QueryId, float] = field(default_factory=dict)
    joined: dict[QueryId, float] = field(default_factory=dict)
    functions: dict[QueryId, FunctionName] = field(default_factory=dict)
    """The function that each query calls; the dearest one, if it calls several."""
    parts: dict[QueryId, tuple[OperatorId, ...]] = field(default_factory=dict)
    """What each query takes part in, of the plan of its group."""
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
        self.parts |= parts_of(measured)
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
        self.parts = {query: parts for query, parts in self.parts.items() if query in live}

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


def part_of(plan_operator: str) -> OperatorId:
    """The controller's name for an operator of plans. Groups whose plans have the same one do the same work."""
    return OperatorId(f"part {plan_operator}")


def parts_of(measured: Measured) -> dict[QueryId, tuple[OperatorId, ...]]:
    """The parts that each member has had in the plan of an epoch."""
    found: dict[QueryId, list[OperatorId]] = {}
    for plan_operator, users in sorted(measured.users.items()):
        for query in users:
            found.setdefault(query, []).append(part_of(plan_operator))
    return {query: tuple(parts) for query, parts in found.items()}


def group_epochs(
    kept: Sequence[Measured],
    operators: Mapping[QueryId, OperatorId],
    regions: Mapping[OperatorId, RegionTable],
    interval_s: float,
    counted: Collection[str],
) -> list[GroupEpoch]:
    """A group's epochs, each with what came in since the one before. Functions that are `counted` stand by themselves.

    A group that waits for input now and then does not fall behind. What comes in by fits and starts would look like
    lag otherwise. Nor does one whose input waits for less than two intervals: so much always does.
    """
    pairs = list(pairwise(kept))
    found = [_epoch(before, after, operators, regions, counted) for before, after in pairs]
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
    return sum(_since(arrived, measured.arrived, stream) for stream in streams)


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
    arrived = sum(_since(last.arrived, first.arrived, stream) for stream in last.processed)
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


def _epoch(
    before: Measured,
    after: Measured,
    operators: Mapping[QueryId, OperatorId],
    regions: Mapping[OperatorId, RegionTable],
    counted: Collection[str],
) -> GroupEpoch:
    mine = {operators[query] for query in after.members if query in operators}
    streams = sorted({stream for operator in mine for stream in operator.split("+")})
    taken = {stream: _since(after.processed, before.processed, stream) for stream in streams}
    elapsed = max(1e-6, after.at - before.at)
    spent = after.metrics
    return GroupEpoch(
        GroupName(after.group),
        after.epoch,
        after.tasks,
        elapsed,
        sum(_since(after.arrived, before.arrived, stream) for stream in streams),
        sum(taken.values()),
        sum(max(0, after.arrived.get(s, 0) - after.processed.get(s, 0)) for s in streams),
        max(0.0, after.tasks * elapsed - spent.cpu_seconds),
        (*_reading(sorted(mine), after, taken), *_parts(after, taken, operators, regions, counted)),
        _rows(after),
        spent.finish_cpu,
        _functions(after, taken, operators, regions, counted),
    )


def _since(after: Mapping[str, int], before: Mapping[str, int], stream: str) -> int:
    return max(0, after.get(stream, 0) - before.get(stream, 0))


def _reading(
    operators: Sequence[OperatorId], measured: Measured, taken: Mapping[str, int]
) -> Iterator[OperatorEpoch]:
    """What it took to read the streams: what map tasks did besides the work of the plan, divided by tuples."""
    reading = max(0.0, measured.metrics.map_cpu - sum(one.map_seconds for one in measured.operators.values()))
    tuples = {operator: sum(taken[stream] for stream in operator.split("+")) for operator in operators}
    whole = sum(tuples.values())
    for operator, count in tuples.items():
        yield OperatorEpoch(operator, count, 0, 0, reading * count / whole if whole else 0.0, 0.0)


def _parts(
    measured: Measured,
    taken: Mapping[str, int],
    operators: Mapping[QueryId, OperatorId],
    regions: Mapping[OperatorId, RegionTable],
    counted: Collection[str],
) -> Iterator[OperatorEpoch]:
    """What the operators of the plan did. The CPU of reduce tasks is divided as their own clocks are."""
    clocks = sum(one.reduce_seconds for one in measured.operators.values())
    scale = measured.metrics.reduce_cpu / clocks if clocks > 0 else 0.0
    for plan_operator, spent in sorted(measured.operators.items()):
        users = [query for query in measured.users.get(plan_operator, ()) if query in operators]
        if not users:
            continue
        operator = operators[users[0]]
        tuples = sum(taken[stream] for stream in operator.split("+"))
        selected, matches = _selected(regions.get(operator), users, tuples, measured)
        # functions are called in the same tasks. The dearest one of a query is counted by itself
        called = sum(one.seconds for name, one in spent.functions.items() if name in counted)
        join_s = scale * spent.reduce_seconds
        in_joins = min(called, join_s)
        yield OperatorEpoch(
            part_of(plan_operator),
            tuples,
            round(selected),
            round(matches),
            max(0.0, spent.map_seconds - (called - in_joins)),
            join_s - in_joins,
        )


def _selected(
    table: RegionTable | None, queries: Collection[QueryId], tuples: float, measured: Measured
) -> tuple[float, float]:
    """(tuples that any of these queries wants, their matches), of so many tuples of an operator.

    A sample tells how much of what queries want they have in common, and the epoch how much each of them got. A busy
    key comes and goes, so an epoch may have several times as many matches as the one before.
    """
    if table is None or not table.sampled:
        return 0.0, 0.0
    columns = [i for i, query in enumerate(table.queries) if query in queries]
    ids = [table.queries[i] for i in columns]
    wanted = table.wanted[:, columns]
    mine, times = wanted.any(axis=1), wanted.sum(axis=1)
    share = tuples / table.sampled

    def common(weights: Floats, got: Mapping[QueryId, int]) -> float:
        expected, found = share * float(weights @ times), sum(got.get(query, 0) for query in ids)
        return share * float(weights @ mine) * (found / expected if expected > 0 and got else 1.0)

    return min(tuples, common(table.tuples, measured.accepted)), common(table.matches, measured.made)


def _functions(
    measured: Measured,
    taken: Mapping[str, int],
    operators: Mapping[QueryId, OperatorId],
    regions: Mapping[OperatorId, RegionTable],
    counted: Collection[str],
) -> tuple[FunctionEpoch, ...]:
    """What was spent on each function. Its rows are the matches of the queries that call it, as the model has it."""
    spent: dict[str, float] = {}
    users: dict[str, set[QueryId]] = {}
    for one in measured.operators.values():
        for name, called in ((name, called) for name, called in one.functions.items() if name in counted):
            spent[name] = spent.get(name, 0.0) + called.seconds
            users.setdefault(name, set()).update(QueryId(query) for query in called.wanted.queries.tolist())
    found = []
    for name, seconds in sorted(spent.items()):
        rows = 0.0
        for operator in {operators[query] for query in users[name] if query in operators}:
            tuples = sum(taken.get(stream, 0) for stream in operator.split("+"))
            rows += _selected(regions.get(operator), users[name], tuples, measured)[1]
        found.append(FunctionEpoch(FunctionName(name), round(rows), seconds))
    return tuple(found)


def _rows(measured: Measured) -> int:
    """The matches of all members, added up: what the model takes for the rows that are finished for them."""
    return sum(measured.made.values())
