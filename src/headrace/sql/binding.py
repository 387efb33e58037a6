"""From a shape and the literals of one text to that query's plan; no parsing, no analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.model.predicate import TRUE, Operand, Predicate
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Body,
    Fallback,
    Projection,
    QueryPlan,
    Stream,
)
from headrace.model.types import Column, SqlType
from headrace.model.window import AnyWindow, Window
from headrace.sql import errors
from headrace.sql.dialect import render
from headrace.sql.lexer import Lexed
from headrace.sql.predicates import Compiler
from headrace.sql.templates import Template
from headrace.sql.windows import WindowCall, render_window_arguments


@dataclass(frozen=True, slots=True)
class OperandShape:
    """An operand whose text may have holes."""

    text: Template
    type: SqlType
    plain: bool

    def bind(self, fill: Callable[[Template], str]) -> Operand:
        return Operand(fill(self.text), self.type, self.plain)


@dataclass(frozen=True, slots=True)
class AggregateShape:
    function: AggregateFunction
    input: OperandShape | None
    filter: exp.Expr | None
    type: SqlType


@dataclass(frozen=True, slots=True)
class AggregationShape:
    keys: tuple[OperandShape, ...]
    aggregates: tuple[AggregateShape, ...]
    finish: tuple[Template, ...]
    having: Template | None
    fragile: bool


@dataclass(frozen=True, slots=True)
class ProjectionShape:
    outputs: tuple[OperandShape, ...]


@dataclass(frozen=True, slots=True)
class FallbackShape:
    reason: str


BodyShape = AggregationShape | ProjectionShape | FallbackShape


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything about a query that does not depend on its lifted literals.

    `calls` are its `window(...)` calls, `slides` says that their window may slide, `windowed` that results come per
    window, `ordered` is WHERE with its conjuncts in order (see `conjuncts`), `plain` is None when the text itself is
    plain Spark SQL.
    """

    stream: Stream
    calls: tuple[WindowCall, ...]
    slides: bool
    windowed: bool
    where: exp.Expr | None
    ordered: exp.Expr | None
    body: BodyShape
    columns: tuple[Column, ...]
    plain: Template | None
    log: Template
    texts: dict[int, Template] = field(default_factory=dict, compare=False)

    def text_of(self, node: exp.Expr) -> Template:
        """`node` rendered, once per shape."""
        template = self.texts.get(id(node))
        if template is None:
            template = self.texts[id(node)] = Template.of(render(node))
        return template


def bind(shape: Shape, lexed: Lexed, literals: tuple[str, ...], timezone: str) -> QueryPlan:
    """The plan of the query that `shape` and `literals` make; raises SqlError for an impossible window."""
    window = _window(shape, lexed, literals)
    arguments = "" if window is None else render_window_arguments(window)

    def fill(template: Template) -> str:
        return template.fill(literals, arguments)

    compiler = Compiler(shape.stream, literals, timezone, lambda node: fill(shape.text_of(node)))
    return QueryPlan(
        text=lexed.source,
        stream=shape.stream.name,
        body=_body(shape, window if shape.windowed else None, compiler, fill),
        columns=shape.columns,
        plain_sql=lexed.text if shape.plain is None else fill(shape.plain),
        log_sql=fill(shape.log),
    )


def _window(shape: Shape, lexed: Lexed, literals: tuple[str, ...]) -> AnyWindow | None:
    """The one window that all of the query's calls, or its bracket, mean."""
    found = [call.window(literals) for call in shape.calls]
    if lexed.cql is not None:
        found.append(lexed.cql.window())
    if not found:
        return None
    if any(window != found[0] for window in found):
        raise errors.two_windows()
    if not shape.slides and isinstance(found[0], Window) and not found[0].tumbles:
        raise errors.two_sliding_windows()
    return found[0]


def _body(
    shape: Shape, window: AnyWindow | None, compiler: Compiler, fill: Callable[[Template], str]
) -> Body:
    def predicate(node: exp.Expr | None) -> Predicate:
        return TRUE if node is None else compiler.predicate(node)

    def condition() -> Predicate:
        if shape.where is None or shape.ordered is None:
            return TRUE
        return compiler.predicate(shape.where, shape.ordered)

    match shape.body:
        case FallbackShape(reason):
            return Fallback(reason, window)
        case ProjectionShape(outputs):
            return Projection(condition(), tuple(output.bind(fill) for output in outputs))
        case AggregationShape(keys, aggregates, finish, having, fragile):
            assert window is not None
            return Aggregation(
                window=window,
                where=condition(),
                keys=tuple(key.bind(fill) for key in keys),
                aggregates=tuple(
                    Aggregate(
                        a.function, a.input.bind(fill) if a.input else None, predicate(a.filter), a.type
                    )
                    for a in aggregates
                ),
                finish=tuple(fill(text) for text in finish),
                having=None if having is None else fill(having),
                fragile=fragile,
            )
