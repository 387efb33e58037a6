"""Aggregates over all values of a group equal plain Spark where queries come and go and tuples are late.

Ties of MIN_BY and MAX_BY and the order of sets are left open by Spark. The audit compares with a text that fixes them.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

pytestmark = pytest.mark.spark

FIRST = int(os.environ.get("HEADRACE_PROPERTY_SEED", "1"))
ROUNDS = int(os.environ.get("HEADRACE_PROPERTY_ROUNDS", "1"))
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SCHEMA = "k INT, i BIGINT, x DOUBLE, f FLOAT, s STRING, d DATE, m DECIMAL(6,2), b BOOLEAN, ts TIMESTAMP"
COLUMNS = ("k", "i", "x", "f", "s", "d", "m", "b")
NUMBERS = ("k", "i", "x", "f", "m")
WINDOWS = (
    "'10 seconds'",
    "'10 seconds', '5 seconds'",
    "'7 seconds', '3 seconds'",
    "'20 seconds', '4 seconds'",
)

GAPS = ("'100 milliseconds'", "'1 second'", "'3 seconds'")


def random_tuple(rng: random.Random, second: float) -> dict[str, Any]:
    odd = rng.choice([math.nan, math.inf, -math.inf, 0.0, -0.0, rng.uniform(-2, 2), float(rng.randrange(4))])
    values = {
        "k": rng.randrange(3),
        "i": rng.choice([rng.randrange(-4, 5), 2**62, -(2**62)]),
        "x": odd,
        "f": float(rng.randrange(-3, 4)) / 2,
        "s": rng.choice(["", "a", "ab", "é", "日"]),
        "d": dt.date(2024, 1, rng.randrange(1, 5)),
        "m": Decimal(rng.randrange(-300, 300)) / 100,
        "b": rng.random() < 0.5,
    }
    values = {name: None if rng.random() < 0.15 else value for name, value in values.items()}
    return values | {"ts": NOON + dt.timedelta(seconds=second + rng.uniform(-9, 4))}


def random_call(rng: random.Random) -> str:
    one, other, third = rng.sample(COLUMNS, 3)
    number = rng.choice(NUMBERS)
    exact = rng.choice(["k", "f", "m"])  # sums that do not depend on their order, and fit
    fractions = ", ".join(rng.choice(["0", "0.1", "0.5", "0.75D", "1"]) for _ in range(rng.randint(1, 3)))
    call = rng.choice(
        [
            f"count(DISTINCT {one})",
            f"count(DISTINCT {one}, {other})",
            f"count(DISTINCT {one}, {other}, {third})",
            f"percentile({number}, {rng.choice(['0.25', '0.5', '0.99'])})",
            f"percentile({number}, array({fractions}))",
            f"median({number})",
            f"collect_set({one})",
            f"max_by({one}, {other})",
            f"min_by({one}, {other})",
            f"max_by({one}, {one})",
            f"sum(DISTINCT {exact})",
            f"avg(DISTINCT {exact})",
            f"size(collect_set({one}))",
            "count(*)",
        ]
    )
    if rng.random() < 0.25 and not call.startswith("size"):
        call += f" FILTER (WHERE {rng.choice(['i > 0', 'x < 1 OR b', 's IS NOT NULL', 'k = 1 AND i < 3'])})"
    return call


def random_query(rng: random.Random) -> str:
    calls = ", ".join(f"{random_call(rng)} AS c{i}" for i in range(rng.randint(1, 3)))
    key = rng.choice(["", "k, ", "s, ", "k, b, ", "x, "])
    where = rng.choice(
        ["", " WHERE i > -2", " WHERE x >= 0", " WHERE k <> 1 AND s < 'b'", " WHERE m IS NULL"]
    )
    if rng.random() < 0.4:
        gap = rng.choice(GAPS)
        return f"SELECT session_window.end AS e, {key}{calls} FROM t{where} GROUP BY {key}session_window(ts, {gap})"
    return (
        f"SELECT window.end AS e, {key}{calls} FROM t{where} GROUP BY {key}window(ts, {rng.choice(WINDOWS)})"
    )


def random_join(rng: random.Random) -> str:
    side = "(SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM t)"
    one, other = rng.sample(["i", "x", "s", "m"], 2)
    calls = f"count(DISTINCT r.{one}) AS a, max_by(l.{one}, r.{other}) AS b, collect_set(r.{other}) AS c"
    group = rng.choice(["l.s", "l.k", "r.b"])
    return (
        f"SELECT {group} AS g, {calls}, median(r.i) AS d FROM {side} AS l JOIN {side} AS r "
        f"ON l.k = r.k AND l.w = r.w WHERE l.i > 0 GROUP BY {group}, l.w"
    )


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_values_equal_spark(seed: int, open_session: Callable[..., Any]) -> None:
    print(f"HEADRACE_PROPERTY_SEED={seed}")
    rng = random.Random(seed)
    hr = open_session(partitions=2)
    hr.create_stream("t", SCHEMA, event_time="ts", watermark="4 seconds")
    queries = {}
    for epoch in range(4):
        for _ in range(8 if epoch < 3 else 0):
            name = f"q{len(queries)}"
            queries[name] = hr.create_query(random_query(rng), name=name)
        if epoch == 1:
            queries["joined"] = hr.create_query(random_join(rng), name="joined")
        if epoch == 2:
            for name in rng.sample(sorted(queries), 3):
                hr.drop_query(name)
        hr.append(
            "t", [random_tuple(rng, epoch * 9 + rng.uniform(0, 9)) for _ in range(rng.choice([0, 40, 90]))]
        )
        hr.run_available()
    hr.close_stream("t")
    hr.run_available()
    assert all(query.sharing.shared for query in queries.values())
    reports = {name: query.audit() for name, query in queries.items()}
    assert sum(report.actual_rows for report in reports.values()) > 100
    wrong = [
        f"{hr.query(n).text}\n{r}\n{r.missing[:2]}\n{r.unexpected[:2]}"
        for n, r in reports.items()
        if not r.ok
    ]
    assert not wrong, "\n\n".join(wrong)
