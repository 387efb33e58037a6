"""One epoch of one group, as it was committed: what the conductor hears of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from headrace.engine.records import Metrics
from headrace.model.metrics import NOBODY, OperatorMetrics, QueryCounts
from headrace.model.query import QueryId


@dataclass(frozen=True)
class Measured:
    """One epoch of one group, as it was committed. Looks ask the same epoch again and again, so counts are kept.

    `arrived` and `processed` count the tuples of each stream since its beginning: those that had come in, sealed or
    not, and those of the epochs that the group has run. `users` are the queries of each operator of the plan, and
    `joins` the members that are joins.
    """

    group: str
    epoch: int
    at: float
    tasks: int
    members: frozenset[QueryId]
    metrics: Metrics
    operators: Mapping[str, OperatorMetrics]
    users: Mapping[str, tuple[QueryId, ...]]
    arrived: Mapping[str, int]
    processed: Mapping[str, int]
    joins: frozenset[QueryId] = frozenset()

    @cached_property
    def accepted(self) -> dict[QueryId, int]:
        """The tuples that each query took. Empty if nothing was counted."""
        return _by_query(spent.matched for spent in self.operators.values())

    @cached_property
    def made(self) -> dict[QueryId, int]:
        """The rows that were made of them for each query, before its functions were asked: these are what costs.

        A function is called for a row after everything cheaper, and few rows may be left after it.
        """
        joined = _by_query(spent.joined for spent in self.operators.values())
        found = {query: count for query, count in self.accepted.items() if query not in self.joins}
        found |= {query: joined.get(query, 0) for query in self.joins}
        for spent in self.operators.values():
            for called in spent.functions.values():
                for query, count in _by_query([called.wanted]).items():
                    found[query] = max(found.get(query, 0), count)
        return found


def _by_query(counts: Iterable[QueryCounts]) -> dict[QueryId, int]:
    return {QueryId(query): count for query, count in sum(counts, NOBODY).items()}
