"""FROM with several relations: the sides of a join, and the one relation they make.

Every column of every side gets a name of its own (`s0_key`, `s1_key`), so the rest of the package sees one query over
one stream. The windows of the sides end together; an inner join has one window, an outer join also each side's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.model.query import WINDOW_COLUMN, Stream, StreamName
from headrace.model.types import Column
from headrace.sql import errors
from headrace.sql.bodies.conjuncts import conjuncts
from headrace.sql.bodies.windows import WindowCall, is_window_column, window_column
from headrace.sql.render.plain import LIVE_WINDOWS, render_flat, windowed_log, windowed_relation
from headrace.sql.render.templates import LONGEST_HOLE, side_hole
from headrace.sql.resolve.columns import Flat, Item, Resolver, Scope, column, enclosed, stream_scope
from headrace.sql.resolve.flatten import Origin, find_stream, flatten, innermost, relation_of
from headrace.sql.resolve.side_windows import (
    Links,
    is_of_window,
    is_same_window,
    one_window,
    one_window_scope,
)
from headrace.sql.text.dialect import render
from headrace.sql.text.names import quote_name

MAX_SIDES = 6

_KINDS = {"": "INNER", "INNER": "INNER", "CROSS": "INNER", "OUTER": "LEFT"}
_SIDES = {"LEFT": "LEFT", "RIGHT": "RIGHT", "FULL": "FULL"}


@dataclass(frozen=True, slots=True)
class Side:
    """One relation of a join. `flat` is what it is over its own stream, `source` the number of the stream.

    `kind` is how it is joined to the sides before it, under the conditions `on`. An opaque side is an aggregation,
    which is a relation of its own; the others are their stream's tuples under `flat.where`.
    """

    number: int
    stream: Stream
    source: int
    qualifier: str | None
    flat: Flat
    kind: str
    on: tuple[exp.Expr, ...]
    bracket: int | None

    @property
    def opaque(self) -> bool:
        return self.flat.group is not None

    def name(self, column_name: str) -> str:
        return f"s{self.number}_{column_name}"

    @property
    def window(self) -> str:
        return f"{WINDOW_COLUMN}{self.number}"

    def windowed(self, relation: str, *, live: bool) -> str:
        """The tuples of `relation`, the stream or (`live`) its log, once per window that contains them."""
        if live:
            return windowed_log(relation, self.number)
        return windowed_relation(self.stream, relation, hole=side_hole(self.number))

    def over_join(self, node: exp.Expr) -> exp.Expr:
        """An expression over the side's stream as one over the joined relation."""

        def step(found: exp.Expr) -> exp.Expr:
            if is_window_column(found):
                return column(self.window)
            return column(self.name(found.name)) if isinstance(found, exp.Column) else found

        return node.copy().transform(step, copy=False)

    def over_stream(self, node: exp.Expr) -> exp.Expr:
        """The inverse of `over_join` for an expression over this side alone."""
        prefix = len(self.name(""))

        def step(found: exp.Expr) -> exp.Expr:
            return column(found.name[prefix:]) if isinstance(found, exp.Column) else found

        return node.copy().transform(step, copy=False)


@dataclass(frozen=True, slots=True)
class JoinOrigin(Origin):
    """A join as the one relation that a query reads. `outer`: some rows have no tuple of some side."""

    sides: tuple[Side, ...]
    streams: tuple[Stream, ...]
    outer: bool
    calls: tuple[WindowCall, ...]

    def side_of(self, column_name: str) -> Side | None:
        """The side that a column of the joined relation comes from; None for the window."""
        return next(
            (s for s in self.sides if column_name.startswith(s.name("")) or column_name == s.window), None
        )

    def sides_in(self, node: exp.Expr) -> frozenset[int]:
        found = (self.side_of(c.name) for c in node.find_all(exp.Column) if not is_window_column(c))
        return frozenset(side.number for side in found if side is not None)

    def relation(self, names: Callable[[int], str], *, live: bool) -> str:
        """The joined relation as text over the relations of the streams; with `live` of LIVE_WINDOWS alone."""
        first, *others = self.sides
        text = f"{self._side(first, names, live)} AS t{first.number}"
        for side in others:
            ends = [f"{s.window}.end" for s in self.sides[: side.number]]
            before = ends[0] if len(ends) == 1 or not self.outer else f"COALESCE({', '.join(ends)})"
            on = [f"{before} = {side.window}.end", *(f"({render(node)})" for node in side.on if self.outer)]
            text += (
                f" {side.kind} JOIN {self._side(side, names, live)} AS t{side.number} ON {' AND '.join(on)}"
            )
        every = [f"{side.window}.end" for side in self.sides]
        end = f"COALESCE({', '.join(every)})" if self.outer else every[0]
        whole = f"named_struct('start', {end} - {LONGEST_HOLE}, 'end', {end})"
        return f"(SELECT *, {whole} AS {WINDOW_COLUMN} FROM {text})"

    def _side(self, side: Side, names: Callable[[int], str], live: bool) -> str:
        windowed = side.windowed(names(side.source), live=live)
        if side.opaque:
            items = (*side.flat.items, Item(side.window, window_column()))
            flat = replace(side.flat, items=items)
            columns = [*(side.name(f"c{i}") for i in range(len(side.flat.items))), side.window]
            return f"({render_flat(flat, columns, windowed, live=live)})"
        shown = [f"{quote_name(c.name)} AS {quote_name(side.name(c.name))}" for c in side.stream.columns]
        shown.append(f"{WINDOW_COLUMN} AS {side.window}")
        conditions = [LIVE_WINDOWS] if live else []
        conditions += [f"({render(node)})" for node in side.flat.where if self.outer]
        clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"(SELECT {', '.join(shown)} FROM {windowed} AS t{clause})"


