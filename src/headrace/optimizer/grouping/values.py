"""What the controller decides about, and what it decides: queries, sharing groups, regroupings with reasons.

The engine reads a `Decision` and makes its `grouping` true from some epoch on. The changes say why, in words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NewType

from headrace.model.grouping import MAIN, Relocation, auto_group
from headrace.model.query import NO_NEEDS, Needs, QueryId

GroupName = NewType("GroupName", str)

OperatorId = NewType("OperatorId", str)
"""A shared operator. Queries that have one in common may share work."""

FunctionName = NewType("FunctionName", str)
"""Costly work after the shared operator, a user function say. Queries of a group that use the same one share it."""


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """A query as the controller sees it.

    Queries of one `operator` read the same streams. What they do with a tuple then is done by their `parts`: two
    queries that have a part in common do its work once. Without parts, all of it is the operator's.

    `tasks` is what it would be given if it ran alone. A query without `operator` shares nothing with anybody. `width`
    is how many tasks its function can keep busy at most (None: as many as there are).
    """

    id: QueryId
    operator: OperatorId | None
    tasks: int
    function: FunctionName | None = None
    width: int | None = None
    needs: Needs = NO_NEEDS
    parts: tuple[OperatorId, ...] = ()

    def __post_init__(self) -> None:
        if self.tasks < 1 or (self.width is not None and self.width < 1):
            raise ValueError("a query runs with one task at least")


@dataclass(frozen=True, slots=True)
class SharingGroup:
    """Queries that run as one shared plan. A group that is `apart` was made by a person and is left alone."""

    name: GroupName
    members: tuple[QueryId, ...]
    tasks: int
    apart: bool = False

    def __post_init__(self) -> None:
        if not self.members or list(self.members) != sorted(set(self.members)):
            raise ValueError("members are ascending, without repeats, and there is one at least")
        if self.tasks < 1:
            raise ValueError("a group runs with one task at least")


@dataclass(frozen=True, slots=True)
class Grouping:
    """Who shares with whom. Every query is in one group.

    New groups are named by `next_number`, so no name is used twice. Only the main group, which is always there, takes
    queries again after its last one has left.
    """

    groups: tuple[SharingGroup, ...] = ()
    next_number: int = 0

    def __post_init__(self) -> None:
        names = [group.name for group in self.groups]
        if len(set(names)) != len(names):
            raise ValueError("two groups have one name")
        members = [query for group in self.groups for query in group.members]
        if len(set(members)) != len(members):
            raise ValueError("a query is in two groups")

    @property
    def tasks(self) -> int:
        return sum(group.tasks for group in self.groups)

    def by_query(self) -> dict[QueryId, SharingGroup]:
        return {query: group for group in self.groups for query in group.members}

    def by_name(self) -> dict[GroupName, SharingGroup]:
        return {group.name: group for group in self.groups}

    def shapes(self) -> frozenset[tuple[tuple[QueryId, ...], int]]:
        """Members and tasks of every group, whatever the groups are called."""
        return frozenset((group.members, group.tasks) for group in self.groups)

    def replaced(self, gone: Iterable[GroupName], come: Iterable[SharingGroup]) -> Grouping:
        """The same with some groups instead of others."""
        left = set(gone)
        kept = (group for group in self.groups if group.name not in left)
        return replace(self, groups=tuple(sorted((*kept, *come), key=lambda group: group.name)))

    def named(self, shapes: Iterable[tuple[tuple[QueryId, ...], int]]) -> tuple[Grouping, list[SharingGroup]]:
        """New groups with names that nobody has, and the grouping that knows which names are used up."""
        taken = {group.name for group in self.groups}
        number = self.next_number
        made: list[SharingGroup] = []
        for members, tasks in shapes:
            name = MAIN
            while name in taken:
                name, number = auto_group(number), number + 1
            taken.add(GroupName(name))
            made.append(SharingGroup(GroupName(name), members, tasks))
        return replace(self, next_number=number), made


class SplitCause(Enum):
    """Why queries left their group: algorithm 2, or the rule of another policy."""

    BACK_PRESSURE = "back-pressure"
    PENALTY = "penalty"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Merged:
    """Groups, or parts of them, that become one.

    `cost` is the highest of Equation 1 on the way, `threshold` the least that it met; None where nobody asked for them.
    """

    into: GroupName
    groups: tuple[GroupName, ...]
    cost: float | None
    threshold: float | None
    saved_tasks: int
    reason: str


@dataclass(frozen=True, slots=True)
class SplitOff:
    """Queries that leave `group`, and the groups that they are in then.

    If `everybody` had to leave, one query is not among them: the last one stays where it is.
    """

    group: GroupName
    queries: tuple[QueryId, ...]
    into: tuple[GroupName, ...]
    cause: SplitCause
    reason: str
    everybody: bool = False


@dataclass(frozen=True, slots=True)
class Resized:
    """A group that gets more or fewer tasks."""

    group: GroupName
    before: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A new query and the group that it starts in."""

    query: QueryId
    group: GroupName
    reason: str


Change = Merged | SplitOff | Resized | Placed


@dataclass(frozen=True, slots=True)
class Decision:
    """The grouping to have from now on, and what is different in it. Without changes it is the old one."""

    grouping: Grouping
    changes: tuple[Change, ...] = ()


def relocations(before: Grouping, after: Grouping) -> tuple[Relocation, ...]:
    """The queries that change groups from one grouping to the other. New and dropped queries are not among them.

    >>> left = SharingGroup(GroupName("main"), (QueryId(1), QueryId(2)), 1)
    >>> right = SharingGroup(GroupName("auto-0"), (QueryId(3),), 1)
    >>> both = SharingGroup(GroupName("main"), (QueryId(1), QueryId(2), QueryId(3)), 2)
    >>> [(move.query, move.source, move.target) for move in relocations(Grouping((left, right)), Grouping((both,)))]
    [(3, 'auto-0', 'main')]
    """
    old = before.by_query()
    return tuple(
        Relocation(query, old[query].name, group.name)
        for query, group in sorted(after.by_query().items())
        if query in old and old[query].name != group.name
    )
