# ruff: noqa: E501 - a query stays on one line
"""Everything that is refused: with a stable code, a message that names the thing, and nothing asked of Spark twice."""

from __future__ import annotations

import time

import pytest

from headrace.model.errors import SqlError
from headrace.model.query import MAX_AGGREGATES, Stream, StreamName
from headrace.model.types import Column, SqlType
from headrace.sql import ShapeCache, parse_query
from sql_fakes import STREAMS, FakeAnalyzer

WINDOW = "GROUP BY window(ts, '10 seconds')"

REFUSED = [
    # text, code, a word of the message
    ("", "EMPTY_TEXT", "no statement"),
    ("  -- nothing\n ;", "EMPTY_TEXT", "no statement"),
    ("SELECT price FROM purchases WHERE price > 1" + " OR price > 1" * 80_000, "TEXT_TOO_LONG", "100,000"),
    ("SELECT price FROM purchases; SELECT 1", "TWO_STATEMENTS", "more than one"),
    ("SELECT price FROM", "SYNTAX", "table name"),
    ("SELECT price FROM purchases WHERE", "SYNTAX", "WHERE has no condition"),
    (f"SELECT COUNT(*) FROM purchases {WINDOW} HAVING", "SYNTAX", "HAVING has no condition"),
    ("SELECT price FROM purchases WHERE price >", "SYNTAX", "an operand is missing near '>'"),
    ("SELECT 'abc FROM purchases", "SYNTAX", "not closed"),
    ("SELEC price FROM purchases", "SYNTAX", "SELEC"),
    ("SELECT a\x00b FROM purchases", "SYNTAX", "NUL"),
    ("SELECT price FROM purchases [RANGE 10 SECONDS", "SYNTAX", "bracket"),
    ("SELECT price FROM purchases [RANGE]", "SYNTAX", "RANGE n UNIT"),
    ("SELECT " + "(" * 3000 + "price" + ")" * 3000 + " FROM purchases", "SYNTAX", "nested"),
    ("INSERT INTO purchases VALUES (1)", "NOT_A_QUERY", "INSERT"),
    ("DROP TABLE purchases", "NOT_A_QUERY", "DROP"),
    ("CREATE TABLE t (a INT)", "NOT_A_QUERY", "CREATE"),
    ("SHOW TABLES", "NOT_A_QUERY", "SHOW"),
    ("SELECT price FROM purchase", "UNKNOWN_STREAM", "purchase"),
    ("SELECT price FROM other.purchases", "UNKNOWN_STREAM", "other.purchases"),
    ("SELECT prise FROM purchases", "UNKNOWN_COLUMN", "prise"),
    ("SELECT price FROM purchases WHERE prise > 3", "UNKNOWN_COLUMN", "prise"),
    ("SELECT q.price FROM purchases AS p", "UNKNOWN_COLUMN", "q"),
    (f"SELECT SUM(prise) FROM purchases {WINDOW}", "UNKNOWN_COLUMN", "prise"),
    ("SELECT window.start FROM purchases", "UNKNOWN_COLUMN", "window"),
    ("SELECT x FROM (SELECT price AS x, level AS X FROM purchases)", "AMBIGUOUS_COLUMN", "x"),
    ("SELECT SUM(price) FROM purchases", "NO_WINDOW", "SUM(price)"),
    ("SELECT country, COUNT(*) FROM purchases GROUP BY country", "NO_WINDOW", "COUNT(*)"),
    ("SELECT country FROM purchases GROUP BY country", "NO_WINDOW", "GROUP BY"),
    ("SELECT DISTINCT country FROM purchases", "NO_WINDOW", "DISTINCT"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(seen, '1 hour')", "NOT_EVENT_TIME", "seen"),
    (
        "SELECT COUNT(*) FROM purchases GROUP BY window(ts + INTERVAL 1 HOUR, '1 hour')",
        "NOT_EVENT_TIME",
        "ts",
    ),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '0 seconds')", "BAD_WINDOW", "range"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '-5 seconds')", "BAD_WINDOW", "range"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '5 seconds', '0 seconds')", "BAD_WINDOW", "slide"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '5 seconds', '-1 seconds')", "BAD_WINDOW", "slide"),
    (
        "SELECT COUNT(*) FROM purchases GROUP BY window(ts, '5 seconds', '10 seconds')",
        "BAD_WINDOW",
        "slide 10 seconds",
    ),
    (
        "SELECT COUNT(*) FROM purchases GROUP BY window(ts, '9 seconds', '3 seconds', '3 seconds')",
        "BAD_WINDOW",
        "start",
    ),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts)", "BAD_WINDOW", "arguments"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, level)", "BAD_WINDOW", "level"),
    (
        "SELECT COUNT(*) FROM purchases WHERE window(ts, '2 hours', '1 hour').start > ts "
        "GROUP BY window(ts, '2 hours', '1 hour')",
        "UNSUPPORTED",
        "two places",
    ),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, INTERVAL '1' HOUR)", "BAD_WINDOW", "INTERVAL"),
    ("SELECT COUNT(*) FROM purchases [RANGE 0 SECONDS]", "BAD_WINDOW", "range"),
    ("SELECT COUNT(*) FROM purchases [RANGE 5 SECONDS SLIDE 10 SECONDS]", "BAD_WINDOW", "slide"),
    ("SELECT COUNT(*) FROM purchases [RANGE 5 SECONDS SLIDE 0 SECONDS]", "BAD_WINDOW", "slide"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '1 month')", "BAD_DURATION", "month"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '1 year')", "BAD_DURATION", "year"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '5 parsecs')", "BAD_DURATION", "parsecs"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '10seconds')", "BAD_DURATION", "10seconds"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '10 ms')", "BAD_DURATION", "ms"),
    ("SELECT COUNT(*) FROM purchases GROUP BY window(ts, '1.5 minutes')", "BAD_DURATION", "fraction"),
    ("SELECT COUNT(*) FROM purchases [RANGE 1 MONTH]", "BAD_DURATION", "MONTH"),
    ("SELECT COUNT(*) FROM purchases [RANGE 1 DAY] GROUP BY window(ts, '1 hour')", "TWO_WINDOWS", "two"),
    (
        "SELECT window(ts, '2 hours').start, COUNT(*) FROM purchases GROUP BY window(ts, '1 hour')",
        "TWO_WINDOWS",
        "two",
    ),
    ("SELECT COUNT(*) FROM purchases [ROWS 10]", "UNSUPPORTED", "ROWS"),
    ("SELECT COUNT(*) FROM purchases [NOW]", "UNSUPPORTED", "NOW"),
    ("SELECT price FROM purchases ORDER BY price", "UNSUPPORTED", "ORDER BY"),
    ("SELECT price FROM purchases LIMIT 10", "UNSUPPORTED", "LIMIT"),
    ("SELECT price FROM purchases OFFSET 10", "UNSUPPORTED", "OFFSET"),
    ("SELECT price FROM (SELECT price FROM purchases LIMIT 10)", "UNSUPPORTED", "LIMIT"),
    ("SELECT price FROM purchases UNION SELECT price FROM purchases", "UNSUPPORTED", "UNION"),
    ("SELECT price FROM purchases INTERSECT SELECT price FROM purchases", "UNSUPPORTED", "INTERSECT"),
    ("SELECT price FROM purchases EXCEPT SELECT price FROM purchases", "UNSUPPORTED", "EXCEPT"),
    ("SELECT a.price FROM purchases a JOIN purchases b ON a.userID = b.userID", "NO_WINDOW", "join of `a`"),
    ("SELECT a.price FROM purchases a, purchases b", "NO_WINDOW", "never ends"),
    (
        "SELECT l.price FROM (SELECT *, window(ts, '1 day') AS w FROM purchases) l "
        "JOIN (SELECT *, window(ts, '1 day') AS w FROM purchases) r ON l.userID = r.userID",
        "NO_WINDOW",
        "windows are equal",
    ),
    (
        "SELECT l.price FROM (SELECT *, window(ts, '1 day') AS w FROM purchases) l "
        "JOIN (SELECT *, window(ts, '2 days') AS w FROM purchases) r ON l.w = r.w",
        "TWO_WINDOWS",
        "different windows",
    ),
    (
        "SELECT a.price FROM purchases [RANGE 1 DAY] AS a, purchases [RANGE 2 DAYS] AS b "
        "WHERE a.userID = b.userID",
        "TWO_WINDOWS",
        "different slides",
    ),
    ("SELECT 1 FROM purchases [RANGE 1 DAY], purchases [RANGE 1 DAY]", "UNSUPPORTED", "named `purchases`"),
    (
        "SELECT price FROM purchases [RANGE 1 DAY] AS a, purchases [RANGE 1 DAY] AS b WHERE a.level = b.level",
        "AMBIGUOUS_COLUMN",
        "price",
    ),
    (
        "SELECT a.price FROM purchases [RANGE 1 DAY] a LEFT SEMI JOIN purchases [RANGE 1 DAY] b "
        "ON a.level = b.level",
        "UNSUPPORTED",
        "SEMI",
    ),
    (
        "SELECT 1 FROM " + ", ".join(f"purchases [RANGE 1 DAY] AS p{i}" for i in range(7)),
        "UNSUPPORTED",
        "7 streams",
    ),
    ("SELECT price FROM purchases WHERE userID IN (SELECT userID FROM purchases)", "UNSUPPORTED", "subquery"),
    ("SELECT price FROM purchases WHERE EXISTS (SELECT 1 FROM purchases)", "UNSUPPORTED", "subquery"),
    (
        "SELECT price FROM purchases WHERE price > (SELECT MAX(price) FROM purchases)",
        "UNSUPPORTED",
        "subquery",
    ),
    ("SELECT (SELECT MAX(price) FROM purchases) FROM purchases", "UNSUPPORTED", "subquery"),
    ("SELECT price FROM purchases WHERE price > ?", "UNSUPPORTED", "parameter"),
    ("SELECT price FROM purchases WHERE price > :limit", "UNSUPPORTED", ":limit"),
    ("SELECT ROW_NUMBER() OVER (ORDER BY price) FROM purchases", "UNSUPPORTED", "ROW_NUMBER()"),
    *[
        (f"SELECT {text}", code, word)
        for text, code, word in (
            ("COUNT(*) FROM purchases GROUP BY session_window(ts)", "BAD_WINDOW", "2 arguments"),
            ("COUNT(*) FROM purchases GROUP BY session_window(ts, '0 seconds')", "BAD_WINDOW", "positive"),
            ("COUNT(*) FROM purchases GROUP BY session_window(ts, '-1 second')", "BAD_WINDOW", "positive"),
            ("COUNT(*) FROM purchases GROUP BY session_window(ts, '1 month')", "BAD_DURATION", "month"),
            (
                "COUNT(*) FROM purchases GROUP BY session_window(ts, 5000000)",
                "BAD_WINDOW",
                "constant duration",
            ),
            (
                "COUNT(*) FROM purchases GROUP BY session_window(ts, CASE WHEN paid THEN '1 hour' ELSE '5 minutes' END)",
                "BAD_WINDOW",
                "CASE WHEN paid THEN '1 hour'",
            ),
            (
                "COUNT(*) FROM purchases GROUP BY session_window(seen, '1 hour')",
                "NOT_EVENT_TIME",
                "session_window()",
            ),
            ("session_window(ts, '1 hour').start FROM purchases", "UNSUPPORTED", "groups by"),
            (
                "DISTINCT session_window(ts, '1 hour') FROM purchases WHERE session_window(ts, '1 hour').start > ts",
                "UNSUPPORTED",
                "groups by",
            ),
            (
                "COUNT(*) FROM (SELECT *, session_window(ts, '1 hour') AS w FROM purchases) WHERE w.start < seen GROUP BY w",
                "UNSUPPORTED",
                "in WHERE",
            ),
            (
                "COUNT(*) FROM purchases GROUP BY session_window(ts, '1 hour').start",
                "UNSUPPORTED",
                "groups by",
            ),
            (
                "COUNT(*) FROM purchases GROUP BY session_window(ts, '1 hour'), session_window.start",
                "UNSUPPORTED",
                "part of a key",
            ),
            (
                "COUNT(*) FROM purchases GROUP BY session_window(ts, '1 hour'), hour(session_window.start)",
                "UNSUPPORTED",
                "part of a key",
            ),
            (
                "MAX(session_window.end) FROM purchases GROUP BY session_window(ts, '1 hour')",
                "UNSUPPORTED",
                "inside of an aggregate",
            ),
            (
                "COUNT(*) FILTER (WHERE session_window.end > seen) FROM purchases GROUP BY session_window(ts, '1 hour')",
                "UNSUPPORTED",
                "inside of an aggregate",
            ),
            (
                "COUNT(*) FROM purchases GROUP BY session_window(ts, '1 hour') HAVING COUNT(*) > 1 AND session_window.end > '2024'",
                "UNSUPPORTED",
                "edges of sessions alone",
            ),
            (
                "n FROM (SELECT session_window.start AS s, COUNT(*) AS n FROM purchases GROUP BY session_window(ts, '1 hour')) WHERE s > '2024'",
                "UNSUPPORTED",
                "edges of sessions alone",
            ),
            (
                "COUNT(*) FROM purchases GROUP BY session_window(ts, '1 hour'), ROLLUP (country)",
                "UNSUPPORTED",
                "grouping sets",
            ),
            (
                "DISTINCT session_window.start, COUNT(*) FROM purchases GROUP BY session_window(ts, '1 hour'), level",
                "UNSUPPORTED",
                "DISTINCT",
            ),
            (
                "COUNT(*), window.start FROM purchases GROUP BY session_window(ts, '1 hour'), window(ts, '1 hour')",
                "TWO_WINDOWS",
                "two",
            ),
            (
                "session_window(ts, '2 hours').start, COUNT(*) FROM purchases GROUP BY session_window(ts, '1 hour')",
                "TWO_WINDOWS",
                "two",
            ),
            (
                "COUNT(*) FROM purchases [SESSION GAP 1 HOUR] GROUP BY session_window(ts, '1 hour')",
                "TWO_WINDOWS",
                "two",
            ),
            ("COUNT(*) FROM purchases [SESSION 1 HOUR]", "SYNTAX", "SESSION GAP n UNIT"),
            ("COUNT(*) FROM purchases [SESSION GAP]", "SYNTAX", "SESSION GAP n UNIT"),
            ("COUNT(*) FROM purchases [SESSION GAP 0 SECONDS]", "BAD_WINDOW", "gap"),
            ("price FROM purchases [SESSION GAP 1 HOUR]", "UNSUPPORTED", "without one aggregation"),
            (
                "DISTINCT country FROM purchases [SESSION GAP 1 HOUR]",
                "UNSUPPORTED",
                "without one aggregation",
            ),
        )
    ],
    ("SELECT explode(array(1, 2)) FROM purchases", "UNSUPPORTED", "explode"),
    ("SELECT price FROM purchases LATERAL VIEW explode(array(1)) AS x", "UNSUPPORTED", "LATERAL VIEW"),
    ("SELECT price FROM purchases TABLESAMPLE (10 PERCENT)", "UNSUPPORTED", "TABLESAMPLE"),
    ("SELECT country, COUNT(*) FROM purchases GROUP BY ALL", "NO_WINDOW", "COUNT(*)"),
    (f"SELECT DISTINCT COUNT(*) FROM purchases {WINDOW}", "NO_WINDOW", "DISTINCT over the rows of different"),
    (
        f"SELECT n FROM (SELECT DISTINCT window.start, COUNT(*) AS n FROM purchases {WINDOW}, level)",
        "UNSUPPORTED",
        "DISTINCT in a subquery",
    ),
    (f"SELECT COUNT(*) FROM purchases {WINDOW}, country WITH CUBE", "NO_WINDOW", "CUBE also groups"),
    (f"SELECT COUNT(*) FROM purchases {WINDOW}, 1 WITH ROLLUP", "NO_WINDOW", "ROLLUP also groups"),
    *[
        (f"SELECT COUNT(*) FROM purchases GROUP BY {sets}", "NO_WINDOW", f"{sets.split(' (')[0]} also groups")
        for sets in (
            "CUBE (country, window(ts, '1 hour'))",
            "ROLLUP (window(ts, '1 hour'), country)",
            "GROUPING SETS ((window(ts, '1 hour'), country), (country))",
        )
    ],
    ("SELECT COUNT(*) FROM purchases GROUP BY CUBE (country)", "NO_WINDOW", "COUNT(*) without a window"),
    ("SELECT address.city.* FROM purchases", "UNSUPPORTED", "address.city.*"),
    ("SELECT adress.* FROM purchases", "UNKNOWN_COLUMN", "adress.*"),
    ("SELECT address.* EXCEPT (street) FROM purchases", "UNKNOWN_COLUMN", "street"),
    ("SELECT a FROM VALUES (1) AS t(a)", "UNSUPPORTED", ""),
    ("SELECT 1", "UNSUPPORTED", "reads no stream"),
    (
        "SELECT MAX(n) FROM (SELECT country, COUNT(*) AS n FROM purchases GROUP BY country, window(ts, '1 hour'))",
        "UNSUPPORTED",
        "aggregation of an aggregation",
    ),
    ("SELECT __headrace_closed FROM purchases", "RESERVED_NAME", "__headrace_closed"),
    *[
        (f"SELECT price FROM purchases WHERE {call} IS NOT NULL", "NONDETERMINISTIC", call.split("(")[0])
        for call in (
            "rand()",
            "randn()",
            "uuid()",
            "shuffle(array(1))",
            "monotonically_increasing_id()",
            "now()",
            "current_timestamp()",
            "current_date()",
            "input_file_name()",
            "spark_partition_id()",
            "unix_timestamp()",
        )
    ],
    ("SELECT current_date FROM purchases", "NONDETERMINISTIC", "current_date"),
    ("SELECT CURRENT_TIMESTAMP FROM purchases", "NONDETERMINISTIC", "current_timestamp"),
]


