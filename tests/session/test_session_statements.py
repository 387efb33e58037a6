"""The SQL face: every statement means what its Python call means."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from session_samples import at, files_below, sale, stream_info

from headrace.model.errors import CatalogError, HeadraceError, SqlError

pytestmark = pytest.mark.spark

Open = Callable[..., Any]

CREATE = """
    CREATE STREAM sales (id BIGINT, level INT, price DOUBLE, country STRING, ts TIMESTAMP)
    EVENT TIME ts WATERMARK '5 seconds';
"""


def test_a_session_in_sql(open_session: Open) -> None:
    hr = open_session()
    assert "sales" in hr.execute(CREATE)
    assert stream_info(hr).watermark == timedelta(seconds=5)
    said = hr.execute(
        "CREATE QUERY per_country AS SELECT country, window.end AS until, COUNT(*) AS n FROM sales "
        "GROUP BY country, window(ts, '10 seconds')"
    )
    assert "per_country" in said
    hr.execute("CREATE QUERY `all of them` AS SELECT id, price FROM sales WHERE level > 1")
    hr.append("sales", [sale(1, level=2), sale(2, country="FR"), sale(30, level=3, price=None)])
    hr.run_available()

    streams = hr.execute("SHOW STREAMS").to_pylist()
    assert [(s["stream"], s["event_time"], s["rows"], s["late_rows"], s["closed"]) for s in streams] == [
        ("sales", "ts", 3, 0, False)
    ]
    queries = hr.execute("show queries").to_pylist()
    assert [(q["query"], q["state"], q["first_epoch"], q["rows"], q["error"]) for q in queries] == [
        ("per_country", "active", 0, 2, None),
        ("all of them", "active", 0, 2, None),
    ]

    found = hr.execute(
        "SELECT country, n FROM per_country WHERE until = TIMESTAMP '2026-01-01 12:00:10' ORDER BY 1"
    )
    assert isinstance(found, pa.Table)
    assert found.to_pylist() == [{"country": "DE", "n": 1}, {"country": "FR", "n": 1}]
    joined = hr.execute(
        "WITH t AS (SELECT * FROM `all of them`) SELECT SUM(t.id) AS ids, COUNT(DISTINCT p.country) AS countries "
        "FROM t CROSS JOIN PER_COUNTRY AS p"
    )
    assert joined.to_pylist() == [{"ids": 62, "countries": 2}]

    assert hr.execute("EXPLAIN per_country") == hr.query("per_country").explain()
    assert hr.execute("EXPLAIN `all of them`") == hr.query("all of them").explain()
    assert hr.execute("EXPLAIN") == hr.explain()
    text = "SELECT id FROM sales WHERE level > 1"
    assert hr.execute(f"EXPLAIN {text}") == hr.explain(text)

    assert "per_country" in hr.execute("DROP QUERY per_country")
    hr.append("sales", [sale(60)])
    hr.run_available()
    states = {q["query"]: (q["state"], q["last_epoch"]) for q in hr.execute("SHOW QUERIES").to_pylist()}
    assert states == {"per_country": ("dropped", 1), "all of them": ("active", None)}
    assert hr.execute("SELECT COUNT(*) AS n FROM per_country").to_pylist() == [{"n": 2}]


def test_a_stream_with_a_source_in_sql(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(f"id;ts\n1;{at(1).isoformat()}\n")
    hr = open_session()
    hr.execute(
        f"CREATE STREAM s (id BIGINT, ts TIMESTAMP) EVENT TIME ts "
        f"WITH (path = '{tmp_path / 'in'}', format = 'csv', header = 'true', sep = ';')"
    )
    hr.execute("CREATE QUERY q AS SELECT id FROM s")
    hr.run_available()
    assert hr.execute("SELECT * FROM q").to_pylist() == [{"id": 1}]


def test_a_name_used_twice_shows_the_rows_of_the_newest(open_session: Open) -> None:
    hr = open_session()
    hr.execute(CREATE)
    for level in (1, 2):
        hr.execute(f"CREATE QUERY q AS SELECT id FROM sales WHERE level = {level}")
        hr.append("sales", [sale(1, level=1), sale(2, level=2)])
        hr.run_available()
        assert hr.execute("SELECT id FROM q").to_pylist() == [{"id": level}]
        hr.execute("DROP QUERY q")


REFUSED = [
    ("", "EMPTY_TEXT"),
    ("SELECT 1; SELECT 2", "TWO_STATEMENTS"),
    ("INSERT INTO sales VALUES (1)", "INSERT_COLUMNS"),
    ("INSERT INTO sales (id, nothing) VALUES (1, 2)", "UNKNOWN_COLUMN"),
    ("INSERT INTO sales (id, ID) VALUES (1, 2)", "AMBIGUOUS_COLUMN"),
    ("INSERT INTO sales (id) VALUES ('one')", "(?s)INSERT_VALUE.*CAST_INVALID_INPUT"),
    ("INSERT INTO sales (id) VALUES (1), (TIMESTAMP '2026-01-01 12:00:00')", "INSERT_VALUE"),
    ("INSERT INTO sales (id) VALUES (1); DROP STREAM sales", "TWO_STATEMENTS"),
    ("INSERT INTO sales (id) VALUES (1)) SELECT 2 FROM (VALUES (1)", "INSERT_VALUE"),
    ("INSERT INTO sales (id) VALUES (reflect('java.lang.Math', 'abs', 1))", "NOT_ALLOWED"),
    ("INSERT INTO nothing VALUES (1)", "STREAM_NOT_FOUND"),
    ("UPDATE sales SET id = 1", "UNKNOWN_STATEMENT"),
    ("DROP TABLE sales", "SYNTAX"),
    ("DROP STREAM sales", "STREAM_IN_USE.*`taken`"),
    ("DROP STREAM nothing", "STREAM_NOT_FOUND"),
    ("CLOSE STREAM nothing", "STREAM_NOT_FOUND"),
    ("DESCRIBE nothing", "there is no stream or query `nothing`"),
    ("DESCRIBE QUERY sales", "QUERY_NOT_FOUND"),
    ("DESCRIBE STREAM taken", "STREAM_NOT_FOUND"),
    ("HELP nothing", "NO_HELP"),
    ("CREATE QUERY sales AS SELECT id FROM sales", "NAME_TAKEN"),
    ("CREATE STREAM Taken (ts TIMESTAMP) EVENT TIME ts", "NAME_TAKEN"),
    ("CREATE OR REPLACE QUERY taken AS SELECT nothing FROM sales", "UNKNOWN_COLUMN"),
    ("CREATE TABLE t (a INT)", "SYNTAX"),
    ("CREATE STREAM sales (ts TIMESTAMP) EVENT TIME ts", "STREAM_EXISTS"),
    ("CREATE STREAM t (ts TIMESTAMP)", "NO_EVENT_TIME"),
    ("CREATE STREAM t (ts TIMESTAMP) EVENT TIME nothing", "NO_EVENT_TIME"),
    ("CREATE STREAM t (ts TIMESTAMP) EVENT TIME ts WATERMARK 'soon'", "BAD_DURATION"),
    ("CREATE STREAM t (ts TIMESTAMP) EVENT TIME ts WITH (colour = 'red')", "BAD_OPTION"),
    ("CREATE STREAM t (ts TIMESTAMP) EVENT TIME ts WITH (path = '/nowhere/at/all')", "SOURCE_MISSING"),
    ("CREATE STREAM t (ts TIMESTAMP) EVENT TIME ts WITH (path = '/', format = 'xml')", "SOURCE_FORMAT"),
    ("CREATE STREAM `a/b` (ts TIMESTAMP) EVENT TIME ts", "BAD_NAME"),
    ("CREATE STREAM t () EVENT TIME ts", "SYNTAX"),
    ("CREATE QUERY q AS SELECT nothing FROM sales", "UNKNOWN_COLUMN"),
    ("CREATE QUERY `a'b` AS SELECT id FROM sales", "BAD_NAME"),
    ("CREATE QUERY taken AS SELECT id FROM sales", "QUERY_EXISTS"),
    ("CREATE QUERY AS SELECT id FROM sales", "SYNTAX|BAD_NAME"),
    ("DROP QUERY nothing", "QUERY_NOT_FOUND"),
    ("EXPLAIN nothing", "QUERY_NOT_FOUND"),
    ("EXPLAIN SELECT nothing FROM sales", "UNKNOWN_COLUMN"),
    ("SHOW TABLES", "SYNTAX"),
    ("SELECT * FROM nothing", "SELECT_FAILED"),
    ("SELECT nothing FROM taken", "SELECT_FAILED"),
    ("SELECT 1 / 0", "SELECT_FAILED.*DIVIDE_BY_ZERO"),
    ("SELECT CAST(country AS INT) FROM taken", "SELECT_FAILED.*CAST_INVALID_INPUT"),
    ("WITH t AS (SELECT 1) INSERT INTO taken SELECT * FROM t", "SELECT_FAILED|SYNTAX"),
]


def test_a_bad_statement_says_why_and_changes_nothing(open_session: Open, tmp_path: Path) -> None:
    hr = open_session()
    hr.execute(CREATE)
    hr.execute("CREATE QUERY taken AS SELECT country FROM sales")
    hr.append("sales", [sale(1)])
    hr.run_available()
    before, queries, streams = files_below(tmp_path), hr.queries(), hr.streams()
    for text, code in REFUSED:
        with pytest.raises(HeadraceError, match=code) as caught:
            hr.execute(text)
        assert len(caught.value.render()) < 1000, text
        assert "\tat " not in str(caught.value), text
        assert files_below(tmp_path) == before, text
        assert (hr.queries(), hr.streams()) == (queries, streams), text
    assert hr.run_available() == 0


def test_errors_are_of_the_phase_they_come_from(open_session: Open) -> None:
    hr = open_session()
    with pytest.raises(SqlError):
        hr.execute("SELECT * FROM nothing")
    with pytest.raises(CatalogError):
        hr.execute("DROP QUERY nothing")
