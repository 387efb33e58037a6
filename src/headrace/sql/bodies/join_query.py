"""Queries that join streams: from the parsed text to a shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from headrace.model.errors import SqlError
from headrace.model.query import WINDOW_COLUMN, Stream, log_relation
from headrace.model.types import Column, SqlType
from headrace.sql import errors
from headrace.sql.binding import BodyShape, FallbackShape, JoinedRowsShape, Shape, side_windows
from headrace.sql.bodies.calls import NotShared
from headrace.sql.bodies.conjuncts import conjuncts
from headrace.sql.bodies.join_body import plan_join
from headrace.sql.bodies.layers import render_layers
from headrace.sql.bodies.windows import STAND_IN, has_window, stand_ins, window_column
from headrace.sql.cache import ShapeCache
from headrace.sql.render.determined import determined, is_determined
from headrace.sql.render.plain import render_joined
from headrace.sql.render.templates import Template
from headrace.sql.resolve.analysis import check_types
from headrace.sql.resolve.columns import Flat, Item, is_aggregated, window_edges
from headrace.sql.resolve.flatten import flatten, source_of
from headrace.sql.resolve.joins import (
    MAX_SIDES,
    JoinOrigin,
    column_names,
    join_origin,
)
from headrace.sql.resolve.side_windows import is_same_window, merged_windows
from headrace.sql.shape import Lifted
from headrace.sql.text.lexer import Lexed, edited, where_tokens
from headrace.sql.text.names import quote_name

_STAND_INS = {"longest": "INTERVAL '1' SECOND"} | {f"w{side}": STAND_IN for side in range(MAX_SIDES)}


def build_join(
    select: exp.Select,
    bottom: exp.Select,
    lexed: Lexed,
    lifted: Lifted,
    streams: Mapping[str, Stream],
    analyzer: ShapeCache,
    timezone: str,
) -> Shape:
    """The shape of a query whose innermost SELECT, `bottom`, joins; raises SqlError."""
    return _JoinBuild(lexed, lifted, streams, analyzer, timezone).shape(select, bottom)


class _JoinBuild:
    """Builds the shape of one text; lives for one call."""

    def __init__(
        self,
        lexed: Lexed,
        lifted: Lifted,
        streams: Mapping[str, Stream],
        analyzer: ShapeCache,
        timezone: str,
    ) -> None:
        self.lexed, self.literals, self.key = lexed, lifted.literals, lifted.key
        self.streams, self.analyzer, self.timezone = streams, analyzer, timezone
        self.cql = bool(lexed.brackets)

    def shape(self, select: exp.Select, bottom: exp.Select) -> Shape:
        origin = join_origin(bottom, self.streams, self._bracket, self._opaque_types, cql=self.cql)
        self.origin, self.brackets = origin, tuple(side.bracket for side in origin.sides)
        side_windows(
            self.brackets, origin.calls, self.lexed, self.literals
        )  # raises when they do not go together
        logged, plainly = (
            origin.relation(log_relation, live=True),
            origin.relation(self._stream_name, live=False),
        )
        if self.cql and _needs_layers(select, bottom):
            return self._layered(select, logged, plainly)
        flat = self._flat(select)
        names = [item.name for item in flat.items]
        columns = self._columns(flat, render_joined(flat, names, plainly))
        finals = [column.name for column in columns]
        body = self._body(flat)
        fixed = determined(flat) if is_determined(body) else flat
        return self._shape(
            body,
            columns,
            Template.of(render_joined(flat, finals, plainly)),
            Template.of(render_joined(fixed, finals, logged)),
        )

    def _shape(self, body: BodyShape, columns: tuple[Column, ...], plain: Template, log: Template) -> Shape:
        return Shape(
            stream=self.origin.stream,
            calls=self.origin.calls,
            slides=True,
            windowed=True,
            where=None,
            ordered=None,
            body=body,
            columns=columns,
            plain=plain if self.cql else None,
            log=log,
            streams=self.origin.streams,
            brackets=self.brackets,
            timed=tuple(side.stream for side in self.origin.sides),
        )

    def _stream_name(self, stream: int) -> str:
        return quote_name(self.origin.streams[stream].name)

    def _bracket(self, table: exp.Table) -> int:
        """Which bracket is a table's window; one bracket serves all tables."""
        brackets, tokens = self.lexed.brackets, self.lexed.tokens
        for number, bracket in enumerate(brackets):
            if table.this.meta.get("start") == tokens[bracket.after - 1].start:
                return number
        if len(brackets) > 1:
            raise errors.syntax(f"the stream `{table.name}` of the join has no window bracket")
        return 0

    def _layered(self, select: exp.Select, logged: str, plainly: str) -> Shape:
        stream, origin = self.origin.stream, self.origin
        plain = Template.of(render_layers(select, stream, plainly, live=False, origin=origin))
        log = Template.of(render_layers(select, stream, logged, live=False, origin=origin))
        body = FallbackShape("analytic functions and DISTINCT over a join have no shared form")
        columns = check_types(tuple(map(self._renamed, self._schema(self._fill(plain)))))
        return self._shape(body, columns, plain, log)

    def _flat(self, select: exp.Select) -> Flat:
        flat = flatten(select, self.origin.stream, cql=self.cql, origin=self.origin)
        if flat.calls:
            raise errors.two_windows()
        if self.origin.outer:
            flat = _with_merged_windows(flat, self.origin)
        where = (part for node in flat.where for part in conjuncts(node))
        flat = replace(
            flat, where=tuple(node for node in where if not is_same_window(node)), calls=self.origin.calls
        )
        if self.cql:
            group = None if flat.group is None else (window_column(), *flat.group)
            return replace(flat, items=(*window_edges(), *flat.items), group=group)
        if flat.group is not None and not any(map(has_window, flat.group)):
            for name in (c.name for key in flat.group for c in key.find_all(exp.Column)):
                if (side := self.origin.side_of(name)) is not None and name == side.window:
                    raise errors.window_may_be_null(side.qualifier or str(side.stream.name))
            raise errors.no_window("GROUP BY", self.origin.stream.event_time)
        return flat

    # types

    def _fill(self, template: Template) -> str:
        """A text to analyse, whatever the windows."""
        return template.fill(self.literals, "", _STAND_INS)

    def _opaque_types(self, text: str, stream: Stream) -> tuple[Column, ...]:
        """The types of an aggregation that is joined."""
        return self.analyzer.schema(self._fill(Template.of(text)), stream)

    def _columns(self, flat: Flat, plainly: str) -> tuple[Column, ...]:
        where = where_tokens(self.lexed)
        edits = stand_ins(self.origin.calls, self.literals)
        text = self._fill(Template.of(plainly)) if self.cql else edited(self.lexed, edits, None)
        if where is None or not all(map(self._tells_no_types, flat.where)):
            found = self._schema(text)
        else:
            bare = edited(self.lexed, edits, where)
            if self.cql:
                relation = self.origin.relation(self._stream_name, live=False)
                without = render_joined(replace(flat, where=()), [item.name for item in flat.items], relation)
                bare = self._fill(Template.of(without))
            key = self.key[: 1 + where.start] + self.key[1 + where.stop :]
            found = self.analyzer.schema_like(key, bare, *self.origin.streams)
        columns = check_types(found)
        if self.cql and len(columns) == len(flat.items):
            named = zip(columns, flat.items, strict=True)
            columns = tuple(c if item.name is not None else self._renamed(c) for c, item in named)
        if len(columns) != len(flat.items):
            raise errors.unsupported(
                "the select list is not one that can be told apart", hint="name each column"
            )
        return columns

    def _tells_no_types(self, node: exp.Expr) -> bool:
        """Whether `node` is a comparison that Spark takes whatever its literals, so that types do not hang on it."""
        inner = node.unnest()
        if not isinstance(inner, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
            return False
        types = [self._plain_type(part.unnest()) for part in (inner.this, inner.expression)]
        return types[0] == types[1] and types[0] is not None

    def _plain_type(self, node: exp.Expr) -> SqlType | str | None:
        if isinstance(node, exp.Column):
            type_ = next((c.type for c in self.origin.stream.columns if c.name == node.name), None)
            return "number" if type_ is not None and type_.name in ("int", "bigint", "double") else type_
        return "number" if isinstance(node, exp.Literal) and not node.args["is_string"] else None

    def _schema(self, text: str) -> tuple[Column, ...]:
        try:
            return self.analyzer.schema(text, *self.origin.streams)
        except SqlError as error:
            message = self._in_streams(error.message)
            raise SqlError(error.code, message, detail=error.detail, hint=error.hint) from None

    def _renamed(self, column: Column) -> Column:
        """A column that Spark named after ours, named as it would name it after the streams'."""
        return Column(self._in_streams(column.name), column.type)

    def _in_streams(self, text: str) -> str:
        """A text of Spark's with the streams' names of columns in place of ours."""
        plain = dict(column_names(self.origin))
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, plain))})\b") if plain else None
        return text if pattern is None else pattern.sub(lambda match: plain[match[0]], text)

    # the body

    def _types_of(self, expressions: list[str]) -> list[SqlType]:
        known = {f"any_value({quote_name(c.name)})": c.type for c in self.origin.stream.columns}
        if all(text in known for text in expressions):
            return [known[text] for text in expressions]
        items = ", ".join(f"{text} AS c{index}" for index, text in enumerate(expressions))
        sql = f"SELECT {items} FROM {quote_name(self.origin.stream.name)}"
        return [c.type for c in self.analyzer.schema(self._fill(Template.of(sql)), self.origin.stream)]

    def _told(self, reason: str) -> str:
        """A reason with the names that the query's author knows."""
        return self._in_streams(reason).replace(WINDOW_COLUMN, "window")

    def _body(self, flat: Flat) -> BodyShape:
        try:
            shape = plan_join(flat, self.origin, self._types_of, self.literals, self.timezone)
        except NotShared as reason:
            return FallbackShape(self._told(str(reason)))
        if not isinstance(shape.then, JoinedRowsShape) or shape.then.unshared is None:
            return shape
        return replace(shape, then=replace(shape.then, unshared=self._told(shape.then.unshared)))


def _with_merged_windows(flat: Flat, origin: JoinOrigin) -> Flat:
    def merged(nodes: Iterable[exp.Expr]) -> tuple[exp.Expr, ...]:
        return tuple(merged_windows(node, len(origin.sides)) for node in nodes)

    return replace(
        flat,
        items=tuple(Item(item.name, merged_windows(item.node, len(origin.sides))) for item in flat.items),
        where=merged(flat.where),
        group=None if flat.group is None else merged(flat.group),
        having=merged(flat.having),
    )


def _needs_layers(select: exp.Select, bottom: exp.Select) -> bool:
    """Whether a CQL join is followed by more than one aggregation."""
    chain = [select]
    while chain[-1] is not bottom:
        relation = source_of(chain[-1]).relation
        assert isinstance(relation, exp.Select)
        chain.append(relation)
    if any(s.args.get("distinct") or any(i.find(exp.Window) for i in s.expressions) for s in chain):
        return True
    return sum(map(is_aggregated, chain)) > 1
