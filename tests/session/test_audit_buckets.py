"""Large results are compared by buckets of a hash: that finds what a comparison row by row finds."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pytest

import headrace
from headrace.results import audit, buckets
from headrace.results.compare import Row, compare_rows
from thorough import seeds

DDL = "a BIGINT, b BIGINT, x DOUBLE, y FLOAT, s STRING, d DECIMAL(12, 3), t TIMESTAMP, day DATE, f BOOLEAN, raw BINARY"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def collected(frame: Any) -> list[Row]:
    return list(audit._rows(frame))


def random_row(rng: random.Random) -> list[Any]:
    row = [
        rng.randrange(3),
        rng.randrange(3),
        rng.choice([0.0, -0.0, 1.5, math.nan, 1e308, rng.uniform(-9, 9)]),
        rng.choice([0.0, -0.0, 2.5, math.nan]),
        rng.choice(["", "a", "A", "é", "naïve"]),
        Decimal(rng.randrange(-5, 5)) / 8,
        NOON + timedelta(seconds=rng.randrange(3)),
        date(2026, 1, 1 + rng.randrange(2)),
        rng.random() < 0.5,
        rng.choice([b"", b"\x00", b"xy"]),
    ]
    return [None if rng.random() < 0.1 else value for value in row]


def disturbed(rng: random.Random, rows: list[list[Any]]) -> list[list[Any]]:
    """The same rows in another order, with other last digits; sometimes without one, or with one twice or changed."""
    found = [list(row) for row in rows]
    for row in found:
        if row[2] is not None and rng.random() < 0.5:
            row[2] *= 1 + rng.choice([1e-16, -3e-15, 1e-13])
    for _ in range(rng.choice([0, 0, 1, 3])):
        number = rng.randrange(len(found))
        match rng.randrange(4):
            case 0:
                del found[number]
            case 1:
                found.append(found[number])
            case 2:  # NULL and the value change places: hashes pass over NULL
                found[number][0], found[number][1] = found[number][1], None
            case _:
                found[number][2] = 2e-9 + (found[number][2] or 1.0) * (1 + 2e-9)
    rng.shuffle(found)
    return found


def as_multiset(rows: list[Row]) -> Counter[str]:
    return Counter(map(repr, rows))


@pytest.mark.spark
@pytest.mark.parametrize("seed", seeds(3))
def test_buckets_find_what_a_comparison_row_by_row_finds(spark: Any, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = [random_row(rng) for _ in range(300)]
    actual = disturbed(rng, expected)
    left, right = (spark.createDataFrame(rows, DDL) for rows in (expected, actual))
    assert buckets.can_be_hashed(left)
    found = buckets.compare_large(left, right, collected)
    missing, unexpected = compare_rows(collected(left), collected(right))
    assert (found.expected_rows, found.actual_rows, found.complete) == (len(expected), len(actual), True)
    assert as_multiset(found.missing) == as_multiset(missing)
    assert as_multiset(found.unexpected) == as_multiset(unexpected)


@pytest.mark.spark
def test_rows_that_are_equal_are_not_brought_to_the_driver(spark: Any) -> None:
    rows = spark.range(200_000).selectExpr("id % 1000 AS k", "id / 7 AS x", "CAST(id AS STRING) AS s")
    other = rows.repartition(3).selectExpr("k", "x * (1 + 1e-15D)", "s")
    fetched = []

    def fetch(frame: Any) -> list[Row]:
        fetched.append(collected(frame))
        return fetched[-1]

    found = buckets.compare_large(rows, other, fetch)
    assert (found.missing, found.unexpected, found.expected_rows) == ([], [], 200_000)
    assert sum(map(len, fetched)) < 2_000, "only what fell to the other side of a rounding"


@pytest.mark.spark
def test_when_everything_differs_not_everything_is_fetched(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "FETCHED_ROWS", 2_000)
    monkeypatch.setattr(buckets, "DIFFERENT_ENOUGH", 3_000)
    rows = spark.range(30_000)
    found = buckets.compare_large(rows, rows.selectExpr("id + 100000"), collected)
    assert not found.complete and 3_000 < len(found.missing) + len(found.unexpected) < 12_000
    assert found.expected_rows == found.actual_rows == 30_000


@pytest.mark.parametrize(("noise", "other"), [(0.0, 2.0 * (1 + 1e-12)), (1e-6, 2.0 + 1e-7)])
def test_what_turns_out_to_be_equal_does_not_end_the_search(
    monkeypatch: pytest.MonkeyPatch, noise: float, other: float
) -> None:
    """A row is equal to one of another bucket but for its last bits, or for noise. Another is lost, in a later one."""
    expected, actual = [(0, 2.0), (2, 5.0)], [(1, other)]
    monkeypatch.setattr(buckets, "DIFFERENT_ENOUGH", 1)
    monkeypatch.setattr(buckets, "_hashed", lambda rows: rows)
    monkeypatch.setattr(buckets, "_sums", lambda rows: np.array([np.bincount([b for b, _ in rows], None, 3)]))
    monkeypatch.setattr(buckets, "_conditions", lambda differ, _: differ.tolist())
    monkeypatch.setattr(buckets, "_some", lambda rows, bucket: [(x,) for b, x in rows if b == bucket])
    left, right = cast(Any, expected), cast(Any, actual)
    found = buckets.compare_large(left, right, cast(Any, list), audit._settling(lambda: noise))
    assert (found.missing, found.unexpected, found.complete) == ([(5.0,)], [], True)


@pytest.mark.spark
def test_an_audit_by_buckets_agrees_and_sees_what_was_tampered_with(
    spark: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "LARGE_ROWS", 1)
    with headrace.open(tmp_path, spark=spark, progress=False) as hr:
        hr.create_stream("s", "k BIGINT, v DOUBLE, ts TIMESTAMP", event_time="ts", watermark="0 seconds")
        query = hr.create_query("SELECT k, AVG(v) AS m FROM s GROUP BY k, window(ts, '5 seconds')", name="q")
        hr.append("s", [{"k": i % 7, "v": i / 3, "ts": NOON + timedelta(seconds=i)} for i in range(60)])
        hr.run_available()
        assert query.audit().ok and query.audit().actual_rows == 55
        delivered = audit._delivered_rows
        monkeypatch.setattr(
            audit, "_delivered_rows", lambda *some: delivered(*some).where("k <> 3 OR k IS NULL")
        )
        report = query.audit()
        assert not report.ok and report.missing_rows == len(report.missing) > 0 == report.unexpected_rows
        assert all(row["k"] == 3 for row in report.missing)
