"""Where a new query starts when groups keep functional isolation, without looking at all pairs of groups.

The load of a union is at most the sum of both loads. So a query whose load fits into the idle tasks of a group slows
nobody there. Only where that bound does not tell, all pairs are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.model.grouping import MAIN
from headrace.model.query import QueryId
from headrace.optimizer.grouping.costs import QueryLoad
from headrace.optimizer.grouping.provisioning import usable_tasks
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.throughput import isolated_load
from headrace.optimizer.grouping.values import SharingGroup
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


def find_room(
    situation: Situation, newcomers: Sequence[QueryId], promised: Mapping[str, Brought]
) -> Room | None:
    """The group that can take all these queries without slowing anybody, as far as the sum of loads tells; or None.

    A group with which they share an operator is asked first, then the main one. `promised` is the work that others
    will bring which were let in a moment ago.
    """
    loads = {query: _load(situation, query) for query in newcomers}
    known = {query: load for query, load in loads.items() if load is not None}
    groups = [group for group in situation.grouping.groups if not group.apart]
    for group in sorted(groups, key=lambda group: _order(situation, group, newcomers)):
        brought = _brought(situation, group, known)
        both = promised.get(group.name, NOTHING) + brought
        added = min(both.shared, _most(situation, group, known)) + both.own
        left = idle_tasks(situation, group)
        if len(known) == len(loads) and left >= added:
            reason = (
                f"joined {count_queries(len(group.members))}: new queries add {added:.2f} busy tasks at most, "
                f"and {left:.2f} are free"
            )
            return Room(group.name, brought, reason)
        if len(known) < len(loads) and group.name == MAIN and _rests(situation, group):
            reason = "no sample tells what it costs, and most tasks of the main group are idle"
            return Room(MAIN, brought, reason)
    return None


def _brought(situation: Situation, group: SharingGroup, loads: Mapping[QueryId, QueryLoad]) -> Brought:
    """What queries bring to a group. It reads and filters a stream once, whoever asks."""
    read = {situation.queries[query].operator for query in group.members}
    shared = own = 0.0
    for query, load in loads.items():
        operator = situation.queries[query].operator
        assert operator is not None
        cost = situation.costs.operator(operator)
        scan = situation.statistics.rates[operator] * cost.alpha + cost.fixed
        shared += load.shared - scan - situation.costs.finish_fixed
        own += load.finishing + load.function + (0.0 if operator in read else scan)
        read.add(operator)
    return Brought(shared, own)


def _most(situation: Situation, group: SharingGroup, loads: Mapping[QueryId, QueryLoad]) -> float:
    """What newcomers can add to the shared part, however many there are: the tuples that no member selects yet."""
    most = 0.0
    for operator in {situation.queries[query].operator for query in loads}:
        table = situation.statistics.regions.get(operator) if operator is not None else None
        if operator is None or table is None or not table.sampled:
            return float("inf")
        members = set(group.members)
        columns = [i for i, query in enumerate(table.queries) if query in members]
        covered = float(table.tuples @ table.wanted[:, columns].any(axis=1)) / table.sampled
        selected = float(table.tuples.sum())
        matches = float(table.matches.sum()) / selected if selected else 1.0
        cost = situation.costs.operator(operator)
        most += situation.statistics.rates[operator] * (1 - covered) * (cost.beta + cost.gamma * matches)
    return most


def _order(
    situation: Situation, group: SharingGroup, newcomers: Sequence[QueryId]
) -> tuple[bool, bool, int, str]:
    wanted = {situation.queries[query].operator for query in newcomers}
    shares = any(situation.queries[query].operator in wanted for query in group.members)
    return not shares, group.name != MAIN, -len(group.members), group.name


def idle_tasks(situation: Situation, group: SharingGroup) -> float:
    """The work per second that a group can still do, with headroom to spare; none if it falls behind."""
    health = situation.health.get(group.name)
    if health is None or health.lags:
        return 0.0
    return max(0.0, float(usable_tasks(group.tasks, situation.settings)) - health.busy)


def _rests(situation: Situation, group: SharingGroup) -> bool:
    health = situation.health.get(group.name)
    return health is None or (not health.lags and health.busy <= (1 - IDLE) * group.tasks)


def _load(situation: Situation, query: QueryId) -> QueryLoad | None:
    """The load of a query alone; None when no sample tells, or its operator has never been measured."""
    operator = situation.queries[query].operator
    if operator is None or operator not in situation.costs.operators:
        return None
    return isolated_load(situation, query)
