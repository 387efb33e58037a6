# ruff: noqa: E501 - a query stays on one line
"""Intervals and times of day as columns: operands, keys, inputs and results, all as in plain Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from headrace import sources
from headrace.engine.spark import MEANING, child_session
from headrace.model.errors import LogError
from headrace.results.compare import compare_rows
from headrace.results.view import readable

pytestmark = pytest.mark.spark

TYPES = {
    "n": "INT",
    "d": "INTERVAL DAY TO SECOND",
    "h": "INTERVAL DAY TO HOUR",
    "y": "INTERVAL YEAR TO MONTH",
    "w": "INTERVAL YEAR",
    "t": "TIME(6)",
    "m": "TIME(3)",
    "ts": "TIMESTAMP",
}
DDL = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)

DAY, HOUR, MICRO = dt.timedelta(days=1), dt.timedelta(hours=1), dt.timedelta(microseconds=1)
VALUES = [
    (DAY + MICRO, DAY, 14, 12, dt.time(9, 30), dt.time(9, 30, 0, 5000)),
    (2 * DAY, -3 * HOUR, -3, 24, dt.time(12, 0, 0, 1), dt.time(0)),
    (None, None, None, None, None, None),
    (-MICRO, DAY, 14, 12, dt.time(9, 30), dt.time(9, 30, 0, 5000)),
    (DAY + MICRO, 5 * HOUR, 24, 0, dt.time(23, 59, 59, 999999), None),
    (2 * DAY, DAY, -3, 24, None, dt.time(0)),
]
ROWS = [
    {**dict(zip("dhywtm", values, strict=True)), "n": n, "ts": NOON + dt.timedelta(seconds=3 * n)}
    for n, values in enumerate(VALUES)
]
WINDOW = "window(ts, '10 seconds')"
QUERIES = [
    "SELECT d, h, y, w, t, m, n FROM s",
    "SELECT n FROM s WHERE d > INTERVAL '1' DAY AND y <= INTERVAL '2' YEAR",
    "SELECT n, y FROM s WHERE t < TIME '12:00:00' OR (d IS NULL AND m IS NULL)",
    "SELECT y * 2 AS z, d / 2 AS q, ts + d AS e, hour(t) AS o, t + INTERVAL '1' HOUR AS p FROM s WHERE y IS NOT NULL AND h > d",
    "SELECT CAST('10:00:00' AS TIME(3)) - t AS a FROM s WHERE y = INTERVAL '1-2' YEAR TO MONTH OR d = INTERVAL '2 0' DAY TO HOUR",
    f"SELECT d, count(*), max(y), min(t), count(y) FROM s GROUP BY d, {WINDOW}",
    f"SELECT y, h, sum(d), avg(d), count(t) FROM s GROUP BY y, h, {WINDOW}",
    f"SELECT t, m, w, sum(y), avg(y), sum(h), avg(h), max(d), max(m) FROM s GROUP BY t, m, w, {WINDOW}",
    f"SELECT window.end, sum(w), avg(w), min(w), count_if(y > INTERVAL '1' YEAR) FROM s GROUP BY {WINDOW}",
    f"SELECT y + INTERVAL '1' MONTH AS k, max(t), sum(d * 2) AS a FROM s GROUP BY k, {WINDOW} HAVING a > INTERVAL '1' DAY",
    f"SELECT count(DISTINCT y), max_by(y, n), max_by(t, n), max_by(d, n) FROM s GROUP BY {WINDOW}",
    f"SELECT n, y FROM (SELECT n, max(y) AS y FROM s GROUP BY n, {WINDOW}) WHERE n > 2",
]


def literal(value: Any, type_: str) -> str:
    """A value as Spark SQL writes it."""
    match value:
        case None:
            return f"CAST(NULL AS {type_})"
        case dt.timedelta():
            return f"CAST(INTERVAL '{value / MICRO / 1e6:.6f}' SECOND AS {type_})"
        case dt.time():
            return f"CAST(TIME '{value.isoformat()}' AS {type_})"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat()}'"
        case _ if type_.startswith("INTERVAL"):
            return f"CAST(INTERVAL '{value}' MONTH AS {type_})"
        case _:
            return str(value)


def plain_spark(spark: Any) -> Any:
    """A session in which the view `s` has the rows."""
    session = child_session(spark, MEANING)
    selects = [
        "SELECT " + ", ".join(f"{literal(row[name], type_)} AS {name}" for name, type_ in TYPES.items())
        for row in ROWS
    ]
    session.sql(" UNION ALL ".join(selects)).coalesce(1).createOrReplaceTempView("s")
    return session


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    table = readable(frame).toDF(*(f"c{i}" for i in range(len(frame.columns)))).toArrow()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_queries_over_them_equal_plain_spark(spark: Any, open_session: Callable[..., Any]) -> None:
    hr, oracle = open_session(), plain_spark(spark)
    hr.create_stream("s", DDL, event_time="ts")
    queries = [hr.create_query(text) for text in QUERIES]
    hr.append("s", ROWS[:3])
    hr.append("s", oracle.table("s").where("n >= 3"))
    hr.close_stream("s")
    hr.run_available()
    for number, (query, text) in enumerate(zip(queries, QUERIES, strict=True)):
        assert query.state.value == "active", (text, query.explain())
        plain = oracle.sql(text)
        expected, found = rows_of(plain), rows_of(query.results())
        assert expected, "a comparison of nothing proves nothing"
        assert [f.dataType for f in query.results().schema] == [f.dataType for f in plain.schema], text
        assert compare_rows(expected, found) == ([], []), text
        assert number % 3 or query.audit().ok, text
        assert len(query.to_pandas()) == len(expected)
    shared = [query.explain() for query in queries[5:10]]
    assert not any("no shared form" in text for text in shared)


def test_every_kind_of_input_holds_them(open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("s", DDL, event_time="ts")
    query = hr.create_query("SELECT * FROM s")
    table = pa.Table.from_pylist(ROWS)
    hr.append("s", table)
    hr.append("s", table.to_pandas().astype({"y": "Int64", "w": "Int64"}))
    hr.append("s", pd.DataFrame(ROWS).astype({"y": "Int64", "w": "Int64"}))
    hr.append("s", ROWS)
    hr.run_available()
    found = query.to_pandas()
    assert len(found) == 4 * len(ROWS)
    assert (found.groupby("n", dropna=False).nunique(dropna=False) == 1).all(axis=None)
    shown = hr.execute(f"SELECT DISTINCT y FROM {query.name} WHERE y > INTERVAL '1' YEAR")
    assert set(shown.column("y").to_pylist()) == {
        "INTERVAL '1-2' YEAR TO MONTH",
        "INTERVAL '2-0' YEAR TO MONTH",
    }


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_files_hold_them(form: str, spark: Any, open_session: Callable[..., Any], tmp_path: Path) -> None:
    hr, oracle = open_session(), plain_spark(spark)
    oracle.table("s").write.format(form).save(str(tmp_path / "in"))
    hr.create_stream("s", DDL, event_time="ts", source=sources.files(tmp_path / "in", form))
    query = hr.create_query("SELECT * FROM s")
    hr.run_available()
    assert compare_rows(rows_of(oracle.table("s")), rows_of(query.results())) == ([], [])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("h", DAY + MICRO),
        ("w", 13),
        ("m", dt.time(0, 0, 0, 1)),
        ("y", "1-2"),
        ("y", 2**31),
        ("d", 5),
        ("t", DAY),
    ],
)
def test_values_that_do_not_fit_are_refused(
    column: str, value: Any, open_session: Callable[..., Any]
) -> None:
    hr = open_session()
    hr.create_stream("s", DDL, event_time="ts")
    with pytest.raises(LogError, match=f"column `{column}`"):
        hr.append("s", [ROWS[0], ROWS[1] | {column: value}])


def test_months_are_no_integers(spark: Any, open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("i", "v BIGINT, ts TIMESTAMP", event_time="ts")
    frame = spark.sql("SELECT INTERVAL '3' MONTH AS v, TIMESTAMP '2024-01-01 00:00:00' AS ts")
    with pytest.raises(LogError, match="INTERVAL MONTH"):
        hr.append("i", frame)


def test_a_sum_of_months_that_does_not_fit_is_quarantined(open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("s", "y INTERVAL MONTH, ts TIMESTAMP", event_time="ts")
    query = hr.create_query(f"SELECT sum(y) FROM s GROUP BY {WINDOW}")
    other = hr.create_query(f"SELECT max(y) FROM s GROUP BY {WINDOW}")
    hr.append("s", [{"y": 2**31 - 1, "ts": NOON}] * 2)
    hr.close_stream("s")
    hr.run_available()
    assert query.state.value == "quarantined"
    assert other.state.value == "active" and other.audit().ok
