"""One query's trouble stays its own: what fails is quarantined with its reason, the others deliver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session_samples import eventually, info, rows, sale, with_sales

from headrace.catalog.queries import QueryState
from headrace.model.errors import StorageError

pytestmark = pytest.mark.spark

Open = Callable[..., Any]

BIG = 2**62
WINDOW = "window(ts, '10 seconds')"

FAILING = {
    "cast": ("SELECT CAST(country AS INT) AS c FROM sales", "CAST_INVALID_INPUT"),
    "division": (f"SELECT COUNT(*) AS n FROM sales WHERE 10 / level > 1 GROUP BY {WINDOW}", "DIVIDE_BY_ZERO"),
    "overflow": (f"SELECT SUM(id) AS s FROM sales GROUP BY {WINDOW}", "ARITHMETIC_OVERFLOW"),
}


def test_failing_queries_are_quarantined_and_the_others_deliver(open_session: Open) -> None:
    """
    epoch 0: all is well; epoch 1: a word for a number, a zero, a sum too large; epoch 2: all is well again
    """
    hr = with_sales(open_session())
    failing = {name: hr.create_query(text, name=name) for name, (text, _) in FAILING.items()}
    counts = hr.create_query(
        f"SELECT COUNT(*) AS n, MAX(id) AS m FROM sales GROUP BY {WINDOW}", name="counts"
    )
    levels = hr.create_query("SELECT level FROM sales WHERE id > 1000", name="levels")
    hr.append("sales", [sale(1, 1, country="1"), sale(3, 2, country="1"), sale(11, 20, country="1")])
    hr.run_available()
    assert [i.error for i in hr.queries()] == [None] * 5
    before = {name: rows(query) for name, query in failing.items()}
    assert before == {"cast": [(1,)] * 3, "division": [(2,)], "overflow": [(4,)]}
    hr.append(
        "sales",
        [sale(12, 0, country="one") | {"id": BIG}, sale(13, 1) | {"id": BIG}, sale(40, 2, country="1")],
    )
    hr.run_available()
    hr.append("sales", [sale(60, 1, country="1")])
    hr.run_available()
    for name, (_, reason) in FAILING.items():
        found = info(hr, name)
        assert found.state is QueryState.QUARANTINED, (name, found)
        assert reason in found.error, (name, found.error)
        assert "\n" not in found.error and len(found.error) <= 500, (name, found.error)
        assert found.last_epoch == 1, (name, found)
    assert {name: rows(query) for name, query in failing.items()} == before, (
        "what came before the failure stays"
    )
    assert rows(counts) == [(1, 40), (2, 3), (3, BIG)]
    assert rows(levels) == [(0,), (1,)]
    for name, query in failing.items():
        report = query.audit()
        assert not report.ok and not report.differs, "a quarantined query is never ok"
        assert report.error == info(hr, name).error and "QUARANTINED" in str(report)
    assert counts.audit().ok and levels.audit().ok


def test_a_failure_in_the_background_stops_nobody(open_session: Open) -> None:
    hr = with_sales(open_session(changelog_delay="10 milliseconds"))
    hr.start(interval="50 milliseconds")
    hr.create_query("SELECT 1 / level AS r FROM sales", name="bad")
    good = hr.create_query("SELECT level FROM sales", name="good")
    eventually(lambda: good.state is QueryState.ACTIVE)
    hr.append("sales", [sale(1, 0)])
    eventually(lambda: info(hr, "bad").state is QueryState.QUARANTINED)
    hr.append("sales", [sale(2, 1)])
    eventually(lambda: rows(good) == [(0,), (1,)])
    hr.stop()


GUARDED = [
    ("SELECT id FROM sales WHERE level <> 0 AND 10 / level > 1", [(2,)]),
    ("SELECT id FROM sales WHERE level = 0 OR 10 / level > 1", [(1,), (2,)]),
    ("SELECT id FROM sales WHERE CASE WHEN level = 0 THEN false ELSE 10 / level > 1 END", [(2,)]),
    ("SELECT id, 10 / level AS r FROM sales WHERE level <> 0", [(2, 2.0), (3, 0.5)]),
    (
        "SELECT id, r FROM (SELECT id, 10 / level AS r, level FROM sales) WHERE level <> 0 AND r > 1",
        [(2, 2.0)],
    ),
    (f"SELECT SUM(10 / level) AS s FROM sales WHERE level <> 0 GROUP BY {WINDOW}", [(2.5,)]),
    (f"SELECT SUM(10 / level) FILTER (WHERE level <> 0) AS s FROM sales GROUP BY {WINDOW}", [(2.5,)]),
    (f"SELECT COUNT(*) AS n FROM sales WHERE level <> 0 AND 10 / level > 1 GROUP BY {WINDOW}", [(1,)]),
    (f"SELECT COUNT(DISTINCT 10 / level) AS n FROM sales WHERE level <> 0 GROUP BY {WINDOW}", [(2,)]),
    ("SELECT CAST(country AS INT) AS c FROM sales WHERE country RLIKE '^[0-9]+$'", [(7,)]),
]


def test_what_a_predicate_guards_never_fails(open_session: Open) -> None:
    hr = with_sales(open_session())
    queries = [hr.create_query(text) for text, _ in GUARDED]
    hr.append("sales", [sale(1, 0), sale(2, 5), sale(3, 20, country="7")])
    hr.close_stream("sales")
    hr.run_available()
    assert [i.error for i in hr.queries()] == [None] * len(GUARDED)
    for query, (text, wanted) in zip(queries, GUARDED, strict=True):
        assert rows(query) == wanted, text
        assert query.audit().ok, text


# Decision 0006: HAVING and the select list are finished when the rows are read, but tried before an epoch counts.


def test_a_select_list_or_having_that_fails_over_aggregates_quarantines_its_query(open_session: Open) -> None:
    hr = with_sales(open_session())
    broken = hr.create_query(f"SELECT 1 / (COUNT(*) - 1) AS r FROM sales GROUP BY {WINDOW}", name="broken")
    text = f"SELECT COUNT(*) AS n FROM sales GROUP BY {WINDOW} HAVING 1 / (COUNT(*) - 1) > 0"
    having = hr.create_query(text, name="having_broken")
    sound = hr.create_query(f"SELECT COUNT(*) AS n FROM sales GROUP BY {WINDOW}", name="sound")
    hr.append("sales", [sale(1), sale(2), sale(12)])
    hr.run_available()
    assert [i.error for i in hr.queries()] == [None] * 3
    hr.append("sales", [sale(25)])
    hr.run_available()
    assert ["DIVIDE_BY_ZERO" in (i.error or "") for i in hr.queries()] == [True, True, False]
    assert (rows(broken), rows(having), rows(sound)) == ([(1.0,)], [(2,)], [(1,), (2,)])
    assert hr.execute("SELECT * FROM broken CROSS JOIN having_broken").to_pylist() == [{"r": 1.0, "n": 2}]
    assert broken.to_pandas().r.tolist() == [1.0]
    for report in (broken.audit(), having.audit()):
        assert not report.ok and not report.differs and "DIVIDE_BY_ZERO" in (report.error or "")
    assert sound.audit().ok
    first = hr.create_query("SELECT 1 / (level - level) AS r FROM sales", name="first")
    hr.append("sales", [sale(30)])
    hr.run_available()
    report = first.audit()
    assert not report.ok and "DIVIDE_BY_ZERO" in str(report), "quarantined in its first epoch"


def test_rows_that_cannot_be_read_are_an_error_in_our_words(open_session: Open, tmp_path: Path) -> None:
    hr = with_sales(open_session())
    query = hr.create_query("SELECT id FROM sales", name="q")
    hr.append("sales", [sale(1)])
    hr.run_available()
    (file,) = hr._delivered.results(query._entry())
    path = tmp_path / "warehouse" / file.path
    path.write_bytes(b"PAR1" + bytes(path.stat().st_size - 8) + b"PAR1")
    for call in (query.to_pandas, query.results, query.audit, lambda: hr.execute("SELECT * FROM q")):
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.code == "RESULT_DAMAGED" and path.name in caught.value.message
        assert "\tat " not in str(caught.value)


@pytest.mark.usefixtures("spark_compiles")
def test_the_rows_of_others_do_not_make_a_select_list_fail(open_session: Open) -> None:
    """All of them are rows of one result table: (query, window, count). Where Spark interprets, HAVING guards no
    select list, in plain Spark either.
    """
    hr = with_sales(open_session())
    safe = hr.create_query(
        f"SELECT 1 / (COUNT(*) - 1) AS r FROM sales WHERE level = 2 GROUP BY {WINDOW} HAVING 1 / (COUNT(*) - 1) > 0"
    )
    other = hr.create_query(f"SELECT COUNT(*) AS n FROM sales WHERE level = 1 GROUP BY {WINDOW}")
    guarded = hr.create_query(
        f"SELECT 1 / (COUNT(*) - 1) AS r FROM sales GROUP BY country, {WINDOW} HAVING COUNT(*) > 1"
    )
    hr.append("sales", [sale(1, 1), sale(2, 2), sale(3, 2), sale(4, 2, country="FR"), sale(15)])
    hr.run_available()
    assert rows(safe) == [(0.5,)]
    assert rows(other) == [(1,)]
    assert rows(guarded) == [(0.5,)]
    assert safe.audit().ok and other.audit().ok and guarded.audit().ok
