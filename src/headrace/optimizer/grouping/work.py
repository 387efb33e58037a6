"""The load estimator: the load of any set of queries as one group, whether they share a plan today or not.

Load is counted in CPU seconds per second of input: the tasks that keep up with the input if nothing is lost. All work
consists of items. An item is done once per group if any member needs it: scanning an operator's input, or joining the
tuples of one filter region, or calling a function for one region's rows. So the load of a union of groups is the
weight of the items that any of them needs (section IV-D a, Fig. 4). What a query does for itself alone is added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headrace.model.query import QueryId
from headrace.optimizer.grouping.costs import Coefficients, OperatorCost
from headrace.optimizer.grouping.regions import rows_alike
from headrace.optimizer.grouping.statistics import Bits, Floats, RegionTable, Statistics
from headrace.optimizer.grouping.values import FunctionName, OperatorId, QueryFacts


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A function that keeps `width` tasks busy at most, and the items that are calls of it.

    `sampled` are the tuples of the sample that each of these items was told by.
    """

    function: FunctionName
    width: int
    items: slice
    sampled: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """All work of some queries. `needs[i, q]` says that query q needs item i of weight `weights[i]`.

    `sampled[i]` are the tuples of the sample that tell of the region of item i. It is zero for items that are not the
    joining of a region's tuples, so that adding up gives the tuples that a group selects.
    `own[q]` is what query q does for itself alone. `known[q]` says whether there is a sample that tells of query q.
    `operators[o, q]` says whether query q uses operator o.
    """

    queries: tuple[QueryId, ...]
    needs: Bits
    weights: Floats
    sampled: Floats
    own: Floats
    known: Bits
    operators: Bits
    bottlenecks: tuple[Bottleneck, ...]

    def load(self, members: Iterable[QueryId]) -> float:
        """The load of these queries as one group. Costs time linear in items and members."""
        columns = self.columns(members)
        needed = self.needs[:, columns].any(axis=1)
        return float(self.weights @ needed + self.own[columns].sum())

    def columns(self, members: Iterable[QueryId]) -> list[int]:
        place = {query: i for i, query in enumerate(self.queries)}
        return [place[query] for query in members]

    def of_groups(self, groups: Sequence[Sequence[QueryId]]) -> Work:
        """The same with groups as columns: column g needs what any member of group g needs. Groups have members."""
        place = {query: i for i, query in enumerate(self.queries)}
        order = np.array([place[query] for group in groups for query in group], dtype=np.intp)
        if len(order) == len(groups):
            return self._reordered(order)
        starts = np.cumsum([0, *(len(group) for group in groups)])[:-1]
        return Work(
            tuple(group[0] for group in groups),
            np.logical_or.reduceat(self.needs[:, order], starts, axis=1),
            self.weights,
            self.sampled,
            np.add.reduceat(self.own[order], starts),
            np.logical_and.reduceat(self.known[order], starts),
            np.logical_or.reduceat(self.operators[:, order], starts, axis=1),
            self.bottlenecks,
        )

    def _reordered(self, order: npt.NDArray[np.intp]) -> Work:
        return replace(
            self,
            queries=tuple(self.queries[i] for i in order),
            needs=self.needs[:, order],
            own=self.own[order],
            known=self.known[order],
            operators=self.operators[:, order],
        )


def estimate_work(queries: Mapping[QueryId, QueryFacts], statistics: Statistics, costs: Coefficients) -> Work:
    """All work of these queries, from the newest samples.

    Nothing is known of a query that no sample tells of, nor of one whose operator has never been measured: a guessed
    cost is no prediction. Such a query has no items.
    """
    builder = _Builder(tuple(sorted(queries)), queries, statistics, costs)
    operators = sorted({facts.operator for facts in queries.values() if facts.operator is not None})
    for operator in operators:
        builder.add_operator(operator)
    return builder.build(operators)


