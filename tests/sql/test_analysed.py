# ruff: noqa: E501 - a query stays on one line
"""What runs is analysed as the text is: names, stars, casts, functions and literals mean to Spark what they meant.

At creation Spark's parses of a text and of our rendering are compared. What happens to the tree after that (names are
resolved, stars expanded, aliases replaced, subqueries folded) is compared here, as analysed plans. Where folding gave a
plan of another form, Spark's optimiser folds both, over relations that it knows nothing of.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from sql_cases import AGGREGATIONS, CQL, VALUES

from headrace.engine.analyzer import SparkAnalyzer
from headrace.engine.spark import MEANING, child_session
from headrace.model.query import WINDOW_COLUMN, Fallback, Stream, StreamName
from headrace.model.types import Column, SqlType
from headrace.sql import ShapeCache, parse_query, query
from headrace.sql.bodies.windows import render_window_arguments
from headrace.sql.render.plain import render_plain
from headrace.sql.render.templates import Template
from headrace.sql.resolve.columns import Flat
from headrace.sql.shape import lift
from headrace.sql.text.lexer import lex
from headrace.sql.text.names import quote_name
from sql_fakes import STREAMS

pytestmark = pytest.mark.spark

CASTS = (
    "k + 1.5", "k + '1'", "b + s", "i / 2", "i DIV 2", "m * k", "m + 1.25BD", "f + 1.5", "k = '3'", "i = 3.0", "t > 3", "t = m",
    "day > '2026-01-01'", "ts > '2026-01-01'", "ts > DATE '2026-01-01'", "n < ts", "day + 1", "ts - day", "ts + INTERVAL 1 HOUR",
    "i IN (1, 2.5)", "i IN ('1', '2')", "t IN (1, 2)", "k BETWEEN 1 AND 2.5", "coalesce(i, 2.5)", "coalesce(k, t)", "nvl(b, 1000)",
    "if(j, 1, 2.5)", "CASE WHEN j THEN 1 ELSE 2.5 END", "CASE k WHEN '1' THEN day ELSE ts END", "greatest(i, m, 1L)", "concat(t, k)",
    "t || 1", "array(1, 2.5, k)", "map('a', 1, t, 2.5)", "NOT j AND t = 'x'", "upper(k)", "substr(k, 1, 1)", "round(m)", "abs(b)",
)  # fmt: skip
FUNCTIONS = (
    "len(t)", "char_length(t)", "character_length(t)", "lcase(t)", "ifnull(k, 0)", "int(t)", "bigint(f)", "date(ts)", "timestamp(day)",
    "string(m)", "boolean(t)", "decimal(t)", "sign(k)", "signum(k)", "pow(k, 2)", "power(k, 2)", "k % 3", "mod(k, 3)", "pmod(k, 3)",
    "day(ts)", "dayofmonth(ts)", "extract(DAY FROM ts)", "date_part('DAY', ts)", "ceil(m)", "ceiling(m, 1)", "t RLIKE 'a'",
    "regexp_like(t, 'a')", "position('a' IN t)", "locate('a', t)", "date_add(day, 1)", "dateadd(DAY, 1, ts)", "t::INT", "try_cast(t AS INT)",
    "builtin.abs(k)", "system.builtin.abs(k)", "element_at(a, 1)", "a[0]", "st.x", "transform(a, x -> x + k)", "filter(a, x -> x > k)",
)  # fmt: skip
LITERALS = (
    "1", "1Y", "1S", "1L", "-128Y", "2147483647", "2147483648", "-2147483648", "9223372036854775808", "1.5", "1.50", "0.10", "1.5BD", "1.5F",
    "1.5D", "1e3", "1e3BD", "'1'", "'a' 'b'", "r'\\n'", "'\\u0041'", "\"x\"", "X'1F'", "DATE '2026-01-01'", "TIMESTAMP '2026-01-01 00:00:00'",
    "TIMESTAMP_NTZ '2026-01-01 00:00:00'", "TIMESTAMP_LTZ '2026-01-01 00:00:00+02:00'", "INTERVAL 1 DAY", "INTERVAL '1-2' YEAR TO MONTH",
    "INTERVAL 1 HOUR 30 MINUTES", "INTERVAL -'1' SECOND", "TIME '10:11:12'", "NULL", "true",
)  # fmt: skip
STARS = (
    "SELECT * FROM s",
    "SELECT s.* FROM s WHERE k > 1",
    "SELECT p.*, k AS again FROM s AS p",
    "SELECT * EXCEPT (a, st) FROM s",
    "SELECT st.* FROM s",
    "SELECT struct(*) AS x FROM s",
    "SELECT size(array(i, b)) AS x, * FROM (SELECT k, i, b FROM s)",
)

TYPES = {
    "k": "bigint", "b": "tinyint", "s": "smallint", "i": "int", "f": "float", "m": "decimal(10,2)", "t": "string", "j": "boolean",
    "day": "date", "n": "timestamp_ntz", "a": "array<bigint>", "st": "struct<x:int,y:string>", "ts": "timestamp",
}  # fmt: skip
ALL_TYPES = Stream(StreamName("s"), tuple(Column(n, SqlType(t)) for n, t in TYPES.items()), "ts", 0)


class Flattened:
    """Texts as we resolved them: what a query's operands, keys, aggregates and conditions are taken from."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._last: Flat | None = None
        self._original = query.filter_keys_early
        monkeypatch.setattr(query, "filter_keys_early", self._note)

    def _note(self, flat: Flat) -> Flat:
        self._last = flat
        return self._original(flat)

    def rendered(self, text: str, streams: dict[str, Stream], cache: ShapeCache) -> tuple[str, str] | None:
        """(the text as Spark would read it, the text as we resolved it); None when it runs as it was written."""
        self._last = None
        plan = parse_query(text, streams, cache)
        if self._last is None or isinstance(plan.body, Fallback):
            return None
        arguments = "" if plan.window is None else render_window_arguments(plan.window)
        ours = Template.of(render_plain(self._last)).fill(lift(lex(text)).literals, arguments)
        function = "session_window" if self._last.session else "window"
        return plan.plain_sql, ours.replace(WINDOW_COLUMN, function)


