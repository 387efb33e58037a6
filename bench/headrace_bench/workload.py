"""Kinds of workload: what a trial's queries are drawn from, whatever system runs them."""

from __future__ import annotations

from enum import StrEnum
from random import Random

from headrace_bench import astream, astream_joins
from headrace_bench.astream import AggregationQuery
from headrace_bench.astream_joins import ComplexQuery, JoinQuery

Query = AggregationQuery | JoinQuery | ComplexQuery
"""Has `streams`, `columns` (after the window's end), `cql()` and `spark_sql()`."""


class Workload(StrEnum):
    """AStream's figure 8, its figure 7, and its section 4.7."""

    AGGREGATION = "aggregation"
    JOIN = "join"
    COMPLEX = "complex"


def draw(workload: Workload, rng: Random, window_max_s: int, *, mixed: bool, columns: int) -> Query:
    """A random query; `mixed` and `columns` are choices that aggregations alone have.

    >>> draw(Workload.JOIN, Random(1), 10, mixed=True, columns=1).streams
    ('a', 'b')
    """
    match workload:
        case Workload.AGGREGATION:
            return astream.aggregation(rng, window_max_s, mixed=mixed, columns=columns)
        case Workload.JOIN:
            return astream_joins.join(rng, window_max_s)
        case Workload.COMPLEX:
            return astream_joins.complex_query(rng, window_max_s)
