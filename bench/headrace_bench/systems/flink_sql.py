"""The benchmark's queries as Flink SQL: window table functions where they can be had, exact rows everywhere."""

from __future__ import annotations

from math import gcd
from pathlib import Path
from typing import assert_never

from headrace_bench import astream
from headrace_bench.astream import AggregationQuery
from headrace_bench.astream_joins import ComplexQuery, JoinQuery
from headrace_bench.predicates import PredicateQuery
from headrace_bench.systems.flink_joins_sql import render_complex, render_join, seconds
from headrace_bench.workload import Query

PARTIALS = {
    "SUM": ("SUM({}) AS part", "SUM(part)"),
    "COUNT": ("COUNT({}) AS part", "SUM(part)"),
    "MIN": ("MIN({}) AS part", "MIN(part)"),
    "MAX": ("MAX({}) AS part", "MAX(part)"),
    "AVG": ("SUM(CAST({0} AS DOUBLE)) AS part, COUNT({0}) AS number", "SUM(part) / SUM(number)"),
}
"""What a slice keeps of a field, and how slices make a window's value."""


def files_of(stream: str) -> str:
    """The table of a stream's files."""
    return f"files_{stream}"


def columns_of(ddl: str) -> dict[str, str]:
    """Name and type of every column but the event time, in the words of both systems.

    >>> columns_of("key BIGINT, country STRING, ts TIMESTAMP")
    {'key': 'BIGINT', 'country': 'STRING'}
    """
    found = dict(part.split() for part in ddl.split(", "))
    return {name: kind for name, kind in found.items() if name != astream.EVENT_TIME}


def render_files(stream: str, folder: Path, pause_ms: int, ddl: str) -> str:
    """A stream's files as a table. `read_time` is the event time: one that Flink can tell the time by."""
    columns = ", ".join(f"`{name}` {kind}" for name, kind in columns_of(ddl).items())
    return (
        f"CREATE TABLE {files_of(stream)} ({columns}, ts TIMESTAMP(6), read_time AS CAST(ts AS TIMESTAMP(3)), "
        "WATERMARK FOR read_time AS read_time - INTERVAL '0.001' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{folder.as_uri()}', "
        f"'source.monitor-interval' = '{pause_ms}ms', 'format' = 'parquet', 'parquet.utc-timezone' = 'true')"
    )


def render_stream(stream: str, ddl: str) -> str:
    columns = ", ".join(f"`{name}`" for name in columns_of(ddl))
    return f"SELECT {columns}, read_time AS {astream.EVENT_TIME} FROM {files_of(stream)}"


def render_results(number: int, query: Query, folder: Path) -> str:
    average = isinstance(query, AggregationQuery | PredicateQuery) and query.aggregate == "AVG"
    kinds = {name: "DOUBLE" if average and name == "value" else "BIGINT" for name in query.columns}
    columns = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    return (
        f"CREATE TABLE q{number} (`end` TIMESTAMP(3), {columns}) "
        f"WITH ('connector' = 'filesystem', 'path' = '{folder.as_uri()}', 'format' = 'parquet', "
        "'parquet.utc-timezone' = 'true', 'parquet.compression' = 'UNCOMPRESSED')"
    )


def render_query(query: Query) -> str:
    """Flink SQL of a query: window end, key and the rest, over windows that begin at multiples of the slide since 1970.

    >>> render_query(AggregationQuery("SUM", 1, ((2, ">", 7),), 10, 10))
    "SELECT window_end, `key`, SUM(field1) FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND) \
WHERE field2 > 7 GROUP BY window_start, window_end, `key`"
    """
    match query:
        case JoinQuery():
            return render_join(query)
        case ComplexQuery():
            return render_complex(query)
        case AggregationQuery() | PredicateQuery():
            return render_slices(query) if query.range_s % query.slide_s else render_windows(query)
        case _:
            assert_never(query)


def render_windows(query: AggregationQuery | PredicateQuery) -> str:
    """For a range that is a multiple of its slide: window table functions know these."""
    value = aggregate_of(query)
    if query.range_s == query.slide_s:
        windows = f"TUMBLE(TABLE {query.streams[0]}, DESCRIPTOR(ts), {seconds(query.range_s)})"
    else:
        lengths = f"{seconds(query.slide_s)}, {seconds(query.range_s)}"
        windows = f"HOP(TABLE {query.streams[0]}, DESCRIPTOR(ts), {lengths})"
    return (
        f"SELECT window_end, `key`, {value} FROM {windows} "
        f"WHERE {query.where} GROUP BY window_start, window_end, `key`"
    )


def render_slices(query: AggregationQuery | PredicateQuery) -> str:
    """For a range that is no multiple of its slide: every window is whole slices, which TUMBLE aggregates."""
    partials, merged = PARTIALS[query.aggregate]
    hop = f"slice_time, {seconds(query.slide_s)}, {seconds(query.range_s)}"
    slice_s = gcd(query.range_s, query.slide_s)
    return (
        f"SELECT HOP_END({hop}), `key`, {merged} FROM ("
        f"SELECT window_time AS slice_time, `key`, {partials.format(query.argument)} "
        f"FROM TUMBLE(TABLE {query.streams[0]}, DESCRIPTOR(ts), {seconds(slice_s)}) "
        f"WHERE {query.where} GROUP BY window_start, window_end, window_time, `key`"
        f") GROUP BY `key`, HOP({hop})"
    )


def aggregate_of(query: AggregationQuery | PredicateQuery) -> str:
    """AVG of whole numbers is a whole number in Flink, unlike in Spark."""
    field = query.argument
    return f"AVG(CAST({field} AS DOUBLE))" if query.aggregate == "AVG" else f"{query.aggregate}({field})"
