"""Kinds of workload: what a trial's queries are drawn from, whatever system runs them."""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import assert_never

from headrace_bench import astream, astream_joins, predicates
from headrace_bench.astream import AggregationQuery
from headrace_bench.astream_joins import ComplexQuery, JoinQuery
from headrace_bench.predicates import PredicateQuery

Query = AggregationQuery | JoinQuery | ComplexQuery | PredicateQuery
"""Has `streams`, `columns` (after the window's end), `cql()` and `spark_sql()`."""


class Workload(StrEnum):
    """AStream's figure 8, its figure 7, its section 4.7, predicates as people write them, and rare ones of them."""

    AGGREGATION = "aggregation"
    JOIN = "join"
    COMPLEX = "complex"
    PREDICATES = "predicates"
    RARE = "rare"

    @property
    def ddl(self) -> str:
        """The columns of its streams."""
        return predicates.DDL if self.written else astream.DDL

    @property
    def written(self) -> bool:
        """Whether its tuples have strings, and its predicates are such as people write."""
        return self in (Workload.PREDICATES, Workload.RARE)

    @property
    def joins(self) -> bool:
        return self in (Workload.JOIN, Workload.COMPLEX)


def draw(
    workload: Workload,
    rng: Random,
    window_max_s: int,
    *,
    mixed: bool,
    columns: int,
    number: int,
    queries: int,
) -> Query:
    """A random query, `number` of so many. `columns` is how many columns a query of one stream compares; `mixed` is for
    aggregations alone.

    >>> draw(Workload.JOIN, Random(1), 10, mixed=True, columns=1, number=0, queries=1).streams
    ('a', 'b')
    """
    match workload:
        case Workload.AGGREGATION:
            return astream.aggregation(rng, window_max_s, mixed=mixed, columns=columns)
        case Workload.JOIN:
            return astream_joins.join(rng, window_max_s)
        case Workload.COMPLEX:
            return astream_joins.complex_query(rng, window_max_s)
        case Workload.PREDICATES:
            return predicates.predicate_query(rng, window_max_s, conjuncts=columns)
        case Workload.RARE:
            return predicates.rare_query(rng, number, queries, window_max_s)
        case _:
            assert_never(workload)
