"""Flink gets the queries in SQL of its own; its rows are those that the definition of a window says."""

from __future__ import annotations

import operator
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from join_definition import JOINED, by_definition

from headrace.results.compare import compare_rows
from headrace_bench.astream import AggregationQuery
from headrace_bench.astream_joins import ComplexQuery, JoinQuery
from headrace_bench.systems.flink import Flink
from headrace_bench.systems.flink_install import INSTALLED, VENV, FlinkError, find_python, run
from headrace_bench.systems.flink_job import Progress
from headrace_bench.systems.flink_sql import render_files, render_query, render_results
from headrace_bench.trial import Trial, feed
from headrace_bench.worker import run_trial
from headrace_bench.workload import Workload

TUMBLING = AggregationQuery("AVG", 3, ((2, ">=", 10),), 4, 4)
DIVIDING = AggregationQuery("MAX", 1, ((2, "<", 290), (4, "=", 7)), 8, 2)
OTHER = AggregationQuery("SUM", 4, ((1, ">", 272),), 10, 4)


def test_a_window_as_long_as_its_slide_is_a_tumble() -> None:
    assert render_query(TUMBLING) == (
        "SELECT window_end, `key`, AVG(CAST(field3 AS DOUBLE)) "
        "FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '4' SECOND) "
        "WHERE field2 >= 10 GROUP BY window_start, window_end, `key`"
    )


def test_a_slide_that_divides_its_range_is_a_hop() -> None:
    assert render_query(DIVIDING) == (
        "SELECT window_end, `key`, MAX(field1) "
        "FROM HOP(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '8' SECOND) "
        "WHERE field2 < 290 AND field4 = 7 GROUP BY window_start, window_end, `key`"
    )


def test_any_other_slide_hops_over_slices() -> None:
    assert render_query(OTHER) == (
        "SELECT HOP_END(slice_time, INTERVAL '4' SECOND, INTERVAL '10' SECOND), `key`, SUM(part) "
        "FROM (SELECT window_time AS slice_time, `key`, SUM(field4) AS part "
        "FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND) "
        "WHERE field1 > 272 GROUP BY window_start, window_end, window_time, `key`) "
        "GROUP BY `key`, HOP(slice_time, INTERVAL '4' SECOND, INTERVAL '10' SECOND)"
    )


def test_a_join_is_one_of_windows_and_leaves_out_those_that_the_query_does_not_have() -> None:
    sides = ((3, ">", 5), (1, "<", 7))
    text = render_query(JoinQuery(sides, 10, 4, (1, 2)))
    hop = "HOP(TABLE b, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND) WHERE field1 < 7"
    aligned = "MOD(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start), 4) = 0"
    assert f"JOIN (SELECT * FROM {hop} AND {aligned}) AS b ON a.`key` = b.`key`" in text
    assert "MOD(" not in render_query(JoinQuery(sides, 10, 5, (1, 2)))
    assert "`key` BIGINT, `a_field1` BIGINT, `b_field2` BIGINT)" in render_results(
        1, JoinQuery(sides, 10, 5, (1, 2)), Path("/results")
    )


def test_a_complex_query_sums_what_its_joins_give() -> None:
    text = render_query(ComplexQuery(((3, ">", 5), (1, "<", 7), (2, "=", 1)), 4, 2, 2))
    assert text.startswith("SELECT a.window_end, a.`key`, SUM(c.field1) FROM (SELECT * FROM HOP(TABLE a, ")
    assert text.count(" JOIN ") == 2
    assert text.endswith(" GROUP BY a.window_start, a.window_end, a.`key`")


@pytest.mark.parametrize(
    ("aggregate", "merged", "partials"),
    [
        ("COUNT", "SUM(part)", "COUNT(field4) AS part"),
        ("MIN", "MIN(part)", "MIN(field4) AS part"),
        ("MAX", "MAX(part)", "MAX(field4) AS part"),
        ("AVG", "SUM(part) / SUM(number)", "SUM(CAST(field4 AS DOUBLE)) AS part, COUNT(field4) AS number"),
    ],
)
def test_slices_keep_what_a_window_needs(aggregate: str, merged: str, partials: str) -> None:
    text = render_query(AggregationQuery(aggregate, 4, ((1, ">", 272),), 7, 5))
    assert f"`key`, {merged} FROM (SELECT window_time AS slice_time, `key`, {partials} FROM" in text


def test_tables_are_files_and_the_watermark_is_behind_rows_of_the_same_millisecond(tmp_path: Path) -> None:
    files = render_files("b", tmp_path, 15, Flink.ddl)
    assert files.startswith("CREATE TABLE files_b (`key` BIGINT, `field1` BIGINT, ")
    assert "WATERMARK FOR read_time AS read_time - INTERVAL '0.001' SECOND" in files
    assert (
        f"'path' = '{tmp_path.as_uri()}', 'source.monitor-interval' = '15ms', 'format' = 'parquet'" in files
    )
    assert render_results(7, TUMBLING, tmp_path).startswith(
        "CREATE TABLE q7 (`end` TIMESTAMP(3), `key` BIGINT, `value` DOUBLE) "
    )
    assert "`value` BIGINT" in render_results(8, OTHER, tmp_path)


