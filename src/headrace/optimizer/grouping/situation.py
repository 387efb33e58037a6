"""All that a decision is made from, as one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.model.query import QueryId
from headrace.optimizer.grouping.costs import Coefficients
from headrace.optimizer.grouping.monitor import GroupHealth
from headrace.optimizer.grouping.settings import Settings
from headrace.optimizer.grouping.statistics import Statistics
from headrace.optimizer.grouping.values import Grouping, GroupName, QueryFacts


@dataclass(frozen=True, slots=True)
class Situation:
    """The grouping in force, its queries, how its groups fare, and what samples and calibration say.

    `settled` groups were there in the last merge step, which left them as they are. They have about the load that they
    had when they were first left. `parted` queries were split off, and their groups have not caught up with the others
    since.
    """

    grouping: Grouping
    queries: Mapping[QueryId, QueryFacts]
    statistics: Statistics
    health: Mapping[GroupName, GroupHealth] = field(default_factory=dict)
    costs: Coefficients = field(default_factory=Coefficients)
    settings: Settings = field(default_factory=Settings)
    settled: frozenset[GroupName] = frozenset()
    parted: frozenset[QueryId] = frozenset()

    def isolated_tasks(self, members: Iterable[QueryId]) -> int:
        """The tasks that these queries would have together if each ran alone: what a group may have at most."""
        return sum(self.queries[query].tasks for query in members)
