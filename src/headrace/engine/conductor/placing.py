"""Where a new query starts when groups keep functional isolation, without looking at all pairs of groups.

The load of a union is at most the sum of both loads. So a query whose load fits into the idle tasks of a group slows
nobody there. Only where that bound does not tell, all pairs are looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.engine.conductor.facts import Parts, usual_parts
from headrace.model.grouping import MAIN
from headrace.model.query import QueryId
from headrace.optimizer.grouping.costs import Coefficients, QueryLoad
from headrace.optimizer.grouping.provisioning import usable_tasks
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import QuerySample
from headrace.optimizer.grouping.throughput import isolated_load
from headrace.optimizer.grouping.values import OperatorId, QueryFacts, SharingGroup
from headrace.optimizer.grouping.wording import count_queries

IDLE = 0.5
"""A query of which nothing is known starts in the main group as long as this share of its tasks is idle."""


@dataclass(frozen=True, slots=True)
class Brought:
    """The work per second that queries bring to a group at most: in the part that they share with it, and besides."""

    shared: float = 0.0
    own: float = 0.0

    def __add__(self, other: Brought) -> Brought:
        return Brought(self.shared + other.shared, self.own + other.own)


NOTHING = Brought()


@dataclass(frozen=True, slots=True)
class Room:
    """A group that queries fit into, what they bring to it at most, and why they fit."""

    group: str
    brought: Brought
    reason: str


class Rooms:
    """The groups of a situation as newcomers see them, and what those bring that were let in since then.

    What does not depend on the newcomers is worked out once, however many members there are. Not thread-safe.
    """

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self._groups = [group for group in situation.grouping.groups if not group.apart]
        self._read = {
            group.name: frozenset(situation.queries[query].operator for query in group.members)
            for group in self._groups
        }
        self._parts = {
            group.name: {part for query in group.members for part in situation.queries[query].parts}
            for group in self._groups
        }
        self._uncovered: dict[tuple[str, OperatorId | None, OperatorId | None], float] = {}
        self._promised: dict[str, Brought] = {}

    @cached_property
    def usual_matches(self) -> Mapping[OperatorId | None, float]:
        """How many matches a tuple has with a query, on average over the queries of an operator that select any."""
        seen: dict[OperatorId | None, list[float]] = defaultdict(list)
        for query, sample in self.situation.statistics.samples.items():
            if sample.selectivity > 0 and query in self.situation.queries:
                seen[self.situation.queries[query].operator].append(sample.matches)
        return {operator: sum(found) / len(found) for operator, found in seen.items()}

    @cached_property
    def newest(self) -> QueryId:
        """The newest query that was there."""
        return max(self.situation.queries, default=QueryId(-1))

    @cached_property
    def usual_parts(self) -> Mapping[OperatorId | None, Parts]:
        """What a query that has not run is taken to do, by its operator."""
        return usual_parts(
            (facts.operator, facts.parts) for facts in self.situation.queries.values() if facts.parts
        )

    def take(
        self,
        facts: Mapping[QueryId, QueryFacts],
        samples: Mapping[QueryId, QuerySample],
        costs: Coefficients,
    ) -> Room | None:
        """The group that can take all these queries without slowing anybody, as far as the sum of loads tells; or None.

        A group with which they share an operator is asked first, then the main one. What they bring is remembered.
        `costs` are those of the situation, and what people say of functions by now.
        """
        statistics = replace(self.situation.statistics, samples=samples)
        guests = replace(self.situation, queries=facts, statistics=statistics, costs=costs)
        loads = {query: _load(guests, query) for query in facts}
        known = {query: load for query, load in loads.items() if load is not None}
        wanted = {fact.operator for fact in facts.values()}
        for group in sorted(self._groups, key=lambda group: self._order(group, wanted)):
            brought = self._brought(group, facts, known)
            both = self._promised.get(group.name, NOTHING) + brought
            work = {(facts[query].operator, part) for query in known for part in (None, *facts[query].parts)}
            most = sum(self._most(group, operator, part) for operator, part in work)
            added, left = min(both.shared, most) + both.own, idle_tasks(self.situation, group)
            if len(known) == len(loads) and left >= added:
                self._promised[group.name] = both
                reason = (
                    f"joined {count_queries(len(group.members))}: new queries add {added:.2f} busy tasks at most, "
                    f"and {left:.2f} are free"
                )
                return Room(group.name, brought, reason)
            if len(known) < len(loads) and group.name == MAIN and _rests(self.situation, group):
                self._promised[MAIN] = both
                reason = "no sample tells what it costs, and most tasks of the main group are idle"
                return Room(MAIN, brought, reason)
        return None

    def _brought(
        self, group: SharingGroup, facts: Mapping[QueryId, QueryFacts], loads: Mapping[QueryId, QueryLoad]
    ) -> Brought:
        """What queries bring to a group. It reads a stream and runs a part once, whoever asks."""
        situation, there = self.situation, {*self._read[group.name], *self._parts[group.name]}
        shared = own = 0.0
        for query, load in loads.items():
            operator = facts[query].operator
            assert operator is not None
            shared += load.shared - situation.costs.finish_fixed
            own += load.finishing + load.function
            for name in (operator, *facts[query].parts):
                cost = situation.costs.operators.get(name)
                if cost is not None:
                    scan = situation.statistics.rates[operator] * cost.alpha + cost.fixed
                    shared -= scan
                    own += 0.0 if name in there else scan
                    there.add(name)
        return Brought(shared, own)

    def _most(self, group: SharingGroup, operator: OperatorId | None, part: OperatorId | None) -> float:
        """What newcomers can add to the shared part, or to one of their own, however many there are: the tuples that no
        member selects yet who has it, too.
        """
        key = group.name, operator, part
        if key not in self._uncovered:
            self._uncovered[key] = _uncovered(self.situation, group, operator, part)
        return self._uncovered[key]

    def _order(self, group: SharingGroup, wanted: Set[OperatorId | None]) -> tuple[bool, bool, int, str]:
        shares = not wanted.isdisjoint(self._read[group.name])
        return not shares, group.name != MAIN, -len(group.members), group.name


def _uncovered(
    situation: Situation, group: SharingGroup, operator: OperatorId | None, part: OperatorId | None
) -> float:
    table = situation.statistics.regions.get(operator) if operator is not None else None
    if operator is None or table is None or not table.sampled:
        return float("inf")
    members = {query for query in group.members if part is None or part in situation.queries[query].parts}
    columns = [i for i, query in enumerate(table.queries) if query in members]
    covered = float(table.tuples @ table.wanted[:, columns].any(axis=1)) / table.sampled
    selected = float(table.tuples.sum())
    matches = float(table.matches.sum()) / selected if selected else 1.0
    cost = situation.costs.operator(operator if part is None else part)
    return situation.statistics.rates[operator] * (1 - covered) * (cost.beta + cost.gamma * matches)


def idle_tasks(situation: Situation, group: SharingGroup) -> float:
    """The work per second that a group can still do, with headroom to spare; none if it falls behind.

    Where all groups share the cores, others have some of them.
    """
    health, settings = situation.health.get(group.name), situation.settings
    if health is None or health.lags:
        return 0.0
    idle = float(usable_tasks(group.tasks, settings)) - health.busy
    if settings.cores is not None:
        busy = sum(one.busy for one in situation.health.values())
        idle = min(idle, float(usable_tasks(settings.cores, settings)) - busy)
    return max(0.0, idle)


def _rests(situation: Situation, group: SharingGroup) -> bool:
    health = situation.health.get(group.name)
    return health is None or (not health.lags and health.busy <= (1 - IDLE) * group.tasks)


def _load(situation: Situation, query: QueryId) -> QueryLoad | None:
    """The load of a query alone; None when no sample tells, or its operator has never been measured."""
    operator = situation.queries[query].operator
    if operator is None or operator not in situation.costs.operators:
        return None
    return isolated_load(situation, query)
