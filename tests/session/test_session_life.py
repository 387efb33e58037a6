"""The life of streams and queries through the public face."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from session_samples import PER_COUNTRY, at, eventually, info, rows, sale, stream_info, with_sales

import headrace
from headrace.catalog.queries import QueryState
from headrace.model.errors import CatalogError, EngineError, HeadraceError, LogError

pytestmark = pytest.mark.spark

Open = Callable[..., Any]


def test_a_query_from_text_to_rows(open_session: Open) -> None:
    hr = with_sales(open_session())
    query = hr.create_query(
        "SELECT country, window.end AS until, SUM(price) AS spend FROM sales WHERE price > 1 "
        "GROUP BY country, window(ts, '10 seconds')",
        name="spend",
    )
    assert query.name == "spend"
    assert query.state is QueryState.PENDING
    assert rows(query) == []
    assert (
        hr.append(
            "sales", [sale(1, price=2.5), sale(2, price=4.0), sale(3, price=1.0), sale(4, country="FR")]
        )
        == 4
    )
    assert hr.append("sales", [sale(11, price=9.0, country="FR")]) == 1
    assert hr.run_available() == 1
    assert query.state is QueryState.ACTIVE
    assert query.results().columns == ["country", "until", "spend"]
    assert rows(query) == [("DE", at(10), 6.5)]
    frame = query.to_pandas()
    assert list(frame.columns) == ["country", "until", "spend"]
    assert frame.spend.tolist() == [6.5]
    report = query.audit()
    assert (report.ok, report.expected_rows, report.actual_rows, report.note) == (True, 1, 1, None)
    assert hr.run_available() == 0


def test_close_stream_closes_every_window(open_session: Open) -> None:
    hr = with_sales(open_session(), watermark="1 hour")
    query = hr.create_query(PER_COUNTRY, name="q")
    hr.append("sales", [sale(1), sale(25, country="FR")])
    hr.run_available()
    assert rows(query) == []
    hr.close_stream("sales")
    hr.close_stream("sales")
    assert hr.run_available() == 1
    assert rows(query) == [("DE", 1), ("FR", 1)]
    assert query.audit().ok
    assert stream_info(hr).closed
    with pytest.raises(LogError, match="STREAM_CLOSED"):
        hr.append("sales", [sale(50)])
    assert hr.run_available() == 0


def test_a_query_created_midway_sees_later_epochs_only(open_session: Open) -> None:
    """
    second   0    5    10   15
    epoch    |-0--|-1--|-2--|
    early    [-----------------
    late          [------------   the window 0..10 holds the tuples of epoch 1 only
    """
    hr = with_sales(open_session())
    early = hr.create_query(PER_COUNTRY, name="early")
    hr.append("sales", [sale(1), sale(2)])
    hr.run_available()
    late = hr.create_query(PER_COUNTRY, name="late")
    tuples = hr.create_query("SELECT id FROM sales", name="tuples")
    hr.append("sales", [sale(6)])
    hr.run_available()
    hr.append("sales", [sale(15)])
    hr.run_available()
    assert rows(early) == [("DE", 3)]
    assert rows(late) == [("DE", 1)]
    assert rows(tuples) == [(15,), (6,)]
    assert [info(hr, name).first_epoch for name in ("early", "late", "tuples")] == [0, 1, 1]
    assert all(query.audit().ok for query in (early, late, tuples))


def test_results_outlive_the_drop_and_a_dropped_name_can_be_used_again(open_session: Open) -> None:
    hr = with_sales(open_session())
    first = hr.create_query("SELECT id FROM sales", name="q")
    hr.append("sales", [sale(1)])
    hr.run_available()
    hr.drop_query("q")
    second = hr.create_query("SELECT id, country FROM sales", name="q")
    hr.append("sales", [sale(2)])
    hr.run_available()
    assert rows(first) == [(1,)]
    assert rows(second) == rows(hr.query("q")) == [(2, "DE")]
    assert [(i.state, i.first_epoch, i.last_epoch, i.rows) for i in hr.queries()] == [
        (QueryState.DROPPED, 0, 1, 1),
        (QueryState.ACTIVE, 1, None, 1),
    ]
    assert first.audit().ok and second.audit().ok
    hr.drop_query("q")
    hr.run_available()
    assert rows(hr.query("q")) == [(2, "DE")]


def test_a_windowed_query_delivers_nothing_after_its_drop(open_session: Open) -> None:
    hr = with_sales(open_session())
    query = hr.create_query(PER_COUNTRY, name="q")
    hr.append("sales", [sale(1)])
    hr.run_available()
    hr.drop_query("q")
    hr.append("sales", [sale(20)])
    hr.run_available()
    assert rows(query) == []
    assert query.audit().ok


def test_a_slot_is_reused_and_its_next_owner_sees_nothing_of_the_first(open_session: Open) -> None:
    hr = with_sales(open_session())
    hr.create_query("SELECT id FROM sales WHERE level = 1", name="first")
    hr.append("sales", [sale(1, level=1), sale(2, level=2)])
    hr.run_available()
    hr.drop_query("first")
    hr.create_query("SELECT id FROM sales WHERE level = 2", name="second")
    hr.append("sales", [sale(3, level=1), sale(4, level=2)])
    hr.run_available()
    assert info(hr, "first").slot == info(hr, "second").slot == 0
    assert rows(hr.query("first")) == [(1,)]
    assert rows(hr.query("second")) == [(4,)]


def test_a_query_dropped_before_its_first_epoch_never_runs(open_session: Open) -> None:
    hr = with_sales(open_session())
    query = hr.create_query("SELECT id FROM sales", name="q")
    hr.drop_query("q")
    hr.append("sales", [sale(1)])
    hr.run_available()
    assert query.state is QueryState.DROPPED
    assert rows(query) == []
    report = query.audit()
    assert report.ok and report.actual_rows == 0


def test_names_that_nobody_gave(open_session: Open) -> None:
    hr = with_sales(open_session())
    assert [hr.create_query("SELECT id FROM sales").name for _ in range(2)] == ["q1", "q2"]


def test_a_name_with_blanks_and_other_letters(open_session: Open) -> None:
    hr = with_sales(open_session(), name="täglich 1")
    query = hr.create_query("SELECT id FROM `täglich 1`", name="Umsatz je Tag")
    hr.append("täglich 1", [sale(1)])
    hr.run_available()
    assert rows(hr.query("umsatz JE tag")) == [(1,)]
    assert hr.execute("SELECT * FROM `Umsatz je Tag`").to_pylist() == [{"id": 1}]
    assert query.audit().ok


def test_unknown_names_are_refused_with_a_hint(open_session: Open) -> None:
    hr = with_sales(open_session())
    hr.create_query("SELECT id FROM sales", name="spend")
    for call in (lambda: hr.query("spent"), lambda: hr.drop_query("spent")):
        with pytest.raises(CatalogError, match="did you mean `spend`"):
            call()
    for call in (lambda: hr.append("sale", []), lambda: hr.close_stream("sale")):
        with pytest.raises(CatalogError, match="did you mean `sales`"):
            call()
    hr.drop_query("spend")
    with pytest.raises(CatalogError, match="QUERY_DROPPED"):
        hr.drop_query("spend")


def test_explain_says_how_it_runs_with_whom_and_what_it_equals(open_session: Open) -> None:
    hr = with_sales(open_session())
    one = hr.create_query(PER_COUNTRY, name="one")
    hr.create_query(PER_COUNTRY.replace("FROM sales", "FROM sales WHERE level > 3"), name="two")
    alone = hr.create_query(PER_COUNTRY.replace("COUNT(*)", "skewness(id)"), name="alone")
    cql = hr.create_query("SELECT COUNT(*) AS n FROM sales [RANGE 10 SECONDS]", name="cql")
    assert PER_COUNTRY in one.explain(verbose=True)
    assert PER_COUNTRY in " ".join(one.explain().split()), "laid out, and the same text"
    assert "shares     the aggregation of sales with 1 other query" in one.explain()
    assert "lanes" in one.explain(verbose=True) and "lanes" not in one.explain()
    assert "runs as    not shared: skewness() has no shared form" in alone.explain()
    assert "not shared: skewness()" in repr(alone) and not alone.sharing.shared
    assert "reads the log of its open windows again each epoch" in alone.sharing.cost
    assert "window(ts, '10 seconds')" in cql.explain()
    main, plain = hr.explain().split("\n\n")
    assert main.startswith("group main, shared plan: 3 queries in 2 shared operators, 0 on their own")
    assert plain.startswith("group plain-") and "on its own: query alone over sales" in plain
    assert hr.explain("SELECT id FROM sales WHERE level > 3").startswith("query (not created)")
    hr.append("sales", [sale(1), sale(11)])
    hr.append("sales", [sale(2)])
    hr.run_available()
    hr.append("sales", [sale(3)])
    hr.run_available()
    explained = one.explain()
    for line in (
        "query one: active since epoch 0, 1 row so far",
        "windows    10 seconds long, one after the other",
        "watermark  2026-01-01 12:00:11 (sales)",
        "next end   a window closes when the watermark reaches 2026-01-01 12:00:20",
        "late       1 of 4 tuples of sales",
        "cost       the last epoch took",
    ):
        assert line in explained, explained
    assert "about 4 tuples; such queries have taken" in alone.explain(), alone.explain()
    assert "<pre>" in explained._repr_html_() and repr(explained) == explained
    assert {i.name: i.shared for i in hr.queries()} == {"one": True, "two": True, "alone": False, "cql": True}


def test_metrics_count_what_happened(open_session: Open) -> None:
    hr = with_sales(open_session())
    before = hr.metrics()
    assert (before.epoch, before.input_rows, before.result_rows, before.behind) == (-1, 0, 0, 0)
    query = hr.create_query("SELECT id FROM sales WHERE level > 1", name="q")
    assert query.metrics().deployment_latency is None
    hr.append("sales", [sale(1, level=1), sale(2, level=2)])
    hr.append("sales", [sale(3, level=3)])
    hr.run_available()
    metrics = hr.metrics()
    assert (metrics.epoch, metrics.active_queries, metrics.input_rows, metrics.result_rows) == (0, 1, 3, 2)
    assert metrics.last_epoch_rows == 3
    assert metrics.last_epoch_seconds > 0
    assert len(metrics.deployment_latencies) == 1
    mine = query.metrics()
    assert (mine.rows, mine.first_epoch, mine.last_epoch) == (2, 0, None)
    assert mine.deployment_latency is not None and mine.deployment_latency >= 0
    hr.create_query(PER_COUNTRY, name="windows")
    hr.append("sales", [sale(5), sale(11)])
    hr.run_available()
    latency = hr.metrics().event_time_latency
    assert latency == pytest.approx(time.time() - at(10).timestamp(), abs=60), (
        "since the newest result's window ended"
    )


def test_streams_tell_rows_watermark_and_late_tuples(open_session: Open) -> None:
    hr = with_sales(open_session(), watermark="5 seconds")
    before = stream_info(hr)
    assert (before.rows, before.late_rows, before.closed, before.watermark_us) == (0, 0, False, None)
    assert before.event_time == "ts"
    assert before.watermark == timedelta(seconds=5)
    assert [column.name for column in before.columns] == ["id", "level", "price", "country", "ts"]
    query = hr.create_query(PER_COUNTRY, name="q")
    hr.append("sales", [sale(20)])
    hr.run_available()
    assert stream_info(hr).watermark_us == int(at(15).timestamp() * 1_000_000)
    hr.append("sales", [sale(2, country="late"), sale(12, country="behind, not too late"), sale(40)])
    hr.run_available()
    after = stream_info(hr)
    assert (after.rows, after.late_rows) == (4, 2), "late is a tuple behind the watermark, W(e-1) = 12:00:15"
    assert rows(query) == [("DE", 1), ("behind, not too late", 1)]
    assert query.audit().ok
    assert hr.metrics().late_rows == 2


def test_counts_of_streams_are_still_there_after_reopening(open_session: Open) -> None:
    hr = with_sales(open_session(), watermark="5 seconds")
    hr.append("sales", [sale(20)])
    hr.run_available()
    hr.append("sales", [sale(2)])
    hr.run_available()
    hr.close()
    again = stream_info(open_session())
    assert (again.rows, again.late_rows) == (2, 1)


def test_a_warehouse_goes_on_where_it_was(open_session: Open) -> None:
    hr = with_sales(open_session())
    hr.create_query(PER_COUNTRY, name="q")
    hr.append("sales", [sale(1)])
    hr.run_available()
    hr.append("sales", [sale(2)])
    hr.create_query("SELECT id FROM sales", name="asked for and not yet active")
    hr.close()
    hr.close()
    with open_session() as again:
        again.append("sales", [sale(11)])
        again.run_available()
        assert rows(again.query("q")) == [("DE", 2)]
        assert rows(again.query("asked for and not yet active")) == [(11,), (2,)]
        assert all(again.query(i.name).audit().ok for i in again.queries())


def test_a_closed_session_says_so(open_session: Open) -> None:
    hr = with_sales(open_session())
    query = hr.create_query("SELECT id FROM sales", name="q")
    hr.close()
    calls: list[Callable[[], Any]] = [
        query.results,
        query.to_pandas,
        query.audit,
        hr.run_available,
        hr.start,
        lambda: hr.append("sales", []),
        lambda: hr.create_query("SELECT id FROM sales"),
        lambda: hr.drop_query("q"),
        lambda: hr.create_stream("t", "ts TIMESTAMP", event_time="ts"),
        lambda: hr.close_stream("sales"),
        lambda: hr.execute("SELECT 1"),
    ]
    for call in calls:
        with pytest.raises(EngineError, match="SESSION_CLOSED"):
            call()
    hr.stop()


def test_a_second_writer_is_told_who_holds_the_warehouse(open_session: Open) -> None:
    open_session()
    with pytest.raises(HeadraceError, match="WAREHOUSE_HELD"):
        open_session()


def test_two_warehouses_at_a_time_do_not_mix(open_session: Open) -> None:
    left, right = with_sales(open_session("left")), with_sales(open_session("right"))
    for hr, second in ((left, 1), (right, 2)):
        hr.create_query("SELECT id FROM sales", name="q")
        hr.create_query(PER_COUNTRY.replace("COUNT(*)", "size(collect_list(id))"), name="alone")
        hr.append("sales", [sale(second, country=f"c{second}"), sale(second + 20)])
    for hr in (left, right):
        hr.run_available()
    assert (rows(left.query("q")), rows(right.query("q"))) == ([(1,), (21,)], [(2,), (22,)])
    assert (rows(left.query("alone")), rows(right.query("alone"))) == ([("c1", 1)], [("c2", 1)])
    assert left.query("alone").audit().ok and right.query("alone").audit().ok


def test_a_reader_beside_the_writer(open_session: Open) -> None:
    hr = with_sales(open_session())
    hr.create_query(PER_COUNTRY, name="q")
    hr.append("sales", [sale(1), sale(11)])
    hr.run_available()
    reader = open_session(read_only=True)
    hr.append("sales", [sale(25)])
    hr.run_available()
    query = reader.query("q")
    assert rows(query) == [("DE", 1)], "it sees what was committed when it was opened"
    assert query.audit().ok
    assert "window(ts, '10 seconds')" in query.explain()
    assert reader.execute("SELECT n FROM q").to_pylist() == [{"n": 1}]
    assert stream_info(reader).rows == 2
    writes: list[Callable[[], Any]] = [
        reader.run_available,
        reader.start,
        lambda: reader.append("sales", []),
        lambda: reader.create_query("SELECT id FROM sales"),
        lambda: reader.drop_query("q"),
        lambda: reader.create_stream("t", "ts TIMESTAMP", event_time="ts"),
        lambda: reader.close_stream("sales"),
        lambda: reader.execute("DROP QUERY q"),
    ]
    for write in writes:
        with pytest.raises(EngineError, match="READ_ONLY"):
            write()
    reader.close()
    assert rows(hr.query("q")) == [("DE", 1), ("DE", 1)]


def test_columns_have_the_names_that_spark_gives_them(open_session: Open, spark: Any) -> None:
    hr = open_session()
    schema = "`user id` BIGINT, `a.b` INT, `select` STRING, `Grüße` DOUBLE, `window` INT, ts TIMESTAMP"
    hr.create_stream("s", schema, event_time="ts")
    values = {"user id": 1, "a.b": 2, "select": "x", "Grüße": 0.5, "window": 7}
    hr.append("s", [values | {"ts": at(1)}, values | {"ts": at(2)}])
    texts = {
        "all": "SELECT * FROM s",
        "twice": "SELECT `user id`, `user id`, `USER ID` + 1, `a.b` AS `it's ``mine```, `window` FROM s",
        "keys": "SELECT `select`, COUNT(*), SUM(`Grüße`) FROM s GROUP BY `select`, window(ts, '10 seconds')",
        "alone": "SELECT `a.b`, COUNT(DISTINCT `user id`) FROM s GROUP BY `a.b`, window(ts, '10 seconds')",
    }
    queries = {name: hr.create_query(text, name=name) for name, text in texts.items()}
    hr.close_stream("s")
    hr.run_available()
    spark.createDataFrame([], schema).createOrReplaceTempView("s")
    for name, query in queries.items():
        assert query.results().columns == spark.sql(texts[name]).columns, name
        assert query.audit().ok, name
    spark.catalog.dropTempView("s")
    assert rows(queries["twice"]) == [(1, 1, 2, 2, 7)] * 2
    assert rows(queries["keys"]) == [("x", 2, 1.0)]
    assert rows(queries["alone"]) == [(2, 1)]
    assert len(queries["twice"].to_pandas().columns) == 5


def test_a_thousand_queries_of_a_few_shapes_are_created_in_three_seconds(open_session: Open) -> None:
    """Counted in this process's CPU seconds, since machines are shared; Spark is asked once per shape."""
    hr = with_sales(open_session())
    shapes = (
        PER_COUNTRY,
        "SELECT id FROM sales WHERE id > 7",
        "SELECT country, id + 7 AS n FROM sales WHERE id = 7",
    )
    for text in shapes:
        hr.create_query(text)
    started = time.process_time()
    for number in range(1_000):
        hr.create_query(shapes[number % len(shapes)].replace("7", str(number)))
    assert time.process_time() - started < 3
    assert len(hr.queries()) == 1_000 + len(shapes)


@pytest.mark.parametrize(
    "options",
    [
        {"max_epoch_rows": 0},
        {"changelog_count": 0},
        {"partitions": 0},
        {"changelog_delay": "soon"},
        {"retention": "1 month"},
        {"log_retention": "-1 day"},
        {"changelog_delay": "-1 second"},
        {"read_only": True, "rebuild": True},
    ],
    ids=str,
)
def test_bad_options_make_no_warehouse(options: dict[str, Any], tmp_path: Path, spark: Any) -> None:
    with pytest.raises(HeadraceError):
        headrace.open(tmp_path / "w", spark=spark, **options)
    assert not (tmp_path / "w").exists()


def test_epochs_hold_no_more_rows_than_asked_for(open_session: Open) -> None:
    hr = with_sales(open_session(max_epoch_rows=2))
    query = hr.create_query("SELECT id FROM sales", name="q")
    for second in range(5):
        hr.append("sales", [sale(second)])
    assert hr.run_available() == 3
    assert rows(query) == [(0,), (1,), (2,), (3,), (4,)]


# running in the background


def test_start_runs_what_comes_and_stop_ends_it(open_session: Open) -> None:
    hr = with_sales(open_session(changelog_delay="10 milliseconds"))
    hr.start(interval="50 milliseconds")
    query = hr.create_query("SELECT id FROM sales", name="q")
    eventually(lambda: query.state is QueryState.ACTIVE)
    hr.append("sales", [sale(1)])
    eventually(lambda: rows(query) == [(1,)])
    with pytest.raises(EngineError, match="ALREADY_RUNNING"):
        hr.start()
    hr.drop_query("q")
    eventually(lambda: query.state is QueryState.DROPPED)
    hr.stop()
    hr.stop()
    epoch = hr.metrics().epoch
    hr.append("sales", [sale(2)])
    assert hr.metrics().epoch == epoch
    hr.start(interval=timedelta(milliseconds=50))
    eventually(lambda: hr.metrics().epoch > epoch)
    hr.stop()
    assert rows(query) == [(1,)]
    assert query.audit().ok


def test_run_available_beside_the_background_run(open_session: Open) -> None:
    hr = with_sales(open_session(changelog_delay="0 seconds"))
    query = hr.create_query("SELECT id FROM sales", name="q")
    hr.start(interval="1 hour")
    hr.append("sales", [sale(1)])
    hr.run_available()
    assert rows(query) == [(1,)]
    hr.stop()


@pytest.mark.parametrize("interval", ["0 seconds", "-1 second", "soon", "1 month", None])
def test_a_bad_interval_starts_nothing(interval: Any, open_session: Open) -> None:
    hr = with_sales(open_session())
    with pytest.raises(HeadraceError):
        hr.start(interval=interval)
    hr.start(interval="1 second")
    hr.stop()


# changelogs


def changelogs(session: Any) -> int:
    """Durable batches of query changes that no epoch has taken in yet."""
    return len(session._catalog.unsealed())


def test_the_hundredth_change_flushes_the_changelog(open_session: Open) -> None:
    hr = with_sales(open_session(changelog_delay="1 hour"))
    for i in range(99):
        hr.create_query(f"SELECT id FROM sales WHERE level > {i}", name=f"q{i}")
    assert changelogs(hr) == 0
    hr.create_query("SELECT id FROM sales", name="hundredth")
    assert changelogs(hr) == 1
    hr.create_query("SELECT id FROM sales", name="another")
    assert changelogs(hr) == 1
    hr.append("sales", [sale(1, level=50)])
    hr.run_available()
    assert {i.state for i in hr.queries()} == {QueryState.ACTIVE}
    assert sum(i.rows for i in hr.queries()) == 50 + 2


def test_changes_wait_for_the_delay_and_no_longer(open_session: Open) -> None:
    patient = with_sales(open_session("patient", changelog_delay="1 hour"))
    patient.start(interval="20 milliseconds")
    query = patient.create_query("SELECT id FROM sales", name="q")
    for second in (1, 2):
        epoch = patient.metrics().epoch
        patient.append("sales", [sale(second)])
        eventually(lambda before=epoch: patient.metrics().epoch > before)
    assert query.state is QueryState.PENDING
    patient.stop()
    patient.run_available()
    assert query.state is QueryState.ACTIVE

    hasty = with_sales(open_session("hasty", changelog_delay="200 milliseconds"))
    hasty.start(interval="20 milliseconds")
    query = hasty.create_query("SELECT id FROM sales", name="q")
    eventually(lambda: query.state is QueryState.ACTIVE)
    latency = query.metrics().deployment_latency
    assert latency is not None and latency >= 0.2
