"""Grouping: which query lives in which sharing group, from which epoch on, and with what the group runs.

Where queries live is an append-only list of regroupings. Each takes effect with an epoch that none of its groups has
run yet. A replay reads the same list, so an epoch always has the same members.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from headrace.model import codec
from headrace.model.partitioning import Partitioning, even_partitioning
from headrace.model.query import QueryId
from headrace.model.state import SegmentFile
from headrace.model.strategy import DEFAULTS, Strategies

MAIN = "main"
"""The group that queries join when nobody says otherwise. It is always there, and it runs every epoch."""

_PLAIN, _BACKFILL, _TRANSIT, _AUTO = "plain-", "backfill-", "transit-", "auto-"


class GroupKind(Enum):
    """What a group is for: shared queries, one query that plain Spark runs, or a query on its way to another group."""

    SHARED = "shared"
    PLAIN = "plain"
    TRANSIT = "transit"


class GroupState(Enum):
    """What a group does. It forms, runs or catches up with the streams, and is empty when its last query has left.

    An empty group keeps the results that were delivered in it until they expire. Then it is gone.
    """

    FORMING = "forming"
    RUNNING = "running"
    CATCHING_UP = "catching up"
    EMPTY = "empty"


GROUP_TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.FORMING: frozenset({GroupState.RUNNING, GroupState.CATCHING_UP, GroupState.EMPTY}),
    GroupState.RUNNING: frozenset({GroupState.CATCHING_UP, GroupState.EMPTY}),
    GroupState.CATCHING_UP: frozenset({GroupState.RUNNING, GroupState.EMPTY}),
    GroupState.EMPTY: frozenset({GroupState.RUNNING, GroupState.CATCHING_UP}),
}


def plain_group(query: int) -> str:
    """The group of a query that no shared operator covers."""
    return f"{_PLAIN}{query}"


def backfill_group(query: int) -> str:
    """The group in which a query catches up with the streams."""
    return f"{_BACKFILL}{query}"


def transit_group(query: int, epoch: int) -> str:
    """The group in which a query that moves catches up with the group it goes to."""
    return f"{_TRANSIT}{query}-{epoch}"


def auto_group(number: int) -> str:
    """A group that Headrace made because queries are better off in it."""
    return f"{_AUTO}{number}"


def auto_number(name: str) -> int | None:
    """The number of such a group; None for any other.

    >>> auto_number("auto-3"), auto_number("alerts")
    (3, None)
    """
    number = name.removeprefix(_AUTO)
    return int(number) if name.startswith(_AUTO) and number.isdigit() else None


def is_reserved(name: str) -> bool:
    """Whether only Headrace itself gives a group such a name.

    >>> is_reserved("alerts"), is_reserved("plain-7"), is_reserved("plain-tables")
    (False, True, False)
    """
    for prefix in (_PLAIN, _BACKFILL, _TRANSIT, _AUTO):
        if name.startswith(prefix) and name[len(prefix) :].replace("-", "").isdigit():
            return True
    return False


def kind_of(name: str) -> GroupKind:
    """What a group is for, by its name: people may not use the names of the last two kinds."""
    if not is_reserved(name) or name.startswith(_AUTO):
        return GroupKind.SHARED
    return GroupKind.PLAIN if name.startswith(_PLAIN) else GroupKind.TRANSIT


def pool_of(group: str) -> str:
    """The FAIR pool of a group's jobs. Groups on their way come and go, so these have one together. So have those of
    queries that plain Spark runs: however many there are, their jobs have the share of one group.
    """
    kind = kind_of(group)
    return f"headrace-{group}" if kind is GroupKind.SHARED else f"headrace-{kind.value}"


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """With what a group runs its epochs: `tasks` at a time at most, and keys spread by `partitioning`.

    `by_hand` says that a person chose it; else it follows the number of cores.
    """

    name: str
    tasks: int
    partitioning: Partitioning
    by_hand: bool = False

    def catching_up(self, most: int | None) -> GroupSpec:
        """The same, with `most` tasks at a time at most for a group on its way."""
        if most is None or most >= self.tasks or kind_of(self.name) is not GroupKind.TRANSIT:
            return self
        return replace(self, tasks=most, partitioning=even_partitioning(most))


@dataclass(frozen=True, slots=True)
class Stay:
    """A query lives in `group` from `epoch` on, until its next stay begins."""

    epoch: int
    group: str


@dataclass(frozen=True, slots=True)
class Wish:
    """A query is wanted in `group`; the wish became known with `epoch`."""

    group: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A query goes from one group to another. Its wishes up to epoch `settled` are fulfilled by that.

    One that `returns` leaves for a while only: it is wanted back where it was, unless it is wanted elsewhere already.
    """

    query: QueryId
    source: str
    target: str
    settled: int = -1
    returns: bool = False


@dataclass(frozen=True, slots=True)
class Regrouping:
    """One entry of the list: from `epoch` on, `moves` have happened and `specs` are in force.

    `state` is what the moving queries bring along, by the name of the group that takes it in: parts of the segment
    files that the last commit before `epoch` of their old group names. `strategies` are those that this state was made
    with. `reason` is for people.
    """

    number: int
    epoch: int
    moves: tuple[Relocation, ...] = ()
    specs: tuple[GroupSpec, ...] = ()
    state: dict[str, tuple[SegmentFile, ...]] | None = None
    reason: str = ""
    decided_at: float = 0.0
    strategies: Strategies = DEFAULTS

    def leaving(self, group: str) -> frozenset[int]:
        """The queries that leave a group."""
        return frozenset(int(move.query) for move in self.moves if move.source == group)

    def brought(self, group: str) -> tuple[SegmentFile, ...]:
        """The state that comes into a group."""
        return (self.state or {}).get(group, ())

    def arriving(self, group: str) -> Strategies:
        """The strategies of the queries that come into a group."""
        return self.strategies.only(move.query for move in self.moves if move.target == group)

    def concerns(self, group: str) -> bool:
        return any(group in (move.source, move.target) for move in self.moves)


codec.register(GroupSpec, Stay, Wish, Relocation, Regrouping)
