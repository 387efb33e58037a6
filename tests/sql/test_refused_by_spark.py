"""What only Spark's analysis can refuse: rows that differ each time, and types that no result holds."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.engine.analyzer import SparkAnalyzer
from headrace.model.errors import SqlError
from headrace.sql import ShapeCache, parse_query
from sql_fakes import PURCHASES, STREAMS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cache(spark: Any) -> ShapeCache:
    return ShapeCache(SparkAnalyzer(spark))


REPEATABLE = ["country", "level", "hex(country)", "country = 'today'", "aes_encrypt(raw, raw, 'ECB')",
              "aes_encrypt(raw, raw, 'CBC', 'DEFAULT', X'00000000000000000000000000000000')", "date '1970-01-01'",
              "unix_timestamp(ts)", "'now'", "try_aes_decrypt(raw, raw)", "born = 'epoch'", "hash(level)"]  # fmt: skip
UNREPEATABLE = ["uuid()", "rand(3)", "randstr(3)", "uniform(1, 5)", "shuffle(array(level))", "aes_encrypt(raw, raw)",
                "aes_encrypt(raw, raw, 'CBC')", "aes_encrypt(raw, raw, 'GCM', 'DEFAULT', '')", "current_time()",
                "aes_encrypt(raw, raw, 'GCM', 'DEFAULT', raw)", "ts > 'now'", "born = 'today'", "date 'tomorrow'",
                "timestamp ' NOW'", "cast('yesterday' as date)", "to_timestamp('now')", "ts between 'now' and ts",
                "session_user()", "reflect('java.util.UUID', 'randomUUID')", "coalesce(ts, 'now')"]  # fmt: skip


def test_what_differs_each_time_is_refused(spark: Any, cache: ShapeCache) -> None:
    for expression in REPEATABLE:
        parse_query(f"SELECT {expression} AS x FROM purchases", STREAMS, cache)
    for expression in UNREPEATABLE:
        for text in (
            f"SELECT {expression} AS x FROM purchases",
            f"SELECT price FROM purchases WHERE ({expression}) IS NULL",
        ):
            assert _code(text, cache) == "NONDETERMINISTIC", text
    parse_query("SELECT price FROM purchases WHERE ts > '2024-01-01'", STREAMS, cache)
    assert _code("SELECT price FROM purchases WHERE ts > 'now'", cache) == "NONDETERMINISTIC"


def _code(text: str, cache: ShapeCache) -> str | None:
    try:
        parse_query(text, STREAMS, cache)
    except SqlError as error:
        return error.code
    return None


def test_spark_s_own_marks_find_what_no_list_names(spark: Any) -> None:
    analyzer = SparkAnalyzer(spark)
    for expression in (
        "uuid()",
        "rand()",
        "shuffle(array(1))",
        "now()",
        "current_user()",
        "current_timezone()",
    ):
        with pytest.raises(SqlError) as caught:
            analyzer.schema(f"SELECT x FROM (SELECT {expression} AS x, price FROM purchases)", PURCHASES)
        assert expression.split("(")[0] in caught.value.message.lower()


def test_window_time_beside_its_group_is_refused_as_spark_does(spark: Any, cache: ShapeCache) -> None:
    for text in (
        "SELECT window_time(window) AS t, COUNT(*) AS n FROM purchases GROUP BY window(ts, '1 hour')",
        "SELECT COUNT(*) AS n FROM purchases GROUP BY window(ts, '1 hour') HAVING hour(window_time(window)) > 1",
    ):
        with pytest.raises(SqlError, match="window_time") as caught:
            parse_query(text, STREAMS, cache)
        assert "FROM (SELECT window(...) AS w" in (caught.value.hint or "")


def test_no_result_holds_variants_or_twin_fields(spark: Any, cache: ShapeCache) -> None:
    for expression, word in (
        ("parse_json(country)", "variant"),
        ("array(to_variant_object(struct(level)))", "variant"),
        ("first(parse_json(country)) FILTER (WHERE paid)", "variant"),
        ("arrays_zip(array(level), array(level)) AS z, struct(level, level)", "two fields"),
    ):
        group = "GROUP BY window(ts, '1 hour')" if "first" in expression else ""
        with pytest.raises(SqlError) as caught:
            parse_query(f"SELECT {expression} AS x FROM purchases {group}", STREAMS, cache)
        assert caught.value.code == "UNSUPPORTED"
        assert word in caught.value.message
