"""A query that plain Spark fails on is quarantined with its error, wherever it fails; its neighbours deliver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness import Oracle, rows_of

from headrace.results.compare import compare_rows

pytestmark = pytest.mark.spark

DDL = "k INT, n INT, big BIGINT, s STRING, v STRING, ts TIMESTAMP"
SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("s", pa.string()),
        ("v", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
W = "window(ts, '10 seconds')"

FAILING = {
    "where": f"SELECT window.end, count(*) FROM t WHERE CAST(s AS INT) > 0 GROUP BY {W}",
    "where, after a condition": f"SELECT window.end, count(*) FROM t WHERE k >= 0 AND 1 / n > 0 GROUP BY {W}",
    "input": f"SELECT window.end, sum(1 / n) FROM t GROUP BY {W}",
    "key": f"SELECT window.end, CAST(s AS INT), count(*) FROM t GROUP BY CAST(s AS INT), {W}",
    "filter": f"SELECT window.end, count(*) FILTER (WHERE 10 % n = 1) FROM t GROUP BY {W}",
    "sum": f"SELECT window.end, sum(big) FROM t GROUP BY {W}",
    "select list": f"SELECT window.end, 1 / sum(n) FROM t GROUP BY {W}",
    "having": f"SELECT window.end FROM t GROUP BY {W} HAVING CAST(max(s) AS INT) > 0",
    "projection": "SELECT CAST(s AS INT) AS i FROM t",
    "projection's condition": "SELECT n FROM t WHERE CAST(s AS INT) > 0",
    "fallback": f"SELECT window.end, count(DISTINCT 1 / n) FROM t GROUP BY {W}",
    "cql": "SELECT k, max(CAST(s AS INT)) FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
}
SOUND = {
    "plain": f"SELECT window.end, k, count(*), sum(n) FROM t GROUP BY k, {W}",
    "guarded": f"SELECT window.end, sum(1 / n) FROM t WHERE n <> 0 GROUP BY {W}",
    "guarded by filter": f"SELECT window.end, sum(1 / n) FILTER (WHERE n <> 0) FROM t GROUP BY {W}",
    "guarded by case": f"SELECT window.end, sum(CASE WHEN n <> 0 THEN 10 % n END) FROM t GROUP BY {W}",
    "guarded result": f"SELECT window.end, CASE WHEN sum(n) <> 0 THEN 1 / sum(n) END FROM t GROUP BY {W}",
    "guarded by what may be NULL": (
        f"SELECT window.end, sum(1 / n) FROM t WHERE length(v) = 5 AND 1 / n > 0 GROUP BY {W}"
    ),
    "guarded by a negated OR": (
        f"SELECT window.end, max(n) FROM t WHERE NOT (length(v) <> 5 OR 10 % n > 3) GROUP BY {W}"
    ),
    "guarded, stateless": "SELECT n, 1 / n AS x FROM t WHERE v <> '' AND (k >= 0 AND 1 / n > 0)",
    "guarded having": f"SELECT window.end FROM t GROUP BY {W} HAVING sum(n) <> 0 AND 1 / sum(n) < 5",
    "try": "SELECT try_cast(s AS INT) AS i FROM t WHERE k > 0",
    "average": f"SELECT window.end, sum(big / 4) / count(*) FROM t GROUP BY {W}",
    "fallback": f"SELECT window.end, count(DISTINCT s) FROM t GROUP BY {W}",
}


def good(second: int) -> dict[str, Any]:
    numbers = {"k": second % 2, "n": 1 + second % 3, "big": second}
    return numbers | {"s": "7", "v": "seven", "ts": NOON + dt.timedelta(seconds=second)}


def bad(second: int) -> list[dict[str, Any]]:
    """Tuples of one window: none is good for much, and their sums overflow or are 0."""
    odd = {"n": 0, "big": 2**63 - 1, "s": "seven", "v": None}
    return [good(second) | odd, good(second) | odd]


def test_failing_queries_are_quarantined_and_the_others_deliver(
    spark: Any, open_session: Callable[..., Any], tmp_path: Path
) -> None:
    hr, oracle = open_session(), Oracle(spark)
    hr.create_stream("t", DDL, event_time="ts")
    failing = {name: hr.create_query(text) for name, text in FAILING.items()}
    sound = {name: hr.create_query(text) for name, text in SOUND.items()}
    epochs = [[good(s) for s in range(12)], [*bad(22), good(34)], [good(s) for s in range(40, 60)]]
    for rows in epochs:
        hr.append("t", pa.Table.from_pylist(rows, schema=SCHEMA))
        hr.run_available()
    infos = {info.name: info for info in hr.queries()}
    for name, query in failing.items():
        info = infos[query.name]
        assert info.state.value == "quarantined", name
        assert info.error and ("[" in info.error or "OVERFLOW" in info.error), (name, info.error)
        assert "\n" not in info.error, name
        assert info.last_epoch == 1, name
        report = query.audit()
        assert not report.ok and not report.differs, (name, report)
        assert name in ("having",) or report.actual_rows > 0, name
    everything = pa.Table.from_pylist([row for rows in epochs for row in rows], schema=SCHEMA)
    pq.write_table(
        everything, tmp_path / "t.parquet"
    )  # a local relation is filtered another way, in the optimizer
    oracle.spark.read.parquet(str(tmp_path / "t.parquet")).createOrReplaceTempView("t")
    until = NOON + dt.timedelta(seconds=59)
    for name, query in sound.items():
        assert infos[query.name].error is None, name
        expected = oracle.rows(query._entry().query.plan.plain_sql)
        if "window" in SOUND[name]:
            expected = [row for row in expected if row[0] <= until]
        assert expected
        assert compare_rows(expected, rows_of(query.results())) == ([], []), name
        assert query.audit().ok, name


def test_quarantine_survives_reopening_and_can_be_dropped(open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("t", DDL, event_time="ts")
    hr.create_query(FAILING["select list"], name="q")
    hr.append("t", pa.Table.from_pylist([*bad(1), good(30)], schema=SCHEMA))
    hr.run_available()
    error = hr.queries()[0].error
    hr.close()
    hr = open_session()
    assert (hr.queries()[0].state.value, hr.queries()[0].error) == ("quarantined", error)
    assert hr.query("q").results().count() == 0
    hr.drop_query("q")
    hr.create_query(SOUND["guarded result"], name="q")
    hr.append("t", pa.Table.from_pylist([good(40), good(60)], schema=SCHEMA))
    hr.run_available()
    assert hr.query("q").results().count() == 1
    assert hr.query("q").audit().ok
