"""Session windows equal Spark's: random queries the batch way, and the rules of time as Structured Streaming has them.

gap 5, delay 0     0    5    10    15   20   25   30
epoch 0            a----a~~~~~                          W = 5   5 is where the session of 0 ends: they merge
epoch 1                      b~~~~~                     W = 10  a's session [0, 10) ends, and leaves
epoch 2                 x                               5 + gap <= 10: late
                         c---a~~~~~                     6 and 10 touch [0, 10), which has left: a new [6, 15)
epoch 3                                        d        W = 30  everything else leaves
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from generate import random_scenario
from harness import ORACLE, check, rows_of
from test_equals_spark import FIRST

from headrace.results.compare import compare_rows

pytestmark = pytest.mark.spark

QUERIES = int(os.environ.get("HEADRACE_PROPERTY_QUERIES", "20"))
ROUNDS = int(os.environ.get("HEADRACE_PROPERTY_ROUNDS", "1"))

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
DDL = "k STRING, v BIGINT, ts TIMESTAMP"
TEXTS = (
    "SELECT session_window.start AS s, session_window.end AS e, k, COUNT(*) AS n, SUM(v) AS v, MAX(v) AS m "
    "FROM events GROUP BY session_window(ts, '5 seconds'), k",
    "SELECT session_window, k, COUNT(*) FILTER (WHERE v % 2 = 0) AS n FROM events "
    "WHERE v > 2 OR ts < TIMESTAMP '1990-01-01' "
    "GROUP BY session_window(ts, '2 seconds'), k",
    "SELECT session_window.start AS s, k, sort_array(collect_list(v)) AS vs FROM events "
    "GROUP BY k, session_window(ts, '9 seconds')",
)
"""A condition that is not on the event time would move below the watermark in Structured Streaming, whose time then
passes with the tuples that are left; Headrace's passes with the stream.
"""

DELAY = "1 second"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_random_sessions_equal_spark(seed: int, spark: Any, open_session: Callable[..., Any]) -> None:
    print(f"HEADRACE_PROPERTY_SEED={seed}")
    verdict = check(open_session, spark, random_scenario(seed, QUERIES, sessions=True))
    print(verdict)
    assert not verdict.differences, "\n\n".join(verdict.differences)


class Streaming:
    """The same texts as Structured Streaming queries, each batch one file of a folder."""

    def __init__(self, spark: Any, folder: Path, delay: str, texts: tuple[str, ...]) -> None:
        self._spark, self._folder = spark.newSession(), folder
        for key, value in ORACLE.items():
            self._spark.conf.set(key, value)
        (folder / "in").mkdir(parents=True)
        source = self._spark.readStream.schema(DDL).parquet(str(folder / "in"))
        source.withWatermark("ts", delay).createOrReplaceTempView("events")
        self._running = [
            self._spark.sql(text).writeStream.outputMode("append").format("memory").queryName(f"out{i}")
            .option("checkpointLocation", str(folder / f"checkpoint{i}")).start()
            for i, text in enumerate(texts)
        ]  # fmt: skip

    def batch(self, number: int, table: pa.Table) -> None:
        """Process one batch, and the time that passes with it."""
        hidden = self._folder / f"{number}.parquet"
        pq.write_table(table, hidden)
        hidden.rename(self._folder / "in" / hidden.name)
        for query in self._running:
            query.processAllAvailable()

    def rows(self, query: int) -> list[tuple[Any, ...]]:
        return rows_of(self._spark.table(f"out{query}"))

    def stop(self) -> None:
        for query in self._running:
            query.stop()


@pytest.fixture
def streaming(spark: Any, tmp_path: Path) -> Iterator[Callable[..., Streaming]]:
    started: list[Streaming] = []

    def starts(delay: str, texts: tuple[str, ...]) -> Streaming:
        started.append(Streaming(spark, tmp_path / "streaming", delay, texts))
        return started[-1]

    yield starts
    for one in started:
        one.stop()


def play(
    hr: Any,
    plain: Streaming,
    delay: str,
    texts: tuple[str, ...],
    batches: Sequence[Sequence[tuple[str, int, float]]],
) -> list[Any]:
    """The same batches (key, value, seconds) through both; Headrace's queries."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    hr.create_stream("events", DDL, event_time="ts", watermark=delay)
    queries = [hr.create_query(text, name=f"q{i}") for i, text in enumerate(texts)]
    for number, batch in enumerate(batches):
        rows = [{"k": k, "v": v, "ts": start + timedelta(seconds=at)} for k, v, at in batch]
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        plain.batch(number, table)
        hr.append("events", table)
        hr.run_available()
    return queries


def test_time_passes_as_in_structured_streaming(
    streaming: Callable[..., Streaming], open_session: Callable[..., Any]
) -> None:
    batches = [
        [("a", 1, 0), ("a", 2, 5)],
        [("b", 3, 10)],
        [("a", 4, 5), ("a", 5, 6), ("a", 6, 10)],
        [("d", 7, 30)],
    ]
    plain = streaming("0 seconds", TEXTS[:1])
    (query,) = play(open_session(), plain, "0 seconds", TEXTS[:1], batches)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = sorted(rows_of(query.results()))
    assert [((s - start).seconds, (e - start).seconds, *rest) for s, e, *rest in rows] == [
        (0, 10, "a", 2, 3, 2),
        (6, 15, "a", 2, 11, 6),
        (10, 15, "b", 1, 3, 3),
    ]
    assert sorted(plain.rows(0)) == rows
    assert query.audit().ok
    assert "shared session aggregation, gap 5 s" in query.explain(verbose=True)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, ROUNDS // 3)))
def test_random_arrivals_equal_structured_streaming(
    seed: int, streaming: Callable[..., Streaming], open_session: Callable[..., Any]
) -> None:
    """Out of order by more than the delay, so that tuples are late, or come after the session that they touch."""
    print(f"HEADRACE_PROPERTY_SEED={seed}")
    rng = random.Random(seed)
    batches = [
        [
            (rng.choice("xyz"), rng.randrange(9), 20 + 6 * number + rng.randint(-36, 12) / 2)
            for _ in range(rng.choice([3, 12, 20]))
        ]
        for number in range(5)
    ]
    batches.append([("end", 0, 1000)])
    plain = streaming(DELAY, TEXTS)
    queries = play(open_session(), plain, DELAY, TEXTS, batches)
    for i, query in enumerate(queries):
        expected = plain.rows(i)
        assert len(expected) > 3
        assert compare_rows(expected, rows_of(query.results())) == ([], []), TEXTS[i]
        assert ("reads the log from the query's first epoch" in query.explain(verbose=True)) == (
            "collect_list" in TEXTS[i]
        )
        report = query.audit()
        assert report.ok, (report, report.missing, report.unexpected)
