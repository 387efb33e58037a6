"""Where a new query starts when groups keep functional isolation, without looking at all pairs of groups.

The load of a union is at most the sum of both loads. So a query whose load fits into the idle tasks of a group slows
nobody there. Only where that bound does not tell, all pairs are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.model.grouping import MAIN
from headrace.model.query import QueryId
from headrace.optimizer.grouping.provisioning import usable_tasks
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.throughput import isolated_load
from headrace.optimizer.grouping.values import SharingGroup
from headrace.optimizer.grouping.wording import count_queries

IDLE = 0.5
"""A query of which nothing is known starts in the main group as long as this share of its tasks is idle."""


@dataclass(frozen=True, slots=True)
class Room:
    """A group that queries fit into, the work per second that they bring at most, and why they fit."""

    group: str
    load: float
    reason: str


def find_room(
    situation: Situation, newcomers: Sequence[QueryId], promised: Mapping[str, float]
) -> Room | None:
    """The group that can take all these queries without slowing anybody, as far as the sum of loads tells; or None.

    A group with which they share an operator is asked first, then the main one. `promised` is the work that others
    will bring which were let in a moment ago.
    """
    loads = [_load(situation, query) for query in newcomers]
    known = [load for load in loads if load is not None]
    brought = sum(known)
    groups = [group for group in situation.grouping.groups if not group.apart]
    for group in sorted(groups, key=lambda group: _order(situation, group, newcomers)):
        left = idle_tasks(situation, group) - promised.get(group.name, 0.0)
        if len(known) == len(loads) and left >= brought:
            reason = (
                f"joined {count_queries(len(group.members))}: adds at most {brought:.2f} busy tasks, "
                f"and {left:.2f} are free"
            )
            return Room(group.name, brought, reason)
        if len(known) < len(loads) and group.name == MAIN and _rests(situation, group):
            reason = "no sample tells what it costs, and most tasks of the main group are idle"
            return Room(MAIN, brought, reason)
    return None


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


def _load(situation: Situation, query: QueryId) -> float | None:
    """The load of a query alone; None when no sample tells, or its operator has never been measured."""
    operator = situation.queries[query].operator
    if operator is None or operator not in situation.costs.operators:
        return None
    load = isolated_load(situation, query)
    return None if load is None else load.total
