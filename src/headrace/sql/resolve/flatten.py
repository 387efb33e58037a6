"""A SELECT and its subqueries to one flat query over a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.model.query import Stream
from headrace.sql import errors
from headrace.sql.bodies.windows import WINDOW_FUNCTIONS, WindowCall, is_window_column, window_edge
from headrace.sql.resolve.columns import (
    Flat,
    Item,
    Resolver,
    Scope,
    is_aggregated,
    output_items,
    stream_scope,
)
from headrace.sql.resolve.functions import aggregates_in, function_name, is_aggregate
from headrace.sql.resolve.refusals import span_of_node


@dataclass(frozen=True, slots=True)
class Origin:
    """What the innermost SELECT of a query reads when it is a join, as one relation of the columns of `stream`.

    `where` are the conditions that FROM itself makes.
    """

    select: exp.Select
    stream: Stream
    scope: Scope
    where: tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """What stands in FROM: a stream or a subquery, and the name it has there."""

    relation: exp.Table | exp.Select
    qualifier: str | None


def source_of(select: exp.Select) -> Relation:
    """The one relation a SELECT reads; raises SqlError for table functions, VALUES and the like."""
    origin = select.args.get("from_")
    if origin is None:
        raise errors.unsupported("the query reads no stream", hint="add FROM and a stream")
    return relation_of(origin.this)


def relation_of(relation: exp.Expr) -> Relation:
    """What one relation of FROM is; raises SqlError for table functions, VALUES and the like."""
    alias = relation.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise errors.unsupported(
            "column aliases after a relation are not available", hint="write AS in SELECT"
        )
    name = alias.this.name if alias is not None and alias.this else None
    match relation:
        case exp.Table() if isinstance(relation.this, exp.Identifier):
            return Relation(relation, name or relation.name)
        case exp.Subquery() if isinstance(relation.this, exp.Select):
            return Relation(relation.this, name)
        case exp.Subquery() if isinstance(relation.this, exp.Subquery | exp.Table):
            raise errors.unsupported(
                "doubled parentheses in FROM are not available", hint="leave one pair out"
            )
        case _:
            word = relation.key.upper()
            raise errors.unsupported(
                f"{word} in FROM is not a stream", hint="read a stream or a subquery of one"
            )


def innermost(select: exp.Select) -> exp.Table | exp.Select:
    """The table, or the SELECT that joins, at the bottom of a chain of subqueries."""
    relation: exp.Table | exp.Select = select
    while isinstance(relation, exp.Select) and not relation.args.get("joins"):
        relation = source_of(relation).relation
    return relation


def find_stream(table: exp.Table, streams: Mapping[str, Stream]) -> Stream:
    """The stream that `table` names, case-insensitively as Spark does; raises SqlError if there is none."""
    name = ".".join(part.name for part in table.parts)
    stream = streams.get(name)
    if stream is None:
        lowered = name.lower()
        stream = next((found for known, found in streams.items() if known.lower() == lowered), None)
    if stream is None:
        raise errors.unknown_stream(name, streams, span_of_node(table))
    for column in stream.columns:
        if column.name.lower().startswith("__headrace"):
            raise errors.reserved_column(column.name)
    return stream


def inline_ctes(select: exp.Select) -> exp.Select:
    """WITH as subqueries in FROM; changes and returns `select`, which must be a fresh tree."""
    clause = select.args.get("with_")
    if clause is None:
        return select
    if clause.args.get("recursive"):
        raise errors.unsupported("WITH RECURSIVE is not available")
    known: dict[str, exp.Expr] = {}
    for cte in clause.expressions:
        _replace_tables(cte.this, known)
        known[cte.alias.lower()] = cte.this
    select.set("with_", None)
    _replace_tables(select, known)
    return select


def _replace_tables(tree: exp.Expr, known: Mapping[str, exp.Expr]) -> None:
    for table in list(tree.find_all(exp.Table)):
        body = known.get(table.name.lower()) if len(table.parts) == 1 else None
        if body is not None:
            alias = table.args.get("alias") or exp.TableAlias(
                this=exp.Identifier(this=table.name, quoted=True)
            )
            table.replace(exp.Subquery(this=body.copy(), alias=alias.copy()))


def flatten(select: exp.Select, stream: Stream, *, cql: bool, origin: Origin | None = None) -> Flat:
    """The flat form of `select` over `stream`, or over a join; raises SqlError where it has none.

    With `cql` the aggregation is grouped by the bracket's window, so it may not name another one.
    """
    places = sum(map(_window_places, select.find_all(exp.Select)))
    calls: list[WindowCall] = []
    flat = _flatten(select, stream, calls, cql, origin)
    return replace(flat, calls=tuple(calls), window_places=places)


def _flatten(
    select: exp.Select, stream: Stream, calls: list[WindowCall], cql: bool, origin: Origin | None
) -> Flat:
    if origin is not None and select is origin.select:
        inner, scope = Flat(stream, (), origin.where, None, (), ()), origin.scope
    elif isinstance((source := source_of(select)).relation, exp.Select):
        inner = _flatten(source.relation, stream, calls, cql, origin)
        scope = Scope(source.qualifier, inner.items)
    else:
        inner = Flat(stream, (), (), None, (), ())
        scope = stream_scope(stream, source.qualifier or stream.name)
    resolver = Resolver(stream, scope, calls, _names_window(select))
    if inner.distinct:
        raise errors.unsupported(
            "DISTINCT in a subquery is not available", hint="write it in the outermost SELECT"
        )
    if inner.group is not None:
        return _distinct(select, _over_aggregation(select, inner, resolver))
    if is_aggregated(select):
        return _distinct(select, _aggregation(select, inner, resolver, cql))
    items = tuple(output_items(select, resolver))
    flat = replace(inner, items=items, where=(*inner.where, *_where(select, resolver)))
    return _distinct_tuples(flat) if select.args.get("distinct") else flat


def _distinct_tuples(flat: Flat) -> Flat:
    """DISTINCT over tuples with their windows, as the grouping by all columns that it is."""
    keys = _all_keys(flat.items)
    if not any(map(_is_of_window, keys)):
        raise errors.no_window("DISTINCT", flat.stream.event_time)
    return replace(flat, group=keys)


def _distinct(select: exp.Select, flat: Flat) -> Flat:
    """DISTINCT over the rows of an aggregation, which are different already if they show all of its keys."""
    if not select.args.get("distinct"):
        return flat
    shown = [item.node.unnest() for item in flat.items]
    if not any(map(_is_of_window, shown)):
        raise errors.distinct_across_windows()
    hidden = [key for key in flat.group or () if not _is_of_window(key) and key not in shown]
    return replace(flat, distinct=bool(hidden) or flat.grouping_sets)


def _is_of_window(node: exp.Expr) -> bool:
    return is_window_column(node) or window_edge(node) is not None


def _names_window(select: exp.Select) -> bool:
    """Whether this SELECT itself calls `window(...)`, so that `window` is a column of it."""
    return any(map(_calls_window, (*select.expressions, select.args.get("group"))))


def _window_places(select: exp.Select) -> int:
    """In how many of Spark's operators this SELECT itself calls `window(...)`."""
    return _names_window(select) + _calls_window(select.args.get("where"))