@pytest.mark.parametrize(
    ("text", "code", "word"), REFUSED, ids=[f"{code}-{text[:60]}" for text, code, _ in REFUSED]
)
def test_is_refused(text: str, code: str, word: str) -> None:
    cache = ShapeCache(FakeAnalyzer())
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS, cache)
    assert caught.value.code == code
    assert word.lower() in caught.value.message.lower()
    assert len(cache) == 0
    assert len(caught.value.render()) < 1000


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT prise FROM purchases", "did you mean `price`?"),
        ("SELECT price FROM purchase", "did you mean `purchases`?"),
        ("SELECT SUM(price) FROM purchases", "window(ts, '10 seconds')"),
        ("SELECT COUNT(*) FROM purchases GROUP BY window(seen, '1 hour')", "window(ts, ...)"),
        (
            "SELECT COUNT(*) FROM purchases GROUP BY session_window(ts, level)",
            "session_window(ts, '5 seconds')",
        ),
        ("SELECT COUNT(*) FROM purchases [SESSION 1 HOUR]", "Spark SQL"),
    ],
)
def test_hint_says_what_to_do(text: str, hint: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS, FakeAnalyzer())
    assert caught.value.hint is not None and hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("SELECT price\nFROM purchases WHERE (price > 1", (2, 31)),
        ("SELECT prise FROM purchases", (1, 8)),
        ("SELECT price,\n  prise FROM purchases", (2, 3)),
        ("SELECT price FROM purchases; SELECT 1", (1, 28)),
        ("SELECT now() FROM purchases", (1, 8)),
        ("FETCHY price", (1, 1)),
    ],
)
def test_position(text: str, span: tuple[int, int]) -> None:
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS, FakeAnalyzer())
    assert caught.value.span == span


