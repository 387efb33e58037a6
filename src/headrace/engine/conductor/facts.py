"""Queries and groups as the controller sees them: pure functions of what the catalog says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.model.grouping import MAIN, auto_number
from headrace.model.predicate import Predicate, operands_of
from headrace.model.query import NO_NEEDS, Aggregation, Fallback, Join, Needs, Projection, QueryId, QueryPlan
from headrace.optimizer.grouping.costs import Coefficients
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.values import (
    FunctionName,
    Grouping,
    GroupName,
    OperatorId,
    QueryFacts,
    SharingGroup,
)


@dataclass(frozen=True, slots=True)
class LiveQuery:
    """A query that runs. `group` is where it lives, or where it goes if it is `moving`. `home` is where it lives.

    A query that catches up with the streams, or that plain Spark runs, is `apart`: nobody decides about it.
    """

    id: QueryId
    name: str
    plan: QueryPlan
    group: str
    needs: Needs = NO_NEEDS
    moving: bool = False
    apart: bool = False
    living_in: str | None = None

    @property
    def home(self) -> str:
        return self.group if self.living_in is None else self.living_in


def operator_of(plan: QueryPlan) -> OperatorId | None:
    """What a query may share: the reading and filtering of its streams. Plain Spark shares nothing.

    Operators of a plan are finer than that: one for each key, say. But all of them read their stream once per group,
    and that is what a group of its own costs again.
    """
    if isinstance(plan.body, Fallback):
        return None
    return OperatorId("+".join(sorted(set(plan.streams))))


def streams_of(operator: OperatorId) -> tuple[str, ...]:
    """The streams of an operator."""
    return tuple(operator.split("+"))


def predicates_on(plan: QueryPlan, stream: str) -> tuple[Predicate, ...] | None:
    """A query takes a tuple of a stream if any of these accepts it; None if only Spark can tell.

    A stream that the query does not read may lack the columns of its predicates, or have others of their names.
    """
    if stream not in plan.streams:
        return ()
    match plan.body:
        case Join() as body:
            found = tuple(side.where for side in body.sides if side.stream == stream)
        case Aggregation() | Projection() as body:
            found = (body.where,)
        case _:
            return None
    plain = all(operand.plain for predicate in found for operand in operands_of(predicate))
    return found if plain else None


def functions_of(
    queries: Iterable[LiveQuery],
    measured: Mapping[QueryId, FunctionName],
    running: Container[QueryId],
    costs: Coefficients,
) -> dict[QueryId, FunctionName]:
    """The function that each query calls; the dearest one, if it calls several.

    Of queries that are `running` it is what was `measured`: a function in a place where Spark calls it is a part of
    other work. Of the others it is what their text says.
    """
    found = {}
    for query in queries:
        name = measured.get(query.id)
        if name is None and query.id not in running:
            name = costs.dearest(map(FunctionName, query.plan.functions))
        if name is not None:
            found[query.id] = name
    return found


Parts = tuple[OperatorId, ...]


def usual_parts(queries: Iterable[tuple[OperatorId | None, Parts]]) -> dict[OperatorId | None, Parts]:
    """The parts that most queries of an operator have."""
    counts: dict[OperatorId | None, Counter[Parts]] = defaultdict(Counter)
    for operator, parts in queries:
        counts[operator][parts] += 1
    return {operator: max(sorted(found), key=found.__getitem__) for operator, found in counts.items()}


def facts_of(
    queries: Iterable[LiveQuery],
    cores: int,
    functions: Mapping[QueryId, FunctionName],
    parts: Mapping[QueryId, Parts],
    usual: Mapping[OperatorId | None, Parts],
) -> dict[QueryId, QueryFacts]:
    """What the controller knows of each query. Alone it would have all cores, as every group has by default.

    A query that has not run yet is taken to have the parts that are `usual` among those of its streams.
    """
    return {
        query.id: QueryFacts(
            query.id,
            operator := operator_of(query.plan),
            cores,
            functions.get(query.id),
            needs=query.needs,
            parts=parts.get(query.id, usual.get(operator, ())),
        )
        for query in queries
    }


def grouping_of(
    queries: Iterable[LiveQuery], tasks: Mapping[str, int], cores: int, next_number: int
) -> Grouping:
    """Who shares with whom. Groups that people named, and those that queries are moving to, are left alone.

    Queries that are apart are in none of them.
    """
    members: dict[str, list[QueryId]] = defaultdict(list)
    waiting: set[str] = set()
    for query in queries:
        if not query.apart:
            members[query.group].append(query.id)
            waiting.update([query.group] if query.moving else [])
    return Grouping(
        tuple(
            SharingGroup(
                GroupName(name),
                tuple(sorted(found)),
                max(1, tasks.get(name, cores)),
                apart=name in waiting or not made_by_us(name),
            )
            for name, found in sorted(members.items())
        ),
        next_number,
    )


def made_by_us(name: str) -> bool:
    """Whether the controller decides about a group: the main one, and those that it has made."""
    return name == MAIN or auto_number(name) is not None


def only_measured(situation: Situation) -> Situation:
    """The same, with groups left alone of which nothing is measured yet: nobody knows how far they are behind.

    A group that was just split off is such a group. To merge it again at once would be the end of what it left for.
    """
    grouping = situation.grouping
    groups = tuple(
        replace(group, apart=group.apart or group.name not in situation.health) for group in grouping.groups
    )
    return replace(situation, grouping=replace(grouping, groups=groups))
