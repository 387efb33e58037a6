"""Predicates over several columns, for every kind of operator: rows equal plain Spark, and EXPLAIN says how."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from session_samples import at

pytestmark = pytest.mark.spark

COLUMNS = "flight STRING, price DOUBLE, seats INT, k BIGINT, ts TIMESTAMP"
PRICES = [None, float("nan"), 0.0, -0.0, *(n / 2 for n in range(40))]
AUDITED = 3


def condition(rng: random.Random, name: str = "") -> str:
    """Three columns, now and then with OR across them; so many constants that cells are not enumerated."""
    flight, price, seats = (f"{name}{column}" for column in ("flight", "price", "seats"))
    first = f"{flight} = 'f{rng.randrange(60):02}'"
    if rng.random() < 0.6:
        first = f"{flight} IN ({', '.join(repr(f'f{rng.randrange(60):02}') for _ in range(9))})"
    second = rng.choice([f"{price} > {rng.randrange(40) / 2}", f"NOT {price} <= {rng.randrange(30) / 2}"])
    third = rng.choice([f"{seats} < {rng.randrange(40)}", f"{seats} IS NULL"])
    joined = rng.choice([" AND ", " AND ", " OR "])
    return f"({first}{joined}{second}) AND ({third} OR {seats} = {rng.randrange(40)})"


def texts(rng: random.Random) -> dict[str, list[str]]:
    """Queries of every kind."""
    return {
        "aggregation": [
            f"SELECT k, COUNT(*) AS n, SUM(seats) AS s, MAX(price) AS m FROM a WHERE {condition(rng)} "
            "GROUP BY k, window(ts, '10 seconds')"
            for _ in range(90)
        ],
        "selection": [f"SELECT flight, price FROM a WHERE {condition(rng)}" for _ in range(30)],
        "session": [
            f"SELECT k, COUNT(*) AS n, MIN(price) AS m FROM a WHERE {condition(rng)} "
            f"GROUP BY k, session_window(ts, '{rng.choice([1, 2])} seconds')"
            for _ in range(20)
        ],
        "join": [
            "SELECT x.flight, y.price FROM a [RANGE 2 SECONDS SLIDE 2 SECONDS] AS x, "
            f"b [RANGE 2 SECONDS SLIDE 2 SECONDS] AS y WHERE x.k = y.k AND {condition(rng, 'x.')} "
            f"AND {condition(rng, 'y.')}"
            for _ in range(20)
        ],
    }


def test_predicates_over_several_columns_equal_spark_and_are_explained(
    open_session: Callable[..., Any],
) -> None:
    seed = 1
    print(f"seed {seed}")
    rng = random.Random(seed)
    hr = open_session(partitions=2)
    for stream in ("a", "b"):
        hr.create_stream(stream, COLUMNS, event_time="ts", watermark="0 seconds")
    found = {kind: [hr.create_query(text) for text in some] for kind, some in texts(rng).items()}
    for epoch in range(2):
        for stream in ("a", "b"):
            rows = [
                {
                    "flight": rng.choice([None, f"f{rng.randrange(60):02}"]),
                    "price": rng.choice(PRICES),
                    "seats": rng.choice([None, rng.randrange(40)]),
                    "k": rng.randrange(4),
                    "ts": at(15 * epoch + i / 40),
                }
                for i in range(400)
            ]
            hr.append(stream, rows)
        hr.run_available()
    explained = str(hr.execute("EXPLAIN VERBOSE"))
    for kind, queries in found.items():
        verdicts = [query.audit() for query in queries[:AUDITED]]
        assert all(verdict.ok for verdict in verdicts), (kind, verdicts)
        assert any(sum(1 for _ in query.results().toLocalIterator()) for query in queries[:AUDITED]), kind
    assert "found by bit rows" in explained or "found by candidates" in explained, explained
    assert explained.count("found by") >= 5, "a family of each kind, and of both sides of the join"