TypesOf = Callable[[str, Stream], tuple[Column, ...]]


def join_origin(
    select: exp.Select,
    streams: Mapping[str, Stream],
    bracket_of: Callable[[exp.Table], int | None],
    types_of: TypesOf,
    *,
    cql: bool,
) -> JoinOrigin:
    """What a SELECT with JOIN or commas reads; raises SqlError for a join that has no streaming meaning.

    `bracket_of` is the number of the CQL window of a table, `types_of` Spark's analysis of an opaque side.
    """
    return _Reader(select, streams, bracket_of, types_of, cql).read()


@dataclass(slots=True)
class _Reader:
    select: exp.Select
    streams: Mapping[str, Stream]
    bracket_of: Callable[[exp.Table], int | None]
    types_of: TypesOf
    cql: bool

    def read(self) -> JoinOrigin:
        origin = self.select.args.get("from_")
        if origin is None:
            raise errors.syntax("JOIN stands without FROM before it")
        relations = [(origin.this, "INNER", None)]
        relations += [(join.this, _kind(join), join) for join in self.select.args["joins"]]
        if len(relations) > MAX_SIDES:
            raise errors.unsupported(
                f"{len(relations)} streams are joined, more than {MAX_SIDES}", hint="join fewer in one query"
            )
        sources: dict[str, Stream] = {}
        sides, scopes, columns = [], [], []
        calls: list[WindowCall] = []
        for number, (relation, kind, _) in enumerate(relations):
            side = self._side(number, relation, kind, sources)
            calls += side.flat.calls
            found, scope = self._columns(side)
            columns += found
            sides.append(side)
            scopes.append(scope)
        _refuse_twins(sides)
        outer = any(side.kind != "INNER" for side in sides)
        stream = Stream(StreamName("joined"), tuple(columns), sides[0].stream.event_time, 0)
        visible = tuple(item for scope in scopes for item in scope.items)
        scope = Scope(None, visible, tuple(scopes))
        sides, scope = self._conditions(sides, [join for *_, join in relations], stream, scope)
        where: tuple[exp.Expr, ...] = ()
        if not outer:
            where = tuple(
                one_window(node, None)
                for side in sides
                for node in (*map(side.over_join, () if side.opaque else side.flat.where), *side.on)
            )
            scope = one_window_scope(scope, None)
        else:
            scope = one_window_scope(scope, _preserved(sides))
        where = tuple(node for node in where if not is_same_window(node))
        return JoinOrigin(
            self.select, stream, scope, where, tuple(sides), tuple(sources.values()), outer, tuple(calls)
        )

    def _side(self, number: int, relation: exp.Expr, kind: str, sources: dict[str, Stream]) -> Side:
        source = relation_of(relation)
        table = source.relation if isinstance(source.relation, exp.Table) else innermost(source.relation)
        if isinstance(table, exp.Select):
            raise errors.unsupported(
                "a join inside a subquery that is joined again is not available",
                hint="write all streams into one FROM",
            )
        stream = find_stream(table, self.streams)
        sources.setdefault(str(stream.name), stream)
        place = list(sources).index(str(stream.name))
        if isinstance(source.relation, exp.Table):
            items = stream_scope(stream, "").items
            flat = Flat(stream, items, (), None, (), ())
        else:
            flat = flatten(source.relation, stream, cql=self.cql)
        qualifier = source.qualifier
        if self.cql and flat.calls:
            raise errors.two_windows()
        if flat.distinct:
            raise errors.unsupported("DISTINCT in a subquery that is joined is not available")
        bracket = self.bracket_of(table) if self.cql else None
        if self.cql and flat.group is not None:
            flat = replace(flat, group=(window_column(), *flat.group))
        if not self.cql and not any(
            is_window_column(c) for item in flat.items for c in item.node.find_all(exp.Column)
        ):
            raise errors.join_without_window(qualifier or stream.name, stream.event_time)
        return Side(number, stream, place, qualifier, flat, kind, (), bracket)

    def _columns(self, side: Side) -> tuple[list[Column], Scope]:
        """The side's columns in the joined relation, and what its qualifier makes visible."""
        if not side.opaque:
            columns = [Column(side.name(c.name), c.type) for c in side.stream.columns]
            return columns, Scope(
                side.qualifier, tuple(Item(i.name, side.over_join(i.node)) for i in side.flat.items)
            )
        if not any(is_window_column(key) for key in side.flat.group or ()):
            raise errors.no_window("GROUP BY", side.stream.event_time)
        names = [f"c{i}" for i in range(len(side.flat.items))]
        text = render_flat(
            side.flat, names, side.windowed(quote_name(side.stream.name), live=False), live=False
        )
        types = self.types_of(text, side.stream)
        columns = [Column(side.name(n), c.type) for n, c in zip(names, types, strict=True)]
        items = [
            Item(item.name, side.over_join(item.node) if is_of_window(item.node) else column(c.name))
            for item, c in zip(side.flat.items, columns, strict=True)
        ]
        return columns, Scope(side.qualifier, tuple(items))

    def _conditions(
        self, sides: list[Side], joins: list[exp.Join | None], stream: Stream, scope: Scope
    ) -> tuple[list[Side], Scope]:
        """The sides with what ON and USING say, and the scope without the columns that USING merges."""
        resolved: list[Side] = []
        links = Links(len(sides))
        visible = scope.parts[0].items
        for side, join in zip(sides, joins, strict=True):
            on: list[exp.Expr] = []
            if join is not None:
                right = scope.parts[side.number]
                if join.args.get("on") is not None:
                    seen = Scope(None, (*visible, *right.items), scope.parts[: side.number + 1])
                    on += conjuncts(Resolver(stream, seen, [], False).resolve(join.args["on"]))
                pairs = [_using(name, visible, right) for name in _common_names(join, visible, right)]
                on += [exp.EQ(this=enclosed(l.node), expression=enclosed(r.node)) for l, r in pairs]
                merged = [_merged(side.kind, *pair) for pair in pairs]
                apart = [i for i in (*visible, *right.items) if not any(i in pair for pair in pairs)]
                visible = (*merged, *apart)  # * has what USING and NATURAL merge first
            links.add(on)
            resolved.append(replace(side, on=tuple(on)))
            if not self.cql and side.kind != "INNER" and not links.joined(side.number):
                raise errors.join_without_equal_windows(side.qualifier)
        scope = replace(scope, items=visible)
        clause = self.select.args.get("where")
        if clause is not None and all(side.kind == "INNER" for side in sides):
            links.add(conjuncts(Resolver(stream, scope, [], False).resolve(clause.this)))
        if not self.cql:
            for side in resolved[1:]:
                if not links.joined(side.number):
                    raise errors.join_without_equal_windows(side.qualifier)
        return resolved, scope


