"""Cases that random scenarios found, each kept as the smallest thing that showed it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from harness import Oracle, rows_of

from headrace.model.errors import SqlError
from headrace.results.compare import compare_rows

pytestmark = pytest.mark.spark

DDL = "x DOUBLE, y FLOAT, n INT, d DECIMAL(9,2), s STRING, l ARRAY<INT>, r STRUCT<a: INT, b: STRING>, ts TIMESTAMP"
SCHEMA = pa.schema(
    [
        ("x", pa.float64()),
        ("y", pa.float32()),
        ("n", pa.int32()),
        ("d", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("l", pa.list_(pa.int32())),
        ("r", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
FLOATS = (0.0, -0.0, 1.0, math.nan, 2.0, math.inf, None, 0.1, 0.1, 0.1)

Check = Callable[..., None]


@pytest.fixture
def equal(spark: Any, open_session: Callable[..., Any]) -> Check:
    """Queries over the same tuples must equal plain Spark, and their audit must say so."""

    def check(rows: list[dict[str, Any]], *texts: str) -> None:
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        hr, oracle = open_session(), Oracle(spark)
        hr.create_stream("t", DDL, event_time="ts")
        queries = [hr.create_query(text) for text in texts]
        hr.append("t", table)
        hr.close_stream("t")
        hr.run_available()
        oracle.spark.createDataFrame(table).createOrReplaceTempView("t")
        for query in queries:
            assert query.state.value == "active"
            plain = query._entry().query.plan.plain_sql
            expected, found = oracle.rows(plain), rows_of(query.results())
            assert expected, "a comparison of nothing proves nothing"
            assert compare_rows(expected, found) == ([], []), plain
            assert query.audit().ok

    return check


def tuples(**columns: Any) -> list[dict[str, Any]]:
    count = max(len(values) for values in columns.values())
    return [
        {name: values[i] for name, values in columns.items()} | {"ts": NOON + dt.timedelta(seconds=i)}
        for i in range(count)
    ]


def test_filters_keep_nan_and_negative_zero(equal: Check) -> None:
    """Parquet's bounds know nothing of NaN and its dictionaries tell -0.0 from 0.0: no filter may be pushed down."""
    rows = tuples(x=FLOATS, y=FLOATS)
    conditions = [
        "x = double('NaN')",
        "x > double('Infinity')",
        "x IN (-0.0D, 9D)",
        "y <=> float('NaN')",
        "y <> 0",
    ]
    fallbacks = [
        f"SELECT window.end, count(DISTINCT n) AS c, count(*) FROM t WHERE {c} GROUP BY window(ts, '1 minute')"
        for c in conditions
    ]
    shared = [
        f"SELECT window.end, count(*) FROM t WHERE {c} GROUP BY window(ts, '1 minute')" for c in conditions
    ]
    having = "SELECT x, count(*) FROM t GROUP BY x, window(ts, '1 minute') HAVING x = -0.0D"
    equal(rows, *fallbacks, *shared, having)


def test_a_lone_word_is_no_alias(spark: Any, open_session: Callable[..., Any]) -> None:
    """Spark takes `FROM t WHERE (word)` for an alias with a column list; what we render must not be taken so."""
    hr = open_session()
    hr.create_stream("t", "flag BOOLEAN, x DOUBLE, ts TIMESTAMP", event_time="ts")
    for text in (
        "SELECT x FROM t WHERE (flag)",
        "SELECT x FROM t WHERE NULL",
        "SELECT x FROM t WHERE (NULL)",
    ):
        with pytest.raises(SqlError):
            hr.create_query(text)
    texts = [
        "SELECT x FROM t AS a WHERE (flag)",
        "SELECT x FROM t WHERE flag",
        "SELECT x FROM t AS a WHERE (true)",
    ]
    texts += ["SELECT count(*) FROM t [RANGE 5 SECONDS] WHERE (flag)", "SELECT x FROM t WHERE NULL OR flag"]
    queries = [hr.create_query(text) for text in texts]
    rows = [{"flag": i % 3 == 0, "x": float(i), "ts": NOON + dt.timedelta(seconds=i)} for i in range(9)]
    hr.append("t", rows)
    hr.close_stream("t")
    hr.run_available()
    for query in queries:
        report = query.audit()
        assert report.ok and report.actual_rows > 0, report


