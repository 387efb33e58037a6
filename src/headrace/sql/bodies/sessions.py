"""Session windows in a query: where they may stand, and the sessions of the log as plain Spark SQL.

Structured Streaming emits a session once and forgets it, so that a tuple which comes after that begins a new one even
where `session_window` over all tuples would merge the two. Over the log that is decided without a replay. Let y be a
tuple of epoch e, and let x be one of the same group that is earlier in event time. They are in one session iff no break
lies between them, and there is a break after x iff x's session had left when the next tuple came that could have
extended it, that is, iff W(e-1) >= x + gap for every y in (x, x + gap]. So y reaches back to everything that ends at
max(y, W(e-1) + 1) or later, and x is the last of its session iff no later y reaches back to it: a running minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.model.errors import SqlError
from headrace.model.query import CLOSED_COLUMN, WINDOW_COLUMN, Stream
from headrace.sql import errors
from headrace.sql.bodies.conjuncts import conjuncts
from headrace.sql.bodies.windows import is_window_column, window_edge
from headrace.sql.render.templates import WINDOW_HOLE
from headrace.sql.resolve.columns import Flat
from headrace.sql.resolve.functions import aggregates_in, is_aggregate
from headrace.sql.text.names import quote_name

_MOMENT = "__headrace_moment"
_END = "__headrace_end"
_BREAK = "__headrace_break"
_SESSION = "__headrace_session"


def _edge(name: str) -> str:
    return f"unix_micros(CAST({WINDOW_COLUMN}.{name} AS TIMESTAMP))"


LIVE_SESSIONS = f"{_edge('end')} > :after AND {_edge('end')} <= :until AND {_edge('start')} > :began"
"""Only the sessions that a run is asked for."""


def session_relation(
    stream: Stream, relation: str, where: Sequence[str], keys: Sequence[str], alias: str = "t"
) -> str:
    """The tuples that `where` accepts and that are not late, with their session by `keys` as a hidden column.

    Both may call the relation `alias`.
    """
    time = quote_name(stream.event_time)
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    latest_first = f"{by}ORDER BY {_MOMENT} DESC"
    later = f"{latest_first} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    of_session = f"PARTITION BY {', '.join([*keys, _SESSION])}"
    moments = (
        f"(SELECT *, unix_micros(CAST({time} AS TIMESTAMP)) AS {_MOMENT}, "
        f"unix_micros(CAST({time} + INTERVAL {WINDOW_HOLE} AS TIMESTAMP)) AS {_END} FROM {relation})"
    )
    reached = f"MIN(GREATEST({_MOMENT}, {CLOSED_COLUMN} + 1)) OVER ({later})"
    breaks = (
        f"(SELECT *, CASE WHEN {reached} <= {_END} THEN 0 ELSE 1 END AS {_BREAK} FROM {moments} AS {alias} "
        f"WHERE {' AND '.join([f'{_END} > {CLOSED_COLUMN}', *where])})"
    )
    numbered = f"(SELECT *, SUM({_BREAK}) OVER ({latest_first}) AS {_SESSION} FROM {breaks} AS {alias})"
    start = f"MIN({time}) OVER ({of_session})"
    end = f"MAX({time} + INTERVAL {WINDOW_HOLE}) OVER ({of_session})"
    return f"(SELECT *, named_struct('start', {start}, 'end', {end}) AS {WINDOW_COLUMN} FROM {numbered} AS {alias})"


def checked_sessions(flat: Flat, *, cql: bool) -> Flat:
    """`flat` with `session` set; raises SqlError for a session that is not simply what an aggregation groups by."""
    sessions = [call.session for call in flat.calls]
    if not cql and True not in sessions:
        return flat
    if False in sessions or (cql and sessions):
        raise errors.two_windows()
    if flat.group is None or flat.window_places > 1 or not any(map(is_window_column, flat.group)):
        raise errors.session_of_a_tuple("is not what the query groups by", "add GROUP BY session_window(...)")
    if any(map(_uses_session, flat.where)):
        raise errors.session_of_a_tuple("is in WHERE", "compare the event time itself")
    _check_keys(flat)
    for node in flat.expressions():
        if any(map(_uses_session, node.find_all(exp.Filter))) or any(
            _uses_session(call) for call in node.find_all(exp.Anonymous) if is_aggregate(call)
        ):
            raise errors.session_of_a_tuple("is inside of an aggregate", "use it outside of the call")
    for part in (part for node in flat.having for part in conjuncts(node)):
        if _uses_session(part) and not aggregates_in(part):
            raise errors.unsupported(
                "a condition on the edges of sessions alone is not available: Spark applies it to tuples, "
                "before these are sessions",
                hint="filter the results when you read them",
            )
    return replace(flat, session=True)


def _check_keys(flat: Flat) -> None:
    if flat.grouping_sets or flat.distinct:
        word = "grouping sets" if flat.grouping_sets else "DISTINCT"
        raise errors.unsupported(
            f"{word} over sessions is not available", hint="create one query per set of keys"
        )
    for key in flat.group or ():
        if window_edge(key) is not None or (_uses_session(key) and not is_window_column(key)):
            raise errors.session_of_a_tuple("is part of a key", "group by session_window(...) itself")


def no_session_rows() -> SqlError:
    return errors.unsupported(
        "[SESSION GAP ...] without one aggregation has no shared form and no plain one",
        hint="aggregate the tuples of each session, with GROUP BY for its keys",
    )


def _uses_session(node: exp.Expr) -> bool:
    return any(is_window_column(found) for found in node.find_all(exp.Column))
