"""Who collects the statistics that a merge step needs: one group per operator, for a bounded number of tuples.

A group sees the tuples that its own members want. To know what a union with other groups would cost, one group looks
at the tuples of all queries of the operator for a while. Its own rows stay the same, because a tuple reaches only the
queries in its query-set (section IV-D a).
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.query import QueryId
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.values import GroupName, OperatorId, SharingGroup

TUPLES_PER_TASK = 1_000


@dataclass(frozen=True, slots=True)
class Collection:
    """What a group is asked to collect: the regions of these queries, from so many tuples."""

    operator: OperatorId
    group: GroupName
    queries: tuple[QueryId, ...]
    tuples: int


def choose_collectors(situation: Situation) -> tuple[Collection, ...]:
    """For every operator of more than one group, the group that selects most of the tuples already.

    It has the least to do in addition. Operators of one group need no collection: that group sees everything.
    """
    users: dict[OperatorId, list[SharingGroup]] = {}
    wanted: dict[OperatorId, list[QueryId]] = {}
    for group in situation.grouping.groups:
        for query in group.members:
            operator = situation.queries[query].operator
            if operator is not None:
                wanted.setdefault(operator, []).append(query)
                if group not in users.setdefault(operator, [])[-1:]:
                    users[operator].append(group)
    found = []
    for operator, groups in sorted(users.items()):
        if len(groups) > 1:
            best = max(groups, key=lambda group: (_selects(situation, group, operator), group.name))
            queries = tuple(sorted(wanted[operator]))
            found.append(Collection(operator, best.name, queries, TUPLES_PER_TASK * best.tasks))
    return tuple(found)


def _selects(situation: Situation, group: SharingGroup, operator: OperatorId) -> float:
    """The share of an operator's tuples that a group selects, at most: its members' shares added up."""
    samples = situation.statistics.samples
    return sum(
        samples[query].selectivity
        for query in group.members
        if query in samples and situation.queries[query].operator == operator
    )
