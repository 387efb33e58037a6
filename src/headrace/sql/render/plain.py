"""Flat queries as Spark SQL text, over the stream or over its log."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.model.query import CLOSED_COLUMN, LOG_RELATION, WINDOW_COLUMN, Stream
from headrace.sql.bodies.sessions import LIVE_SESSIONS, session_relation
from headrace.sql.bodies.windows import is_window_column
from headrace.sql.render.templates import WINDOW_HOLE, copies_hole
from headrace.sql.resolve.columns import Flat, Item
from headrace.sql.text.dialect import render
from headrace.sql.text.names import quote_name

_END = f"unix_micros(CAST({WINDOW_COLUMN}.end AS TIMESTAMP))"

LIVE_WINDOWS = f"{_END} > {CLOSED_COLUMN} AND {_END} > :after AND {_END} <= :until"
"""Keeps what is not late, and only the windows that a run is asked for."""


def windowed_relation(
    stream: Stream, relation: str, function: str = "window", hole: str = WINDOW_HOLE
) -> str:
    """The stream's tuples, once per window that contains them, with the window as a hidden column."""
    return _with_window(f"{function}({quote_name(stream.event_time)}, {hole})", relation)


def windowed_log(relation: str, side: int = 0, *, live: bool = True) -> str:
    """The log's tuples, once per window that contains them; with `live` perhaps without windows LIVE_WINDOWS drops."""
    return _with_window(copies_hole(side, live=live), relation)


def _with_window(call: str, relation: str) -> str:
    return f"(SELECT *, {call} AS {WINDOW_COLUMN} FROM {relation})"


def render_log(flat: Flat, names: Sequence[str], *, windowed: bool) -> str:
    """The query over LOG_RELATION. `windowed` takes only live windows, otherwise every tuple counts."""
    if flat.session:
        keys = [render(key) for key in flat.group or () if not is_window_column(key)]
        relation = session_relation(flat.stream, LOG_RELATION, _conditions(flat.where), keys)
        items = [_aliased(item.node, name) for item, name in zip(flat.items, names, strict=True)]
        return _select(items, f"{relation} AS t", [LIVE_SESSIONS], flat)
    conditions = [LIVE_WINDOWS] if windowed else []
    conditions += _conditions(flat.where)
    uses_window = windowed or flat.uses_window
    relation = f"{windowed_log(LOG_RELATION, live=windowed)} AS t" if uses_window else LOG_RELATION
    return _select([_aliased(item.node, name) for item, name in zip(flat.items, names, strict=True)],
                   relation, conditions, flat)  # fmt: skip


def render_flat(flat: Flat, names: Sequence[str], windowed: str, *, live: bool) -> str:
    """A windowed aggregation over a relation that has the window."""
    conditions = [*([LIVE_WINDOWS] if live else []), *_conditions(flat.where)]
    items = [_aliased(item.node, name) for item, name in zip(flat.items, names, strict=True)]
    return _select(items, f"{windowed} AS t", conditions, flat)


def render_joined(flat: Flat, names: Sequence[str | None], relation: str) -> str:
    """A query over the relation of a join."""
    items = [
        render(item.node) if name is None else _aliased(item.node, name)
        for item, name in zip(flat.items, names, strict=True)
    ]
    return _select(items, f"{relation} AS t", _conditions(flat.where), flat)


def render_plain(flat: Flat) -> str:
    """The query over the stream as people would write it: `window(...)` in GROUP BY and `window.start`."""
    function = "session_window" if flat.session else "window"
    if any(column.name.lower() == function for column in flat.stream.columns):
        relation = f"{windowed_relation(flat.stream, quote_name(flat.stream.name), function)} AS t"
        return _select(_items(flat.items), relation, _conditions(flat.where), flat)
    call = f"{function}({quote_name(flat.stream.event_time)}, {WINDOW_HOLE})"
    text = _select(_items(flat.items), quote_name(flat.stream.name), _conditions(flat.where), flat, call)
    return text.replace(f"{WINDOW_COLUMN}.", f"{function}.")


def _select(
    items: Sequence[str], relation: str, conditions: Sequence[str], flat: Flat, window: str = WINDOW_COLUMN
) -> str:
    word = "SELECT DISTINCT" if flat.distinct else "SELECT"
    parts = [f"{word} {', '.join(items)}", f"FROM {relation}"]
    if conditions:
        parts.append(f"WHERE {' AND '.join(conditions)}")
    if flat.group:
        keys = [window if is_window_column(key) else render(key) for key in flat.group]
        parts.append(f"GROUP BY {', '.join(keys)}")
    if flat.having:
        parts.append(f"HAVING {' AND '.join(_conditions(flat.having))}")
    return " ".join(parts)


def _items(items: Sequence[Item]) -> list[str]:
    return [render(item.node) if item.name is None else _aliased(item.node, item.name) for item in items]


def _aliased(node: exp.Expr, name: str) -> str:
    text = render(node)
    return text if text == quote_name(name) else f"{text} AS {quote_name(name)}"


def _conditions(nodes: Sequence[exp.Expr]) -> list[str]:
    """Conjuncts as text that AND can join.

    A word stays without parentheses, because Spark takes `FROM t WHERE (word)` for an alias with a column list.
    """
    words = (exp.Column, exp.Null, exp.Boolean)
    bare = (exp.Paren, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, *words)
    inner = [node.unnest() if isinstance(node.unnest(), words) else node for node in nodes]
    return [render(node) if isinstance(node, bare) else f"({render(node)})" for node in inner]
