"""The queries of `predicates` and their tuples for `tasks`, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

import pyarrow as pa

from headrace.model.query import Query, QueryId, Stream, StreamName
from headrace.model.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Column, SqlType
from headrace.planner.group import Member
from headrace.sql import parse_query
from headrace_bench import astream, predicates
from headrace_bench.epochs import START
from headrace_bench.predicates import MOST_CONJUNCTS, PredicateQuery

__all__ = ["MOST_CONJUNCTS", "STREAM", "Asked", "PredicateFeed", "make_members"]

STREAM = Stream(
    StreamName(astream.STREAM),
    tuple(
        Column(name, SqlType(type_.lower()))
        for name, type_ in (c.split() for c in predicates.DDL.split(", "))
    ),
    "ts",
    0,
)


class Asked(StrEnum):
    """What is asked of the tuples that a predicate accepts."""

    WINDOWS = "windows"
    SESSIONS = "sessions"
    FILTERS = "filters"

    def text(self, query: PredicateQuery) -> str:
        """A query under the same predicate: sessions by two texts, or the tuples themselves with a text."""
        match self:
            case Asked.WINDOWS:
                return query.spark_sql()
            case Asked.SESSIONS:
                gap = f"session_window(ts, '{10 * query.range_s} milliseconds')"
                return (
                    f"SELECT country, device, {query.aggregate}(amount) AS value FROM {STREAM.name} "
                    f"WHERE {query.where} GROUP BY country, device, {gap}"
                )
            case Asked.FILTERS:
                return f"SELECT product, ts, amount FROM {STREAM.name} WHERE {query.where}"


class Analyzer:
    """What Spark says of the queries of `predicates`: all of a kind have the same columns."""

    def schema(self, sql: str, *streams: Stream) -> tuple[Column, ...]:
        if sql.startswith("SELECT product"):
            return Column("product", STRING), Column("ts", TIMESTAMP), Column("amount", BIGINT)
        if sql.startswith("SELECT country"):
            value = DOUBLE if "AVG(" in sql else BIGINT
            return Column("country", STRING), Column("device", STRING), Column("value", value)
        value = DOUBLE if "AVG(" in sql else BIGINT
        return Column("end", TIMESTAMP), Column("key", BIGINT), Column("value", value)

    def difference(self, original: str, rendered: str) -> str | None:
        return None


def make_members(
    queries: int, conjuncts: int, window_max_s: int = 10, seed: int = 1, asked: Asked = Asked.WINDOWS
) -> list[Member]:
    """Members of a group with random queries of so many conjuncts; 0 for one product each."""
    rng, found = Random(seed), list[Member]()
    for number in range(queries):
        if conjuncts:
            query = predicates.predicate_query(rng, window_max_s, conjuncts=conjuncts)
        else:
            query = predicates.rare_query(rng, number, queries, window_max_s)
        plan = parse_query(asked.text(query), {STREAM.name: STREAM}, Analyzer())
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
