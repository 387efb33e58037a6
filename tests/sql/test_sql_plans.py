"""Shapes, predicates and resolution, without Spark."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_cases import JOINS, THEMES
from sql_describe import show
from sql_readings import read_again

from headrace.model.codec import dumps, loads
from headrace.model.errors import SqlError
from headrace.model.query import Aggregation, Projection, Stream, StreamName
from headrace.model.types import Column, SqlType
from headrace.sql import ShapeCache, parse_query
from sql_fakes import PURCHASES, STREAMS, FakeAnalyzer

AGGREGATE = "SELECT country, SUM(price) FROM purchases WHERE {} GROUP BY country, window(ts, '{}')"


def _where(text: str, timezone: str = "UTC") -> str:
    plan = parse_query(
        f"SELECT userID FROM purchases WHERE {text}", STREAMS, FakeAnalyzer(), timezone=timezone
    )
    assert isinstance(plan.body, Projection)
    return show(plan.body.where)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("price > 3", "price > 3.0"),
        ("3 < price", "price > 3.0"),
        ("level >= 3.5", "level > 3"),
        ("level < -3.5", "level <= -4"),
        ("level < +3.5 AND level > - -1Y", "(level <= 3 and level > 1)"),
        ("weight > 0.1F AND amount < 1.50BD", "(weight > 0.10000000149011612 and amount < 150)"),
        ("level = 3.5", "(level < 0 and level > 0)"),
        ("level <> 3", "not level = 3"),
        ("level < 3000000000", "(level <= 0 or level > 0)"),
        ("userID > 9223372036854775807", "userID > 9223372036854775807"),
        ("userID > 2.5D", "{userID > 2.5D} = 1"),
        ("amount > 3.141", "amount > 314"),
        ("amount = (3)", "amount = 300"),
        ("weight > 3.1", "weight > 3.1"),
        ("price = -0.0D", "price = 0.0"),
        ("country = 'it''s'", 'country = "it\'s"'),
        ("country = 'a\\'b'", "{country = 'a\\'b'} = 1"),
        ("born >= DATE '1970-01-02'", "born >= 1"),
        ("born >= '1970-01-02'", "born >= 1"),
        ("born >= '1970-1-2'", "{born >= '1970-1-2'} = 1"),
        ("ts < TIMESTAMP '1970-01-01 00:00:01'", "ts < 1000000"),
        ("seen < '1970-01-01 00:00:00.5'", "seen < 500000"),
        ("paid", "paid = 1"),
        ("NOT paid", "not paid = 1"),
        ("paid IS TRUE", "(not paid is null and paid = 1)"),
        ("level IS NOT NULL", "not level is null"),
        ("level <=> 3", "(not level is null and level = 3)"),
        ("level <=> NULL", "level is null"),
        ("level IN (1, NULL)", "(level = 1 or None)"),
        ("level NOT BETWEEN 1 AND 2", "not (level >= 1 and level <= 2)"),
        ("TRUE AND level > 1", "(True and level > 1)"),
        ("country LIKE 'D%' AND level > 1", "((country >= 'D' and country < 'E') and level > 1)"),
        ("country LIKE '%e' AND level > 1", "({country LIKE '%e'} = 1 and level > 1)"),
        ("100 / level > 3 AND price > 1", "{100 / level > 3 AND price > 1} = 1"),
        ("country > 3", "{country > 3} = 1"),
        ("userID < gemPackID OR paid", "({userID < gemPackID} = 1 or paid = 1)"),
    ],
)
def test_predicate(text: str, predicate: str) -> None:
    assert _where(text) == predicate


def test_timestamps_as_text_depend_on_the_time_zone() -> None:
    text = "ts < '1970-01-01 00:00:01'"
    assert _where(text) == "ts < 1000000"
    assert _where(text, "Europe/Berlin") == "{ts < '1970-01-01 00:00:01'} = 1"
    assert _where("seen < '1970-01-01 00:00:01'", "Europe/Berlin") == "seen < 1000000"


def test_a_thousand_queries_of_one_shape_are_analysed_once() -> None:
    analyzer = FakeAnalyzer()
    cache = ShapeCache(analyzer)
    for index in range(1, 101):
        text = AGGREGATE.format(f"price > {index} AND country = 'c{index}'", f"{index + 1} seconds")
        plan = parse_query(text, STREAMS, cache)
        assert isinstance(plan.body, Aggregation)
        assert plan.body.window.range_us == (index + 1) * 1_000_000
        assert show(plan.body.where) == f"(price > {float(index)} and country = 'c{index}')"
        assert plan.plain_sql == text
        assert f"price > {index} AND country = 'c{index}'" in plan.log_sql
    assert len(cache) == 1
    assert len(analyzer.asked) == 1


def test_literals_of_other_types_are_other_shapes() -> None:
    cache = ShapeCache(FakeAnalyzer())
    for literal in ("1", "3000000000", "1.5", "1e3", "'1'", "DATE '2020-01-01'", "NULL"):
        parse_query(f"SELECT userID FROM purchases WHERE price > {literal}", STREAMS, cache)
    assert len(cache) == 7


def test_a_changed_stream_is_analysed_again() -> None:
    cache = ShapeCache(FakeAnalyzer())
    first = parse_query("SELECT price FROM purchases WHERE price > 1", STREAMS, cache)
    columns = tuple(
        Column(c.name, SqlType("bigint") if c.name == "price" else c.type) for c in PURCHASES.columns
    )
    changed = Stream(StreamName("purchases"), columns, "ts", 0)
    second = parse_query("SELECT price FROM purchases WHERE price > 1", {"purchases": changed}, cache)
    assert (first.columns[0].type.name, second.columns[0].type.name) == ("double", "bigint")


def test_the_cache_forgets() -> None:
    cache = ShapeCache(FakeAnalyzer(), capacity=2)
    for name in ("price", "level", "paid"):
        parse_query(f"SELECT {name} FROM purchases", STREAMS, cache)
    assert len(cache) == 2


def test_select_constants_are_part_of_the_shape() -> None:
    cache = ShapeCache(FakeAnalyzer())
    texts = [
        f"SELECT SUM(price * {n}) FROM purchases GROUP BY window(ts, '1 hour') HAVING SUM(price * {n}) > 5"
        for n in (2, 3)
    ]
    plans = [parse_query(text, STREAMS, cache) for text in texts]
    assert len(cache) == 2
    for plan in plans:
        assert isinstance(plan.body, Aggregation) and len(plan.body.aggregates) == 1


def test_bracket_must_follow_the_stream() -> None:
    with pytest.raises(SqlError, match="follows a stream's name"):
        parse_query(
            "SELECT COUNT(*) FROM (SELECT price FROM purchases) [RANGE 1 DAY]", STREAMS, FakeAnalyzer()
        )


def test_long_chains_are_fine() -> None:
    text = " OR ".join(f"level = {n}" for n in range(2000))
    assert _where(text).count("level = ") == 2000


@pytest.mark.parametrize(
    ("harmless", "raising"),
    [
        ("HAVING SUM(price) / 2 > 3", "HAVING SUM(price) / 0 > 3"),
        ("HAVING SUM(price) / (2) > 3", "HAVING SUM(price) / (00) > 3"),
        ("HAVING MAX(born) < CAST('2020-01-01' AS DATE)", "HAVING MAX(born) < CAST('2020-13-01' AS DATE)"),
        ("HAVING MAX(level) < CAST(100 AS TINYINT)", "HAVING MAX(level) < CAST(200 AS TINYINT)"),
    ],
)
def test_what_may_raise_is_not_learnt_from_another_text(harmless: str, raising: str) -> None:
    cache = ShapeCache(FakeAnalyzer())
    text = "SELECT country FROM purchases GROUP BY country, window(ts, '1 minute') {}"
    found = [parse_query(text.format(having), STREAMS, cache).body for having in (harmless, raising)]
    assert [body.fragile for body in found if isinstance(body, Aggregation)] == [False, True]


@pytest.mark.parametrize("query", [query for theme in (*THEMES.values(), JOINS) for query in theme])
def test_plans_are_data(query: str) -> None:
    plan = parse_query(query, STREAMS, FakeAnalyzer())
    assert loads(dumps(plan)) == plan


@pytest.mark.parametrize("query", [query for theme in THEMES.values() for query in theme])
def test_plain_text_reads_back_as_the_same_rows(query: str) -> None:
    """The plain rendering of a CQL query is itself a query, of the same window and columns."""
    plan = parse_query(query, STREAMS, FakeAnalyzer())
    if plan.plain_sql == query or "__headrace" in plan.plain_sql:
        return
    again = parse_query(plan.plain_sql, STREAMS, FakeAnalyzer())
    assert (again.body, again.columns) == (plan.body, plan.columns)


_ATOMS = st.one_of(
    st.builds("price {} {}".format, st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), st.integers(-5, 5)),
    st.builds("{} {} level".format, st.decimals(-9, 9, places=1), st.sampled_from(["<", ">=", "=", "<=>"])),
    st.builds("amount BETWEEN {} AND {}".format, st.integers(0, 5), st.decimals(0, 9, places=3)),
    st.builds(
        "country IN ('{}', 'x')".format, st.text("abc' ", max_size=3).map(lambda t: t.replace("'", "''"))
    ),
    st.sampled_from(["paid", "born IS NULL", "country LIKE 'a%'", "100 / level > 2", "NULL", "TRUE"]),
)
_CONDITIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None)
@given(_CONDITIONS, st.integers(1, 100))
def test_parsing_is_deterministic_and_rendering_reads_back(condition: str, seconds: int) -> None:
    text = AGGREGATE.format(condition, f"{seconds} seconds")
    cache = ShapeCache(FakeAnalyzer())
    cold, warm = parse_query(text, STREAMS, cache), parse_query(text, STREAMS, cache)
    assert cold == warm == parse_query(text, STREAMS, FakeAnalyzer())
    again = parse_query(read_again(text)[1], STREAMS, FakeAnalyzer())
    assert again.body == cold.body


def test_known_shapes_are_cheap() -> None:
    """A generous bound that only a lost cache breaks; the goal is 1.5 ms."""
    cache = ShapeCache(FakeAnalyzer())
    texts = [
        AGGREGATE.format(f"price > {n} AND level BETWEEN {n} AND {n + 9}", "10 seconds") for n in range(300)
    ]
    parse_query(texts[0], STREAMS, cache)
    start = time.perf_counter()
    for text in texts:
        parse_query(text, STREAMS, cache)
    assert (time.perf_counter() - start) / len(texts) < 0.01
