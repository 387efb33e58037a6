"""What we read in a text is what Spark reads in it, and where readings differ that is found."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from typing import Any

import pytest
from random_expressions import random_expression
from sql_readings import read_again
from sqlglot.errors import ParseError

from headrace.engine.analyzer import SparkAnalyzer
from headrace.model.errors import SqlError
from thorough import THOROUGH

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def analyzer(spark: Any) -> SparkAnalyzer:
    return SparkAnalyzer(spark)


def _compare(analyzer: SparkAnalyzer, text: str) -> str:
    """'same', 'refused' by us, or 'no query' to Spark; fails where the readings differ."""
    try:
        original, rendered = read_again(text)
    except (SqlError, ParseError):
        return "refused" if _is_query(analyzer, text) else "no query"
    try:
        difference = analyzer.difference(original, rendered)
    except SqlError:
        return "no query"
    assert difference is None, f"{text}\nis written as\n{rendered}\n{difference}"
    return "same"


def _is_query(analyzer: SparkAnalyzer, text: str) -> bool:
    try:
        return analyzer.difference(text, text) is None
    except SqlError:
        return False


def _check_random(analyzer: SparkAnalyzer, seed: int, count: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    texts = [f"SELECT {random_expression(rng, rng.randint(1, 4))} FROM s" for _ in range(count)]
    found = Counter(_compare(analyzer, text) for text in texts)
    assert found["same"] > 0.7 * count, found
    assert found["refused"] < 0.02 * count, found  # words that Spark also takes for names, such as NOT


def test_random_operators_are_read_as_spark_reads_them(analyzer: SparkAnalyzer) -> None:
    fixed = os.environ.get("CI") == "true"  # what CI checks does not change by itself
    _check_random(analyzer, 7 if fixed else random.randrange(10**6), 500)


@THOROUGH
@pytest.mark.parametrize("seed", range(4))
def test_many_random_operators_are_read_as_spark_reads_them(analyzer: SparkAnalyzer, seed: int) -> None:
    _check_random(analyzer, seed, 5000)


_NO_STREAM = re.compile(r"\bVALUES\b.*\btab\(|SELECT current_(date|timestamp)$", re.IGNORECASE | re.DOTALL)
"""Examples that no query can contain: rows in FROM, and clocks."""


def test_every_example_of_sparks_functions_is_read_as_spark_reads_it(
    spark: Any, analyzer: SparkAnalyzer
) -> None:
    found: Counter[str] = Counter()
    for text in _examples(spark):
        try:
            found[_compare(analyzer, text)] += 1
        except AssertionError:
            assert _NO_STREAM.search(text), text
            found["of another kind"] += 1
    assert found["same"] > 1200, found
    assert found["refused"] == 0, found


def _examples(spark: Any) -> list[str]:
    """The queries in the documentation of Spark's functions."""
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names, texts = registry.listFunction().iterator(), []
    while names.hasNext():
        examples = registry.lookupFunction(names.next()).get().getExamples()
        texts += re.findall(r"> (SELECT.*?);", examples, re.DOTALL)
    return texts


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("k & 1 << 2", "(k & 1) << 2"),
        ("ts - INTERVAL 1 HOUR 30 MINUTES", "ts - INTERVAL '1' HOUR + INTERVAL '30' MINUTES"),
        ("array(10, k)[0]", "array(0)"),
        ("1", "1L"),
        ("1.5", "1.50"),
        ("X'10'", "X'11'"),
        ("t LIKE ANY ('a', 'b')", "t LIKE ANY ('a', 'c')"),
        ("t NOT LIKE ANY ('a', 'b')", "NOT t LIKE ANY ('a', 'b')"),
        ("t LIKE 'a' ESCAPE '!'", "t LIKE 'a' ESCAPE '|'"),
        ("CASE WHEN k THEN 1 ELSE 2 END", "CASE WHEN k THEN 1 ELSE 3 END"),
        ("CAST(k AS INT)", "try_cast(k AS INT)"),
        ("a + (b + c)", "a + b + c"),
        ("transform(a, x -> x + 1)", "transform(a, x -> x + 2)"),
        ("count(k) FILTER (WHERE j)", "count(k)"),
        ("count(DISTINCT k)", "count(k)"),
        ("k AS a", "k AS b"),
    ],
)
def test_a_difference_is_found(analyzer: SparkAnalyzer, left: str, right: str) -> None:
    texts = (f"SELECT {left} FROM s", f"SELECT {right} FROM s")
    assert analyzer.difference(*texts) is not None
    assert [analyzer.difference(text, text) for text in texts] == [None, None]


def test_a_difference_in_the_last_of_many_columns_is_found(analyzer: SparkAnalyzer) -> None:
    """Spark's own texts of plans have 25 columns and leave out the others."""
    many = ", ".join(f"c{i}" for i in range(40))
    assert (
        analyzer.difference(f"SELECT {many}, a + (b + c) FROM s", f"SELECT {many}, a + b + c FROM s")
        is not None
    )
