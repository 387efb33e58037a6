"""Arroyo's SQL tests with the rows their repository expects.

TUMBLE and HOP are written as Spark's window(), SESSION as session_window(): both end a session a gap after its last
tuple. A join of aggregations is a join of subqueries with their windows equal.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from oracle_files import folder, json_lines, moment

pytestmark = pytest.mark.spark

STREAMS = {
    "cars": "timestamp TIMESTAMP, driver_id BIGINT, event_type STRING, location STRING",
    "impulse": "timestamp TIMESTAMP, counter BIGINT, subtask_index BIGINT",
}
OUT_OF_ORDER = "30 seconds"
"""The cars are out of order by at most 23 seconds, so no tuple is late."""

PIECES = {"cars": 2000, "impulse": 30}

HOURLY = """
    SELECT event_type, window.start as hour, count
    FROM (SELECT event_type, window(timestamp, '1 hour') as window, COUNT(*) as count FROM cars GROUP BY 1, 2)
"""
SLIDING = """
    SELECT count, min, max, window.start, window.end FROM (
        SELECT window(timestamp, '10 seconds', '2 seconds') as window, count(*) as count, min(counter) as min,
            max(counter) as max
        FROM impulse GROUP BY 1
    )
"""
SESSION = """
    SELECT window.start, window.end, rows
    FROM (SELECT session_window(timestamp, '20 seconds') AS window, COUNT(*) AS rows FROM impulse GROUP BY window)
"""
JOIN = """
    SELECT window.start as hour, dropoff_drivers AS drivers, pickup_drivers AS pickups FROM (
        SELECT dropoffs.window as window, dropoff_drivers, pickup_drivers
        FROM (
            SELECT window(timestamp, '1 hour') as window, COUNT(distinct driver_id) as dropoff_drivers
            FROM cars where event_type = 'dropoff' GROUP BY 1
        ) dropoffs
        INNER JOIN (
            SELECT window(timestamp, '1 hour') as window, COUNT(distinct driver_id) as pickup_drivers
            FROM cars where event_type = 'pickup' GROUP BY 1
        ) pickups
        ON dropoffs.window = pickups.window
    )
"""
QUERIES = {
    "hourly_by_event_type": HOURLY,
    "sliding_window_end": SLIDING,
    "global_session_window": SESSION,
    "windowed_inner_join": JOIN,
}
SIZES = {
    "hourly_by_event_type": 51,
    "sliding_window_end": 14,
    "global_session_window": 1,
    "windowed_inner_join": 25,
}


@pytest.fixture(scope="module")
def arroyo(oracle_session: Any) -> Any:
    """Both streams in several epochs, the queries, and all windows closed."""
    where = folder("arroyo")
    for name, schema in STREAMS.items():
        oracle_session.create_stream(name, schema, event_time="timestamp", watermark=OUT_OF_ORDER)
    for name, text in QUERIES.items():
        oracle_session.create_query(text, name=name)
    pieces = {}
    for name, size in PIECES.items():
        rows = [row | {"timestamp": moment(row["timestamp"])} for row in json_lines(where / f"{name}.json")]
        pieces[name] = [rows[i : i + size] for i in range(0, len(rows), size)]
    for turn in range(max(map(len, pieces.values()))):
        for name in STREAMS:
            if turn < len(pieces[name]):
                oracle_session.append(name, pieces[name][turn])
        oracle_session.run_available()
    for name in STREAMS:
        oracle_session.close_stream(name)
    oracle_session.run_available()
    return oracle_session


def rows_of(session: Any, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = session.query(name).results().toArrow().to_pylist()
    return rows


def published(name: str) -> list[dict[str, Any]]:
    """The expected rows, with their timestamps as such."""
    return [
        {key: moment(value) if _is_moment(value) else value for key, value in row.items()}
        for row in json_lines(folder("arroyo") / f"{name}.json")
    ]


def _is_moment(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def as_set(rows: list[dict[str, Any]]) -> list[tuple[tuple[str, Any], ...]]:
    return sorted(tuple(sorted(row.items())) for row in rows)


@pytest.mark.parametrize(("name", "rows"), SIZES.items())
def test_rows_are_the_published_ones(name: str, rows: int, arroyo: Any) -> None:
    wanted = published(name)
    assert len(wanted) == rows
    assert as_set(rows_of(arroyo, name)) == as_set(wanted)
    assert arroyo.query(name).audit().ok


def test_no_tuple_was_late(arroyo: Any) -> None:
    counts = {s.name: (s.rows, s.late_rows, s.closed) for s in arroyo.streams() if s.name in STREAMS}
    assert counts == {"cars": (7932, 0, True), "impulse": (100, 0, True)}
