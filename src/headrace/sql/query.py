"""`parse_query`: a query's text to its plan, by way of its shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp
from sqlglot.errors import ParseError

from headrace.model.errors import SqlError
from headrace.model.query import LOG_RELATION, QueryPlan, Stream
from headrace.model.types import Column, Kind, SqlType
from headrace.model.window import Window
from headrace.sql import errors
from headrace.sql.binding import BodyShape, FallbackShape, ProjectionShape, Shape, bind
from headrace.sql.bodies.aggregates import plan_aggregation
from headrace.sql.bodies.calls import NotShared
from headrace.sql.bodies.conjuncts import conjuncts, in_order
from headrace.sql.bodies.having import filter_keys_early
from headrace.sql.bodies.join_query import build_join
from headrace.sql.bodies.layers import needs_layers, render_layers
from headrace.sql.bodies.operands import OperandShape
from headrace.sql.bodies.predicates import Compiler
from headrace.sql.bodies.registered import (
    call_shape,
    calls_registered,
    guard_calls,
    in_cost_order,
    mark_calls,
    type_arguments,
)
from headrace.sql.bodies.sessions import checked_sessions, no_session_rows
from headrace.sql.bodies.windows import STAND_IN, has_window, is_window_column, stand_ins, window_column
from headrace.sql.cache import ShapeCache
from headrace.sql.render.determined import determined, is_determined
from headrace.sql.render.fidelity import faithful, or_misread, render_again
from headrace.sql.render.plain import render_log, render_plain
from headrace.sql.render.templates import Template, literal_hole
from headrace.sql.resolve.analysis import Analyzer, check_types
from headrace.sql.resolve.columns import Flat, enclosed, window_edges
from headrace.sql.resolve.flatten import find_stream, flatten, inline_ctes, innermost
from headrace.sql.resolve.functions import is_aggregate
from headrace.sql.resolve.refusals import refuse_parts, refuse_statement
from headrace.sql.resolve.safety import cannot_raise
from headrace.sql.resolve.sizes import refuse_huge
from headrace.sql.shape import Lifted, lift
from headrace.sql.text.cql import span_of
from headrace.sql.text.dialect import TokenType, parse, render
from headrace.sql.text.lexer import Lexed, edited, lex, where_tokens
from headrace.sql.text.literals import mark_literals
from headrace.sql.text.names import quote_name

_QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN, TokenType.VALUES)


def parse_query(
    text: str, streams: Mapping[str, Stream], analyzer: Analyzer, *, timezone: str = "UTC"
) -> QueryPlan:
    """What `text` means over `streams`; raises SqlError when it is not a query we can run.

    Pass the same ShapeCache as `analyzer` each time: a text of a known shape then costs its tokens only.
    """
    cache = analyzer if isinstance(analyzer, ShapeCache) else ShapeCache(analyzer)
    lexed = lex(text)
    refuse_huge(lexed.tokens)
    lifted = lift(lexed)
    key = (timezone, lifted.key)
    shape = cache.find(key, streams)
    if shape is None:
        shape, reusable = _build(lexed, lifted, streams, cache, timezone)
        if reusable:
            cache.keep(key, shape)
    return bind(shape, lexed, lifted.literals, timezone)


def _build(
    lexed: Lexed, lifted: Lifted, streams: Mapping[str, Stream], analyzer: ShapeCache, timezone: str
) -> tuple[Shape, bool]:
    """The shape of a text, and whether it serves all texts with the same key."""
    try:
        tree = _parse(lexed)
        texts = {
            slot: literal_hole(slot) if slot in lifted.lifted else raw
            for slot, raw in enumerate(lifted.literals)
        }
        reusable = lifted.lifted <= mark_literals(tree, lifted.slots, texts)
        rendered = render_again(tree, lifted)
        functions = mark_calls(tree, analyzer.functions)
        try:
            select = inline_ctes(refuse_statement(tree))
            refuse_parts(select, analytic=lexed.cql is not None)
            shape = _shape(select, lexed, lifted, streams, analyzer, timezone)
        except SqlError as error:
            raise or_misread(error, lexed, rendered, analyzer) from None
        shape = replace(shape, functions=functions)
        return faithful(shape, select, lexed, lifted, rendered, analyzer), reusable
    except RecursionError:
        raise errors.syntax("the text is nested too deeply") from None


def _shape(
    select: exp.Select,
    lexed: Lexed,
    lifted: Lifted,
    streams: Mapping[str, Stream],
    analyzer: ShapeCache,
    timezone: str,
) -> Shape:
    table = innermost(select)
    if isinstance(table, exp.Select):
        return build_join(select, table, lexed, lifted, streams, analyzer, timezone)
    _check_bracket(lexed, table)
    stream = find_stream(table, streams)
    return _Build(lexed, lifted, stream, analyzer, timezone).shape(select)


def _check_bracket(lexed: Lexed, table: exp.Table) -> None:
    """The window belongs to the stream, so its bracket follows the stream's name."""
    if lexed.cql is None:
        return
    if len(lexed.brackets) > 1:
        raise errors.syntax("a stream has one window bracket", span_of(lexed.tokens[lexed.cql.after - 1]))
    before = lexed.tokens[lexed.cql.after - 1]
    if table.this.meta.get("start") != before.start:
        raise errors.syntax("a window bracket follows a stream's name", span_of(before))


