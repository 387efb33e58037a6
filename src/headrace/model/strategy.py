"""How a query runs, and why: a value of its own, apart from what the query means.

A strategy is in force for a query from an epoch on. The choice is recorded, so that a replay takes the same one and
EXPLAIN can show the reason that was true when it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from headrace.model.query import QueryId


class Strategy(Enum):
    """All ways in which a query can run."""

    SELECTION = "shared selection"
    WINDOWS = "shared aggregation of windows"
    SESSIONS = "shared aggregation of sessions"
    JOINED_ROWS = "shared join"
    PRODUCT = "product"
    JOINED_GROUPS = "joined, then grouped"
    READ_GROUPS = "joined, grouped when read"
    PLAIN_SPARK = "plain Spark"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A strategy that a query does not run with, and the reason against it."""

    strategy: Strategy
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The strategy of a query, the reason for it, and every other one that was considered."""

    strategy: Strategy
    reason: str
    rejected: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class Strategies:
    """The recorded choices, ordered by query. A query that is not here runs with the planner's default for it.

    Only choices that statistics can change need a record. All others follow from the query alone.
    """

    chosen: tuple[tuple[QueryId, Choice], ...] = ()

    @classmethod
    def of(cls, chosen: Mapping[QueryId, Choice]) -> Strategies:
        return cls(tuple(sorted(chosen.items(), key=lambda item: item[0])))

    def by_query(self) -> dict[QueryId, Choice]:
        return dict(self.chosen)

    def with_changes(self, changes: Mapping[QueryId, Choice]) -> Strategies:
        """These choices with some of them replaced or added."""
        return Strategies.of({**self.by_query(), **changes})

    def only(self, queries: Iterable[QueryId]) -> Strategies:
        """The choices of these queries: those of dropped queries need not be kept."""
        kept = frozenset(queries)
        return Strategies(tuple(item for item in self.chosen if item[0] in kept))


DEFAULTS = Strategies()
"""No record: each query runs with its default."""
