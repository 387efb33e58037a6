# ruff: noqa: E501 - a query stays on one line
"""A text that we misread never runs as we read it; and what the text over the log is."""

from __future__ import annotations

import pytest
from sql_readings import read_again

from headrace.model.errors import SqlError
from headrace.model.query import Fallback, Projection, QueryPlan, Stream, StreamName
from headrace.model.types import Column, SqlType
from headrace.model.window import Window
from headrace.sql import ShapeCache, parse_query
from headrace.sql.render.fidelity import one_spaced
from headrace.sql.shape import lift
from headrace.sql.text.lexer import lex
from sql_fakes import PURCHASES, STREAMS, FakeAnalyzer


class _Differing(FakeAnalyzer):
    """Spark reads another thing in every text that is not written as we would write it."""

    def difference(self, original: str, rendered: str) -> str | None:
        return "Spark reads a where a rendering has b"


def _plan(text: str) -> QueryPlan:
    return parse_query(text, STREAMS, FakeAnalyzer())


def test_a_text_that_we_misread_runs_as_it_is_written() -> None:
    text = "select country, SUM(price) FROM purchases WHERE level > {} GROUP BY country, window(ts, '{} seconds')"
    cache = ShapeCache(_Differing())
    for level, seconds in ((3, 10), (4, 20)):
        plan = parse_query(text.format(level, seconds), STREAMS, cache)
        assert isinstance(plan.body, Fallback) and "does not read" in plan.body.reason
        assert plan.window == Window(seconds * 1_000_000, seconds * 1_000_000)
        assert plan.verbatim
        assert plan.log_sql.startswith("select country, SUM(price) FROM (SELECT")
        assert plan.log_sql.endswith(f"AS purchases WHERE level > {level} GROUP BY country, `window`")
        assert f"window(ts, '{seconds} seconds')" in plan.log_sql


@pytest.mark.parametrize(
    "text",
    [
        "select country, COUNT(*) FROM purchases [RANGE 10 SECONDS] GROUP BY country",
        "select upper(country) AS u, COUNT(*) FROM purchases GROUP BY session_window(ts, '5 seconds'), u",
        "select nothing FROM purchases",
    ],
)
def test_a_text_that_we_misread_and_that_cannot_run_as_it_is_is_refused(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS, _Differing())
    assert caught.value.code == "MISREAD"
    assert "Spark reads a" in str(caught.value)


def test_a_clause_that_is_refused_is_no_misreading() -> None:
    """The true reason is given: sqlglot would write QUALIFY as an outer SELECT, which Spark reads as another text."""
    text = "SELECT level FROM purchases QUALIFY ROW_NUMBER() OVER (ORDER BY level) = 1"
    assert read_again(text) == (text, text)
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS, _Differing())
    assert (caught.value.code, caught.value.message) == ("UNSUPPORTED", "QUALIFY is not available")


@pytest.mark.parametrize(
    ("text", "log"),
    [
        (
            "SELECT /* all */ * FROM purchases -- end",
            "SELECT /* all */ * FROM {tuples} AS purchases",
        ),
        (
            "SELECT window, count(*), level * 2 AS d FROM Purchases p GROUP BY WINDOW (p.ts, '10 seconds'), level*2",
            "SELECT window, count(*), level * 2 AS d FROM {windows} p GROUP BY `window`, level*2",
        ),
        (
            "SELECT c, SUM(p) FROM (SELECT country AS c, price p, ts FROM purchases) GROUP BY c, window(ts, '10 seconds')",
            "SELECT c, SUM(p) FROM (SELECT country AS c, price p, ts , `window` FROM {windows} AS purchases) GROUP BY c, `window`",
        ),
        (
            "WITH d AS (SELECT p.*, 1 AS one FROM purchases AS p) SELECT COUNT(*) FROM d GROUP BY window(ts, '10 seconds')",
            "WITH d AS (SELECT p.* EXCEPT (`window`), 1 AS one , `window` FROM {windows} AS p) SELECT COUNT(*) FROM d GROUP BY `window`",
        ),
        (
            "SELECT SUM(price) FROM (SELECT * EXCEPT (raw) FROM purchases) GROUP BY window(ts, '10 seconds')",
            "SELECT SUM(price) FROM (SELECT * EXCEPT (`window`, raw) , `window` FROM {windows} AS purchases) GROUP BY `window`",
        ),
        (
            "SELECT country, window(ts, '10 seconds').start AS s FROM purchases",
            "SELECT country, window(ts, '10 seconds').start AS s FROM {tuples} AS purchases",
        ),
        (
            "SELECT COUNT(*) AS n FROM purchases [RANGE 10 SECONDS] WHERE level > 3 HAVING n > 1",
            "SELECT purchases.`window`.start AS window_start, purchases.`window`.end AS window_end, COUNT(*) AS n FROM {windows} AS purchases  WHERE level > 3  GROUP BY purchases.`window` HAVING n > 1",
        ),
    ],
)  # fmt: skip
def test_the_log_is_read_by_the_text_that_was_written(text: str, log: str) -> None:
    end = "unix_micros(CAST(__headrace_window.end AS TIMESTAMP))"
    windows = (
        "(SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, "
        "window(ts, '10 seconds') AS __headrace_window FROM __headrace_log) WHERE "
        f"{end} > __headrace_closed AND {end} > :after AND {end} <= :until)"
    )
    tuples = "(SELECT * EXCEPT (__headrace_closed) FROM __headrace_log)"
    plan = _plan(text)
    assert plan.verbatim
    assert " ".join(plan.log_sql.split()) == " ".join(log.format(windows=windows, tuples=tuples).split())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT upper(country) AS u, COUNT(*) FROM purchases GROUP BY session_window(ts, '5 seconds'), u",
        "SELECT COUNT(*) FROM (SELECT ts FROM purchases) GROUP BY session_window(ts, '5 seconds')",
        "SELECT struct(*) AS s, window(ts, '10 seconds') AS w FROM purchases GROUP BY ALL",
        "SELECT country, COUNT(*) FROM purchases [RANGE 10 SECONDS] GROUP BY 1",
        "SELECT ROW_NUMBER() OVER (ORDER BY price) AS r FROM purchases [RANGE 10 SECONDS]",
    ],
)
def test_what_has_no_text_of_its_own_over_the_log_is_rendered(text: str) -> None:
    assert not _plan(text).verbatim


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("X'10'", "10"),
        ("X'10'", "'10'"),
        ("r'level'", "level"),
        ("r'level'", "'level'"),
        ("`level`", "'level'"),
        ("level >> 1", "level > > 1"),
        ("level >>> 1", "level >> > 1"),
        ("level << 1", "level < < 1"),
        ("'a' 'b'", "'a''b'"),
        ("1Y", "1S"),
        ("128Y", "1Y"),
        ("1.5D", "1.5F"),
        ("INTERVAL 1 DAY 2 HOURS", "INTERVAL 1 DAY 3 HOURS"),
        ("TIME '10:00:00'", "TIME 'no'"),
        ("1e400", "1e4"),
        ("country LIKE 'a' ESCAPE '!'", "country LIKE 'a' ESCAPE 'no'"),
    ],
)
def test_texts_that_spark_reads_differently_have_different_shapes(left: str, right: str) -> None:
    for text in ("SELECT {} AS e FROM purchases", "SELECT level FROM purchases WHERE level > {}"):
        keys = {lift(lex(text.format(part))).key for part in (left, right)}
        assert len(keys) == 2, (text, left, right)


