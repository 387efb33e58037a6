"""AStream's join template (figure 7) and complex queries (section 4.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from headrace_bench import astream
from headrace_bench.astream_joins import (
    MOST_JOINS,
    STREAMS,
    ComplexQuery,
    JoinQuery,
    complex_query,
    join,
    text_of,
)


def test_join_queries_follow_the_figure() -> None:
    rng = Random(3)
    queries = [join(rng, 10) for _ in range(300)]
    assert all(1 <= query.slide_s <= query.range_s <= 10 for query in queries)
    assert {query.range_s for query in queries} == set(range(1, 11))
    for side in (0, 1):
        assert {query.predicates[side][1] for query in queries} == set(astream.OPERATORS)
        assert {query.predicates[side][0] for query in queries} == {1, 2, 3, 4, 5}
    assert sum(query.predicates[0] != query.predicates[1] for query in queries) > 250
    assert all(0 <= value < astream.FIELDS_MAX for query in queries for _, _, value in query.predicates)


def test_both_forms_ask_for_the_same_columns() -> None:
    query = JoinQuery(((3, ">", 5), (1, "<", 7)), 10, 5, (1, 1))
    assert query.spark_sql() == (
        "SELECT a.window.end, a.key, a.field1 AS a_field1, b.field1 AS b_field1 "
        "FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS window FROM a) AS a "
        "JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS window FROM b) AS b "
        "ON a.window = b.window AND a.key = b.key WHERE a.field3 > 5 AND b.field1 < 7"
    )
    assert "SELECT a.key, a.field1 AS a_field1, b.field1 AS b_field1 FROM" in query.cql()
    assert [text_of(query, number) for number in (0, 1)] == [query.cql(), query.spark_sql()]


def test_the_figure_s_star_can_be_had() -> None:
    query = join(Random(1), star=True)
    assert query.cql().startswith("SELECT * FROM a [RANGE ")
    assert query.spark_sql().startswith("SELECT * FROM (SELECT *, window(ts, ")
    assert query.columns == ()


def test_complex_queries_have_one_to_five_joins_and_a_sum_of_any_stream() -> None:
    rng = Random(4)
    queries = [complex_query(rng) for _ in range(300)]
    assert {len(query.streams) - 1 for query in queries} == set(range(1, MOST_JOINS + 1))
    assert {query.streams[query.summed] for query in queries} == set(STREAMS)
    widest = next(query for query in queries if len(query.streams) == 6)
    assert widest.cql().count("[RANGE") == 6 and widest.cql().count("a.key = ") == 5
    assert widest.spark_sql().count(" JOIN ") == 5 and widest.cql().endswith(" GROUP BY a.key")
    assert all(len(query.streams) == 2 for query in (complex_query(rng, most_joins=1) for _ in range(9)))


def test_a_seed_gives_the_same_queries() -> None:
    for draw in (join, complex_query):
        assert [draw(Random(7)) for _ in range(3)] == [draw(Random(7)) for _ in range(3)]


@pytest.fixture
def views(spark: Any) -> Iterator[Callable[[str], list[str]]]:
    """Columns of a query by Spark's analyser, over empty streams."""
    for stream in STREAMS:
        spark.createDataFrame([], astream.DDL).createOrReplaceTempView(stream)
    yield lambda text: spark.sql(text).columns
    for stream in STREAMS:
        spark.catalog.dropTempView(stream)


@pytest.mark.spark
def test_spark_understands_its_form(views: Callable[[str], list[str]]) -> None:
    rng = Random(5)
    drawn: list[JoinQuery | ComplexQuery] = [join(rng) for _ in range(4)]
    drawn += [complex_query(rng) for _ in range(6)]
    for query in drawn:
        assert views(query.spark_sql()) == ["end", *query.columns]
    assert views(join(rng, star=True).spark_sql()).count("key") == 2
