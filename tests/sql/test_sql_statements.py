"""Statements, durations and names."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.model.errors import CatalogError, SqlError
from headrace.sql import (
    AlterNeeds,
    CloseStream,
    CreateQuery,
    CreateStream,
    Describe,
    DropQuery,
    DropSplit,
    DropStream,
    Explain,
    Help,
    IfPresent,
    Insert,
    MoveQuery,
    Repartition,
    Select,
    ShowEvents,
    ShowFunctions,
    ShowGroups,
    ShowPredictions,
    ShowQueries,
    ShowSplits,
    ShowStreams,
    Statement,
    check_name,
    parse_duration,
    parse_statement,
)

COLUMNS = "userID BIGINT, price DECIMAL(10, 2), ts TIMESTAMP"

ACCEPTED: list[tuple[str, Statement]] = [
    (
        f"CREATE STREAM purchases ({COLUMNS}) EVENT TIME ts WATERMARK '5 seconds'",
        CreateStream("purchases", COLUMNS, "ts", "5 seconds"),
    ),
    (f"create stream `my purchases` ( {COLUMNS} );", CreateStream("my purchases", COLUMNS)),
    (
        "CREATE STREAM s (a INT, ts TIMESTAMP) WITH (event_time='ts', watermark='1 minute', path='/x', format='json')",
        CreateStream("s", "a INT, ts TIMESTAMP", "ts", "1 minute", {"path": "/x", "format": "json"}),
    ),
    (
        "CREATE STREAM s (a INT, `e t` TIMESTAMP) EVENT TIME `e t` WITH (kafka.topic = 'x')",
        CreateStream("s", "a INT, `e t` TIMESTAMP", "e t", None, {"kafka.topic": "x"}),
    ),
    ("CREATE QUERY q AS SELECT a FROM s [RANGE 1 DAY];", CreateQuery("q", "SELECT a FROM s [RANGE 1 DAY]")),
    (
        "CREATE QUERY `q 1` AS\n WITH x AS (SELECT 1) SELECT a",
        CreateQuery("q 1", "WITH x AS (SELECT 1) SELECT a"),
    ),
    ("DROP QUERY q", DropQuery("q")),
    ("drop query `a.b`;", DropQuery("a.b")),
    ("SHOW STREAMS", ShowStreams()),
    ("show functions", ShowFunctions()),
    ("show queries ;", ShowQueries()),
    ("EXPLAIN", Explain()),
    ("EXPLAIN q;", Explain("q")),
    ("EXPLAIN SELECT a FROM s", Explain("SELECT a FROM s", is_text=True)),
    ("-- all of it\nSELECT a FROM s -- really", Select("SELECT a FROM s")),
    ("EXPLAIN VERBOSE q", Explain("q", verbose=True)),
    ("EXPLAIN verbose", Explain(None, verbose=True)),
    ("EXPLAIN `verbose`", Explain("verbose")),
    ("EXPLAIN VERBOSE SELECT a FROM s", Explain("SELECT a FROM s", verbose=True, is_text=True)),
    (
        "CREATE STREAM IF NOT EXISTS s (a INT) EVENT TIME a",
        CreateStream("s", "a INT", "a", if_present=IfPresent.KEEP),
    ),
    ("CREATE STREAM `if` (a INT)", CreateStream("if", "a INT")),
    ("create or replace query q as select 1", CreateQuery("q", "select 1", IfPresent.REPLACE)),
    ("CREATE QUERY IF NOT EXISTS q AS (SELECT 1)", CreateQuery("q", "(SELECT 1)", IfPresent.KEEP)),
    ("DROP QUERY IF EXISTS q", DropQuery("q", if_exists=True)),
    ("DROP STREAM s", DropStream("s")),
    ("DROP STREAM IF EXISTS `s t`", DropStream("s t", if_exists=True)),
    ("CLOSE STREAM s", CloseStream("s")),
    ("DESCRIBE s", Describe("s")),
    ("DESC QUERY q", Describe("q", "query")),
    ("DESCRIBE stream", Describe("stream")),
    ("DESCRIBE STREAM stream", Describe("stream", "stream")),
    ("INSERT INTO s VALUES (1, 'a)'), (2, NULL)", Insert("s", (), "VALUES (1, 'a)'), (2, NULL)")),
    ("INSERT INTO s (`a b`, c) VALUES (1, 2);", Insert("s", ("a b", "c"), "VALUES (1, 2)")),
    ("SHOW GROUPS", ShowGroups()),
    ("SHOW SPLITS", ShowSplits()),
    ("DROP SPLIT IF EXISTS `my road`", DropSplit("my road", if_exists=True)),
    ("SHOW EVENTS", ShowEvents()),
    ("SHOW PREDICTIONS", ShowPredictions()),
    (
        "CREATE QUERY q IN GROUP alerts AS SELECT 1",
        CreateQuery("q", "SELECT 1", group="alerts"),
    ),
    (
        "create or replace query q in group `Night Shift` start 'earliest' as select 1",
        CreateQuery("q", "select 1", IfPresent.REPLACE, "Night Shift", "earliest"),
    ),
    (
        "CREATE QUERY IF NOT EXISTS q START '2 hours ago' IN GROUP g AS (SELECT 1)",
        CreateQuery("q", "(SELECT 1)", IfPresent.KEEP, "g", "2 hours ago"),
    ),
    (
        "CREATE QUERY start START TIMESTAMP '2026-01-01 12:00:00' AS SELECT 1",
        CreateQuery("start", "SELECT 1", start="2026-01-01 12:00:00"),
    ),
    ("ALTER QUERY q SET GROUP alerts", MoveQuery("q", "alerts")),
    (
        "alter query q set (priority = -1, min_rate = none, max_latency = '1 minute')",
        AlterNeeds("q", {"priority": "-1", "min_rate": "none", "max_latency": "1 minute"}),
    ),
    (
        "CREATE QUERY q WITH (min_rate = 1.5e3) IN GROUP g AS WITH x AS (SELECT 1) SELECT * FROM x",
        CreateQuery("q", "WITH x AS (SELECT 1) SELECT * FROM x", group="g", needs={"min_rate": "1.5e3"}),
    ),
    ("alter query `group` set group `plain-tables`;", MoveQuery("group", "plain-tables")),
    ("ALTER WAREHOUSE SET PARTITIONS 16", Repartition(16)),
    ("HELP", Help()),
    ("help create stream;", Help("CREATE STREAM")),
]


@pytest.mark.parametrize(("text", "statement"), ACCEPTED, ids=[text[:40] for text, _ in ACCEPTED])
def test_statement(text: str, statement: Statement) -> None:
    assert parse_statement(text) == statement


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("", "EMPTY_TEXT", "no statement"),
        (";;", "EMPTY_TEXT", "no statement"),
        ("SHOW STREAMS; SHOW QUERIES", "TWO_STATEMENTS", "more than one"),
        ("CREATE QUERY q AS SELECT 1; DROP QUERY q", "TWO_STATEMENTS", "more than one"),
        ("SHOW TABLES", "SYNTAX", "TABLES"),
        ("CREATE TABLE t (a INT)", "SYNTAX", "TABLE"),
        ("CREATE QUERY AS SELECT 1", "SYNTAX", "SELECT"),
        ("CREATE QUERY q SELECT 1", "SYNTAX", "expected AS"),
        ("CREATE QUERY q AS DROP QUERY p", "SYNTAX", "DROP"),
        ("CREATE QUERY q AS", "SYNTAX", "the end"),
        ("CREATE STREAM s", "SYNTAX", "the end"),
        ("CREATE STREAM s ()", "SYNTAX", "no columns"),
        ("CREATE STREAM s (a INT", "SYNTAX", "closing parenthesis"),
        ("CREATE STREAM s (a INT) EVENT TIME a EVENT TIME b", "GIVEN_TWICE", "EVENT TIME"),
        ("CREATE STREAM s (a INT) WATERMARK '1 s' WATERMARK '2 s'", "GIVEN_TWICE", "WATERMARK"),
        ("CREATE STREAM s (a INT) EVENT TIME a WITH (Event_Time = 'b')", "GIVEN_TWICE", "EVENT TIME"),
        ("CREATE STREAM s (a INT) WITH (path = 'a') WITH (format = 'b', Path = 'c')", "GIVEN_TWICE", "path"),
        ("CREATE STREAM s (a INT) WATERMARK 5", "SYNTAX", "duration"),
        ("CREATE STREAM s (a INT) PARTITIONED", "SYNTAX", "PARTITIONED"),
        ("CREATE STREAM s (a INT) WITH (path '/x')", "SYNTAX", "="),
        ("DROP TABLE s", "SYNTAX", "TABLE"),
        ("DROP STREAM s t", "SYNTAX", "'t'"),
        ("DROP STREAM IF EXISTS", "SYNTAX", "name of a stream"),
        ("CLOSE s", "SYNTAX", "STREAM"),
        ("CREATE OR REPLACE STREAM s (a INT)", "SYNTAX", "cannot be replaced"),
        ("CREATE OR REPLACE QUERY IF NOT EXISTS q AS SELECT 1", "SYNTAX", "contradict"),
        ("CREATE OR REPLACE TABLE t", "SYNTAX", "QUERY"),
        ("CREATE QUERY q AS `SELECT` 1", "SYNTAX", "SELECT"),
        ("`DROP` QUERY q", "UNKNOWN_STATEMENT", "DROP"),
        ("INSERT INTO s", "SYNTAX", "VALUES"),
        ("INSERT INTO s SELECT 1", "SYNTAX", "VALUES"),
        ("INSERT INTO s () VALUES (1)", "SYNTAX", "name of a column"),
        ("INSERT s VALUES (1)", "SYNTAX", "INTO"),
        ("DESCRIBE", "SYNTAX", "name of a stream or query"),
        ("DESCRIBE a b", "SYNTAX", "'b'"),
        ("SHOW", "SYNTAX", "STREAMS, QUERIES, GROUPS, SPLITS, EVENTS, PREDICTIONS or FUNCTIONS"),
        ("CREATE QUERY q IN alerts AS SELECT 1", "SYNTAX", "expected GROUP"),
        ("CREATE QUERY q IN GROUP 'alerts' AS SELECT 1", "SYNTAX", "name of a group"),
        ("CREATE QUERY q IN GROUP a IN GROUP b AS SELECT 1", "SYNTAX", "at most one IN GROUP"),
        ("CREATE QUERY q START earliest AS SELECT 1", "SYNTAX", "'2 hours ago' in quotes"),
        ("ALTER STREAM s", "SYNTAX", "QUERY, SPLIT or WAREHOUSE"),
        (
            "CREATE QUERY q START 'x' START 'y' AS SELECT 1",
            "SYNTAX",
            "at most one IN GROUP, one START and one WITH",
        ),
        ("ALTER QUERY q GROUP g", "SYNTAX", "expected SET GROUP"),
        ("ALTER QUERY q SET GROUP", "SYNTAX", "name of a group"),
        ("ALTER QUERY q SET GROUP g h", "SYNTAX", "'h'"),
        ("ALTER WAREHOUSE SET PARTITIONS", "SYNTAX", "whole number of partitions"),
        ("ALTER WAREHOUSE SET PARTITIONS 2.5", "SYNTAX", "whole number of partitions"),
        ("ALTER WAREHOUSE SET PARTITIONS '4'", "SYNTAX", "whole number of partitions"),
        ("DROP QUERY 'q'", "SYNTAX", "name of a query"),
        ("DROP QUERY q p", "SYNTAX", "p"),
        ("EXPLAIN q p", "SYNTAX", "p"),
        ("VACUUM", "UNKNOWN_STATEMENT", "VACUUM"),
        ("SELECT " + "1," * 60_000 + "1", "TEXT_TOO_LONG", "100,000"),
    ],
)
def test_bad_statement(text: str, code: str, word: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_statement(text)
    assert caught.value.code == code
    assert word in caught.value.message


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("5 seconds", 5_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("10 ms", 10_000),
        ("10ms", 10_000),
        ("1.5 s", 1_500_000),
        ("INTERVAL '2' DAYS", 172_800_000_000),
        ("interval 1 week", 604_800_000_000),
        ("-3 microseconds", -3),
        ("0 seconds", 0),
        (timedelta(milliseconds=2), 2_000),
    ],
)
def test_duration(text: str | timedelta, us: int) -> None:
    assert parse_duration(text) == us


@pytest.mark.parametrize("text", ["", "5", "seconds", "1 month", "2 years", "1 lightyear", "x seconds", "NaN seconds",
                                  "0.1 microseconds", "9999999999999 weeks", "5 seconds 3", "1e999999999 days",
                                  "1e-999999999 days", timedelta.max, None, 5, object()])  # fmt: skip
def test_bad_duration(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_duration(text)
    assert caught.value.code == "BAD_DURATION"


@pytest.mark.parametrize("name", ["a", "spend per user", "été", "q-1", "x" * 128, "1"])
def test_good_name(name: str) -> None:
    check_name(name, "query")


@pytest.mark.parametrize("name", ["", " ", "x" * 129, "a/b", "a\\b", "it's", 'a"b', "a`b", "a\nb", "a\x00b", ".hidden",
                                  "..", "__headrace_log", "\ud800", None, 5, b"q"])  # fmt: skip
def test_bad_name(name: str) -> None:
    with pytest.raises(CatalogError) as caught:
        check_name(name, "query")
    assert caught.value.code == "BAD_NAME"
    assert "query" in caught.value.message