class FakeJob:
    """What Flink would say of itself: rows read, and the watermarks of two writers."""

    def __init__(self) -> None:
        self.writers = [0, 1]
        self.read = 0
        self.watermarks = [0, 0]

    def rows_read(self, stream: str) -> int:
        return self.read

    def watermark(self, writer: int) -> int:
        return self.watermarks[writer]


def test_flink_sees_the_next_file_when_it_has_begun_the_one_before(tmp_path: Path) -> None:
    trial = Trial("flink", 1, rows=100, files=2, warm_up=1, rate=100)
    paths = trial.write_files(tmp_path / "data")
    (shown := tmp_path / "in").mkdir()
    job = FakeJob()
    feed(paths, tmp_path / "feed")
    progress = Progress(job, "a", tmp_path / "feed" / "a", shown)  # type: ignore[arg-type]

    def seen(read: int) -> list[str]:
        job.read = read
        progress.advance()
        return sorted(path.name for path in shown.iterdir())

    assert [len(seen(read)) for read in (0, 0, 1, 100, 101, 300)] == [1, 1, 2, 2, 3, 3]


def test_a_file_is_done_when_every_writer_is_past_its_last_row(tmp_path: Path) -> None:
    #  rows     0 .. 99 | 100 .. 199     last rows at 0.990 s and 1.990 s
    trial = Trial("flink", 1, rows=100, files=1, warm_up=1, rate=100)
    feed(trial.write_files(tmp_path / "data"), tmp_path / "feed")
    (tmp_path / "in").mkdir()
    start_ms = trial.last_closed_us() // 1_000 - 1_990
    job = FakeJob()
    job.read = 200
    progress = Progress(job, "a", tmp_path / "feed" / "a", tmp_path / "in")  # type: ignore[arg-type]

    def done(*watermarks: int) -> int:
        job.watermarks = [start_ms + at for at in watermarks]
        progress.advance()
        return progress.done

    assert [done(0, 0), done(5_000, 988), done(5_000, 989), done(5_000, 1_989)] == [0, 0, 100, 200]


def test_what_cannot_be_installed_is_said_with_the_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FlinkError, match=r"could not find it\n  detail: gone\n  hint: sh -c") as failure:
        run("find it", "sh", "-c", "echo gone; exit 3")
    assert failure.value.code == "FLINK_INSTALL"
    monkeypatch.setattr("headrace_bench.systems.flink_install.PYTHONS", ("1.5",))
    with pytest.raises(FlinkError, match=r"needs Python 1\.5"):
        find_python()


@pytest.mark.cluster
def test_flink_gives_the_rows_of_the_definition(tmp_path: Path) -> None:
    venv = Path(os.environ.get(VENV, ".venv-flink"))
    if not (venv / INSTALLED).exists():
        pytest.skip("Flink is not installed: `headrace bench --with flink` does it")
    trial = Trial("flink", 12, rows=4_000, files=3, warm_up=1, rate=500, keys=10, sample=12)
    outcome = run_trial(Flink(), trial, tmp_path / "trial", lambda **news: None)
    assert outcome.versions["flink"].startswith("2.")
    assert sorted(outcome.sample) == list(range(12))
    assert {query.range_s % query.slide_s == 0 for query in trial.drawn()} == {True, False}
    for number, rows in outcome.sample.items():
        query = trial.drawn()[number]
        assert compare_rows(windows(query, trial), rows) == ([], []), query
    assert 100 < sum(map(len, outcome.sample.values())) <= outcome.result_rows


@pytest.mark.cluster
@pytest.mark.parametrize("workload", [Workload.JOIN, Workload.COMPLEX])
def test_flink_gives_the_joins_of_the_definition(workload: Workload, tmp_path: Path) -> None:
    if not (Path(os.environ.get(VENV, ".venv-flink")) / INSTALLED).exists():
        pytest.skip("Flink is not installed: `headrace bench --with flink` does it")
    trial = Trial.of({"system": "flink", **JOINED[workload], "queries": 12, "sample": 12})
    outcome = run_trial(Flink(), trial, tmp_path / "trial", lambda **news: None)
    assert {query.range_s % query.slide_s == 0 for query in trial.drawn()} == {True, False}
    expected = [by_definition(query, trial) for query in trial.drawn()]
    assert sum(map(bool, expected)) >= 6
    for number, rows in outcome.sample.items():
        assert rows == sorted(expected[number]), trial.drawn()[number]


OPERATORS = {"=": operator.eq, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "SUM": sum,
    "COUNT": len,
    "AVG": fmean,
    "MIN": min,
    "MAX": max,
}


def windows(query: Any, trial: Trial) -> list[tuple[int, int, Any]]:
    """The closed windows of a query by their definition, row by row."""
    size_us, slide_us = query.range_s * 1_000_000, query.slide_s * 1_000_000
    values: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number in range(trial.warm_up + trial.files):
        table = trial.table(number)
        for row in table.set_column(6, "ts", table["ts"].cast("int64")).to_pylist():
            if all(OPERATORS[op](row[f"field{field}"], value) for field, op, value in query.predicates):
                start = row["ts"] // slide_us * slide_us
                while start > row["ts"] - size_us:
                    values[start + size_us, row["key"]].append(row[f"field{query.field}"])
                    start -= slide_us
    last_us = trial.last_closed_us()
    return [(end, key, AGGREGATES[query.aggregate](v)) for (end, key), v in values.items() if end <= last_us]
