"""Joins and complex queries as Flink SQL: window joins of window table functions, exact rows for any slide."""

from __future__ import annotations

from math import gcd

from headrace_bench.astream_joins import ComplexQuery, JoinQuery, Predicate, condition

EPOCH = "TIMESTAMP '1970-01-01 00:00:00'"


def render_join(query: JoinQuery) -> str:
    """Window end, key, and the selected field of each side.

    >>> print(render_join(JoinQuery(((3, ">", 5), (1, "<", 7)), 4, 4, (1, 2))))
    SELECT a.window_end, a.`key`, a.field1, b.field2 \
FROM (SELECT * FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '4' SECOND) WHERE field3 > 5) AS a \
JOIN (SELECT * FROM TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '4' SECOND) WHERE field1 < 7) AS b \
ON a.`key` = b.`key` AND a.window_start = b.window_start AND a.window_end = b.window_end
    """
    fields = (f"{stream}.field{n}" for stream, n in zip(query.streams, query.fields, strict=True))
    return f"SELECT {', '.join(('a.window_end', 'a.`key`', *fields))} FROM {render_sources(query)}"


def render_complex(query: ComplexQuery) -> str:
    summed = f"SUM({query.streams[query.summed]}.field1)"
    return (
        f"SELECT a.window_end, a.`key`, {summed} FROM {render_sources(query)} "
        "GROUP BY a.window_start, a.window_end, a.`key`"
    )


def render_sources(query: JoinQuery | ComplexQuery) -> str:
    first, *others = (
        f"({render_side(query, stream, predicate)}) AS {stream}"
        for stream, predicate in zip(query.streams, query.predicates, strict=True)
    )
    joins = (
        f"JOIN {source} ON a.`key` = {stream}.`key` "
        f"AND a.window_start = {stream}.window_start AND a.window_end = {stream}.window_end"
        for source, stream in zip(others, query.streams[1:], strict=True)
    )
    return " ".join((first, *joins))


def render_side(query: JoinQuery | ComplexQuery, stream: str, predicate: Predicate) -> str:
    """A stream's tuples with each of their windows.

    HOP wants a range that is a multiple of its slide. For any other, the slide is what divides both, and windows that
    the query does not have are left out before the join.
    """
    where = condition(predicate)
    step_s = gcd(query.range_s, query.slide_s)
    if query.range_s == query.slide_s:
        windows = f"TUMBLE(TABLE {stream}, DESCRIPTOR(ts), {seconds(query.range_s)})"
    else:
        windows = f"HOP(TABLE {stream}, DESCRIPTOR(ts), {seconds(step_s)}, {seconds(query.range_s)})"
    if step_s < query.slide_s:
        where += f" AND MOD(TIMESTAMPDIFF(SECOND, {EPOCH}, window_start), {query.slide_s}) = 0"
    return f"SELECT * FROM {windows} WHERE {where}"


def seconds(count: int) -> str:
    return f"INTERVAL '{count}' SECOND"
