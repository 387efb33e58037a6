"""Names to columns: every reference in a query becomes an expression over the stream's own columns.

Subqueries that only filter, rename or compute disappear here by substitution, so the rest of the package sees
one flat query over one stream. The window, however it is written, becomes one hidden column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.model.query import WINDOW_COLUMN, Stream
from headrace.model.types import Kind, SqlType
from headrace.sql import errors
from headrace.sql.bodies.windows import (
    WINDOW_FUNCTIONS,
    WindowCall,
    is_window_column,
    window_call,
    window_column,
    window_time,
)
from headrace.sql.resolve.functions import function_name, is_aggregate
from headrace.sql.resolve.refusals import span_of_node
from headrace.sql.text.dialect import render
from headrace.sql.text.written import free_of_capture, identifier, struct_fields, zipped_arrays

_ATOMIC = (exp.Column, exp.Literal, exp.Anonymous, exp.Paren, exp.Null, exp.Boolean, exp.Dot, exp.Cast)

_LISTS = (exp.In, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
"""Where `(a, b)` is a list; anywhere else it is a struct."""

_WINDOW_TYPE = SqlType("struct<start:timestamp,end:timestamp>")


@dataclass(frozen=True, slots=True)
class Item:
    """One output column: its name (None when Spark makes one up) and what it is."""

    name: str | None
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that one FROM clause makes visible, in order, under one qualifier.

    `parts` are the relations of a join, each with a qualifier of its own; `items` are then all that are visible.
    """

    qualifier: str | None
    items: tuple[Item, ...]
    parts: tuple[Scope, ...] = ()

    def named(self, qualifier: str) -> Scope | None:
        """The relation of this name."""
        lowered = qualifier.lower()
        return next((s for s in self.parts or (self,) if (s.qualifier or "").lower() == lowered), None)

    def find(self, name: str) -> list[Item]:
        lowered = name.lower()
        return [item for item in self.items if item.name is not None and item.name.lower() == lowered]

    def names(self) -> list[str]:
        return [item.name for item in self.items if item.name is not None]


