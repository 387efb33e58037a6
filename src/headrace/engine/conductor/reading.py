"""What an epoch of a group did, as the cost model reads it: the reading of streams, parts of plans, and functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.engine.conductor.measured import Measured
from headrace.model.query import QueryId
from headrace.optimizer.grouping.statistics import (
    Floats,
    FunctionEpoch,
    GroupEpoch,
    OperatorEpoch,
    RegionTable,
)
from headrace.optimizer.grouping.values import FunctionName, GroupName, OperatorId


def part_of(plan_operator: str) -> OperatorId:
    """The controller's name for an operator of plans: its kind, stream and keys, whichever group it is in.

    Queries with other aggregates or windows over the same keys have it, too, and their costs are not told apart.
    """
    return OperatorId(f"part {plan_operator}")


def parts_of(measured: Measured) -> dict[QueryId, tuple[OperatorId, ...]]:
    """The parts that each member has had in the plan of an epoch."""
    found: dict[QueryId, list[OperatorId]] = {}
    for plan_operator, users in sorted(measured.users.items()):
        for query in users:
            found.setdefault(query, []).append(part_of(plan_operator))
    return {query: tuple(parts) for query, parts in found.items()}


@dataclass(frozen=True, slots=True)
class _Common:
    """What a sample says of some queries: who they are, and of each region whether any wants it, and how many do."""

    queries: tuple[QueryId, ...]
    wanted: Floats
    times: Floats


class EpochReader:
    """Reads epochs for one look. `operators` are those of the queries that live, with the `regions` of each by now.

    Functions that are `counted` stand by themselves; others are a part of the work in which they are called.
    """

    def __init__(
        self,
        operators: Mapping[QueryId, OperatorId],
        regions: Mapping[OperatorId, RegionTable],
        counted: Collection[str],
    ) -> None:
        self.operators, self._regions, self._counted = operators, regions, counted
        self._common: dict[tuple[OperatorId, frozenset[QueryId]], _Common] = {}
        self._columns: dict[OperatorId, dict[QueryId, int]] = {}

    def read(self, before: Measured, after: Measured) -> GroupEpoch:
        """An epoch, with what came in since the one before."""
        mine = sorted({self.operators[query] for query in after.members if query in self.operators})
        streams = sorted({stream for operator in mine for stream in operator.split("+")})
        taken = {stream: since(after.processed, before.processed, stream) for stream in streams}
        elapsed = max(1e-6, after.at - before.at)
        spent = after.metrics
        return GroupEpoch(
            GroupName(after.group),
            after.epoch,
            after.tasks,
            elapsed,
            sum(since(after.arrived, before.arrived, stream) for stream in streams),
            sum(taken.values()),
            sum(max(0, after.arrived.get(s, 0) - after.processed.get(s, 0)) for s in streams),
            max(0.0, after.tasks * elapsed - spent.cpu_seconds),
            (*_reading(mine, after, taken), *self._parts(after, taken)),
            sum(after.made.values()),  # what the model takes for the rows that are finished for all members
            spent.finish_cpu,
            self._functions(after, taken),
        )

    def _parts(self, measured: Measured, taken: Mapping[str, int]) -> Iterator[OperatorEpoch]:
        """What the operators of the plan did. The CPU of reduce tasks is divided as their own clocks are."""
        clocks = sum(one.reduce_seconds for one in measured.operators.values())
        scale = measured.metrics.reduce_cpu / clocks if clocks > 0 else 0.0
        for plan_operator, spent in sorted(measured.operators.items()):
            users = [query for query in measured.users.get(plan_operator, ()) if query in self.operators]
            if not users:
                continue
            operator = self.operators[users[0]]
            tuples = sum(taken[stream] for stream in operator.split("+"))
            selected, matches = self._selected(operator, frozenset(users), tuples, measured)
            # functions are called in the same tasks. The dearest one of a query is counted by itself
            called = sum(one.seconds for name, one in spent.functions.items() if name in self._counted)
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

    def _functions(self, measured: Measured, taken: Mapping[str, int]) -> tuple[FunctionEpoch, ...]:
        """What was spent on each function. Its rows are the matches of the queries that call it."""
        spent: dict[str, float] = {}
        users: dict[str, set[QueryId]] = {}
        for one in measured.operators.values():
            for name, called in one.functions.items():
                if name in self._counted:
                    spent[name] = spent.get(name, 0.0) + called.seconds
                    users.setdefault(name, set()).update(map(QueryId, called.wanted.queries.tolist()))
        found = []
        for name, seconds in sorted(spent.items()):
            rows = 0.0
            for operator in {self.operators[query] for query in users[name] if query in self.operators}:
                tuples = sum(taken.get(stream, 0) for stream in operator.split("+"))
                rows += self._selected(operator, frozenset(users[name]), tuples, measured)[1]
            found.append(FunctionEpoch(FunctionName(name), round(rows), seconds))
        return tuple(found)

    def _selected(
        self, operator: OperatorId, queries: frozenset[QueryId], tuples: float, measured: Measured
    ) -> tuple[float, float]:
        """(tuples that any of these queries wants, their matches), of so many tuples of an operator.

        A sample tells how much of what queries want they have in common, and the epoch how much each of them got. A
        busy key comes and goes, so an epoch may have several times as many matches as the one before.
        """
        table = self._regions.get(operator)
        if table is None or not table.sampled:
            return 0.0, 0.0
        common, share = self._in_common(table, queries), tuples / table.sampled

        def of(weights: Floats, got: Mapping[QueryId, int]) -> float:
            expected = share * float(weights @ common.times)
            found = sum(got.get(query, 0) for query in common.queries)
            return (
                share * float(weights @ common.wanted) * (found / expected if expected > 0 and got else 1.0)
            )

        return min(tuples, of(table.tuples, measured.accepted)), of(table.matches, measured.made)

    def _in_common(self, table: RegionTable, queries: frozenset[QueryId]) -> _Common:
        """The same for all epochs that a look reads, and for most of its groups."""
        key = table.operator, queries
        if key not in self._common:
            if table.operator not in self._columns:
                self._columns[table.operator] = {query: i for i, query in enumerate(table.queries)}
            place = self._columns[table.operator]
            columns = sorted(place[query] for query in queries if query in place)
            times = table.wanted[:, columns].sum(axis=1).astype(float)
            ids = tuple(table.queries[i] for i in columns)
            self._common[key] = _Common(ids, (times > 0).astype(float), times)
        return self._common[key]


def since(after: Mapping[str, int], before: Mapping[str, int], stream: str) -> int:
    """How many tuples of a stream are in one count and not in the other."""
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
