"""The generators of AStream's evaluation (SIGMOD 2019, section 4.2): tuples, random queries, and how queries come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random

import numpy as np
import pyarrow as pa

STREAM = "a"
FIELDS = 5
DDL = "key BIGINT, " + "".join(f"field{i} BIGINT, " for i in range(1, FIELDS + 1)) + "ts TIMESTAMP"
EVENT_TIME = "ts"

FIELDS_MAX = 1_000
"""Fields and the constants they are compared with lie in [0, FIELDS_MAX) unless told otherwise."""

OPERATORS = ("=", ">", "<", ">=", "<=")
AGGREGATES = ("SUM", "COUNT", "AVG", "MIN", "MAX")


def tuples(
    n: int,
    start: datetime,
    rate: int,
    keys: int,
    fields_max: int = FIELDS_MAX,
    seed: int = 0,
    first: int = 0,
    skew: float = 0.0,
) -> pa.Table:
    """Tuples number `first` to `first + n` of a stream that runs at `rate` per second from `start` on.

    Keys come in turn 0 .. keys - 1, fields are uniform in [0, fields_max), event time is in order (4.2.1). With a
    `skew` s above 0, keys are drawn by Zipf's law instead: key k as often as 1 / (k + 1)**s.

    >>> from datetime import UTC
    >>> tuples(5, datetime(2026, 1, 1, tzinfo=UTC), 10, keys=3)["key"].to_pylist()
    [0, 1, 2, 0, 1]
    """
    number = np.arange(first, first + n, dtype=np.int64)
    rng = np.random.default_rng((seed, first))
    event_us = int(start.timestamp() * 1_000_000) + number * 1_000_000 // rate
    columns = {"key": pa.array(_zipf(rng, n, keys, skew) if skew else number % keys)}
    for i in range(1, FIELDS + 1):
        columns[f"field{i}"] = pa.array(rng.integers(0, fields_max, n))
    columns["ts"] = pa.array(event_us).cast(pa.timestamp("us", tz="UTC"))
    return pa.table(columns)


def _zipf(rng: np.random.Generator, n: int, keys: int, skew: float) -> np.ndarray:
    weights = np.cumsum(1.0 / np.arange(1, keys + 1) ** skew)
    drawn: np.ndarray = np.searchsorted(weights, rng.random(n) * weights[-1])
    return drawn.astype(np.int64)


@dataclass(frozen=True, slots=True)
class AggregationQuery:
    """Figure 8: one aggregate of a field per key, under predicates, over a window of whole seconds.

    The key and the window's end are selected too, so that a result row can be told from its neighbours.

    >>> query = AggregationQuery("SUM", 1, ((2, ">", 7),), 10, 5)
    >>> query.cql()
    'SELECT key, SUM(field1) AS value FROM a [RANGE 10 SECONDS SLICE 5 SECONDS] WHERE field2 > 7 GROUP BY key'
    """

    aggregate: str
    field: int
    predicates: tuple[tuple[int, str, int], ...]
    range_s: int
    slide_s: int
    stream: str = STREAM

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.stream,)

    @property
    def columns(self) -> tuple[str, ...]:
        """What the selected columns are called, after the window's end."""
        return ("key", "value")

    @property
    def argument(self) -> str:
        return f"field{self.field}"

    @property
    def reads(self) -> frozenset[str]:
        """The columns it needs, apart from key and event time."""
        return frozenset({self.argument, *(f"field{field}" for field, _, _ in self.predicates)})

    @property
    def where(self) -> str:
        return " AND ".join(f"field{field} {operator} {value}" for field, operator, value in self.predicates)

    def spark_sql(self) -> str:
        return (
            f"SELECT window.end, key, {self.aggregate}(field{self.field}) AS value FROM {self.stream} "
            f"WHERE {self.where} GROUP BY key, window(ts, '{self.range_s} seconds', '{self.slide_s} seconds')"
        )

    def cql(self) -> str:
        return (
            f"SELECT key, {self.aggregate}(field{self.field}) AS value "
            f"FROM {self.stream} [RANGE {self.range_s} SECONDS SLICE {self.slide_s} SECONDS] "
            f"WHERE {self.where} GROUP BY key"
        )


def aggregation(
    rng: Random,
    window_max_s: int = 10,
    *,
    mixed: bool = False,
    columns: int = 1,
    fields_max: int = FIELDS_MAX,
    stream: str = STREAM,
) -> AggregationQuery:
    """A random query of the template. Window length is random(1, window_max_s), slide random(1, length) (4.2.3).

    `mixed` takes a random aggregate of a random field in place of SUM(FIELD1); `columns` fields are compared with a
    value each, one as in the paper (4.2.2).
    """
    aggregate, field = (rng.choice(AGGREGATES), rng.randint(1, FIELDS)) if mixed else ("SUM", 1)
    length_s = rng.randint(1, window_max_s)
    slide_s = rng.randint(1, length_s)
    fields = rng.sample(range(1, FIELDS + 1), columns)
    predicates = tuple((f, rng.choice(OPERATORS), rng.randrange(fields_max)) for f in sorted(fields))
    return AggregationQuery(aggregate, field, predicates, length_s, slide_s, stream)


def aggregation_text(query: AggregationQuery, rng: Random) -> str:
    """The query in CQL or in Spark's form, as people would write either."""
    return query.cql() if rng.random() < 0.5 else query.spark_sql()


@dataclass(frozen=True, slots=True)
class Request:
    """At `at` seconds, so many queries come and so many of the oldest go."""

    at: float
    create: int
    drop: int


def sc1(per_second: int, most: int) -> Iterator[Request]:
    """Scenario 1 (4.5): `per_second` queries come every second until there are `most`.

    >>> [request.create for request in sc1(4, 10)]
    [4, 4, 2]
    """
    for second, done in enumerate(range(0, most, per_second)):
        yield Request(float(second), min(per_second, most - done), 0)


def sc2(count: int, every_s: float, seconds: float) -> Iterator[Request]:
    """Scenario 2 (4.6): every so many seconds `count` queries come and the `count` before them go.

    >>> [(request.at, request.create, request.drop) for request in sc2(5, 10, 25)]
    [(0, 5, 0), (10, 5, 5), (20, 5, 5)]
    """
    step = 0
    while step * every_s < seconds:
        yield Request(step * every_s, count, count if step else 0)
        step += 1