@dataclass(slots=True)
class Resolver:
    """Resolves the expressions of one SELECT. `calls` collects its `window(...)` calls for all SELECTs.

    `windowed` says that a bare `window` means the window, as it does in Spark when the query groups by one.
    """

    stream: Stream
    scope: Scope
    calls: list[WindowCall]
    windowed: bool
    aliases: list[Item] = field(default_factory=list)

    def resolve(self, node: exp.Expr) -> exp.Expr:
        """`node` over the stream's columns; a new tree, `node` is not changed."""
        return node.copy().transform(self._step, copy=False)

    def _step(self, node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Column() if not isinstance(node.this, exp.Star):
                return self._column(node)
            case exp.Anonymous() if function_name(node) in WINDOW_FUNCTIONS:
                return self._window(node)
            case exp.Anonymous():
                return self._call(node)
            case exp.Tuple() if not isinstance(node.parent, _LISTS):
                return self.resolve(exp.Anonymous(this="struct", expressions=node.expressions))
            case exp.Dot():
                return self._dot(node)
            case exp.Lambda():
                return free_of_capture(node, self.resolve, self._names)
            case _:
                return node

    @property
    def _names(self) -> frozenset[str]:
        """Every name that something in this SELECT may have."""
        return frozenset(
            name.lower() for name in (*self.scope.names(), *(c.name for c in self.stream.columns))
        )

    def _column(self, node: exp.Column) -> exp.Expr:
        parts, scope = node.parts, self.scope
        named = scope.named(parts[0].name) if len(parts) > 1 else None
        if named is not None and (named.find(parts[1].name) or not scope.find(parts[0].name)):
            parts, scope = parts[1:], named
        return _fields(self._named(parts[0], node, scope), parts[1:])

    def _named(self, name: exp.Expr, node: exp.Column, scope: Scope) -> exp.Expr:
        found = scope.find(name.name)
        if not found and name.name.lower() in WINDOW_FUNCTIONS and self.windowed:
            return window_column()
        found = found or [item for item in self.aliases if (item.name or "").lower() == name.name.lower()]
        if not found:
            raise errors.unknown_column(name.name, scope.names(), span_of_node(node))
        if len(found) > 1:
            raise errors.ambiguous_column(name.name, span_of_node(node))
        return enclosed(found[0].node)

    def _window(self, node: exp.Anonymous) -> exp.Expr:
        call = window_call(node)
        time = node.expressions[0]
        resolved = self.resolve(time)
        if not isinstance(resolved, exp.Column) or resolved.name != self.stream.event_time:
            raise errors.not_event_time(node.name.lower(), render(time), self.stream.event_time)
        self.calls.append(call)
        return window_column()

    def _call(self, node: exp.Anonymous) -> exp.Expr:
        """A call with `*` among its arguments written out and fields named as Spark names them; changes `node`."""
        name, arguments = function_name(node), list(node.expressions)
        if name == "window_time" and len(arguments) == 1:
            window = self.resolve(arguments[0]).unnest()
            if isinstance(window, exp.Column) and window.name.startswith(WINDOW_COLUMN):
                times = (c.type.kind for c in self.stream.columns if c.name == self.stream.event_time)
                return window_time(window, next(times, Kind.TIMESTAMP))
        for distinct in (a for a in arguments if isinstance(a, exp.Distinct)):
            spread = [found for argument in distinct.expressions for found in self._spread(argument)]
            distinct.set("expressions", spread)
        if name != "count" and any(map(_is_star, arguments)):
            if "words" in node.meta:
                raise errors.unsupported(
                    f"{node.name.upper()} with words between its arguments takes no *",
                    hint="write the columns out",
                )
            arguments = [found for argument in arguments for found in self._spread(argument)]
            node.set("expressions", arguments)
        if name == "struct":
            node.set("this", "named_struct")
            node.set("expressions", struct_fields(arguments))
        if name == "arrays_zip":
            node.set("expressions", zipped_arrays(arguments, self.resolve))
        return node

    def _spread(self, node: exp.Expr) -> list[exp.Expr]:
        if not _is_star(node):
            return [node]
        parts = self.scope.parts
        if isinstance(node, exp.Star) and sum(len(part.items) for part in parts) == len(self.scope.items):
            stars = (
                exp.Column(this=node.copy(), table=identifier(p.qualifier)) for p in parts if p.qualifier
            )
            return [found for star in stars for found in self._spread(star)]
        scope, path = _starred(node, self.scope)
        names = [item.name for item in _star(node, self.stream, self.scope)]
        if None in names:
            raise errors.unsupported("* in a call stands for a column without a name", hint="write it out")
        paths = [_path([*path, name]) for name in names if name is not None]
        if scope is not self.scope and scope.qualifier:
            for found in paths:
                next(found.find_all(exp.Column)).set("table", identifier(scope.qualifier))
        return paths

    def _dot(self, node: exp.Dot) -> exp.Expr:
        """A field of an expression; the field's name is not a column."""
        return exp.Dot(this=self.resolve(node.this), expression=node.expression.copy())


def _fields(base: exp.Expr, names: Iterable[exp.Expr]) -> exp.Expr:
    for name in names:
        base = exp.Dot(this=base, expression=identifier(name.name))
    return base


def column(name: str) -> exp.Column:
    return exp.Column(this=identifier(name))


def _path(names: list[str]) -> exp.Expr:
    return _fields(column(names[0]), map(identifier, names[1:]))


def enclosed(node: exp.Expr) -> exp.Expr:
    """A copy of `node` that can stand anywhere an operand can."""
    return node.copy() if isinstance(node, _ATOMIC) else exp.Paren(this=node.copy())


def stream_scope(stream: Stream, qualifier: str) -> Scope:
    return Scope(qualifier, tuple(Item(c.name, column(c.name)) for c in stream.columns))


def output_items(select: exp.Select, resolver: Resolver) -> Iterator[Item]:
    """The resolved select list with `*` expanded; an alias is visible to the items after it, as in Spark."""
    for node in select.expressions:
        if _is_star(node):
            yield from _star(node, resolver.stream, resolver.scope)
            continue
        name = output_name(node)
        item = Item(name, resolver.resolve(node.this if isinstance(node, exp.Alias) else node))
        if isinstance(node, exp.Alias):
            resolver.aliases.append(item)
        yield item


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _starred(node: exp.Expr, scope: Scope) -> tuple[Scope, list[str]]:
    """(the relation that a star is for, the path of the struct in it); no path when it is for all columns."""
    path = [part.name for part in node.parts[:-1]] if isinstance(node, exp.Column) else []
    named = scope.named(path[0]) if path else None
    return (scope, path) if named is None else (named, path[1:])


def _star(node: exp.Expr, stream: Stream, scope: Scope) -> Iterator[Item]:
    star = node if isinstance(node, exp.Star) else node.this
    if star.args.get("replace") or star.args.get("rename"):
        raise errors.unsupported("* REPLACE is not available", hint="write the columns out")
    scope, path = _starred(node, scope)
    items = _struct_items(path, node, stream, scope) if path else scope.items
    dropped = {name.name.lower() for name in star.args.get("except_") or ()}
    known = [item.name for item in items if item.name is not None]
    for name in dropped - {name.lower() for name in known}:
        raise errors.unknown_column(name, known)
    for item in items:
        if (item.name or "").lower() not in dropped:
            yield Item(item.name, item.node.copy())


def _struct_items(path: list[str], node: exp.Expr, stream: Stream, scope: Scope) -> tuple[Item, ...]:
    """The fields of the struct that `path` names, each as a column of its own."""
    shown = f"{'.'.join(path)}.*"
    found = scope.find(path[0])
    if not found:
        raise errors.unknown_column(
            shown, filter(None, (scope.qualifier, *scope.names())), span_of_node(node)
        )
    if len(found) > 1:
        raise errors.ambiguous_column(path[0], span_of_node(node))
    base = _fields(enclosed(found[0].node), map(identifier, path[1:]))
    type_ = _struct_type(base, stream)
    if type_ is None or not type_.fields:
        raise errors.unsupported(
            f"the fields that {shown} stands for are not known",
            hint="write them out",
            span=span_of_node(node),
        )
    return tuple(Item(f.name, exp.Dot(this=base.copy(), expression=identifier(f.name))) for f in type_.fields)


def _struct_type(node: exp.Expr, stream: Stream) -> SqlType | None:
    """The type of a column of the stream, of the window, or of a field of one of them; None of all else."""
    if is_window_column(node):
        return _WINDOW_TYPE
    match node:
        case exp.Column():
            return next((c.type for c in stream.columns if c.name == node.name), None)
        case exp.Dot():
            outer = _struct_type(node.this, stream)
            fields = () if outer is None else outer.fields
            return next((f.type for f in fields if f.name.lower() == node.expression.name.lower()), None)
        case exp.Paren():
            return _struct_type(node.this, stream)
        case _:
            return None


def output_name(node: exp.Expr) -> str | None:
    """The name that an outer query can use for a select item; None when it has none of its own."""
    match node:
        case exp.Alias():
            return str(node.alias)
        case exp.Column():
            return node.name
        case exp.Anonymous() if function_name(node) in WINDOW_FUNCTIONS:
            return function_name(node)
        case exp.Dot() if function_name(node.this) in WINDOW_FUNCTIONS:
            return f"{function_name(node.this)}.{node.expression.name}"
        case exp.Dot():
            return str(node.expression.name)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Flat:
    """One SELECT over one stream, every name resolved; `where` and `having` are conjuncts, innermost first.

    `group` is None when the query does not aggregate. `grouping_sets` says it has more than a list of keys,
    `distinct` that rows of one window may be equal and count once, `window_places` in how many of Spark's operators
    `window(...)` is called, `session` that the window is a session.
    """

    stream: Stream
    items: tuple[Item, ...]
    where: tuple[exp.Expr, ...]
    group: tuple[exp.Expr, ...] | None
    having: tuple[exp.Expr, ...]
    calls: tuple[WindowCall, ...]
    grouping_sets: bool = False
    distinct: bool = False
    window_places: int = 0
    session: bool = False

    def expressions(self) -> Iterator[exp.Expr]:
        yield from (item.node for item in self.items)
        yield from self.having

    @property
    def uses_window(self) -> bool:
        nodes = (*(item.node for item in self.items), *self.where)
        return any(is_window_column(found) for node in nodes for found in node.find_all(exp.Column))


def window_edges() -> tuple[Item, ...]:
    """`window_start` and `window_end`, which every CQL result begins with."""
    return tuple(
        Item(f"window_{edge}", exp.Dot(this=window_column(), expression=identifier(edge)))
        for edge in ("start", "end")
    )


def is_aggregated(select: exp.Select) -> bool:
    """Whether a SELECT has GROUP BY, HAVING or an aggregate call of its own (not in its subqueries)."""
    if select.args.get("group") or select.args.get("having"):
        return True
    return any(is_aggregate(node) for item in select.expressions for node in item.find_all(exp.Anonymous))