class Plans:
    """Spark's plans of texts over relations of which its optimiser knows nothing but their columns."""

    def __init__(self, spark: Any, *streams: Stream) -> None:
        self._spark = child_session(spark, MEANING)  # the analyzer's own relations are known to be empty
        for stream in streams:
            ddl = ", ".join(f"{quote_name(column.name)} {column.type.ddl}" for column in stream.columns)
            nothing = self._spark.createDataFrame(self._spark.sparkContext.emptyRDD(), ddl)
            nothing.createOrReplaceTempView(quote_name(stream.name))
        self.cache = ShapeCache(SparkAnalyzer(spark))

    def same(self, one: str, other: str) -> str | None:
        """On which level two texts have equal plans: 'analysed', 'optimised', or None."""
        first, second = (self._spark.sql(text)._jdf.queryExecution() for text in (one, other))
        if first.analyzed().sameResult(second.analyzed()):
            return "analysed"
        return "optimised" if first.optimizedPlan().sameResult(second.optimizedPlan()) else None


@pytest.fixture(scope="module")
def plans(spark: Any) -> Plans:
    return Plans(spark, ALL_TYPES, *STREAMS.values())


def _check(
    plans: Plans, texts: list[str], streams: dict[str, Stream], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    flattened, found = Flattened(monkeypatch), []
    for text in texts:
        pair = flattened.rendered(text, streams, plans.cache)
        if pair is not None:
            level = plans.same(*pair)
            assert level is not None, f"{text}\nruns as\n{pair[1]}"
            found.append(level)
    return found


def test_casts_functions_literals_and_stars_mean_what_they_mean_in_the_text(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"SELECT {text} AS e FROM s" for text in (*CASTS, *FUNCTIONS, *LITERALS)]
    found = _check(plans, [*texts, *STARS], {"s": ALL_TYPES}, monkeypatch)
    assert len(found) > 90, "the others have nested columns and run as they were written"


def test_sample_aggregations_are_analysed_as_their_texts(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for a whole window as a column, which is an expression of another form in the text."""
    texts = [text for text in (*AGGREGATIONS, *VALUES, *CQL) if not re.search(r"AS w\b|SELECT window,", text)]
    assert len(_check(plans, texts, STREAMS, monkeypatch)) > 25


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("SELECT i + 1 AS e FROM s", "SELECT i + 1L AS e FROM s"),
        ("SELECT k = '3' AS e FROM s", "SELECT CAST(k AS STRING) = '3' AS e FROM s"),
        ("SELECT * EXCEPT (k) FROM s", "SELECT * EXCEPT (i) FROM s"),
        ("SELECT k FROM s WHERE i > 2", "SELECT k FROM s WHERE i > 3"),
        ("SELECT e FROM (SELECT i + 1 AS e FROM s) WHERE e > 2", "SELECT i + 1 AS e FROM s WHERE i > 2"),
    ],
)
def test_other_meanings_are_told_apart(plans: Plans, left: str, right: str) -> None:
    assert plans.same(left, right) is None