class _Builder:
    def __init__(
        self,
        order: tuple[QueryId, ...],
        queries: Mapping[QueryId, QueryFacts],
        statistics: Statistics,
        costs: Coefficients,
    ) -> None:
        self.order, self.queries, self.statistics, self.costs = order, queries, statistics, costs
        self.place = {query: i for i, query in enumerate(order)}
        self.needs: list[Bits] = []
        self.weights: list[Floats] = []
        self.sampled: list[Floats] = []
        self.bottlenecks: list[Bottleneck] = []
        self.items = 0
        self.own = np.zeros(len(order))
        self.known = np.zeros(len(order), dtype=bool)

    def add_operator(self, operator: OperatorId) -> None:
        table = self.statistics.regions.get(operator)
        rate = self.statistics.rates.get(operator)
        if table is None or rate is None or not table.sampled or operator not in self.costs.operators:
            return
        columns = [
            i
            for i, q in enumerate(table.queries)
            if q in self.queries and self.queries[q].operator == operator
        ]
        places = np.array([self.place[table.queries[i]] for i in columns], dtype=np.intp)
        wanted = np.zeros((len(table.tuples), len(self.order)), dtype=bool)
        wanted[:, places] = table.wanted[:, columns]
        self.known[places] = True
        per_sampled = rate / table.sampled
        self._add_shared(self.costs.operator(operator), wanted, places, table, rate)
        parts: dict[OperatorId, list[int]] = {}
        for place in places.tolist():
            for part in self.queries[self.order[place]].parts:
                parts.setdefault(part, []).append(place)
        for part, users in sorted(parts.items()):
            if part in self.costs.operators:
                mine = np.array(users, dtype=np.intp)
                self._add_shared(self.costs.operators[part], wanted, mine, table, rate)
        self.own += per_sampled * self.costs.finish * (table.matches @ wanted)
        self._add_functions(wanted, table, per_sampled)

    def _add_shared(
        self,
        cost: OperatorCost,
        wanted: Bits,
        users: npt.NDArray[np.intp],
        table: RegionTable,
        rate: float,
    ) -> None:
        """What is done once for all users of an operator or part: with every tuple, and with those that they want."""
        scan = np.zeros((1, len(self.order)), dtype=bool)
        scan[0, users] = True
        self._add(scan, np.array([rate * cost.alpha + cost.fixed]))
        if cost.beta or cost.gamma:
            weights = rate / table.sampled * (cost.beta * table.tuples + cost.gamma * table.matches)
            theirs, weights, sampled = _merged(wanted[:, users], weights, table.tuples)
            needs = np.zeros((len(theirs), len(self.order)), dtype=bool)
            needs[:, users] = theirs
            self._add(needs, weights, sampled)

    def _add_functions(self, wanted: Bits, table: RegionTable, per_sampled: float) -> None:
        users: dict[FunctionName, list[int]] = {}
        width: dict[FunctionName, int] = {}
        for i in np.flatnonzero(wanted.any(axis=0)).tolist():
            facts = self.queries[self.order[i]]
            if facts.function is not None:
                users.setdefault(facts.function, []).append(i)
                if facts.width is not None:
                    width[facts.function] = min(facts.width, width.get(facts.function, facts.width))
        for function, columns in sorted(users.items()):
            needs = np.zeros_like(wanted)
            needs[:, columns] = wanted[:, columns]
            first = self.items
            used = self._add(needs, per_sampled * self.costs.function(function) * table.matches)
            if function in width:
                items = slice(first, self.items)
                self.bottlenecks.append(Bottleneck(function, width[function], items, table.tuples[used]))

    def _add(self, needs: Bits, weights: Floats, sampled: Floats | None = None) -> Bits:
        used: Bits = (weights > 0) & needs.any(axis=1)
        self.needs.append(needs[used])
        self.weights.append(weights[used])
        self.sampled.append(np.zeros(int(used.sum())) if sampled is None else sampled[used])
        self.items += int(used.sum())
        return used

    def build(self, operators: Sequence[OperatorId]) -> Work:
        uses = np.zeros((len(operators), len(self.order)), dtype=bool)
        for i, query in enumerate(self.order):
            operator = self.queries[query].operator
            if operator is not None:
                uses[operators.index(operator), i] = True
        self._add(self.known[None, :], np.array([self.costs.finish_fixed]))
        empty = np.zeros((0, len(self.order)), dtype=bool)
        return Work(
            self.order,
            np.concatenate([empty, *self.needs]),
            np.concatenate([np.zeros(0), *self.weights]),
            np.concatenate([np.zeros(0), *self.sampled]),
            self.own,
            self.known,
            uses,
            tuple(self.bottlenecks),
        )


def _merged(wanted: Bits, weights: Floats, sampled: Floats) -> tuple[Bits, Floats, Floats]:
    """The same items, where those that the same queries want are one. Most regions of others are nobody's.

    >>> found = _merged(np.array([[1, 0], [0, 0], [1, 0]], dtype=bool), np.array([1.0, 9.0, 2.0]), np.ones(3))
    >>> [array.tolist() for array in found]
    [[[True, False]], [3.0], [2.0]]
    """
    some = wanted.any(axis=1)
    if some.all():
        return wanted, weights, sampled
    if not some.any():
        return wanted[some], weights[some], sampled[some]
    first, region = rows_alike(wanted[some])
    return (
        wanted[some][first],
        np.bincount(region, weights[some], len(first)).astype(np.float64),
        np.bincount(region, sampled[some], len(first)).astype(np.float64),
    )
