"""Texts that once ran as something else: their rows are those of plain Spark, which knows nothing of Headrace."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.model.query import Fallback

pytestmark = pytest.mark.spark

DDL = "k BIGINT, b TINYINT, t STRING, j BOOLEAN, raw BINARY, ts TIMESTAMP"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

EXPRESSIONS = (
    "k >>> 1",  # before arrays: after the word, Spark itself takes >> for the end of a type
    "-k >> 1 >>> 2",
    "ts - INTERVAL 1 HOUR 30 MINUTES",
    "ts + INTERVAL 1 HOUR 30 MINUTES * 2",
    "ts - INTERVAL 2 YEARS 3 MONTHS",
    "k & 1 << 2",
    "k | 6 & 3 ^ 5 << 1 + 1",
    "array(10, k)[0]",
    "array(10, k)[1] + map('x', k)['x']",
    "-128Y",
    "-32768S + 0S",
    "-9223372036854775808L",
    "X '10'",
    "1.50BD * k",
    "'a' 'b' || t",
    "~~k",
    "substring(t FROM 1 FOR 1)",
    "trim(BOTH 'a' FROM t)",
    "extract(HOUR FROM ts)",
)
CONDITIONS = (
    "ts - INTERVAL 1 HOUR 30 MINUTES > TIMESTAMP '2026-01-01 10:30:20'",
    "k & 1 << 2 = 4",
    "array(10, k)[1] > 3",
    "t LIKE ANY ('a%', '%c')",
    "t NOT LIKE ANY ('a%', '%c')",
    "t LIKE ALL ('a%', '%c')",
    "t NOT LIKE ALL ('a%', '%c')",
    "t ILIKE SOME ('A%', 'B%')",
    "b = -128Y",
    "k > -9223372036854775808L",
    "k >>> 1 = 2",
    "raw = X '10'",
    "NOT j <=> (k > 3)",
    "t LIKE t <=> t",  # LIKE 'true', as comparisons bind tighter
    "k BETWEEN 1 AND 2 | 4",
    "t IS DISTINCT FROM 'a' 'bc'",
    "t COLLATE UTF8_LCASE = 'AB'",
)
WINDOWED = (
    "SELECT k & 1 << 2 AS g, max(ts - INTERVAL 1 HOUR 30 MINUTES) AS m FROM s GROUP BY g, window(ts, '20 seconds')",
    "SELECT window.start, sum(array(10, k)[1]) AS n FROM s WHERE t LIKE ANY ('a%', 'b%') "
    "GROUP BY window(ts, '20 seconds', '10 seconds') HAVING n | 1 > 2",
    "SELECT l.k, r.ts - INTERVAL 1 HOUR 30 MINUTES AS e FROM (SELECT *, window(ts, '10 seconds') AS w FROM s) l "
    "JOIN (SELECT *, window(ts, '10 seconds') AS w FROM s) r ON l.w = r.w AND l.k = r.k "
    "AND l.ts - INTERVAL 0 HOURS 5 SECONDS < r.ts",
)


def _tuples() -> list[dict[str, Any]]:
    rng = random.Random(11)
    return [
        {
            "k": rng.randrange(12),
            "b": rng.choice([-128, 0, 127]),
            "t": rng.choice(["abc", "ab", "b", "xc", "true", None]),
            "j": rng.choice([True, False, None]),
            "raw": rng.choice([b"\x10", b"\x0a", None]),
            "ts": NOON + timedelta(seconds=second),
        }
        for second in range(60)
    ]


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    table = frame.toDF(*(f"c{i}" for i in range(len(frame.columns)))).toArrow()
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def test_what_was_misread_once_has_the_rows_of_its_text(open_session: Callable[..., Any], spark: Any) -> None:
    texts = [
        "SELECT " + ", ".join(f"{text} AS e{i}" for i, text in enumerate(EXPRESSIONS)) + " FROM s",
        *(f"SELECT k, t FROM s WHERE {text}" for text in CONDITIONS),
        *WINDOWED,
    ]
    hr = open_session()
    hr.create_stream("s", DDL, event_time="ts", watermark="0 seconds")
    queries = [hr.create_query(text, name=f"q{i}") for i, text in enumerate(texts)]
    alone = [i for i, query in enumerate(queries) if isinstance(query._entry().query.plan.body, Fallback)]
    assert alone == [len(queries) - 1]  # a difference of times may overflow for tuples that are never joined
    hr.append("s", _tuples())
    hr.close_stream("s")
    hr.run_available()
    alone = spark.newSession()
    for key, value in (("spark.sql.ansi.enabled", "true"), ("spark.sql.session.timeZone", "UTC")):
        alone.conf.set(key, value)
    alone.createDataFrame([tuple(row.values()) for row in _tuples()], DDL).createOrReplaceTempView("s")
    for query, text in zip(queries, texts, strict=True):
        expected = _rows(alone.sql(text))
        assert _rows(query.results()) == expected, text
        assert expected, text
    for query in (queries[0], *queries[1 : -len(WINDOWED) : 4], *queries[-len(WINDOWED) :]):
        report = query.audit()
        assert report.ok and report.verbatim, report
