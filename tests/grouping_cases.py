"""Situations for the tests of sharing groups: random filter regions, exact costs, and loads counted the slow way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.model.query import QueryId
from headrace.optimizer.grouping.costs import Coefficients, OperatorCost
from headrace.optimizer.grouping.monitor import GroupHealth
from headrace.optimizer.grouping.provisioning import tasks_for
from headrace.optimizer.grouping.regions import query_samples, summarise_counts
from headrace.optimizer.grouping.settings import Scaling, Settings
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import RegionTable, Statistics
from headrace.optimizer.grouping.values import (
    FunctionName,
    Grouping,
    GroupName,
    OperatorId,
    QueryFacts,
    SharingGroup,
)

JOIN = OperatorId("join")
RATE = 100_000.0
COST = OperatorCost(1e-5, 5e-5, 2e-5)
LINEAR = Settings(headroom=0.0, tolerance=0.0, scaling=Scaling(overhead_s=0.0, serial=0.0))


@dataclass(frozen=True)
class Case:
    """Queries with random filters over random regions. Everything the model says of them is exact.

    A tuple costs `factor` times what it did when the queries were given their tasks.
    """

    situation: Situation
    table: RegionTable
    factor: float = 1.0

    def load(self, members: Iterable[int]) -> float:
        """CPU seconds per second of input of these queries as one group, region by region."""
        wanted = [self.table.queries.index(QueryId(query)) for query in members]
        seconds = COST.alpha * self.table.sampled
        for r in range(len(self.table.tuples)):
            if self.table.wanted[r, wanted].any():
                seconds += COST.beta * self.table.tuples[r] + COST.gamma * self.table.matches[r]
        return self.factor * seconds * RATE / self.table.sampled

    def dearer(self, factor: float) -> Case:
        """The same queries and tasks, when every tuple costs so many times as much."""
        cost = OperatorCost(COST.alpha * factor, COST.beta * factor, COST.gamma * factor)
        costs = replace(self.situation.costs, operators={JOIN: cost})
        return replace(self, situation=replace(self.situation, costs=costs), factor=factor)

    def with_groups(self, groups: Sequence[tuple[Sequence[int], int]], pressed: Iterable[int] = ()) -> Case:
        """The same with these groups (members, tasks), each measured as the model says. Some are pressed."""
        made = tuple(
            SharingGroup(GroupName(f"g{i}"), tuple(QueryId(q) for q in sorted(members)), tasks)
            for i, (members, tasks) in enumerate(groups)
        )
        slow = set(pressed)
        health = {
            group.name: health_of(
                self.load(group.members), group.tasks, self.situation.settings, slow=i in slow
            )
            for i, group in enumerate(made)
        }
        grouping = Grouping(made, len(made))
        return replace(self, situation=replace(self.situation, grouping=grouping, health=health))


def health_of(
    load: float, tasks: float, settings: Settings = LINEAR, *, slow: bool = False, function: float = 0.0
) -> GroupHealth:
    """A group of this shared load. A slow one is held at half of its input by what comes after."""
    spread = 1 + settings.scaling.serial * (tasks - 1)
    share = 0.5 if slow else min(1.0, settings.scaling.useful(tasks) / (load + function))
    after = 0.5 * max(tasks - share * load, 0.1) if slow else function * share
    return GroupHealth(
        rate=RATE,
        throughput=RATE * share,
        lag=0.0,
        lag_growth=RATE * (1 - share),
        busy=min(tasks, (share * load + after) * spread),
        shared=share * load * spread,
        functions={FunctionName("slow"): after} if after else {},
    )


def random_case(
    seed: int, queries: int, settings: Settings = LINEAR, regions: int = 12, tasks: int | None = None
) -> Case:
    """Each query wants some random regions. It has tasks that keep up when it is alone, or `tasks`."""
    rng = np.random.default_rng(seed)
    wanted = rng.random((regions, queries)) < rng.uniform(0.1, 0.6)
    wanted[rng.integers(0, regions, queries), np.arange(queries)] = True
    tuples = rng.uniform(1, 100, regions)
    ids = tuple(QueryId(i) for i in range(queries))
    matches = tuples * rng.uniform(0, 20, regions)
    table = summarise_counts(JOIN, ids, wanted, tuples, matches, float(tuples.sum() * 1.2))
    statistics = Statistics({JOIN: RATE}, {JOIN: table}, query_samples(table))
    costs = Coefficients({JOIN: COST}, finish=0.0)
    bare = Case(Situation(Grouping(), {}, statistics, {}, costs, settings), table)
    facts = {
        q: QueryFacts(
            q, JOIN, tasks or tasks_for(bare.load([q]) * (1 + rng.random() ** 3), 500, settings, 0.0)
        )
        for q in ids
    }
    case = replace(bare, situation=replace(bare.situation, queries=facts))
    return case.with_groups([([q], facts[q].tasks) for q in ids])
