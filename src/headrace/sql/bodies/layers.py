"""CQL queries that relate the tuples of each window to each other: analytic functions, DISTINCT, plain rows.

Every SELECT of the query carries the hidden window column along, and each OVER, GROUP BY and DISTINCT works
within one window. No shared operator covers these; the texts made here run as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.model.query import WINDOW_COLUMN, Stream
from headrace.sql import errors
from headrace.sql.bodies.windows import window_column
from headrace.sql.render.plain import LIVE_WINDOWS, windowed_log, windowed_relation
from headrace.sql.resolve.columns import (
    Item,
    Resolver,
    Scope,
    column,
    is_aggregated,
    output_items,
    stream_scope,
)
from headrace.sql.resolve.flatten import Origin, group_keys, source_of
from headrace.sql.text.dialect import render
from headrace.sql.text.names import quote_name

_EDGES = f"{WINDOW_COLUMN}.start AS window_start, {WINDOW_COLUMN}.end AS window_end"


def needs_layers(select: exp.Select) -> bool:
    """Whether a CQL query has more to do within a window than one shared aggregation."""
    selects = list(select.find_all(exp.Select))
    if any(found.args.get("distinct") for found in selects) or select.find(exp.Window) is not None:
        return True
    return sum(map(is_aggregated, selects)) != 1


@dataclass(frozen=True, slots=True)
class _Layer:
    text: str
    items: tuple[Item, ...]


def render_layers(
    select: exp.Select, stream: Stream, relation: str, *, live: bool, origin: Origin | None = None
) -> str:
    """The query over `relation`; with `live` only for the windows that LIVE_WINDOWS keeps.

    The relation of a join, its `origin`, has the window already.
    """
    return _layer(select, stream, relation, live, origin, top=True).text


def _layer(
    select: exp.Select, stream: Stream, relation: str, live: bool, origin: Origin | None, *, top: bool
) -> _Layer:
    conditions: list[str]
    if origin is not None and select is origin.select:
        scope, source_text = origin.scope, f"{relation} AS t"
        conditions = [f"({render(node)})" for node in origin.where]
    elif isinstance((source := source_of(select)).relation, exp.Select):
        inner = _layer(source.relation, stream, relation, live, origin, top=False)
        scope = Scope(source.qualifier, tuple(_visible(item) for item in inner.items))
        source_text, conditions = f"({inner.text}) AS t", []
    else:
        scope = stream_scope(stream, source.qualifier or stream.name)
        windowed = windowed_log(relation) if live else windowed_relation(stream, relation)
        source_text = f"{windowed} AS t"
        conditions = [LIVE_WINDOWS] if live else []
    resolver = Resolver(stream, scope, [], False)
    items = tuple(output_items(select, resolver))
    where = select.args.get("where")
    if where is not None:
        conditions.append(f"({_text(resolver, where.this)})")
    tail = _tail(select, resolver, items)
    if resolver.calls:
        raise errors.two_windows()
    word = "SELECT DISTINCT" if select.args.get("distinct") else "SELECT"
    shown = ", ".join([_EDGES if top else WINDOW_COLUMN, *map(_item, items)])
    clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return _Layer(f"{word} {shown} FROM {source_text}{clause}{tail}", items)


def _tail(select: exp.Select, resolver: Resolver, items: tuple[Item, ...]) -> str:
    """GROUP BY with the window in front, and HAVING."""
    if not is_aggregated(select):
        return ""
    having = select.args.get("having")
    keys = [WINDOW_COLUMN, *(render(_within_window(key)) for key in group_keys(select, items, resolver)[0])]
    tail = f" GROUP BY {', '.join(keys)}"
    return tail if having is None else f"{tail} HAVING {_text(resolver, having.this)}"


def _visible(item: Item) -> Item:
    if item.name is None:
        raise errors.unsupported(
            f"{render(item.node)} in a subquery has no name", hint="give it an alias with AS"
        )
    return Item(item.name, column(item.name))


def _item(item: Item) -> str:
    text = render(_within_window(item.node))
    return (
        text if item.name is None or text == quote_name(item.name) else f"{text} AS {quote_name(item.name)}"
    )


def _text(resolver: Resolver, node: exp.Expr) -> str:
    return render(_within_window(resolver.resolve(node)))


def _within_window(node: exp.Expr) -> exp.Expr:
    """Every OVER partitioned by the window first; changes and returns `node`."""
    for over in node.find_all(exp.Window):
        over.set("partition_by", [window_column(), *(over.args.get("partition_by") or ())])
    return node
