"""Predicates as people write them: one to five conjuncts of mixed kinds over five columns, three of them strings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from random import Random

import numpy as np
import pyarrow as pa

from headrace_bench.astream import AGGREGATES, STREAM

DDL = "key BIGINT, country STRING, device STRING, product STRING, price BIGINT, age BIGINT, amount BIGINT, ts TIMESTAMP"
COUNTRIES = tuple(f"c{number:02}" for number in range(40))
DEVICES = ("android", "ios", "tv", "watch", "web")
PRODUCTS = 10_000
PRICES, AGES, AMOUNTS = 10_000, 100, 1_000
COMPARED = ("country", "device", "product", "price", "age")
MOST_CONJUNCTS = len(COMPARED)

EITHER = 0.15
"""How often a conjunct is an OR of conditions on two columns."""

Condition = tuple[tuple[str, ...], str]
"""(columns, text of a condition on them)."""


def tuples(
    n: int,
    start: datetime,
    rate: int,
    keys: int,
    seed: int = 0,
    first: int = 0,
    products: int = PRODUCTS,
) -> pa.Table:
    """Tuples number `first` to `first + n`: keys come in turn, everything else is drawn evenly, times are in order.

    >>> from datetime import UTC
    >>> tuples(2, datetime(2026, 1, 1, tzinfo=UTC), 10, keys=3).column_names
    ['key', 'country', 'device', 'product', 'price', 'age', 'amount', 'ts']
    """
    number, rng = np.arange(first, first + n, dtype=np.int64), np.random.default_rng((seed, first))
    event_us = int(start.timestamp() * 1_000_000) + number * 1_000_000 // rate

    def texts(values: list[str]) -> pa.Array:
        return pa.array(values).take(pa.array(rng.integers(0, len(values), n)))

    return pa.table(
        {
            "key": pa.array(number % keys),
            "country": texts([*COUNTRIES]),
            "device": texts([*DEVICES]),
            "product": texts([f"p{product:04}" for product in range(products)]),
            "price": pa.array(rng.integers(0, PRICES, n)),
            "age": pa.array(rng.integers(0, AGES, n)),
            "amount": pa.array(rng.integers(0, AMOUNTS, n)),
            "ts": pa.array(event_us).cast(pa.timestamp("us", tz="UTC")),
        }
    )


@dataclass(frozen=True, slots=True)
class PredicateQuery:
    """An aggregate of the amount per key and window, under a conjunction.

    >>> PredicateQuery("SUM", ((("age",), "age < 20"), (("device",), "device = 'tv'")), 4, 2).where
    "age < 20 AND device = 'tv'"
    """

    aggregate: str
    conditions: tuple[Condition, ...]
    range_s: int
    slide_s: int

    @property
    def streams(self) -> tuple[str, ...]:
        return (STREAM,)

    @property
    def columns(self) -> tuple[str, ...]:
        return ("key", "value")

    @property
    def argument(self) -> str:
        return "amount"

    @property
    def reads(self) -> frozenset[str]:
        """The columns it needs, apart from key and event time."""
        return frozenset({self.argument, *(column for columns, _ in self.conditions for column in columns)})

    @property
    def where(self) -> str:
        return " AND ".join(text for _, text in self.conditions)

    def spark_sql(self) -> str:
        return (
            f"SELECT window.end, key, {self.aggregate}(amount) AS value FROM {STREAM} "
            f"WHERE {self.where} GROUP BY key, window(ts, '{self.range_s} seconds', '{self.slide_s} seconds')"
        )

    def cql(self) -> str:
        return (
            f"SELECT key, {self.aggregate}(amount) AS value "
            f"FROM {STREAM} [RANGE {self.range_s} SECONDS SLICE {self.slide_s} SECONDS] "
            f"WHERE {self.where} GROUP BY key"
        )


def predicate_query(rng: Random, window_max_s: int = 10, *, conjuncts: int = 3) -> PredicateQuery:
    """A random query with so many conjuncts, each on a column of its own, and now and then on another one too."""
    range_s = rng.randint(1, window_max_s)
    slide_s = rng.randint(1, range_s)
    columns = sorted(rng.sample(COMPARED, conjuncts))
    return PredicateQuery(
        rng.choice(AGGREGATES), tuple(conjunct(rng, column) for column in columns), range_s, slide_s
    )


def rare_query(rng: Random, number: int, queries: int, window_max_s: int = 10) -> PredicateQuery:
    """Query `number` of so many, each for a product of its own and half of the prices.

    >>> rare_query(Random(1), 12, 100).where
    "product = 'p0012' AND price < 5000"
    """
    range_s = rng.randint(1, window_max_s)
    wanted: Condition = (("product",), equality("product", f"p{number % queries:04}"))
    cheap: Condition = (("price",), f"price < {PRICES // 2}")
    return PredicateQuery(rng.choice(AGGREGATES), (wanted, cheap), range_s, rng.randint(1, range_s))


def conjunct(rng: Random, column: str) -> Condition:
    """A random condition on a column, or on either of two."""
    if rng.random() >= EITHER:
        return (column,), condition(rng, column)
    other = rng.choice([one for one in COMPARED if one != column])
    return (column, other), f"({condition(rng, column)} OR {condition(rng, other)})"


def condition(rng: Random, column: str) -> str:
    """A random condition on a column: equality, IN, a prefix, a range, or two ranges joined by OR."""
    match column:
        case "country":
            return rng.choice((equality(column, rng.choice(COUNTRIES)), among(rng, column, COUNTRIES, 5)))
        case "device":
            return rng.choice((equality(column, rng.choice(DEVICES)), among(rng, column, DEVICES, 2)))
        case "product":
            product = f"p{rng.randrange(PRODUCTS):04}"
            return rng.choice((equality(column, product), f"product LIKE '{product[:2]}%'"))
        case "price":
            low, high = sorted((rng.randrange(PRICES), rng.randrange(PRICES)))
            return rng.choice((f"price > {low}", f"price <= {high}", f"price BETWEEN {low} AND {high}"))
        case "age":
            low, high = sorted((rng.randrange(AGES), rng.randrange(AGES)))
            return rng.choice((f"(age < {low} OR age >= {high})", f"age >= {low}"))
    raise ValueError(f"no query compares {column}")


def equality(column: str, value: str) -> str:
    return f"{column} = '{value}'"


def among(rng: Random, column: str, values: tuple[str, ...], count: int) -> str:
    chosen = ", ".join(f"'{value}'" for value in sorted(rng.sample(values, count)))
    return f"{column} IN ({chosen})"