def _calls_window(node: exp.Expr | None) -> bool:
    if node is None:
        return False
    return any(function_name(call) in WINDOW_FUNCTIONS for call in node.find_all(exp.Anonymous))


def _where(select: exp.Select, resolver: Resolver) -> tuple[exp.Expr, ...]:
    clause = select.args.get("where")
    if clause is None:
        return ()
    plain = Resolver(resolver.stream, resolver.scope, resolver.calls, False)
    return (plain.resolve(clause.this),)


def _over_aggregation(select: exp.Select, inner: Flat, resolver: Resolver) -> Flat:
    """A SELECT over an aggregation: its WHERE filters groups, its items are computed from them."""
    if is_aggregated(select):
        raise errors.unsupported(
            "an aggregation of an aggregation is not available",
            hint="create the inner query, and aggregate its results",
        )
    items = tuple(output_items(select, resolver))
    return replace(inner, items=items, having=(*inner.having, *_where(select, resolver)))


def _aggregation(select: exp.Select, inner: Flat, resolver: Resolver, cql: bool) -> Flat:
    where = (*inner.where, *_where(select, resolver))
    items = tuple(output_items(select, resolver))
    group, grouping_sets = group_keys(select, items, resolver)
    having = select.args.get("having")
    conditions = () if having is None else (_truth(_having(having.this, group, resolver)),)
    if cql and any(is_window_column(key) for key in group):
        raise errors.two_windows()
    return replace(
        inner, items=items, where=where, group=group, having=conditions, grouping_sets=grouping_sets
    )


