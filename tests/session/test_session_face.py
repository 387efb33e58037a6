"""What people see and say: statements that create, replace, describe and drop; reasons for empty results; portraits."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from session_samples import PER_COUNTRY, at, rows, sale, with_sales

from headrace.looking import answers
from headrace.model.errors import CatalogError, SqlError
from headrace.notes import note_of

pytestmark = pytest.mark.spark

Open = Callable[..., Any]


def test_statements_say_what_they_did(open_session: Open) -> None:
    hr = with_sales(open_session())
    assert hr.execute("CREATE STREAM IF NOT EXISTS Sales (x INT) EVENT TIME x").endswith("stays as it is")
    assert (
        hr.execute(f"CREATE QUERY spend AS {PER_COUNTRY}") == "query spend is active from the next epoch on"
    )
    alone = hr.execute("CREATE QUERY alone AS SELECT skewness(id) AS n FROM sales [RANGE 10 SECONDS]")
    assert "it is not shared: skewness() has no shared form" in alone
    assert "reads the log of its open windows again each epoch" in alone
    assert hr.execute("CREATE QUERY IF NOT EXISTS spend AS SELECT nothing FROM nowhere").endswith("as it is")

    said = hr.execute(
        "INSERT INTO sales (ts, id, price, country) VALUES (TIMESTAMP '2026-01-01 12:00:03', 1 + 1, 2, 'DE'), "
        "(TIMESTAMP '2026-01-01 12:00:14' - INTERVAL 1 SECOND, 3, 1.5, NULL)"
    )
    assert said == "2 rows added to stream sales; the next epoch takes them in"
    hr.execute("INSERT INTO sales VALUES ('4', 5, '0.5', 6, '2026-01-01 12:00:14.5')")
    seen = hr.execute(
        "SELECT id, level, price, country, unix_millis(ts) % 60000 AS ms FROM sales ORDER BY id"
    )
    assert [tuple(row.values()) for row in seen.to_pylist()] == [
        (2, None, 2.0, "DE", 3000),
        (3, None, 1.5, None, 13000),
        (4, 5, 0.5, "6", 14500),
    ]
    hr.run_available()
    assert hr.execute("SELECT * FROM sales WHERE id = 3").num_rows == 1, "also when an epoch has them"
    assert rows(hr.query("spend")) == [("DE", 1)]

    described = hr.execute("DESCRIBE sales")
    assert described.column("column").to_pylist() == ["id", "level", "price", "country", "ts"]
    assert described.column("note").to_pylist()[-1] == "event time"
    assert note_of(described) == (
        "stream sales: event time ts, watermark 0 seconds behind, now at 2026-01-01 12:00:14.500; "
        "source: append() and INSERT INTO; 3 tuples taken in"
    )
    described = hr.execute("DESC QUERY spend")
    assert described.select(["column", "type"]).to_pylist() == [
        {"column": "country", "type": "string"},
        {"column": "n", "type": "bigint"},
    ]
    assert "query spend is active and has 1 row" in note_of(described) and PER_COUNTRY in note_of(described)

    with pytest.raises(CatalogError, match=r"STREAM_IN_USE.*`spend`, `alone`"):
        hr.execute("DROP STREAM sales")
    hr.execute("CREATE OR REPLACE QUERY spend AS SELECT id FROM sales WHERE id > 3")
    hr.execute("CLOSE STREAM sales")
    hr.run_available()
    assert [(q.name, q.first_epoch, q.last_epoch) for q in hr.queries()] == [
        ("spend", 0, 1),
        ("alone", 0, None),
        ("spend", 1, None),
    ]
    assert hr.execute("DROP QUERY IF EXISTS nothing") == "there is no live query nothing"
    assert hr.execute("DROP STREAM IF EXISTS nothing") == "there is no stream nothing"


def test_a_stream_that_took_a_dropped_one_s_name_is_another(open_session: Open, tmp_path: Path) -> None:
    hr = with_sales(open_session())
    hr.create_query(PER_COUNTRY, name="old")
    hr.append("sales", [sale(1), sale(25)])
    hr.run_available()
    hr.append("sales", [sale(50)])
    hr.drop_query("old")
    hr.drop_stream("sales")
    with pytest.raises(SqlError, match="there is no query or stream `sales`"):
        hr.execute("SELECT * FROM sales")
    assert rows(hr.query("old")) == [("DE", 1)]

    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(
        pa.table({"id": ["a"], "ts": pa.array([at(3)], pa.timestamp("us", "UTC"))}), folder / "1.parquet"
    )
    for _ in range(2):  # the second time a folder that was read before is read again, by another stream
        hr.execute(f"CREATE STREAM sales (id STRING, ts TIMESTAMP) EVENT TIME ts WITH (path = '{folder}')")
        new = hr.create_query("SELECT id, COUNT(*) AS n FROM sales GROUP BY id, window(ts, '5 seconds')")
        hr.run_available()
        assert "first window closes at 2026-01-01 12:00:05" in str(new.status()), "no watermark is inherited"
        assert [info.rows for info in hr.streams()] == [1]
        hr.close_stream("sales")
        hr.run_available()
        assert rows(new) == [("a", 1)]
        assert new.audit().ok and hr.query("old").audit().ok
        hr.drop_query(new.name)
        hr.drop_stream("sales")
    assert rows(hr.query("old")) == [("DE", 1)]
    hr.close()
    again = open_session(read_only=True)
    assert rows(again.query("old")) == [("DE", 1)] and again.query("old").audit().ok
    assert again.streams() == []


def test_every_empty_result_says_why(open_session: Open) -> None:
    hr = with_sales(open_session(), watermark="5 seconds")
    early = hr.create_query(PER_COUNTRY, name="early")

    def why() -> str | None:
        return note_of(hr.execute("SELECT * FROM early"))

    assert why() == "query early: no epoch has run: `headrace run`, run_available() or start() runs epochs"
    hr.run_available()
    assert why() == "query early: stream sales has had no tuples: append() and INSERT INTO feed it"
    assert note_of(hr.execute("SELECT * FROM sales")) == "stream sales has no tuples in the log"
    hr.append("sales", [sale(6)])
    assert why() == "query early: 1 tuple of stream sales wait for the next epoch"
    hr.run_available()
    waiting = (
        "the watermark is at 2026-01-01 12:00:01 and the first window closes at 2026-01-01 12:00:10: "
        "newer tuples, or CLOSE STREAM, move it"
    )
    assert why() == f"query early: {waiting}"
    assert early.status().reasons == (waiting,)
    assert early.to_pandas().attrs == {"headrace.note": waiting}
    assert waiting in repr(early) and waiting in early._repr_html_()
    assert waiting in repr(early.results()) and waiting in early.results()._repr_html_()

    late = hr.create_query("SELECT id FROM sales", name="late")
    hr.run_available()
    assert "the query began after the data: it sees tuples from epoch 2 on" in str(late.status())
    none = hr.create_query("SELECT id FROM sales WHERE level > 100", name="none")
    hr.append("sales", [sale(40)])
    hr.run_available()
    assert "2026-01-01 12:00:35" in str(early.explain())
    assert none.status().why == (
        "1 tuple came since the query began, and none of them made a row: its conditions let nothing pass"
    )
    assert early.status().reasons == () and "headrace.note" not in early.to_pandas().attrs
    assert note_of(hr.execute("SELECT * FROM early")) is None
    assert "query early has delivered 1 row" in note_of(hr.execute("SELECT * FROM early WHERE n > 5"))
    assert note_of(hr.execute("SELECT 1 WHERE false")) == "the SELECT itself has no rows"


HARMFUL = [
    "SELECT * FROM text.`{file}`",
    "SELECT * FROM TEXT.`{file}`",
    "SELECT * FROM csv.`{file}`",
    "SELECT * FROM json.`file://{file}`",
    "SELECT * FROM IDENTIFIER('text.`{file}`')",
    "WITH t AS (SELECT * FROM text.`{file}`) SELECT 1 WHERE EXISTS (SELECT * FROM t)",
    "SELECT (SELECT MAX(value) FROM text.`{file}`) FROM q1",
    "SELECT reflect('java.lang.System', 'getProperty', 'user.home')",
    "SELECT upper(JAVA_METHOD('java.lang.System', 'getProperty', 'user.home')) FROM q1",
    "SELECT * FROM VALUES (try_reflect('java.lang.System', 'getProperty', 'user.home'))",
    "SELECT 1 WHERE 1 IN (SELECT length(reflect('java.lang.System', 'getProperty', 'user.home')))",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'getProperty', 'user.home')",
    "SELECT transform(array(1), x -> reflect('java.lang.System', 'getProperty', 'user.home'))",
    "SELECT TRANSFORM (id) USING 'cat' AS (x STRING) FROM q1",
    "FROM q1 SELECT TRANSFORM (id) USING 'cat' AS (x STRING)",
    "SELECT from_protobuf(CAST('' AS BINARY), 'm', '{file}')",
]
REFUSED = ("NOT_ALLOWED", "SELECT_FAILED")


def test_a_statement_reads_no_files_and_calls_no_methods(open_session: Open, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    hr = with_sales(open_session())
    hr.create_query("SELECT id FROM sales", name="q1")
    hr.append("sales", [sale(1)])
    hr.run_available()
    for text in HARMFUL:
        with pytest.raises(SqlError) as caught:
            hr.execute(text.format(file=secret))
        assert caught.value.code == "NOT_ALLOWED", (text, caught.value)
        with pytest.raises(SqlError) as caught:
            hr.execute(f"CREATE QUERY bad AS {text.format(file=secret)}")
    for text in ("SELECT * FROM range(2)", "SELECT input_file_name()", "SELECT explode(array(1)) FROM q1"):
        assert hr.execute(text).num_rows, text
    asked = hr.execute(f"SELECT * FROM text.`{secret}`", allow_files=True)
    assert asked.to_pylist() == [{"value": "the secret"}]
    assert hr.execute(
        "SELECT length(reflect('java.util.UUID', 'randomUUID')) AS n", allow_files=True
    ).num_rows
    with pytest.raises(SqlError, match="NOT_ALLOWED"):
        hr.execute(HARMFUL[0].format(file=secret))


def test_many_queries_are_created_at_once_or_not_at_all(open_session: Open) -> None:
    hr = with_sales(open_session())
    texts = [f"SELECT id FROM sales WHERE level >= {i}" for i in range(3)]
    with pytest.raises(SqlError, match="query 4 of the list"):
        hr.create_queries([*texts, "SELECT nothing FROM sales"])
    assert hr.queries() == []
    handles = hr.create_queries([*texts, ("all of them", "SELECT id FROM sales")])
    assert [handle.name for handle in handles] == ["q1", "q2", "q3", "all of them"]
    hr.append("sales", [sale(1, level=1)])
    hr.run_available()
    assert [len(handle.to_pandas()) for handle in handles] == [1, 1, 0, 1]


def test_a_statement_reads_no_tables_of_the_users_own(open_session: Open) -> None:
    hr = with_sales(open_session())
    hr.create_query("SELECT id FROM sales", name="q1")
    hr.append("sales", [sale(1)])
    hr.run_available()
    hr.spark.sql("CREATE TABLE wages USING parquet AS SELECT 7 AS pay")
    try:
        for text in (
            "SELECT * FROM wages",
            "TABLE Wages",
            "SELECT (SELECT MAX(pay) FROM `wages`) AS n FROM q1",
            "WITH t AS (SELECT * FROM wages) SELECT * FROM t",
            "SELECT * FROM (WITH wages AS (SELECT 1 AS pay) SELECT * FROM wages), wages",
        ):
            with pytest.raises(SqlError) as caught:
                hr.execute(text)
            assert caught.value.code in ("NOT_ALLOWED", "UNKNOWN_STATEMENT"), (text, caught.value)
        assert hr.execute("SELECT pay FROM wages", allow_files=True).to_pylist() == [{"pay": 7}]
        assert hr.execute("WITH t AS (SELECT id FROM q1) SELECT id FROM t").num_rows == 1
    finally:
        hr.spark.sql("DROP TABLE wages")


def test_only_the_tables_that_are_named_are_opened(
    open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    hr = with_sales(open_session())
    names = ["q1", "q10", "q100", "q1000", "from", "weird name", "id"]
    for name in names:
        hr.create_query(f"SELECT id, '{name}' AS name FROM sales", name=name)
    hr.append("sales", [sale(1)])
    hr.run_available()
    opened: list[str] = []
    read = answers.results_in

    def watched(session: Any, entry: Any) -> Any:
        opened.append(entry.query.name)
        return read(session, entry)

    monkeypatch.setattr(answers, "results_in", watched)
    cases = {
        "SELECT name FROM q1000": {"q1000"},
        "SELECT id, 'q10' FROM Q100 -- q1": {"q100"},
        "WITH t AS (SELECT * FROM q10) SELECT t.name FROM t JOIN `weird name` AS q1 USING (id)": {
            "q10",
            "weird name",
        },
        "SELECT name FROM `from` WHERE id IN (SELECT id FROM q1) AND EXISTS (SELECT * FROM q10)": {
            "from",
            "q1",
            "q10",
        },
        "SELECT 1 AS q1": set(),
        "SELECT (SELECT MAX(id) FROM q1) AS n FROM (SELECT * FROM q10 UNION ALL SELECT * FROM q100)": {
            "q1",
            "q10",
            "q100",
        },
    }
    for text, expected in cases.items():
        opened.clear()
        assert hr.execute(text).num_rows, text
        assert set(opened) == expected, text
        assert [table.name for table in hr._reader.catalog.listTables() if table.isTemporary] == []


def test_portraits_are_cheap_and_tell_the_state(open_session: Open) -> None:
    hr = with_sales(open_session())
    query = hr.create_query(PER_COUNTRY, name="spend")
    hr.create_query("SELECT '<b>' AS tag, id FROM sales", name="tags")
    hr.append("sales", [sale(1), sale(11)])
    hr.run_available()
    assert re.fullmatch(r"<headrace session on .*: 1 stream, 2 live queries, last epoch 0>", repr(hr))
    html = hr._repr_html_()
    assert html.count("<table>") == 2 and "<td>spend</td>" in html
    assert repr(query) == "<query spend is active and has 1 row>"
    assert "<b>" not in hr.query("tags")._repr_html_()
    listed = hr.queries()
    assert repr(listed).splitlines()[0].split() == [
        *("query", "state", "streams", "group", "first", "epoch", "last", "epoch", "rows", "shared", "error")
    ]
    assert "<td>spend</td>" in listed._repr_html_()
    assert "2026-01-01 12:00:11" in repr(hr.streams())
    assert "newest end" in repr(hr.recent_epochs()) and "2026-01-01 12:00:11" in repr(hr.recent_epochs())
    assert "tuples taken in" in repr(hr.metrics()) and "<table>" in hr.metrics()._repr_html_()
    assert "rows" in repr(query.metrics()) and "<table>" in query.metrics()._repr_html_()
    assert isinstance(query.results().collect(), list), "a portrait changes nothing of a DataFrame"
    hr.close()
    assert repr(hr).endswith("closed>") and repr(query) == "<query spend>"
