"""Open sessions outlive the process: killed between epochs, rebuilt from the log, kept when the log is gone.

Some tuples of each batch are behind the watermark: late, or not late and touching a session that had left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scenario import BUSY, NOON, ROWS, batch, delivered, lifetimes, outlive

import headrace
from headrace.engine.rebuild import Beginning, Ground, _Rebuild

pytestmark = [pytest.mark.crash, pytest.mark.spark]

STEPS = 6
QUERIES = {
    "visits": "SELECT session_window.start AS s, session_window.end AS e, userID, COUNT(*) AS n, "
    "MAX(name) AS last, COUNT(DISTINCT gemPackID) AS packs, median(price) AS middle FROM purchases "
    "WHERE price > 2 GROUP BY session_window(ts, '2 seconds'), userID",
    "long": "SELECT session_window AS w, userID, SUM(price) AS spend FROM purchases "
    "WHERE gemPackID = 1 GROUP BY session_window(ts, '20 seconds'), userID",
    "brief": "SELECT userID, AVG(price) AS mean FROM purchases [SESSION GAP 700 MILLISECONDS] GROUP BY userID",
    "uniq": "SELECT size(collect_list(gemPackID)) AS n, session_window.end AS til FROM purchases "
    "GROUP BY session_window(ts, '300 milliseconds')",
}
CREATES = {0: ("visits", "long"), 1: ("uniq",), 2: ("brief",)}


def behind(step: int) -> list[dict[str, Any]]:
    """One tuple per user 0.3 seconds behind the watermark that the step before has left."""
    passed = NOON + timedelta(seconds=step * 7 - 7 / ROWS - 1)
    row = {"id": -step, "gemPackID": 1, "name": "behind", "price": 3.0, "ts": passed - timedelta(seconds=0.3)}
    return [row | {"userID": user} for user in range(5)]


def play(hr: Any, steps: int = STEPS) -> None:
    """Go on wherever the warehouse stopped; in the end the stream is closed."""
    if not hr.streams():
        hr.create_stream(
            "purchases",
            "id BIGINT, userID BIGINT, gemPackID BIGINT, name STRING, price DOUBLE, ts TIMESTAMP",
            event_time="ts",
            watermark="1 second",
        )
    for step in range(max(0, min(hr._arrivals.next_number, STEPS) - 1), steps):
        known = {info.name for info in hr.queries()}
        for name in CREATES.get(step, ()):
            if name not in known:
                hr.create_query(QUERIES[name], name=name)
        if hr._arrivals.next_number == step:
            hr.append("purchases", [*batch(step), *behind(step)])
        hr.run_available()
    if steps == STEPS:
        if not any(stream.closed for stream in hr.streams()):
            hr.close_stream("purchases")
        hr.run_available()


Opens = Callable[..., Any]


@pytest.fixture(scope="module")
def undisturbed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with headrace.open(
        tmp_path_factory.mktemp("undisturbed"), spark=spark, upkeep=BUSY, progress=False
    ) as hr:
        play(hr)
        yield hr


def check_equal(hr: Any, undisturbed: Any) -> None:
    assert delivered(hr) == delivered(undisturbed)
    assert lifetimes(hr) == lifetimes(undisturbed)


def test_the_scenario_has_what_it_is_for(undisturbed: Any) -> None:
    """Late tuples, sessions over several epochs, and some that touch one of the same user that had left."""
    for name in QUERIES:
        report = undisturbed.query(name).audit()
        assert report.ok and report.actual_rows > 3, report
    visits = undisturbed.query("visits").results().toArrow().to_pylist()
    assert sum(row["n"] for row in visits) < STEPS * ROWS
    long = [row["w"] for row in undisturbed.query("long").results().toArrow().to_pylist()]
    assert any(w["end"] - w["start"] > timedelta(seconds=20 + 2 * 7) for w in long)
    brief = undisturbed.query("brief").results().toArrow().to_pylist()
    spans = sorted((row["userID"], row["window_start"], row["window_end"]) for row in brief)
    assert any(a[0] == b[0] and b[1] <= a[2] for a, b in pairwise(spans))


def test_killed_between_epochs_with_open_sessions(opens: Opens, tmp_path: Path, undisturbed: Any) -> None:
    met: set[tuple[str, int]] = set()

    def dies(point: str, epoch: int) -> bool:
        first_time = (
            point in ("job.after", "commit.before", "commit.after")
            and epoch in (1, 3)
            and (point, epoch) not in met
        )
        met.update([(point, epoch)] if first_time else [])
        return first_time

    hr, lives = outlive(lambda: opens(tmp_path), play, dies)
    assert lives == 7
    check_equal(hr, undisturbed)
    hr.close()


@pytest.mark.parametrize("step", [3, 4])
def test_rebuilt_state_goes_on_as_if_it_had_been_kept(
    step: int, opens: Opens, tmp_path: Path, undisturbed: Any
) -> None:
    with opens(tmp_path) as hr:
        play(hr, step)
        segments = {tmp_path / segment.path for segment in hr._delivered.main.segments}
    for segment in segments:
        segment.unlink()
    with opens(tmp_path, rebuild=step == 4) as hr:  # else it is found out and mended when an epoch needs it
        play(hr)
        check_equal(hr, undisturbed)


def test_epochs_without_tuples_behind_are_rebuilt_together(opens: Opens, tmp_path: Path) -> None:
    """One job for what needs no replay: `batch(step)` moved so that nothing is behind the watermark."""
    with opens(tmp_path) as hr:
        play(hr, 1)
        for step in range(1, 4):
            rows = [row for i, row in enumerate(batch(step)) if i % 11]
            hr.append("purchases", rows)
            hr.run_available()
        group = hr._running.groups.main
        following = group.commit.epoch + 1
        work = _Rebuild(
            Ground(group.spark, hr._warehouse, hr._catalog, hr._sealer),
            group.name,
            Beginning(following, group.held(following), group.spec(following), group.strategies(following)),
        )
        _, doomed = work.choose(None)
        assert len(list(work._batches(doomed, sessions=True))) == 1
        expected = {name: hr.query(name).results().count() for name in ("visits", "long")}
        hr._running.groups.rebuild()
        hr.close_stream("purchases")
        hr.run_available()
        for name, rows in expected.items():
            report = hr.query(name).audit()
            assert report.ok and report.actual_rows > rows, report


def test_segments_stay_when_the_log_is_gone(opens: Opens, tmp_path: Path, undisturbed: Any) -> None:
    """A shared session may have begun in an epoch that the log has lost; a query on plain Spark keeps its log."""
    with opens(tmp_path, log_retention="1 millisecond") as hr:
        play(hr, 4)
        assert hr._sealer.first == 1, "uniq, which reads the log as a whole, began in epoch 1"
        before = hr._delivered.main.segments
    with opens(tmp_path, rebuild=True) as hr:
        assert hr._delivered.main.segments == before
        play(hr)
        check_equal(hr, undisturbed)
        report = hr.query("visits").audit()
        assert report.ok and report.actual_rows > 0 and report.note, report
        assert hr.query("uniq").audit().ok