def group_keys(
    select: exp.Select, items: tuple[Item, ...], resolver: Resolver
) -> tuple[tuple[exp.Expr, ...], bool]:
    """The resolved keys of GROUP BY, and whether there are more sets of them than one."""
    clause = select.args.get("group")
    if clause is None:
        return (), False
    if clause.args.get("all"):
        if clause.expressions:
            raise errors.syntax("GROUP BY ALL has no other keys")
        return _all_keys(items), False
    if clause.args.get("totals"):
        raise errors.unsupported("GROUP BY ... WITH TOTALS is not available", hint="write ROLLUP (...)")
    elements = _elements(clause)
    if clause.args.get("grouping_sets"):
        for node in clause.expressions:
            _key(node, items, resolver)  # only says what the sets are made of, and which window
    sets = any(isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) for node in elements)
    return tuple(_key(node, items, resolver) for node in elements), sets


def _elements(clause: exp.Group) -> list[exp.Expr]:
    """What stands after GROUP BY, with Hive's way of writing sets as Spark's: `a, b WITH ROLLUP` is `ROLLUP (a, b)`."""
    for kind, node in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        if clause.args.get(kind):
            return [node(expressions=[key.copy() for key in clause.expressions])]
    return list(clause.args.get("grouping_sets") or clause.expressions)


def _all_keys(items: tuple[Item, ...]) -> tuple[exp.Expr, ...]:
    """The keys of GROUP BY ALL: every select item without an aggregate. A constant is no key, as it groups nothing."""
    nodes = (item.node.unnest() for item in items if not aggregates_in(item.node))
    return tuple(node for node in nodes if node.find(exp.Column) is not None)


def _key(node: exp.Expr, items: tuple[Item, ...], resolver: Resolver) -> exp.Expr:
    """A grouping key: an ordinal, a column, the alias of a select item, any expression, or sets of these."""
    if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
        inner = [_key(part, items, resolver) for part in node.expressions]
        return type(node)(expressions=inner)
    if isinstance(node, exp.Paren) and isinstance(node.parent, exp.Rollup | exp.Cube | exp.GroupingSets):
        return exp.Paren(this=_key(node.this, items, resolver))
    if isinstance(node, exp.Literal) and str(node.this).isdigit():
        position = int(node.this)
        if not 1 <= position <= len(items):
            raise errors.unknown_column(str(position), [])
        node = items[position - 1].node.copy()
    else:
        node = resolver.resolve(node)
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _truth(node: exp.Expr) -> exp.Expr:
    """HAVING of something that is no condition by its form asks whether that is true: Spark casts it."""
    if isinstance(node.unnest(), exp.Predicate | exp.Connector | exp.Not | exp.Boolean | exp.Null):
        return node
    return exp.Cast(this=node.unnest(), to=exp.DataType.build("boolean"))


def _having(node: exp.Expr, group: tuple[exp.Expr, ...], resolver: Resolver) -> exp.Expr:
    """HAVING sees keys first, then the aliases of the select list, then the stream's other columns.

    Inside an aggregate call it sees the stream's columns, as everywhere else.
    """
    keys = tuple(item for item in resolver.scope.items if any(item.node == key for key in group))
    names = {(item.name or "").lower() for item in keys}
    aliases = tuple(item for item in resolver.aliases if (item.name or "").lower() not in names)
    shadowed = names | {(item.name or "").lower() for item in aliases}
    rest = tuple(item for item in resolver.scope.items if (item.name or "").lower() not in shadowed)
    outer = Resolver(
        resolver.stream,
        Scope(resolver.scope.qualifier, (*keys, *aliases, *rest), resolver.scope.parts),
        resolver.calls,
        resolver.windowed,
    )

    def step(found: exp.Expr) -> exp.Expr:
        if isinstance(found, exp.Filter) or is_aggregate(found):
            return resolver.resolve(found)
        return outer._step(found)

    return node.copy().transform(step, copy=False)