def _parse(lexed: Lexed) -> exp.Expr:
    first_token = lexed.tokens[0]
    if first_token.token_type not in _QUERY_STARTS:
        if first_token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            raise errors.syntax(f"expected SELECT and found '{first_token.text}'", span_of(first_token))
        raise errors.not_a_query(first_token.text.upper())
    try:
        trees = parse(lexed.tokens, lexed.source)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        what = _complaint(str(first.get("description") or "the text cannot be parsed"))
        near = first.get("highlight")
        where = (first["line"], max(first["col"] - len(near or "") + 1, 1)) if "line" in first else None
        raise errors.syntax(f"{what} near '{near}'" if near else what, where) from None
    except RecursionError:
        raise
    except Exception:  # sqlglot fails in many ways on texts that nobody should write
        raise errors.syntax("the text cannot be parsed") from None
    tree = trees[0] if trees else None
    if tree is None:
        raise errors.empty_text()
    return tree


_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>")
_CLAUSE_WORDS = {"Where": "WHERE", "Having": "HAVING"}


def _complaint(description: str) -> str:
    """sqlglot's description of an error, without its tokens and classes.

    >>> _complaint("Required keyword: 'this' missing for <class 'sqlglot.expressions.query.Where'>")
    'WHERE has no condition'
    """
    missing = _MISSING.match(description)
    if missing is None:
        return description.split(" but got <Token")[0]
    clause = _CLAUSE_WORDS.get(missing.group(1))
    return "an operand is missing" if clause is None else f"{clause} has no condition"