def test_reserved_stream_column() -> None:
    stream = Stream(
        StreamName("s"), (Column("__headrace_x", SqlType("int")), Column("ts", SqlType("timestamp"))), "ts", 0
    )
    with pytest.raises(SqlError) as caught:
        parse_query("SELECT ts FROM s", {"s": stream}, FakeAnalyzer())
    assert caught.value.code == "RESERVED_NAME"


def test_bad_window_is_refused_on_a_known_shape_too() -> None:
    cache = ShapeCache(FakeAnalyzer())
    parse_query(
        "SELECT COUNT(*) FROM purchases GROUP BY window(ts, '5 seconds', '5 seconds')", STREAMS, cache
    )
    with pytest.raises(SqlError, match="slide"):
        parse_query(
            "SELECT COUNT(*) FROM purchases GROUP BY window(ts, '5 seconds', '6 seconds')", STREAMS, cache
        )


@pytest.mark.parametrize(
    ("text", "per_tuple"),
    [
        (
            "SELECT COUNT(*) FROM purchases GROUP BY window(ts, '1000 days', '1 microsecond')",
            "86,400,000,000,000",
        ),
        ("SELECT COUNT(*) FROM purchases [RANGE 2 DAYS SLIDE 1 SECOND]", "172,800"),
        ("SELECT price, window(ts, '1 day', '1 second') AS w FROM purchases", "86,400"),
        (
            "SELECT l.price FROM purchases [RANGE 1 DAY SLIDE 1 SECOND] AS l, returns AS r WHERE l.level = r.level",
            "86,400",
        ),
    ],
)
def test_a_window_that_is_too_dense_is_refused_at_once(text: str, per_tuple: str) -> None:
    start = time.monotonic()
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS, FakeAnalyzer())
    assert time.monotonic() - start < 0.5
    assert caught.value.code == "WINDOW_TOO_DENSE"
    assert per_tuple in caught.value.message
    assert "slide by" in (caught.value.hint or "")