def _preserved(sides: list[Side]) -> frozenset[int]:
    """The sides of which every row of an outer join has a tuple."""
    kept: set[int] = set()
    for side in sides:
        match side.kind:
            case "INNER":
                kept.add(side.number)
            case "RIGHT":
                kept = {side.number}
            case "FULL":
                kept = set()
    return frozenset(kept)


def _common_names(join: exp.Join, left: tuple[Item, ...], right: Scope) -> list[str]:
    """The columns that USING names, or that NATURAL finds on both sides."""
    if str(join.args.get("method") or "").upper() != "NATURAL":
        return [name.name for name in join.args.get("using") or ()]
    return [item.name for item in left if item.name is not None and right.find(item.name)]


def _using(name: str, left: tuple[Item, ...], right: Scope) -> tuple[Item, Item]:
    lefts, rights = Scope(None, left).find(name), right.find(name)
    for found in (lefts, rights):
        if not found:
            raise errors.unknown_column(name, right.names())
        if len(found) > 1:
            raise errors.ambiguous_column(name)
    return lefts[0], rights[0]


def _merged(kind: str, left: Item, right: Item) -> Item:
    """The column that two are merged to: of the side that is always there, else the one that is not NULL."""
    match kind:
        case "RIGHT":
            return Item(left.name, right.node)
        case "FULL":
            both = [left.node.copy(), right.node.copy()]
            return Item(left.name, exp.Anonymous(this="coalesce", expressions=both))
        case _:
            return left


def _refuse_twins(sides: list[Side]) -> None:
    names = [(side.qualifier or "").lower() for side in sides]
    for name in names:
        if name and names.count(name) > 1:
            raise errors.unsupported(
                f"two relations of the join are named `{name}`", hint="give each an alias"
            )


def _kind(join: exp.Join) -> str:
    """INNER, LEFT, RIGHT or FULL; raises SqlError for any other join."""
    method, kind, side = (str(join.args.get(key) or "").upper() for key in ("method", "kind", "side"))
    if method and method != "NATURAL":
        raise errors.unsupported(f"{method} JOIN is not available", hint="write JOIN ... ON")
    if kind in ("SEMI", "ANTI"):
        raise errors.unsupported(
            f"{kind} JOIN is not available", hint="write JOIN ... ON, or LEFT JOIN ... ON"
        )
    if kind not in _KINDS:
        raise errors.unsupported(f"{kind} JOIN is not available", hint="write JOIN ... ON")
    return _SIDES[side] if side else _KINDS[kind]


def column_names(origin: JoinOrigin) -> Iterator[tuple[str, str]]:
    """(name in the joined relation, name in the stream) of every column that has one there."""
    for side in origin.sides:
        if not side.opaque:
            yield from ((side.name(c.name), c.name) for c in side.stream.columns)
