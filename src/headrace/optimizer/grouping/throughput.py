"""The throughput estimator: what each query would reach alone, and who is slower than that in its group.

Alone, a query has tasks of its own. In the paper there is a machine for all of these. Where cores are counted, isolated
queries would have to share them: each gets what it needs up to the same part, which is as large as the cores allow
(max-min fairness). So a light query keeps up, isolated or not, and a dear one has what the others leave.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.model.query import QueryId
from headrace.optimizer.grouping.costs import QueryLoad, estimate_query_load
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.values import QueryFacts, SharingGroup


def isolated_load(situation: Situation, query: QueryId) -> QueryLoad | None:
    """The load of a query that runs alone; None when no sample tells of it."""
    facts = situation.queries[query]
    sample = situation.statistics.samples.get(query)
    if facts.operator is None or sample is None or facts.operator not in situation.statistics.rates:
        return None
    return estimate_query_load(facts, sample, situation.statistics.rates[facts.operator], situation.costs)


def fair_part(needs: Iterable[float], room: float) -> float:
    """The most that anybody gets if all get what they need up to this, and no more than `room` together.

    >>> fair_part([0.1, 0.5, 2.0], 1.0), fair_part([0.1, 0.5], 1.0)
    (0.45, inf)
    """
    left = sorted(needs, reverse=True)
    while left and left[-1] * len(left) <= room:
        room -= left.pop()
    return room / len(left) if left else float("inf")


def fair_tasks(situation: Situation) -> float:
    """The useful work per second that each query could have at most if all ran alone at once; linear in queries."""
    if situation.settings.cores is None:
        return float("inf")
    loads = (isolated_load(situation, query) for query in situation.queries)
    room = situation.settings.scaling.useful(situation.settings.cores)
    return fair_part((load.total for load in loads if load is not None), room)


def isolated_capacity(situation: Situation, query: QueryId, fair: float = float("inf")) -> float:
    """How many times its input a query could process alone: the cost model inverted. `fair` is what `fair_tasks` gave.

    A query that no sample tells of is taken to keep up, which is the cautious guess: it will not be slowed.
    """
    load = isolated_load(situation, query)
    if load is None or load.total <= 0:
        return 2.0
    facts = situation.queries[query]
    useful = situation.settings.scaling.useful(facts.tasks)
    if load.total > fair:
        useful = min(useful, fair)
    return min(useful / load.total, _widest(facts, load))


def isolated_share(situation: Situation, query: QueryId, fair: float = float("inf")) -> float:
    """The part of the input that a query would process alone, at most 1."""
    return min(1.0, isolated_capacity(situation, query, fair))


def _widest(facts: QueryFacts, load: QueryLoad) -> float:
    return facts.width / load.function if facts.width is not None and load.function > 0 else float("inf")


def penalised_queries(
    situation: Situation, group: SharingGroup, fair: float = float("inf")
) -> tuple[QueryId, ...]:
    """The members that would be faster alone, by more than the tolerance.

    Who would keep up alone with something to spare is penalised by any lag that grows: it would grow for ever.
    """
    health = situation.health.get(group.name)
    if health is None or len(group.members) == 1 or not health.lags:
        return ()
    bound = health.share / (1 - situation.settings.tolerance)
    return tuple(query for query in group.members if isolated_capacity(situation, query, fair) > bound)


@dataclass(frozen=True, slots=True)
class Violation:
    """A query that does not get what was asked for: `what` says so with figures, and `kind` without."""

    query: QueryId
    what: str
    kind: str


def violations(situation: Situation) -> Iterable[Violation]:
    """Who is slower than alone, or than its input where there are too few cores for all."""
    fair = fair_tasks(situation)
    for group in situation.grouping.groups:
        health = situation.health.get(group.name)
        if health is None:
            continue
        penalised = set(penalised_queries(situation, group, fair))
        for query in group.members:
            if query in penalised:
                alone = isolated_share(situation, query, fair)
                yield Violation(
                    query,
                    f"processes {health.share:.0%} of its input, and would process {alone:.0%} alone",
                    "isolation",
                )
            elif health.lags and fair < float("inf"):
                yield Violation(
                    query,
                    f"processes {health.share:.0%} of its input: all cores are too few for all queries, alone or not",
                    "cores",
                )