def test_a_dense_window_is_too_dense_on_a_known_shape_too() -> None:
    cache = ShapeCache(FakeAnalyzer())
    text = "SELECT COUNT(*) FROM purchases GROUP BY window(ts, '1 day', '{}')"
    parse_query(text.format("1 second"), STREAMS, cache)
    with pytest.raises(SqlError, match="WINDOW_TOO_DENSE"):
        parse_query(text.format("1 millisecond"), STREAMS, cache)


def test_spark_is_asked_about_a_window_that_tumbles() -> None:
    """It plans one projection per window of a tuple: 8,640 of them take 7 s to analyse."""
    for text in (
        "SELECT window(ts, '1 day', '1 second', '0 seconds') AS w, COUNT(*) FROM purchases WHERE level % 2 = 1 GROUP BY w",
        "SELECT COUNT(*) FROM purchases [RANGE 1 DAY SLIDE 1 SECOND] WHERE level > 3",
        "SELECT COUNT(*) FROM purchases WHERE level > 3 GROUP BY window(ts, 86400000000, 1000000, -1)",
        "SELECT l.price FROM (SELECT *, window(ts, '1 hour', '1 second') AS w FROM purchases) AS l "
        "JOIN (SELECT *, window(ts, '1 hour', '1 second') AS w FROM purchases) AS r ON l.w = r.w AND l.level = r.level",
    ):
        analyzer = FakeAnalyzer()
        plan = parse_query(text, STREAMS, analyzer)
        assert (
            plan.window is not None and "second" in plan.plain_sql.lower()
        ) or "86400000000" in plan.plain_sql
        for asked in analyzer.asked:
            assert "1 day" not in asked and "1 hour" not in asked and "86400000000" not in asked
        assert "sequence(" in plan.log_sql and " window(" not in plan.log_sql


@pytest.mark.parametrize(
    ("call", "limit"), [("COUNT(*) FILTER (WHERE level > {})", MAX_AGGREGATES), ("SUM(level + {})", 20)]
)
def test_more_aggregates_than_can_be_numbered_are_refused(
    call: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.sql.binding.MAX_AGGREGATES", limit)
    calls = ", ".join(call.format(i) for i in range(limit + 1))
    text = f"SELECT {calls} FROM purchases GROUP BY window(ts, '5 seconds')"
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS, FakeAnalyzer())
    assert caught.value.code == "TOO_MANY_AGGREGATES"
    assert f"{limit + 1} aggregates, more than the {limit}" in caught.value.message
    assert "split it" in (caught.value.hint or "")
