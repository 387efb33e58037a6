"""The Spark session that people bring: its settings change no row, and nothing of it changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession
from session_samples import SALES, at, rows, sale, with_sales

import headrace

pytestmark = pytest.mark.spark

ODD = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
}


def test_a_thread_that_runs_epochs_keeps_its_job_group(spark: Any, tmp_path: Path) -> None:
    """Opening with rebuild=True and running outside the main thread are done in the caller's own thread."""
    context, found = spark.sparkContext, []

    def run() -> None:
        context.setJobGroup("mine", "my own jobs")
        with headrace.open(tmp_path, spark=spark, progress=False) as hr:
            with_sales(hr)
            hr.append("sales", [sale(1)])
            hr.run_available()
        headrace.open(tmp_path, spark=spark, rebuild=True, progress=False).close()
        found.extend(map(context.getLocalProperty, ("spark.jobGroup.id", "spark.scheduler.pool")))

    thread = InheritableThread(target=run)
    thread.start()
    thread.join()
    assert found == ["mine", None]


@pytest.fixture
def odd(spark: Any) -> Any:
    session = spark.newSession()
    for key, value in ODD.items():
        session.conf.set(key, value)
    return session


QUERIES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "days": (
        "SELECT window.start AS d, COUNT(*) AS n FROM sales GROUP BY window(ts, '1 day')",
        [(at(-12 * 3600), 3)],
    ),
    "hours": (
        "SELECT id, hour(ts) AS h, date_format(ts, 'HH:mm') AS t FROM sales WHERE id = 1",
        [(1, 12, "12:00")],
    ),
    "since": ("SELECT id FROM sales WHERE TS >= '2026-01-01 12:00:02'", [(2,), (3,)]),
    "cast": ("SELECT CAST(TS AS STRING) AS s FROM Sales WHERE ID = 1", [("2026-01-01 12:00:01",)]),
    "alone": (
        "SELECT hour(window.start) AS h, COUNT(DISTINCT Country) AS n FROM sales GROUP BY window(ts, '1 hour')",
        [(12, 2)],
    ),
    "tried": ("SELECT try_divide(1, level) AS r FROM sales WHERE id = 3", [(None,)]),
}


def settings_of(session: Any) -> dict[str, str]:
    return dict(session.conf.getAll)


def test_odd_settings_change_no_row_and_stay_as_they_are(odd: Any, tmp_path: Path) -> None:
    before, tables = settings_of(odd), odd.catalog.listTables()
    with headrace.open(tmp_path / "w", spark=odd, progress=False) as hr:
        assert hr.spark is odd
        with_sales(hr)
        queries = {name: hr.create_query(text, name=name) for name, (text, _) in QUERIES.items()}
        broken = hr.create_query("SELECT 1 / level AS r FROM sales", name="broken")
        schema = SALES.replace("ts TIMESTAMP", "ts TIMESTAMP_LTZ")
        frame = odd.createDataFrame([tuple(sale(3, 0, country="FR").values())], schema)
        hr.append("sales", [sale(1), sale(2)])
        hr.append("sales", frame)
        hr.close_stream("sales")
        hr.run_available()
        for name, query in queries.items():
            assert rows(query) == QUERIES[name][1], name
            assert query.audit().ok, name
        assert rows(broken) == []
        assert "DIVIDE_BY_ZERO" in {i.name: i.error for i in hr.queries()}["broken"], (
            "ANSI mode is the design's"
        )
        assert hr.execute("SELECT s FROM cast").to_pylist() == [{"s": "2026-01-01 12:00:01"}]
        stream = hr.streams()[0]
        assert stream.columns[-1].type.name == "timestamp"
    assert settings_of(odd) == before
    assert odd.catalog.listTables() == tables
    assert odd.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    assert odd.sparkContext.getLocalProperty("spark.scheduler.pool") is None
    assert odd.sql("SELECT 1 / 0 AS r").collect()[0].r is None, "it is alive, and still not in ANSI mode"


def test_a_streaming_frame_of_an_odd_session(odd: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1, "ts": "2026-01-01 07:00:01"}\n')
    source = odd.readStream.schema("id BIGINT, ts TIMESTAMP_LTZ").json(str(tmp_path / "in"))
    with headrace.open(tmp_path / "w", spark=odd, progress=False) as hr:
        hr.create_stream("s", "id BIGINT, ts TIMESTAMP_LTZ", event_time="ts", source=source)
        query = hr.create_query("SELECT ts FROM s", name="q")
        hr.run_available()
        assert rows(query) == [(at(1),)], "New York's seven in the morning, as the frame's session reads it"


def test_without_a_session_the_running_one_is_used_as_it_is(spark: Any, tmp_path: Path) -> None:
    before = settings_of(spark)
    with headrace.open(
        tmp_path / "w", master="local[1]", config={"spark.sql.session.timeZone": "Asia/Tokyo"}
    ) as hr:
        assert hr.spark.sparkContext is spark.sparkContext
    assert settings_of(spark) == before
    assert spark.range(3).count() == 3, "what we did not start we do not stop"


def test_the_active_session_stays_the_users(odd: Any, tmp_path: Path) -> None:
    odd.createDataFrame([(1,)], "a INT")  # makes it the active one
    active = SparkSession.getActiveSession()
    assert active is not None and active.conf.get("spark.sql.session.timeZone") == "America/New_York"
    with headrace.open(tmp_path / "w", spark=odd, progress=False) as hr:
        query = with_sales(hr).create_query("SELECT COUNT(DISTINCT id) FROM sales [RANGE 1 DAY]", name="q")
        assert rows(query) == []
        hr.append("sales", [sale(1)])
        hr.close_stream("sales")
        hr.run_available()
        assert query.audit().ok
    active = SparkSession.getActiveSession()
    assert active is not None and active.conf.get("spark.sql.session.timeZone") == "America/New_York"


TWICE = """
import sys
from pathlib import Path
import headrace
from pyspark.sql import SparkSession
from datetime import datetime, UTC

def use(path, expected):
    with headrace.open(path, master="local[2]", progress=False) as hr:
        if not hr.streams():
            hr.create_stream("s", "id BIGINT, ts TIMESTAMP", event_time="ts")
            hr.create_query("SELECT id FROM s", name="q")
        hr.append("s", [{"id": expected, "ts": datetime(2026, 1, 1, tzinfo=UTC)}])
        hr.run_available()
        query = hr.query("q")
        assert query.to_pandas().id.max() == expected
        assert query.audit().ok
        assert hr.spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert SparkSession.getActiveSession() is None, "a Spark session of ours is stopped with it"

use(Path(sys.argv[1]) / "one", 1)
use(Path(sys.argv[1]) / "one", 2)
print("two sessions")
"""


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    def run(text: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", text, str(tmp_path)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    yield run


def test_sessions_with_their_own_spark_one_after_the_other(script: Callable[[str], str]) -> None:
    assert script(TWICE) == "two sessions\n"