class _Build:
    """Builds the shape of one text; lives for one call."""

    def __init__(
        self, lexed: Lexed, lifted: Lifted, stream: Stream, analyzer: ShapeCache, timezone: str
    ) -> None:
        self.lexed, self.literals, self.stream, self.analyzer = lexed, lifted.literals, stream, analyzer
        self.key = lifted.key
        self.compiler = Compiler(stream, self.literals, timezone, render)

    def shape(self, select: exp.Select) -> Shape:
        if self.lexed.cql is not None:
            self.lexed.cql.window()  # raises for an impossible one before Spark is asked
        if self.lexed.cql is not None and needs_layers(select):
            if self.lexed.cql.session:
                raise no_session_rows()
            return self._layered(select)
        flat = flatten(select, self.stream, cql=self.lexed.cql is not None)
        if self.lexed.cql is not None:
            flat = _with_window(flat)
        flat = checked_sessions(flat, cql=self.lexed.cql is not None and self.lexed.cql.session)
        windowed = self._check_window(flat)
        plain = None if self.lexed.cql is None else Template.of(render_plain(flat))
        columns = self._columns(flat, plain)
        shared = filter_keys_early(flat)
        type_arguments((*shared.expressions(), *shared.where, *(shared.group or ())), self._types_of)
        self.where = _conjunction(_cheapest_first(shared.where))
        self.ordered = None if self.where is None else in_order(self.where, self._harmless)
        body = self._body(shared, columns)
        logged = determined(flat) if is_determined(body) else flat
        return Shape(
            stream=self.stream,
            calls=flat.calls,
            slides=flat.window_places <= 1,
            windowed=windowed,
            where=self.where,
            ordered=self.ordered,
            body=body,
            columns=columns,
            plain=plain,
            log=Template.of(render_log(logged, [column.name for column in columns], windowed=windowed)),
        )

    def _layered(self, select: exp.Select) -> Shape:
        plain = Template.of(render_layers(select, self.stream, quote_name(self.stream.name), live=False))
        log = Template.of(render_layers(select, self.stream, LOG_RELATION, live=True))
        over = select.find(exp.Window)
        reason = "analytic functions" if over is not None else "the rows of each window"
        body = FallbackShape(f"{reason} have no shared form yet")
        columns = check_types(self._schema(self._fill(plain)))
        return Shape(self.stream, (), True, True, None, None, body, columns, plain, log)

    def _check_window(self, flat: Flat) -> bool:
        """Whether results come per window; raises SqlError when they should and cannot."""
        if flat.group is None:
            return False
        if any(map(has_window, flat.group)):
            return True
        for key in flat.group:
            if any(map(is_window_column, key.find_all(exp.Column))) and type(key) in _SETS:
                raise errors.set_without_window(_SETS[type(key)], self.stream.event_time)
        raise errors.no_window(_aggregation_name(flat), self.stream.event_time)

    def _columns(self, flat: Flat, plain: Template | None) -> tuple[Column, ...]:
        window = flat.calls[0].window(self.literals) if flat.calls else None
        for call in flat.calls:
            if call.window(self.literals) != window:
                raise errors.two_windows()
        if flat.window_places > 1 and isinstance(window, Window) and not window.tumbles:
            raise errors.two_sliding_windows()
        try:
            columns = check_types(self._typed(flat, plain))
        except SqlError as error:
            if flat.window_places > 1 and "MISSING_AGGREGATION" in (error.detail or ""):
                raise errors.hidden_window(error) from None
            if "window_time" in error.message and error.code == "ANALYSIS":
                raise errors.window_time_beside_group(error) from None
            raise
        if len(columns) != len(flat.items):
            raise errors.unsupported(
                "the select list is not one that can be told apart", hint="name each column"
            )
        return columns

    def _typed(self, flat: Flat, plain: Template | None) -> tuple[Column, ...]:
        """The query's columns. A WHERE of atoms alone has no say in them, so texts that differ only in predicates and
        lifted literals share one analysis. (Of `WHERE NULL` and `WHERE (word)`, Spark has its own opinion.)
        """
        edits = stand_ins(flat.calls, self.literals)
        where = where_tokens(self.lexed)
        words = (exp.Column, exp.Null, exp.Boolean)
        plainly = all(self.compiler.only_atoms(n) and not isinstance(n.unnest(), words) for n in flat.where)
        if where is None or not plainly:
            return self._schema(edited(self.lexed, edits, None) if plain is None else self._fill(plain))
        if plain is None:
            sql = edited(self.lexed, edits, where)
        else:
            sql = self._fill(Template.of(render_plain(replace(flat, where=()))))
        key = self.key[: 1 + where.start] + self.key[1 + where.stop :]
        return self.analyzer.schema_like(key, sql, self.stream)

    def _fill(self, template: Template) -> str:
        """A text to analyse, with some window of the kind that the query has."""
        return template.fill(self.literals, STAND_IN)

    def _schema(self, sql: str) -> tuple[Column, ...]:
        return self.analyzer.schema(sql, self.stream)

    def _types_of(self, expressions: list[str]) -> list[SqlType]:
        """Spark's types of aggregate expressions; plain columns need no analysis."""
        known = {f"any_value({quote_name(column.name)})": column.type for column in self.stream.columns}
        if not all(text in known for text in expressions):
            items = ", ".join(f"{text} AS c{index}" for index, text in enumerate(expressions))
            sql = Template.of(f"SELECT {items} FROM {quote_name(self.stream.name)}").fill(self.literals, "")
            return [column.type for column in self._schema(sql)]
        return [known[text] for text in expressions]

    def _body(self, flat: Flat, columns: tuple[Column, ...]) -> BodyShape:
        if flat.group is not None:
            try:
                return plan_aggregation(
                    flat, self._types_of, self._operand, self._guarded_filter, self.literals
                )
            except NotShared as reason:
                return FallbackShape(str(reason))
        if flat.uses_window:
            return FallbackShape("window() without aggregation has no shared form")
        nested = next((column for column in columns if column.type.kind in (Kind.NESTED, Kind.VOID)), None)
        if nested is not None:
            return FallbackShape(f"the column {nested.name} is of type {nested.type.name}")
        pairs = zip(flat.items, columns, strict=True)
        return ProjectionShape(tuple(self._operand(item.node, column.type, None) for item, column in pairs))

    def _operand(self, node: exp.Expr, type_: SqlType, condition: exp.Expr | None) -> OperandShape:
        """An operand for `node`; if it may raise, only for tuples that WHERE and `condition` accept."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column):
            return OperandShape(Template.of(node.name), type_, plain=True)
        if (call := call_shape(node, self.stream, self.literals)) is not None:
            return call
        if not cannot_raise(node, self.stream, self.literals):
            for guard in (condition, self.ordered):
                node = node if guard is None else _case(guard, node)
        return OperandShape(Template.of(render(node)), type_, plain=False)

    def _guarded_filter(self, condition: exp.Expr) -> exp.Expr:
        if self.ordered is not None and self.compiler.may_raise(condition):
            return _case(self.ordered, condition)
        return condition

    def _harmless(self, node: exp.Expr) -> bool:
        """Whether `node` cannot raise, whatever literals other texts of the shape put in place of this one's."""
        if self.compiler.only_atoms(node):
            return True
        telling = node.find(exp.RegexpLike, exp.Div)
        return telling is None and cannot_raise(node, self.stream, self.literals)


_SETS: dict[type[exp.Expr], str] = {exp.Cube: "CUBE", exp.Rollup: "ROLLUP", exp.GroupingSets: "GROUPING SETS"}


def _with_window(flat: Flat) -> Flat:
    """A CQL aggregation as the windowed aggregation it means: window edges first, grouped by the window."""
    return replace(flat, items=(*window_edges(), *flat.items), group=(window_column(), *(flat.group or ())))


def _aggregation_name(flat: Flat) -> str:
    for node in flat.expressions():
        call = next((found for found in node.find_all(exp.Anonymous) if is_aggregate(found)), None)
        if call is not None:
            return render(call)
    return "GROUP BY"


def _conjunction(nodes: tuple[exp.Expr, ...]) -> exp.Expr | None:
    if not nodes:
        return None
    whole = nodes[0]
    for node in nodes[1:]:
        whole = exp.And(this=enclosed(whole), expression=enclosed(node))
    return whole


def _cheapest_first(nodes: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """Conditions with registered functions come after all others."""
    if not any(map(calls_registered, nodes)):
        return nodes
    return tuple(in_cost_order([part for node in nodes for part in conjuncts(node)]))


def _case(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=guard_calls(condition, value))])
