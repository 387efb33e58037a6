"""Joins in flight outlive the process: killed around commits, rebuilt from the log, kept when the log is gone.

Views are compared, not stored rows: a row's tuples may have been rebuilt, and then it says so in `late_us`.

    step    0      1      2      3      4      5
    pairs   |-------------------------------------------   (two streams)
    worth   |-------------------------------------------   (a product of aggregations)
    names   |-------------------------------------------   (joined rows in groups)
    twins          |------------------------------------   (a stream with itself, a condition across)
    trio           |--------------------|                  (three members)
    trail          |------------------------------------   (three members on two keys, in groups)
    sums                                |---------------   (takes a free slot)
    left           |------------------------------------   (plain Spark)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from scenario import BUSY, ROWS, batch, lifetimes, outlive

import headrace

pytestmark = [pytest.mark.crash, pytest.mark.spark]

STEPS = 6
RANGE = "[RANGE 9 SECONDS SLIDE 3 SECONDS]"
QUERIES = {
    "pairs": f"SELECT p.id, a.id AS ad, p.price FROM purchases {RANGE} AS p, ads {RANGE} AS a "
    "WHERE p.userID = a.userID AND p.price > 2",
    "worth": f"SELECT a.userID, COUNT(*) AS n, SUM(p.price) AS spend, MAX(a.name) AS last FROM purchases {RANGE} AS p, "
    "ads [RANGE 6 SECONDS SLIDE 3 SECONDS] AS a WHERE p.userID = a.userID AND p.gemPackID = 1 GROUP BY a.userID",
    "names": "SELECT a.name, COUNT(*) AS n, MAX(p.price) AS top, COUNT(*) FILTER (WHERE p.price > 3 OR a.id > 20) AS m "
    f"FROM purchases {RANGE} AS p, ads {RANGE} AS a WHERE p.userID = a.userID GROUP BY a.name",
    "twins": f"SELECT x.id, y.id AS other FROM purchases {RANGE} AS x, purchases {RANGE} AS y "
    "WHERE x.userID = y.userID AND x.gemPackID = y.gemPackID AND x.id < y.id",
    "trio": "SELECT x.id, y.id AS other, a.id AS ad "
    f"FROM purchases {RANGE} AS x, purchases {RANGE} AS y, ads {RANGE} AS a "
    "WHERE x.userID = y.userID AND y.userID = a.userID AND x.price = 1.0 AND a.price < 3",
    "trail": "SELECT y.name, COUNT(*) AS n, SUM(x.id) AS s, MIN(a.price) AS least "
    f"FROM purchases {RANGE} AS x, ads {RANGE} AS a, purchases {RANGE} AS y "
    "WHERE x.userID = a.userID AND a.gemPackID = y.gemPackID AND x.price > 3 AND a.price < 5 GROUP BY y.name",
    "sums": f"SELECT p.userID, AVG(a.price) AS mean FROM purchases {RANGE} AS p, ads {RANGE} AS a "
    "WHERE p.userID = a.userID GROUP BY p.userID",
    "left": "SELECT p.id, a.id AS ad FROM purchases [RANGE 3 SECONDS] AS p LEFT JOIN ads [RANGE 3 SECONDS] AS a "
    "ON p.userID = a.userID AND a.price > 6",
}
CREATES = {0: ("pairs", "worth", "names"), 1: ("twins", "trio", "trail", "left"), 4: ("sums",)}
DROPS = {4: ("trio",)}
STREAMS = ("purchases", "ads")


def ads(step: int) -> list[dict[str, Any]]:
    """Like the purchases, a second behind them, and with other prices."""
    return [
        row | {"price": row["id"] * 3 % 32 / 4, "ts": row["ts"] - timedelta(seconds=1)} for row in batch(step)
    ]


def play(hr: Any, steps: int = STEPS) -> None:
    """Go on wherever the warehouse stopped; each step has two arrivals, in the end the streams are closed."""
    known = {stream.name for stream in hr.streams()}
    for name in STREAMS:
        if name not in known:
            hr.create_stream(
                name,
                "id BIGINT, userID BIGINT, gemPackID BIGINT, name STRING, price DOUBLE, ts TIMESTAMP",
                event_time="ts",
                watermark="4 seconds" if name == "ads" else "2 seconds",
            )
    arrived = min(hr._arrivals.next_number, 2 * STEPS)
    for step in range(max(0, (arrived + 1) // 2 - 1), steps):
        known = {info.name for info in hr.queries()}
        for name in CREATES.get(step, ()):
            if name not in known:
                hr.create_query(QUERIES[name], name=name)
        for name in DROPS.get(step, ()):
            if hr._catalog.entry(name).live:
                hr.drop_query(name)
        for number, name in enumerate(STREAMS):
            if hr._arrivals.next_number == 2 * step + number:
                hr.append(name, batch(step) if name == "purchases" else ads(step))
        hr.run_available()
    if steps == STEPS:
        closed = {stream.name for stream in hr.streams() if stream.closed}
        for name in STREAMS:
            if name not in closed:
                hr.close_stream(name)
        hr.run_available()


Opens = Callable[..., Any]


@pytest.fixture(scope="module")
def undisturbed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("undisturbed")
    with headrace.open(path, spark=spark, upkeep=BUSY, progress=False) as hr:
        play(hr)
        yield hr


def rows(hr: Any) -> dict[str, Counter[tuple[Any, ...]]]:
    found = {}
    for name in QUERIES:
        table = hr.query(name).results().toArrow()
        found[name] = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return found


@pytest.fixture(scope="module")
def expected(undisturbed: Any) -> dict[str, Counter[tuple[Any, ...]]]:
    return rows(undisturbed)


def check_equal(hr: Any, undisturbed: Any, expected: dict[str, Counter[tuple[Any, ...]]]) -> None:
    assert rows(hr) == expected
    assert lifetimes(hr) == lifetimes(undisturbed)


def test_the_scenario_has_what_it_is_for(undisturbed: Any) -> None:
    shared = {info.name: info.shared for info in undisturbed.queries()}
    assert shared == {name: name != "left" for name in QUERIES}
    for name in QUERIES:
        report = undisturbed.query(name).audit()
        assert report.ok and report.actual_rows > 3, report
    assert sum(stream.late_rows for stream in undisturbed.streams()) > ROWS // 11


def test_killed_around_commits(opens: Opens, tmp_path: Path, undisturbed: Any, expected: Any) -> None:
    met: set[tuple[str, int]] = set()
    points = ("seal.after", "job.after", "commit.before", "commit.after")

    def dies(point: str, epoch: int) -> bool:
        first_time = point in points and epoch in (1, 3, 4) and (point, epoch) not in met
        met.update([(point, epoch)] if first_time else [])
        return first_time

    hr, lives = outlive(lambda: opens(tmp_path), play, dies)
    assert lives == 1 + 3 * len(points)
    check_equal(hr, undisturbed, expected)
    hr.close()


@pytest.mark.parametrize("step", [2, 4])
def test_rebuilt_state_goes_on_as_if_it_had_been_kept(
    step: int, opens: Opens, tmp_path: Path, undisturbed: Any, expected: Any
) -> None:
    with opens(tmp_path) as hr:
        play(hr, step)
        segments = {tmp_path / segment.path for segment in hr._delivered.main.segments}
    assert {path.name.split("-")[1] for path in segments} >= {"joins", "product"}
    for segment in segments:
        segment.unlink()
    with opens(tmp_path, rebuild=step == 4) as hr:  # else it is found out and mended when an epoch needs it
        play(hr)
        check_equal(hr, undisturbed, expected)
        assert hr.query("pairs").audit().ok and hr.query("worth").audit().ok, (
            "audits of equal rows are equal too"
        )


def test_results_and_audits_when_the_log_is_gone(
    opens: Opens, tmp_path: Path, undisturbed: Any, expected: Any
) -> None:
    with opens(tmp_path, log_retention="1 millisecond") as hr:
        play(hr)
        assert hr._sealer.first > 2
        check_equal(hr, undisturbed, expected)
        for name in ("pairs", "worth", "twins"):
            report = hr.query(name).audit()
            assert report.ok and report.note, report