def test_equal_values_have_no_variance(equal: Check) -> None:
    rows = tuples(x=[0.1] * 7, d=["-7.17"] * 7)
    rows = [row | {"d": pa.scalar(row["d"]).cast(pa.decimal128(9, 2)).as_py()} for row in rows]
    functions = ("var_pop", "var_samp", "stddev", "stddev_pop")
    texts = [
        f"SELECT window.end, {f}({column}) FROM t GROUP BY window(ts, '5 seconds', '2 seconds')"
        for f in functions
        for column in ("x", "d")
    ]
    equal(rows, *texts)


def test_a_lonely_negative_zero_is_an_extreme(equal: Check) -> None:
    rows = tuples(x=[-0.0, -0.0], y=[-0.0, None])
    equal(
        rows, "SELECT CAST(max(x) AS STRING), CAST(min(y) AS STRING) FROM t GROUP BY window(ts, '1 minute')"
    )


def test_fields_keep_the_names_that_the_text_gives_them(equal: Check) -> None:
    """Spark names the fields of a struct after its arguments as written, whatever they are resolved to."""
    rows = tuples(n=[1, 1, 2, None], s=["a", "b", "a", "c"])
    equal(
        rows,
        "SELECT struct(n, count(*)) FROM t GROUP BY n, window(ts, '1 minute')",
        "SELECT to_json(struct(n, N AS z, max(s), window.end)) FROM t GROUP BY n, window(ts, '1 minute')",
        "SELECT (n, count(*)) AS pair FROM t GROUP BY n, window(ts, '1 minute')",
        "SELECT struct(z) AS r, (z, 1) AS pair FROM (SELECT n AS z FROM t)",
        "SELECT to_json(struct(*)), hash(*) FROM (SELECT n AS z, s FROM t)",
        "SELECT struct(t.*) AS r FROM t",
        "SELECT n FROM t WHERE (n, s) IN ((1, 'a'), (2, 'a'))",
    )


def test_tuples_may_be_asked_for_their_window(equal: Check) -> None:
    rows = tuples(n=range(40))
    windowed = "window(ts, '10 seconds', '5 seconds')"
    late = "start > TIMESTAMP'2024-01-01 12:00:10'"
    equal(
        rows,
        f"SELECT count(*) FILTER (WHERE {windowed}.{late}) AS c, sum(n) FROM t GROUP BY {windowed}",
        f"SELECT max({windowed}.start) AS m FROM t GROUP BY {windowed}",
        f"SELECT w.start, sum(n) FROM (SELECT n, {windowed} AS w FROM t) WHERE w.{late} GROUP BY w",
    )


def test_maps_of_aggregates_are_delivered(equal: Check) -> None:
    equal(
        tuples(n=[1, 2, 2]),
        "SELECT map('c', count(*)) AS m, array(n) FROM t GROUP BY n, window(ts, '1 minute')",
    )


def test_intervals_of_months_travel_as_numbers(equal: Check) -> None:
    """Python has no Arrow array for them: one query with such a key must not stop the epoch of all."""
    months = "INTERVAL '1' MONTH * n"
    equal(
        tuples(n=[1, 2, 2, None], s=["a"] * 4),
        f"SELECT CAST({months} AS STRING) AS m, count(*) FROM t GROUP BY {months}, window(ts, '1 minute')",
        f"SELECT CAST(max({months}) AS STRING) AS m, count({months}) FROM t GROUP BY window(ts, '1 minute')",
        f"SELECT n FROM t WHERE {months} > INTERVAL '1' MONTH",
        "SELECT s, count(*) FROM t GROUP BY s, window(ts, '1 minute')",
    )


