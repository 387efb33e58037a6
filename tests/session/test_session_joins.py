"""Joins as people write them: the rows of plain Spark on the same text, what is shared, and what happens at the edges.

Two streams of sales; nothing is late in the first part, so that plain Spark over all tuples is the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session_samples import SALES, at, info, rows, sale

from headrace.catalog.queries import QueryState
from headrace.engine import job
from headrace.engine.handover import clear_handover
from headrace.engine.options import UpkeepOptions
from headrace.engine.paths import handover_dir
from headrace.results.compare import compare_rows

pytestmark = pytest.mark.spark

Open = Callable[..., Any]


def windowed(
    stream: str, where: str = "", columns: str = "*", window: str = "'10 seconds', '5 seconds'"
) -> str:
    return f"(SELECT {columns}, window(ts, {window}) AS w FROM {stream}{where})"


A, B = windowed("sales"), windowed("returns")
EQUAL = "l.w = r.w AND l.level = r.level"
TEXTS = {
    "rows": (f"SELECT l.id, r.id AS other, l.w.end FROM {A} l JOIN {B} r ON {EQUAL} WHERE l.price > 1", True),
    "star": (f"SELECT * FROM {A} l JOIN {B} r ON {EQUAL}", True),
    "using": (
        f"SELECT * FROM {windowed('sales', columns='price, level')} l "
        f"JOIN {windowed('returns', columns='id AS u, level')} r USING (level, w)",
        True,
    ),
    "across": (f"SELECT l.id, r.id AS other FROM {A} l, {B} r WHERE {EQUAL} AND l.price >= r.price", True),
    "filtered": (
        f"SELECT l.id FROM {windowed('sales', ' WHERE price > 1')} l "
        f"JOIN {windowed('returns', ' WHERE id % 2 = 0')} r ON {EQUAL} AND r.country = 'DE'",
        True,
    ),
    "self": (f"SELECT l.id, r.id AS other FROM {A} l JOIN {A} r ON {EQUAL} WHERE l.id < r.id", True),
    "with": (
        f"WITH x AS {A} SELECT p.id, q.id AS other FROM x p JOIN x q ON p.w = q.w AND p.id = q.id",
        True,
    ),
    "three": (
        f"SELECT l.id, r.id AS b, t.id AS c FROM {A} l JOIN {B} r ON {EQUAL} "
        f"JOIN {windowed('sales', ' WHERE price = 2')} t ON t.w = r.w AND t.level = r.level",
        True,
    ),
    "keyed": (
        f"SELECT l.level, l.w.end, COUNT(*), SUM(r.id), AVG(l.price), MAX(r.country), VAR_SAMP(r.price), "
        f"COUNT(*) FILTER (WHERE FALSE), COUNT(*) FILTER (WHERE l.id > NULL), COUNT(r.price) "
        f"FROM {A} l JOIN {B} r ON {EQUAL} GROUP BY l.level, l.w HAVING COUNT(*) > 1",
        True,
    ),
    "grouped": (
        f"SELECT r.country, r.w, COUNT(*) AS n FROM {A} l JOIN {B} r ON {EQUAL} GROUP BY r.country, r.w",
        True,
    ),
    "multiplied": (
        f"SELECT upper(l.country), l.id % 3, l.w.end, SUM(l.price * r.price), COUNT(DISTINCT r.id), MAX(l.w.start), "
        f"SUM(r.id) FILTER (WHERE l.price < r.price), MEDIAN(r.price) FROM {A} l JOIN {B} r ON {EQUAL} "
        f"WHERE l.id <> r.id AND l.price <= r.price + 1 GROUP BY 1, l.id % 3, l.w HAVING COUNT(*) > 1",
        True,
    ),
    "counted": (f"SELECT l.w, COUNT(*) AS n FROM {A} l JOIN {B} r ON {EQUAL} GROUP BY l.w", True),
    "either": (f"SELECT l.id FROM {A} l JOIN {B} r ON {EQUAL} WHERE l.price = 1 OR r.price = 2", True),
    "added": (f"SELECT l.id FROM {A} l JOIN {B} r ON {EQUAL} AND l.id + r.id > 30", True),
    "since": (
        f"SELECT l.id, r.id AS other FROM {A} l JOIN {B} r ON {EQUAL} WHERE second(l.w.start) < 20",
        True,
    ),
    "listed": (
        f"SELECT l.w.end, size(collect_list(l.id)) FROM {A} l JOIN {B} r ON {EQUAL} GROUP BY l.w, l.country",
        False,
    ),
    "left": (
        f"SELECT l.id, r.id AS other FROM {A} l LEFT JOIN {B} r ON {EQUAL} AND r.price > 1 WHERE l.id > 2",
        False,
    ),
    "right": (f"SELECT l.id, r.id AS other, r.w FROM {A} l RIGHT JOIN {B} r ON {EQUAL}", False),
    "full": (
        f"SELECT l.id, r.id AS other FROM {A} l FULL JOIN {B} r ON {EQUAL} AND l.price = r.price",
        False,
    ),
    "unequal": (
        f"SELECT l.id, r.id AS other FROM {A} l JOIN {B} r ON l.w = r.w AND l.price < r.price",
        False,
    ),
    "chain": (
        f"SELECT l.id, t.id AS c FROM {A} l JOIN {B} r ON {EQUAL} "
        f"JOIN {A} t ON t.w = r.w AND t.country = r.country WHERE l.price = 2",
        True,
    ),
    "triangle": (
        f"SELECT l.id, t.id AS c, r.country FROM {A} l JOIN {B} r ON {EQUAL} "
        f"JOIN {A} t ON t.w = r.w AND t.country = r.country AND t.price = l.price WHERE l.id <= t.id",
        True,
    ),
    "hops": (
        f"SELECT l.w.end, COUNT(*), SUM(l.id - u.id) FROM {A} l JOIN {B} r ON {EQUAL} "
        f"JOIN {A} t ON t.w = r.w AND t.country = r.country AND t.price = r.price "
        f"JOIN {B} u ON u.w = t.w AND u.id = t.id "
        f"WHERE l.price < 3 GROUP BY l.w, r.level",
        True,
    ),
    "sums": (
        "SELECT l.w, n, m FROM (SELECT window(ts, '10 seconds') AS w, COUNT(*) AS n FROM sales GROUP BY 1) l "
        "JOIN (SELECT window(ts, '10 seconds') AS w, COUNT(DISTINCT level) AS m FROM returns GROUP BY 1) r "
        "ON l.w = r.w",
        False,
    ),
}


def tuples(shift: int) -> list[dict[str, Any]]:
    countries = ["DE", "FR", None]
    return [
        sale(
            i * 0.7,
            None if i % 7 == 3 else (i + shift) % 3,
            float((i * 5 + shift) % 4),
            countries[(i + shift) % 3],
        )
        | {"id": i}
        for i in range(40)
    ]


def pairs(range_: str) -> str:
    streams = f"sales [RANGE {range_}] AS a, returns [RANGE {range_}] AS b"
    return f"SELECT a.id, b.id AS other FROM {streams} WHERE a.level = b.level"


def with_both(hr: Any, watermark: str = "0 seconds") -> Any:
    for name in ("sales", "returns"):
        hr.create_stream(name, SALES, event_time="ts", watermark=watermark)
    return hr


@pytest.fixture
def played(open_session: Open) -> Any:
    hr = with_both(open_session())
    for name, (text, _) in TEXTS.items():
        hr.create_query(text, name=name)
    for part in (slice(0, 15), slice(15, 16), slice(16, 40)):
        hr.append("sales", tuples(0)[part])
        hr.append("returns", tuples(1)[part])
        hr.run_available()
    for name in ("sales", "returns"):
        hr.close_stream(name)
    hr.run_available()
    return hr


def test_rows_are_those_of_plain_spark_on_the_same_text(played: Any, spark: Any) -> None:
    """Every third is audited as well: what audits run equals the text by `tests/sql/test_against_spark.py`."""
    oracle = spark.newSession()
    oracle.conf.set("spark.sql.session.timeZone", "UTC")
    for shift, name in enumerate(("sales", "returns")):
        oracle.createDataFrame(tuples(shift), SALES).createOrReplaceTempView(name)
    for number, (name, (text, shared)) in enumerate(TEXTS.items()):
        expected, query = oracle.sql(text), played.query(name)
        assert query.results().columns == expected.columns, name
        table = expected.toDF(*(f"c{i}" for i in range(len(expected.columns)))).toArrow()
        wanted = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        found = query.results().toDF(*table.column_names).toArrow()
        actual = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        assert len(wanted) > 0, name
        assert compare_rows(wanted, actual) == ([], []), name
        assert number % 3 or query.audit().ok, name
        assert info(played, name).shared is shared, query.explain()
        assert ("not shared: " in query.explain()) is not shared


def test_names_are_what_the_text_says(open_session: Open) -> None:
    hr = with_both(open_session())
    text = (
        "SELECT a.id AS s0_level, a.price + 1, SUM(b.price) FROM sales [RANGE 5 SECONDS] AS a, "
        "returns [RANGE 5 SECONDS] AS b WHERE a.level = b.level GROUP BY a.id, a.price + 1"
    )
    columns = hr.create_query(text).results().columns
    assert columns == ["window_start", "window_end", "s0_level", "(price + 1)", "sum(price)"]


def test_a_window_shows_when_all_its_streams_have_passed_its_end(open_session: Open) -> None:
    """
    sales    1 ........ 12          W = 12
    returns  1 .. 7          12     W = 7, then 12
    """
    hr = with_both(open_session())
    text = pairs("10 SECONDS")
    query = hr.create_query(text, name="q")
    hr.append("sales", [sale(1), sale(12)])
    hr.append("returns", [sale(1), sale(7)])
    hr.run_available()
    assert rows(query) == [] and query.audit().ok
    hr.append("returns", [sale(12)])
    hr.run_available()
    ends = (at(0), at(10))
    assert [row[2:] for row in rows(query)] == [(1, 1), (1, 7)]
    assert {row[:2] for row in rows(query)} == {ends}
    hr.drop_query("q")
    for name in ("sales", "returns"):
        hr.append(name, [sale(30)])
    hr.run_available()
    assert len(rows(query)) == 2, "the window of second 12 had not closed when the query ended"
    assert query.audit().ok


def test_a_slot_that_is_used_again_brings_no_old_rows(open_session: Open) -> None:
    hr = with_both(open_session())
    text = pairs("10 SECONDS")
    hr.create_query(text, name="old")
    hr.append("sales", [sale(1)])
    hr.run_available()
    hr.drop_query("old")
    hr.append("sales", [sale(2)])
    hr.run_available()
    young = hr.create_query(text, name="young")
    hr.append("returns", [sale(3), sale(20)])
    hr.append("sales", [sale(4), sale(20)])
    hr.run_available()
    assert info(hr, "young").slot == info(hr, "old").slot
    assert [row[2:] for row in rows(young)] == [(4, 3)]
    assert rows(hr.query("old")) == []
    assert young.audit().ok and hr.query("old").audit().ok


def test_what_fails_over_a_join_is_quarantined_alone(open_session: Open) -> None:
    hr = with_both(open_session())
    source = "sales [RANGE 10 SECONDS] AS a, returns [RANGE 10 SECONDS] AS b WHERE a.level = b.level"
    division = hr.create_query(f"SELECT 1 / (a.id - b.id) AS q FROM {source}", name="division")
    overflow = hr.create_query(f"SELECT SUM(a.id) AS s FROM {source} GROUP BY a.level", name="overflow")
    grouped = hr.create_query(f"SELECT SUM(a.id) AS s FROM {source} GROUP BY b.country", name="grouped")
    read = hr.create_query(f"SELECT SUM(a.id + b.id) AS s FROM {source} GROUP BY b.country", name="read")
    between = hr.create_query(f"SELECT a.id FROM {source} AND 1 / (a.id - b.id) < 9", name="between")
    fine = hr.create_query(f"SELECT a.id FROM {source}", name="fine")
    assert all(one.shared for one in hr.queries())
    hr.append("sales", [sale(1), sale(2)])
    hr.append("returns", [sale(3)])
    hr.run_available()
    assert all(one.state is QueryState.ACTIVE for one in hr.queries())
    hr.append("returns", [sale(1), sale(30)])
    hr.append("sales", [sale(3) | {"id": 2**62}, sale(30)])
    hr.run_available()
    assert "DIVIDE_BY_ZERO" in info(hr, "division").error
    assert "DIVIDE_BY_ZERO" in info(hr, "between").error
    assert "OVERFLOW" in info(hr, "overflow").error
    assert "OVERFLOW" in info(hr, "grouped").error and "OVERFLOW" in info(hr, "read").error
    assert len(rows(fine)) == 6 and fine.audit().ok
    assert all(rows(query) == [] for query in (division, overflow, grouped, read, between))


def test_joined_rows_stay_until_their_window_has_closed_and_been_seen(open_session: Open) -> None:
    """Retention counts from when a row can be seen, not from when its tuples met."""
    upkeep = UpkeepOptions(grace_seconds=0.0, every=1)
    hr = with_both(open_session(upkeep=upkeep, retention="1 microsecond"))
    text = pairs("1 HOUR")
    query = hr.create_query(text)
    for second in range(3):
        hr.append("sales", [sale(second)])
        hr.append("returns", [sale(second)])
        hr.run_available()
    for name in ("sales", "returns"):
        hr.close_stream(name)
    hr.run_available()
    assert len(rows(query)) == 9
    hr.create_query(text, name="another")
    hr.run_available()
    assert rows(query) == []


def test_groups_that_have_lost_rows_to_retention_are_gone_as_a_whole(open_session: Open) -> None:
    upkeep = UpkeepOptions(grace_seconds=0.0, every=1, fan_in=1000)
    hr = with_both(open_session(upkeep=upkeep, retention="1 microsecond"))
    bracket = "[RANGE 10 SECONDS SLIDE 5 SECONDS]"
    source = f"sales {bracket} AS a, returns {bracket} AS b WHERE a.level = b.level"
    query = hr.create_query(f"SELECT COUNT(DISTINCT a.ts, b.ts) AS n FROM {source}")
    seen: dict[Any, set[int]] = {}
    for second in range(0, 36, 3):
        hr.append("sales", [sale(second), sale(second + 1)])
        hr.append("returns", [sale(second)])
        hr.run_available()
        for start, _, n in rows(query):
            seen.setdefault(start, set()).add(n)
    assert len(seen) > 3 and all(len(counts) == 1 for counts in seen.values()), seen
    assert len(rows(query)) < len(seen)
    assert query.audit().ok


def test_a_lost_file_of_joined_rows_stops_only_the_query_that_reads_it_again(open_session: Open) -> None:
    hr = with_both(open_session())
    source = "sales [RANGE 10 SECONDS] AS a, returns [RANGE 10 SECONDS] AS b WHERE a.level = b.level"
    hr.create_query(f"SELECT SUM(a.id + b.id) AS s FROM {source} GROUP BY b.country", name="sums")
    keyed = hr.create_query(f"SELECT SUM(a.id) AS s FROM {source} GROUP BY a.level", name="keyed")
    for second in (1, 2):
        for name in ("sales", "returns"):
            hr.append(name, [sale(second)])
        hr.run_available()
    lost = next(file for file in hr._delivered.main.results if file.signature.startswith("joined-"))
    (hr._warehouse.root / lost.path).unlink()
    for name in ("sales", "returns"):
        hr.append(name, [sale(30)])
    hr.run_available()
    assert "RESULT_DAMAGED" in info(hr, "sums").error and lost.path in info(hr, "sums").error
    assert info(hr, "keyed").state is QueryState.ACTIVE and len(rows(keyed)) == 1


def test_large_epochs_go_through_files_that_nobody_finds_afterwards(
    open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[str] = []

    def clear(root: Path, folder: str) -> None:
        handed.extend(path.name for path in (root / folder).iterdir())
        clear_handover(root, folder)

    monkeypatch.setattr(job, "clear_handover", clear)
    hr = with_both(open_session())
    query = hr.create_query(
        "SELECT a.id FROM sales [RANGE 1 MINUTE] AS a, returns [RANGE 1 MINUTE] AS b WHERE a.id = b.id"
    )
    for name in ("sales", "returns"):
        hr.append(name, [sale(i / 1000) | {"id": i} for i in range(50_000)] + [sale(100)])
    hr.run_available()
    assert len(handed) >= 2 and not any((hr._warehouse.root / handover_dir("main")).iterdir())
    assert len(rows(query)) == 50_000 and query.audit().ok
