# ruff: noqa: E501 - a query stays on one line
"""Dense windows, window_time and wrong arguments, on a whole session."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from session_samples import at, rows, sale, with_sales

from headrace.model.errors import HeadraceError

pytestmark = pytest.mark.spark

Open = Callable[..., Any]

DAY, HOUR = "window(ts, '1 day', '1 second')", "window(ts, '1 hour', '1 second')"
WINDOWED = "(SELECT *, window(ts, '10 seconds') AS w FROM sales)"


def test_a_day_that_slides_by_a_second(open_session: Open) -> None:
    hr = with_sales(open_session())
    hr.create_query("SELECT COUNT(*) AS n FROM sales GROUP BY window(ts, '1 day')", name="first").explain()
    start = time.monotonic()
    dense = hr.create_query(
        f"SELECT window.end AS e, SUM(price) AS s, MAX(level) AS m FROM sales GROUP BY {DAY}"
    )
    unshared = hr.create_query(f"SELECT COUNT(DISTINCT level) AS n FROM sales GROUP BY {HOUR}")
    assert time.monotonic() - start < 5  # a machine shared by many; milliseconds beside Spark's analysis
    start = time.monotonic()
    with pytest.raises(HeadraceError, match="WINDOW_TOO_DENSE"):
        hr.create_query("SELECT COUNT(*) FROM sales GROUP BY window(ts, '1000 days', '1 microsecond')")
    assert time.monotonic() - start < 1
    hr.append("sales", [sale(second, second % 3, 0.5) for second in range(30)])
    hr.run_available()
    assert len(rows(dense)) == 29
    hr.append("sales", [sale(90, 7, 2.0)])
    hr.run_available()
    assert max(rows(dense)) == (at(90), 15.0, 2)
    hr.append("sales", [sale(100)])
    hr.close_stream("sales")
    hr.run_available()
    assert len(rows(dense)) == 86_400 + 100
    assert max(rows(dense)) == (at(86_500), 1.0, 1)
    assert unshared.results().count() == 3_600 + 100
    for query in (dense, unshared):
        assert query.audit().ok


def test_window_time_of_groups_and_joins(open_session: Open) -> None:
    hr = with_sales(open_session())
    inner = "SELECT window(ts, '10 seconds', '5 seconds') AS w, COUNT(*) AS n FROM sales GROUP BY 1"
    texts = {
        "grouped": f"SELECT window_time(w) AS t, n FROM ({inner})",
        "filtered": f"SELECT n FROM ({inner}) WHERE hour(window_time(w)) = 11",
        "keyed": "SELECT window_time(window(ts, '10 seconds')) AS t, SUM(price) AS s FROM sales "
        "GROUP BY window_time(window(ts, '10 seconds'))",
        "joined": f"SELECT window_time(l.w) AS t, l.id FROM {WINDOWED} AS l JOIN {WINDOWED} AS r ON l.w = r.w AND l.id = r.id",
        "outer": f"SELECT window_time(l.w) AS t, window_time(r.w) AS u, l.id FROM {WINDOWED} AS l "
        f"LEFT JOIN {WINDOWED} AS r ON l.w = r.w AND l.id = r.level",
        "natural": f"SELECT * FROM (SELECT id, level, w FROM {WINDOWED}) AS l NATURAL LEFT JOIN "
        f"(SELECT id, price, w FROM {WINDOWED} WHERE id > 10) AS r",
        "rollup": "SELECT country, level, COUNT(*) AS n FROM sales [RANGE 10 SECONDS] GROUP BY country, level WITH ROLLUP",
    }
    queries = {name: hr.create_query(text, name=name) for name, text in texts.items()}
    hr.append("sales", [sale(1), sale(3), sale(12)])
    hr.append("sales", [sale(22), sale(60)])
    hr.run_available()
    last = timedelta(microseconds=1)
    assert sorted(row[0] for row in rows(queries["grouped"])) == [
        at(s) - last for s in (5, 10, 15, 20, 25, 30)
    ]
    assert rows(queries["filtered"]) == []
    assert sorted(rows(queries["keyed"])) == [(at(s) - last, n) for s, n in ((10, 2.0), (20, 1.0), (30, 1.0))]
    assert min(rows(queries["joined"])) == (at(10) - last, 1)
    assert (at(10) - last, None, 3) in rows(queries["outer"])
    for name, query in queries.items():
        assert rows(query) or name == "filtered", name
        report = query.audit()
        assert report.ok, name
        assert hr.query(name).state.value == "active", name


def test_wrong_arguments_are_refused_in_our_words(open_session: Open) -> None:
    hr = with_sales(open_session())
    query = hr.create_query("SELECT id FROM sales", name="taken")
    columns = "id BIGINT, ts TIMESTAMP"
    calls: list[Callable[[], Any]] = []
    for wrong in (None, 5, b"sales", object(), ["sales"], "\ud800"):
        calls += [
            lambda w=wrong: hr.create_stream(w, columns, event_time="ts"),
            lambda w=wrong: hr.create_stream("s", w, event_time="ts"),
            lambda w=wrong: hr.create_stream("s", columns, event_time=w),
            lambda w=wrong: hr.create_stream("s", columns, event_time="ts", watermark=w),
            lambda w=wrong: hr.append(w, []),
            lambda w=wrong: hr.append("sales", 5 if w is None else w),
            lambda w=wrong: hr.close_stream(w),
            lambda w=wrong: hr.drop_stream(w),
            lambda w=wrong: hr.stream(w),
            lambda w=wrong: hr.attach_source(w, None),
            lambda w=wrong: hr.attach_source("sales", w),
            lambda w=wrong: hr.create_query(w),
            lambda w=wrong: hr.create_query("SELECT id FROM sales", name=5 if w is None else w),
            lambda w=wrong: hr.drop_query(w),
            lambda w=wrong: hr.query(w),
            lambda w=wrong: hr.execute(w),
            lambda w=wrong: hr.select(w),
            lambda w=wrong: hr.explain(5 if w is None else w),
            lambda w=wrong: hr.start(interval=w),
        ]
    calls += [
        lambda: hr.create_stream("x" * 500, columns, event_time="ts"),
        lambda: hr.create_stream("s", columns, event_time="ts", source=5),
        lambda: hr.create_query("SELECT id FROM sales WHERE country = '\ud800'"),
        lambda: hr.execute("CREATE STREAM `\ud800` (id INT, ts TIMESTAMP) EVENT TIME ts"),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(HeadraceError):
            raise AssertionError(f"call {number} returned {call()!r}")
    name = "\U0001f600" * 128  # its file name would be too long
    hr.create_stream(name, columns, event_time="ts")
    hr.append(name, [{"id": 1, "ts": at(0)}])
    hr.append("sales", [sale(1)])
    hr.run_available()
    assert rows(query) == [(1,)]
