"""The queries of `predicates` and their tuples for `tasks`, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pyarrow as pa

from headrace.model.query import Query, QueryId, Stream, StreamName
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, Column, SqlType
from headrace.planner.group import Member
from headrace.sql import parse_query
from headrace_bench import astream, predicates
from headrace_bench.epochs import START
from headrace_bench.predicates import MOST_CONJUNCTS

__all__ = ["MOST_CONJUNCTS", "STREAM", "PredicateFeed", "make_members"]

STREAM = Stream(
    StreamName(astream.STREAM),
    tuple(
        Column(name, SqlType(type_.lower()))
        for name, type_ in (c.split() for c in predicates.DDL.split(", "))
    ),
    "ts",
    0,
)


class Analyzer:
    """What Spark says of the queries of `predicates`: they all have the same columns."""

    def schema(self, sql: str, *streams: Stream) -> tuple[Column, ...]:
        value = DOUBLE if "AVG(" in sql else BIGINT
        return Column("end", TIMESTAMP), Column("key", BIGINT), Column("value", value)

    def difference(self, original: str, rendered: str) -> str | None:
        return None


def make_members(queries: int, conjuncts: int, window_max_s: int = 10, seed: int = 1) -> list[Member]:
    """Members of a group with random queries of so many conjuncts; 0 for one product each."""
    rng, found = Random(seed), list[Member]()
    for number in range(queries):
        if conjuncts:
            query = predicates.predicate_query(rng, window_max_s, conjuncts=conjuncts)
        else:
            query = predicates.rare_query(rng, number, queries, window_max_s)
        plan = parse_query(query.spark_sql(), {STREAM.name: STREAM}, Analyzer())
        found.append(Member(Query(QueryId(number + 1), f"q{number}", plan), number))
    return found


@dataclass(frozen=True, slots=True)
class PredicateFeed:
    """The tuples of `predicates` as a stream that goes on, as `epochs.Feed` has AStream's."""

    rows: int
    keys: int
    rate: int
    products: int | None = None

    def table(self, epoch: int) -> pa.Table:
        products = predicates.PRODUCTS if self.products is None else self.products
        return predicates.tuples(
            self.rows, START, self.rate, self.keys, first=epoch * self.rows, products=products
        )
