"""The rows of each epoch, asked for one after the other, are all rows of a query, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

QUERIES = {
    "q_windows": "SELECT k, COUNT(*) AS n FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "q_having": "SELECT k, SUM(v) AS s FROM a [RANGE 5 SECONDS] GROUP BY k HAVING SUM(v) > 5",
    "q_tuples": "SELECT k, v, ts FROM a WHERE v > 3",
    "q_sessions": "SELECT k, COUNT(*) AS n FROM a [SESSION GAP 2 SECONDS] GROUP BY k",
    "q_fallback": "SELECT COUNT(DISTINCT v) AS n FROM a GROUP BY window(ts, '5 seconds')",
    "q_joined": "SELECT x.v, y.v AS w FROM a [RANGE 5 SECONDS] AS x, b [RANGE 5 SECONDS] AS y "
    "WHERE x.k = y.k AND x.v > 6",
    "q_join_groups": "SELECT x.k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] AS x, b [RANGE 5 SECONDS] AS y "
    "WHERE x.k = y.k GROUP BY x.k",
}


def tuples(seconds: Iterable[int]) -> list[dict[str, Any]]:
    return [{"k": s % 3, "v": s % 10, "ts": NOON + timedelta(seconds=s)} for s in seconds]


def counted(table: Any) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def test_epoch_by_epoch_they_are_all_rows(open_session: Callable[..., Any]) -> None:
    session = open_session()
    for name in ("a", "b"):
        session.create_stream(name, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts", watermark="1 second")
    handles = {name: session.create_query(text, name=name) for name, text in QUERIES.items()}
    seen: dict[str, Counter[Any]] = {name: Counter() for name in QUERIES}
    after: dict[str, int | None] = dict.fromkeys(QUERIES, -1)
    for step in range(4):
        seconds = [s for s in range(12 * step, 12 * step + 12) if s % 7]
        session.append("a", tuples(seconds))
        session.append("b", tuples(seconds[::2]))
        if step == 3:
            session.close_stream("a")
            session.close_stream("b")
        session.run_available()
        for name, handle in handles.items():
            found = handle.newest(10_000, after[name])
            seen[name] += counted(found.rows)
            after[name] = found.epoch
            assert handle.newest(10_000, found.epoch).rows.num_rows == 0
    for name, handle in handles.items():
        everything = session.execute(f"SELECT * FROM {name}")
        assert counted(everything) == seen[name], name
        assert sum(seen[name].values()) > 4, name
        newest = handle.newest(2)
        assert newest.rows.num_rows == 2 and newest.rows.schema.names == everything.schema.names
        assert handle.newest(10_000).rows.num_rows == everything.num_rows


WINDOWED = {
    "w_windows": "SELECT window.end AS at, k, COUNT(*) AS n FROM a GROUP BY k, window(ts, '2 seconds')",
    "w_hidden": "SELECT k, COUNT(*) AS n, MAX(ts) AS at FROM a GROUP BY k, window(ts, '2 seconds') "
    "HAVING COUNT(*) > 0",
    "w_joined": "SELECT x.ts AS at, y.v FROM a [RANGE 2 SECONDS] AS x, b [RANGE 2 SECONDS] AS y WHERE x.k = y.k",
    "w_groups": "SELECT MAX(x.ts) AS at, x.v + y.v AS s, COUNT(DISTINCT x.v) AS n FROM a [RANGE 2 SECONDS] AS x, "
    "b [RANGE 2 SECONDS] AS y WHERE x.k = y.k GROUP BY x.v + y.v",
    "w_plain": "SELECT ts AS at, v FROM a WHERE v >= 0",
}


def test_of_an_epoch_with_many_windows_the_last_ones_are_the_newest(open_session: Callable[..., Any]) -> None:
    session = open_session()
    for name in ("a", "b"):
        session.create_stream(name, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts")
    handles = {name: session.create_query(text, name=name) for name, text in WINDOWED.items()}
    for seconds in (range(4), range(4, 60), range(60, 61)):
        session.append("a", tuples(seconds))
        session.append("b", tuples(seconds))
        session.run_available()
    for name, handle in handles.items():
        shown = [row["at"] for row in handle.newest(3).rows.to_pylist()]
        everything = sorted(row["at"] for row in session.execute(f"SELECT at FROM {name}").to_pylist())
        assert len(everything) > 30 and len(shown) == 3
        if name == "w_plain":  # it has no windows: the tuple of the last epoch comes last
            assert shown[-1] == everything[-1]
            continue
        edge = everything[-3] - timedelta(seconds=2)
        assert all(at > edge for at in shown), (name, shown, everything[-3:])
