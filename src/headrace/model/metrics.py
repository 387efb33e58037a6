"""What an operator costs in an epoch, and what its queries get of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.model import codec

Numbers = Sequence[int] | npt.NDArray[Any]
"""Whole numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryCounts:
    """How many of something each query has: query `queries[i]` has `counts[i]`. Queries ascend, and one that is absent
    has none.

    Both are arrays, so nothing is done for one query after the other.

    >>> some = QueryCounts.of([7, 3, 7, 5], [1, 2, 3, 0])
    >>> dict(some.items()), some.get(7), some.get(5), some.total
    ({3: 2, 7: 4}, 4, 0, 6)
    >>> dict((some + QueryCounts.of([5], [9])).items()), some.only({7}) == QueryCounts.of([7], [4])
    ({3: 2, 5: 9, 7: 4}, True)
    """

    queries: npt.NDArray[Any]
    counts: npt.NDArray[Any]

    @staticmethod
    def of(queries: Numbers, counts: Numbers) -> QueryCounts:
        """The counts of queries in any order; those of a query that is there several times are added up."""
        known, place = np.unique(np.asarray(queries, np.int64), return_inverse=True)
        sums = np.zeros(len(known), np.int64)
        np.add.at(sums, place, np.asarray(counts, np.int64))
        return QueryCounts(known[sums > 0], sums[sums > 0])

    @staticmethod
    def of_mapping(counts: Mapping[Any, int]) -> QueryCounts:
        """The counts by query, whose id may be a text."""
        return QueryCounts.of([int(query) for query in counts], list(counts.values()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueryCounts):
            return NotImplemented
        return np.array_equal(self.queries, other.queries) and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.queries.tobytes(), self.counts.tobytes()))

    def __bool__(self) -> bool:
        return len(self.queries) > 0

    def __add__(self, other: QueryCounts) -> QueryCounts:
        if not self or not other:
            return self or other
        if np.array_equal(self.queries, other.queries):  # as they mostly are
            return QueryCounts(self.queries, self.counts + other.counts)
        both = (self, other)
        return QueryCounts.of(
            np.concatenate([one.queries for one in both]), np.concatenate([one.counts for one in both])
        )

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def get(self, query: int) -> int:
        """How many a query has."""
        at = int(np.searchsorted(self.queries, query))
        return int(self.counts[at]) if at < len(self.queries) and self.queries[at] == query else 0

    def items(self) -> Iterator[tuple[int, int]]:
        """(query, how many it has) of those that have some."""
        return zip(self.queries.tolist(), self.counts.tolist(), strict=True)

    def only(self, queries: Collection[int]) -> QueryCounts:
        """The counts of these queries alone."""
        kept = np.isin(self.queries, np.fromiter(queries, np.int64))
        return QueryCounts(self.queries[kept], self.counts[kept])


NOBODY = QueryCounts(np.empty(0, np.int64), np.empty(0, np.int64))
"""No query has any."""


def read_counts(holder: Any, *names: str) -> None:
    """Let fields of a record that was read be counts: older versions wrote them as JSON objects, by query as text."""
    for name in names:
        found = getattr(holder, name)
        if isinstance(found, dict):
            object.__setattr__(holder, name, QueryCounts.of_mapping(found))


@dataclass(frozen=True, slots=True)
class FunctionMetrics:
    """Calls of one registered function: for how many rows its value was needed, with how many inputs it was called, and
    the CPU seconds of that. `wanted` says for how many rows each query needed it.
    """

    rows: int = 0
    inputs: int = 0
    seconds: float = 0.0
    wanted: QueryCounts = NOBODY

    def __post_init__(self) -> None:
        read_counts(self, "wanted")

    def __add__(self, other: FunctionMetrics) -> FunctionMetrics:
        return FunctionMetrics(
            self.rows + other.rows,
            self.inputs + other.inputs,
            self.seconds + other.seconds,
            self.wanted + other.wanted,
        )


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """Sums over all tasks of an epoch. Seconds are CPU time of the kernels, without reading chunks. Those of registered
    functions are among them, and `functions` says once more what was spent on each.

    `tuples` counts what map tasks were given, once per stream that is read. `matched` says how many of them each
    query accepted, `joined` how many rows a join made for it, and `rows` how many rows it got.
    """

    map_seconds: float = 0.0
    reduce_seconds: float = 0.0
    tuples: int = 0
    shuffled_bytes: int = 0
    state_bytes: int = 0
    matched: QueryCounts = NOBODY
    rows: QueryCounts = NOBODY
    joined: QueryCounts = NOBODY
    functions: dict[str, FunctionMetrics] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read_counts(self, "matched", "rows", "joined")

    def __add__(self, other: OperatorMetrics) -> OperatorMetrics:
        return OperatorMetrics(
            self.map_seconds + other.map_seconds,
            self.reduce_seconds + other.reduce_seconds,
            self.tuples + other.tuples,
            self.shuffled_bytes + other.shuffled_bytes,
            self.state_bytes + other.state_bytes,
            self.matched + other.matched,
            self.rows + other.rows,
            self.joined + other.joined,
            add_functions(self.functions, other.functions),
        )


def add_functions(
    left: Mapping[str, FunctionMetrics], right: Mapping[str, FunctionMetrics]
) -> dict[str, FunctionMetrics]:
    found = dict(left)
    for name, spent in right.items():
        found[name] = found.get(name, FunctionMetrics()) + spent
    return found


codec.register(QueryCounts, OperatorMetrics, FunctionMetrics)