@pytest.mark.parametrize(
    "value", ["array(INTERVAL '1' MONTH * n)", "make_interval(0, n)", "struct(TIME'12:00:00')"]
)
def test_a_column_that_no_result_can_hold_is_refused(value: str, open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("t", DDL, event_time="ts")
    with pytest.raises(SqlError, match="no result can hold"):
        hr.create_query(f"SELECT {value} AS v FROM t")
    assert hr.queries() == []


def test_windows_beyond_the_years_of_python_can_be_audited(open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("t", DDL, event_time="ts")
    before = dt.datetime(1960, 1, 1, tzinfo=dt.UTC)
    query = hr.create_query("SELECT window.start, count(*) FROM t GROUP BY window(ts, '1000000 days')")
    hr.append("t", pa.Table.from_pylist([{"x": 1.0, "ts": before}], schema=SCHEMA))
    hr.close_stream("t")
    hr.run_available()
    report = query.audit()
    assert report.ok and report.actual_rows == 1


def test_fields_keep_their_names_through_renaming_subqueries(equal: Check) -> None:
    rows = tuples(n=[1, 2, None], l=[[1, 2], [3], None])
    equal(
        rows,
        "SELECT to_json(arrays_zip(z)), arrays_zip(z, array(1)) AS p FROM (SELECT l AS z FROM t)",
        "SELECT to_json(arrays_zip(z, L, l)) AS p FROM (SELECT sort_array(l) AS z, l FROM t)",
        "SELECT arrays_zip(q.z, l) AS p FROM (SELECT struct(l AS z) AS q, l FROM t)",
        "SELECT to_json(arrays_zip((z), t.l)) AS p, struct((z)) AS o FROM (SELECT l AS z, l FROM t) AS t",
        "SELECT to_json(transform(z, e -> struct(e, n, e + 1))) AS p FROM (SELECT l AS z, n FROM t)",
        "SELECT to_json(arrays_zip(c)) FROM (SELECT collect_list(n) AS c FROM t GROUP BY window(ts, '1 minute'))",
    )


def test_fields_of_one_name_are_refused(open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("t", DDL, event_time="ts")
    with pytest.raises(SqlError, match="two fields `N`"):
        hr.create_query("SELECT array(struct(n, N)) AS v FROM t")


def test_a_variable_hides_no_column_behind_another_name(equal: Check) -> None:
    rows = tuples(n=[10, 20, None], l=[[1, 2], [3], None])
    equal(
        rows,
        "SELECT transform(l, n -> n + z) AS p FROM (SELECT l, n AS z FROM t)",
        "SELECT to_json(transform(l, (n, i) -> struct(n, z, i))) AS p FROM (SELECT l, n AS z FROM t)",
        "SELECT transform(l, n -> n + n) AS p FROM (SELECT l, n AS z FROM t)",
    )


def test_having_on_keys_spares_the_other_groups(equal: Check) -> None:
    """Spark moves such a condition below the aggregation, where the inputs of other groups are never computed."""
    by = "GROUP BY n, window(ts, '2 seconds')"
    equal(
        tuples(n=[1, 2, 1, 1, None], s=["5", "x", "6", "7", "y"]),
        f"SELECT n, sum(CAST(s AS INT)) FROM t {by} HAVING n = 1",
        f"SELECT n, sum(CAST(s AS INT)) AS c FROM t {by} HAVING c > 5 AND n < 2 AND window.start IS NOT NULL",
        f"SELECT max(CAST(s AS INT)) FROM t {by} HAVING NOT (n IS NULL OR count(*) > 9 OR n > 1)",
        "SELECT n + 1 AS m, sum(CAST(s AS INT)) FROM t GROUP BY m, window(ts, '2 seconds') HAVING m = 2",
        f"SELECT c FROM (SELECT n, sum(CAST(s AS INT)) AS c FROM t {by}) WHERE n = 1",
        "SELECT sum(CAST(s AS INT)) FROM t WHERE n < 3 GROUP BY upper(s), window(ts, '1 minute') HAVING upper(s) < '9'",
        f"SELECT count(*) FROM t {by} HAVING n = 1 AND 1 / (n - 2) < 0",
        f"SELECT n FROM t {by} HAVING (n)",
        f"SELECT n FROM t {by} HAVING count(*)",
    )


def test_calls_with_words_between_their_arguments(equal: Check) -> None:
    calls = {
        "substring(s FROM 2 FOR 2)": "'ab'",
        "substr(s FROM 2)": "'ax'",
        "position('a' IN s)": "2",
        "overlay(s PLACING 'yy' FROM 2 FOR 1)": "'xyybcx'",
        "overlay(s PLACING 'yy' FROM 2)": "'xyycx'",
        "trim(BOTH 'x' FROM s)": "'abc'",
        "trim(TRAILING FROM s)": "'x'",
        "extract(second FROM ts)": "2",
        "extract(hour FROM ts)": "12",
    }
    listed = ", ".join(calls)
    equal(
        tuples(s=["xabcx", "x", "", None, "bax"]),
        f"SELECT {listed}, substring(s, 2, 2), position('a', s) FROM t",
        f"SELECT s FROM t WHERE {' OR '.join(f'{call} = {value}' for call, value in calls.items())}",
        f"SELECT {listed}, count(*) FROM t GROUP BY {listed}, window(ts, '1 minute')",
        f"SELECT {listed}, count(*) FROM t [RANGE 1 MINUTE] GROUP BY {listed}",
    )


def test_a_star_after_a_struct_is_its_fields(equal: Check) -> None:
    rows = tuples(r=[{"a": 1, "b": "x"}, {"a": 2, "b": None}, None, {"a": 1, "b": "x"}])
    equal(
        rows,
        "SELECT r.* FROM t",
        "SELECT t.r.*, n FROM t WHERE r.a > 0",
        "SELECT q.* EXCEPT (b), ts FROM (SELECT r AS q, ts FROM t)",
        "SELECT to_json(struct(q.*)) FROM (SELECT r AS q FROM t)",
        "SELECT w.*, c FROM (SELECT window(ts, '2 seconds') AS w, count(*) AS c FROM t GROUP BY 1)",
    )


def test_group_by_all(equal: Check) -> None:
    rows = tuples(n=[1, 1, 2, None], s=["a", "b", "a", "a"])
    equal(
        rows,
        "SELECT n, window(ts, '2 seconds'), count(*) FROM t GROUP BY ALL",
        "SELECT n, window(ts, '2 seconds').start, count(*) + n AS c FROM t GROUP BY ALL HAVING n > 0",
        "SELECT upper(s) AS u, 1 AS one, window(ts, '2 seconds') AS w FROM t GROUP BY ALL",
        "SELECT 1, count(DISTINCT n), window(ts, '2 seconds') AS w FROM t GROUP BY ALL",
    )


def test_distinct_rows_of_a_window(equal: Check) -> None:
    rows = tuples(n=[1, 1, 2, None, 1], s=["a", "b", "a", "a", "a"])
    by = "GROUP BY n, s, window(ts, '4 seconds', '2 seconds')"
    equal(
        rows,
        f"SELECT DISTINCT n, window.start FROM t {by}",
        f"SELECT DISTINCT window.end, count(*) FROM t {by}",
        f"SELECT DISTINCT s, n, window, max(s) FROM t {by}",
        f"SELECT DISTINCT w.start, c FROM (SELECT window AS w, n, count(*) AS c FROM t {by})",
        f"SELECT c FROM (SELECT DISTINCT window.start, s, n, count(*) AS c FROM t {by})",
        "SELECT DISTINCT upper(s), 1, window(ts, '4 seconds', '2 seconds').start AS a FROM t WHERE n IS NOT NULL",
        "SELECT a, n + 1 AS m FROM (SELECT DISTINCT n, window(ts, '4 seconds') AS a FROM t) WHERE n > 0",
    )


def test_grouping_sets_that_all_have_the_window(equal: Check) -> None:
    w = "window(ts, '2 seconds')"
    equal(
        tuples(n=[1, 1, 2, None], s=["a", "b", "a", "a"]),
        f"SELECT n, window.start, count(*) FROM t GROUP BY GROUPING SETS ((n, {w}), ({w}))",
        f"SELECT n, s, count(*) FROM t GROUP BY {w}, CUBE (n, s)",
    )


def test_where_may_ask_for_the_tumbling_window_of_the_group(equal: Check) -> None:
    w = "window(ts, '2 seconds')"
    equal(
        tuples(n=range(9)),
        f"SELECT {w}.start AS a, sum(n) FROM t WHERE {w}.start > TIMESTAMP '2024-01-01 12:00:03' GROUP BY {w}",
        f"SELECT sum(n) FROM t WHERE {w}.start > TIMESTAMP '2024-01-01 12:00:03' GROUP BY {w}",
        f"SELECT w.end, sum(n) FROM (SELECT *, {w} AS w FROM t) WHERE {w}.end > ts GROUP BY w",
        f"SELECT n, {w}.start AS a FROM t WHERE {w}.start < ts",
    )


def test_the_same_shape_with_a_sliding_window_is_refused(open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("t", DDL, event_time="ts")
    window = "window(ts, '4 seconds', '{0}')"
    text = f"SELECT count(*) FROM t WHERE {window}.start > ts GROUP BY {window}"
    hr.create_query(text.format("4 seconds"))
    with pytest.raises(SqlError, match="does not find the group's window"):
        hr.create_query(text.format("4 seconds").replace("count(*)", "window.start, count(*)"))
    with pytest.raises(SqlError, match="a sliding window\\(\\) is called in two places"):
        hr.create_query(text.format("2 seconds"))