def test_shifts_stand_beside_conditions_of_other_queries_as_calls() -> None:
    """Spark's lexer takes >> for the end of a type once it has seen the word ARRAY, MAP or STRUCT."""
    text = "SELECT level >> 1 AS a, level >>> 2 << level & 3 AS b FROM purchases"
    assert isinstance(body := _plan(text).body, Projection)
    assert [output.sql for output in body.outputs] == [
        "SHIFTRIGHT(level, 1)",
        "SHIFTLEFT(SHIFTRIGHTUNSIGNED(level, 2), level) & 3",
    ]
    assert read_again(text)[1] == text


def test_sessions_are_made_of_the_texts_of_where_and_keys() -> None:
    text = (
        "SELECT session_window.end, COUNT(*) FROM purchases p WHERE p.level  > 3 OR paid "
        "GROUP BY upper( p.country ), session_window(p.ts, '5 seconds') HAVING COUNT(*)>1"
    )
    log = _plan(text).log_sql
    assert "PARTITION BY upper( p.country ), __headrace_session" in log
    assert "__headrace_closed AND (p.level  > 3 OR paid)) AS p" in log
    assert log.endswith(
        ") p WHERE p.level  > 3 OR paid GROUP BY upper( p.country ), `session_window` HAVING COUNT(*)>1"
    )


def test_a_column_named_window_leaves_no_name_for_the_window() -> None:
    columns = (Column("window", SqlType("int")), *PURCHASES.columns)
    stream = Stream(StreamName("s"), columns, "ts", 0)
    plan = parse_query(
        "SELECT COUNT(*) FROM s GROUP BY window(ts, '1 second')", {"s": stream}, FakeAnalyzer()
    )
    assert not plan.verbatim


class _Asking(FakeAnalyzer):
    """Notes that it was asked."""

    compared = False

    def difference(self, original: str, rendered: str) -> str | None:
        self.compared = True
        return None


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("SELECT level FROM purchases WHERE country = 'a  b' AND level > 3", False),
        ("SELECT  level\nFROM purchases\n\tWHERE country =  'a  b' AND level > 3 ", False),
        ("SELECT country, COUNT(*) AS n FROM purchases [RANGE 10 SECONDS] WHERE level > 3 GROUP BY country", False),
        ("SELECT level FROM purchases WHERE country = 'a' AND level>3", True),
        ("select level FROM purchases", True),
        ("SELECT level FROM  `purchases`", True),
        ('SELECT level  FROM purchases WHERE country = "a"', True),
        ("SELECT level  FROM purchases WHERE country = r'a'", True),
        ("SELECT level -- all\n FROM purchases", True),
        ("SELECT level /* */  FROM purchases", True),
    ],
)  # fmt: skip
def test_spark_is_asked_about_texts_that_differ_in_more_than_the_length_of_gaps(
    text: str, asked: bool
) -> None:
    analyzer = _Asking()
    parse_query(text, STREAMS, analyzer)
    assert analyzer.compared == asked
    written, again = read_again(text)
    if not asked:
        assert one_spaced(written) == one_spaced(again) is not None


def test_blanks_in_a_string_are_no_gap() -> None:
    assert one_spaced("a 'b  c'  'd'") == "a 'b  c' 'd'"
    assert one_spaced("a 'b  c'") != one_spaced("a 'b c'")
    assert one_spaced("a 'b''  c'  d") == "a 'b''  c' d"
    assert all(one_spaced(text) is None for text in ('a "b"', "a `b`", "'a\\'b'", "a -- b", "a /* b"))
