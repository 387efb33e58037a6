"""Rows read without a Spark job are the rows that Spark gives, types included; dropped queries stay readable."""

from __future__ import annotations

import stat
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headrace.catalog.queries import QueryState
from headrace.catalog.snapshot import SNAPSHOT
from headrace.engine.options import UpkeepOptions
from headrace.looking.answers import direct_in

pytestmark = pytest.mark.spark

Open = Callable[..., Any]

SCHEMA = "k INT, t STRING, v DOUBLE, d DECIMAL(8,2), b BOOLEAN, day DATE, n TIMESTAMP_NTZ, ts TIMESTAMP"

QUERIES = {
    "all": "SELECT * FROM s WHERE v > 1 OR v IS NULL",
    "twice": "SELECT k, k, t AS k FROM s",
    "sums": "SELECT k, t, window.start AS a, window.end AS z, sum(v) AS v, max(d) AS d, min(b) AS b, max(day) AS day, "
    "min(n) AS n, count(*) AS c FROM s GROUP BY k, t, window(ts, '10 seconds')",
    "sessions": "SELECT t, session_window.start AS a, session_window.end AS z, max(k) AS k FROM s "
    "GROUP BY t, session_window(ts, '3 seconds')",
    "having": "SELECT t, count(*) AS c FROM s GROUP BY t, window(ts, '10 seconds') HAVING count(*) > 12",
    "computed": "SELECT t, sum(v) / count(*) AS m, window FROM s GROUP BY t, window(ts, '10 seconds')",
    "sets": "SELECT k, collect_set(day) AS days FROM s GROUP BY k, window(ts, '10 seconds')",
    "values": "SELECT k, count(DISTINCT v) AS c, max_by(t, v) AS t, median(d) AS d FROM s "
    "GROUP BY k, window(ts, '10 seconds')",
    "plain": "SELECT k, bit_xor(k) AS c, max(n) AS n FROM s GROUP BY k, window(ts, '10 seconds')",
    "empty": "SELECT k, n FROM s WHERE v > 1e9",
    "mean": "SELECT t, avg(v) AS m FROM s GROUP BY t, window(ts, '10 seconds') HAVING avg(v) > 9.5",
    "joined": "SELECT a.k, b.v FROM (SELECT *, window(ts, '4 seconds', '2 seconds') AS w FROM s) a JOIN "
    "(SELECT *, window(ts, '4 seconds', '2 seconds') AS w FROM s) b ON a.k = b.k AND a.w = b.w WHERE a.v < 3",
    "filtered": "SELECT a.k, b.v FROM (SELECT *, window(ts, '4 seconds') AS w FROM s) a JOIN "
    "(SELECT *, window(ts, '4 seconds') AS w FROM s) b ON a.k = b.k AND a.w = b.w WHERE a.v + b.v < 3",
}

DIRECT = {"all", "twice", "sums", "sessions", "values", "plain", "empty"}


def rows(step: int) -> list[dict[str, Any]]:
    years = pd.Timestamp("0001-01-01"), pd.Timestamp("2024-03-01 10:11:12.345678"), None
    return [
        {
            "k": None if i % 7 == 3 else i % 3,
            "t": None if i % 5 == 4 else f"t{i % 4}",
            "v": None if i % 11 == 5 else i / 2,
            "d": Decimal(i) / 4 if i % 6 else None,
            "b": None if i % 5 == 0 else i % 2 == 0,
            "day": pd.Timestamp(2024, 1, 1 + i % 20).date(),
            "n": None if years[i % 3] is None else years[i % 3].to_pydatetime(),
            "ts": pd.Timestamp(2026, 1, 1, 0, 0, step * 4 + i % 4, tz="UTC").to_pydatetime(),
        }
        for i in range(40)
    ]


def compare(direct: pd.DataFrame, spark: pd.DataFrame) -> None:
    assert list(direct.columns) == list(spark.columns)
    names = [f"c{i}" for i in range(len(direct.columns))]
    frames = [frame.set_axis(names, axis=1) for frame in (direct, spark)]
    assert [str(t) for t in frames[0].dtypes] == [str(t) for t in frames[1].dtypes]
    texts = [sorted(map(repr, frame.astype(object).itertuples(index=False))) for frame in frames]
    assert texts[0] == texts[1]


def test_rows_without_a_job_are_those_of_spark(open_session: Open, tmp_path: Path) -> None:
    hr = open_session(upkeep=UpkeepOptions(fan_in=2, every=2, keep_commits=2), partitions=2)
    hr.create_stream("s", SCHEMA, event_time="ts")
    for name, text in QUERIES.items():
        hr.create_query(text, name=name)
    for step in range(6):
        hr.append("s", rows(step))
        hr.run_available()
    hr.close_stream("s")
    hr.run_available()
    for name in QUERIES:
        handle = hr.query(name)
        direct = direct_in(hr, handle._entry())
        assert (direct is not None) is (name in DIRECT), name
        if direct is not None:
            compare(direct, handle._collected())
            assert len(direct) or name == "empty"
    assert hr.query("all").to_pandas()["n"].min() == pd.Timestamp("0001-01-01")
    assert hr.query("plain").to_pandas()["n"].dt.year.min() == 1

    # what `queries` counts is what a reader gets, before and after rows are put into windows or left out by HAVING
    counted = {info.name: info.rows for info in hr.queries()}
    assert counted == {name: len(hr.query(name).to_pandas()) for name in QUERIES}
    assert counted["having"] < hr._delivered.stored_rows(hr._catalog.entry("having"))
    assert counted["joined"] > hr._delivered.stored_rows(hr._catalog.entry("joined"))
    assert hr.query("mean").metrics().rows == hr.query("mean").status().rows == counted["mean"] > 0

    # dropped queries leave snapshot and commits, and stay readable with their rows
    before = {name: len(hr.query(name).to_pandas()) for name in QUERIES}
    for name in QUERIES:
        hr.drop_query(name)
    hr.create_stream("r", "ts TIMESTAMP", event_time="ts")
    hr.create_query("SELECT ts FROM r", name="other")
    for second in range(6):
        hr.append("r", [{"ts": pd.Timestamp(2026, 1, 1, 0, 0, second, tz="UTC").to_pydatetime()}])
        hr.run_available()
    assert [entry.query.name for entry in hr._catalog.current()] == ["other"]
    assert "computed" not in (tmp_path / "warehouse" / SNAPSHOT).read_text()
    assert set(hr._delivered.main.rows.queries.tolist()) <= {hr._catalog.entry("other").query.id}
    hr.close()
    again = open_session()
    assert {info.name: info.state for info in again.queries()}["sums"] is QueryState.DROPPED
    assert {name: len(again.query(name).to_pandas()) for name in QUERIES} == before
    assert {info.name: info.rows for info in again.queries() if info.name != "other"} == before

    for path in (tmp_path / "warehouse").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
