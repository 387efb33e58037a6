"""Calls of registered functions in a query's text.

A call is an operand of its own where tasks can make it: its arguments are columns, other calls, or expressions that
cannot fail. Tasks then call it for the rows that the query's other conditions accept, once for all queries. Inside any
other expression Spark makes the call. It evaluates Python functions before the expression around them, whatever CASE
says, so such a call gets the condition that guards it as its first argument, under another name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from headrace.model.predicate import Operand
from headrace.model.query import Stream
from headrace.model.types import SqlType
from headrace.sql.bodies.operands import OperandShape
from headrace.sql.render.templates import Template
from headrace.sql.resolve.functions import aggregates_in, function_name
from headrace.sql.resolve.safety import cannot_raise
from headrace.sql.text.dialect import render

GUARDED = "__headrace_guarded_"
"""Begins the name by which Spark knows a function whose first argument says for which rows it is called."""

_REGISTERED, _TYPE = "registered", "type"


def mark_calls(tree: exp.Expr, functions: Mapping[str, SqlType]) -> tuple[str, ...]:
    """Mark the calls of registered functions in a tree; the names of these functions."""
    found: dict[str, None] = {}
    for call in tree.find_all(exp.Anonymous) if functions else ():
        name = function_name(call) or ""
        if name in functions:
            call.meta[_REGISTERED] = functions[name]
            found[name] = None
    return tuple(sorted(found))


def mark_call(call: exp.Expr, type_: SqlType) -> None:
    """Let a call of one of Spark's functions be one that tasks make."""
    call.meta[_REGISTERED] = type_


def registered_type(node: exp.Expr) -> SqlType | None:
    """The declared type of a call of a registered function; None for anything else."""
    type_: SqlType | None = node.meta.get(_REGISTERED)
    return type_


def calls_registered(node: exp.Expr) -> bool:
    """Whether there is a call of a registered function in an expression."""
    return any(registered_type(call) is not None for call in node.find_all(exp.Anonymous))


def outermost_calls(node: exp.Expr) -> list[exp.Expr]:
    """The calls of registered functions that are in no other."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if registered_type(one) is not None:
            found.append(one)
        else:
            waiting += list(one.iter_expressions())
    return found


def type_arguments(nodes: Iterable[exp.Expr], types_of: Callable[[list[str]], list[SqlType]]) -> None:
    """Note the types of arguments that are expressions. Spark is asked once for all of them, if there are any."""
    wanted = [
        argument
        for node in nodes
        for call in node.find_all(exp.Anonymous)
        if registered_type(call) is not None
        for argument in call.expressions
        if not isinstance(argument.unnest(), exp.Column)
        and registered_type(argument.unnest()) is None
        and not aggregates_in(argument)
    ]
    if wanted:
        for argument, type_ in zip(
            wanted, types_of([f"any_value({render(a)})" for a in wanted]), strict=True
        ):
            argument.unnest().meta[_TYPE] = type_


def in_cost_order(parts: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Conjuncts in the order in which Spark asks them: those that call registered functions come last."""
    return sorted(parts, key=calls_registered)


def call_operand(
    node: exp.Expr, stream: Stream, literals: tuple[str, ...], text_of: Callable[[exp.Expr], str]
) -> Operand | None:
    """A call that tasks can make for tuples of a stream, as an operand."""
    shape = call_shape(node, stream, literals)
    return None if shape is None else _bound(shape, node.unnest(), text_of)


def _bound(shape: OperandShape, node: exp.Expr, text_of: Callable[[exp.Expr], str]) -> Operand:
    if shape.function is None:
        return Operand(node.name if shape.plain else text_of(node), shape.type, shape.plain)
    arguments = tuple(
        _bound(argument, inner.unnest(), text_of)
        for argument, inner in zip(shape.arguments, node.expressions, strict=True)
    )
    return Operand.call(shape.function, shape.type, arguments)


def call_shape(node: exp.Expr, stream: Stream, literals: tuple[str, ...]) -> OperandShape | None:
    """The same for a shape; None when `node` is no such call."""
    node = node.unnest()
    type_ = registered_type(node)
    if type_ is None or not node.expressions:
        return None
    arguments: list[OperandShape] = []
    for argument in node.expressions:
        inner = argument.unnest()
        if isinstance(inner, exp.Column):
            column = next((c for c in stream.columns if c.name == inner.name), None)
            found = None if column is None else OperandShape(Template.of(column.name), column.type, True)
        elif registered_type(inner) is not None:
            found = call_shape(inner, stream, literals)
        else:
            typed: SqlType | None = inner.meta.get(_TYPE)
            safe = typed is not None and typed.travels and cannot_raise(inner, stream, literals)
            found = OperandShape(Template.of(render(inner)), typed, False) if safe and typed else None
        if found is None:
            return None
        arguments.append(found)
    name = function_name(node)
    return OperandShape(Template.of(""), type_, False, (), name, tuple(arguments))


def guard_calls(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    """A copy of `value` whose calls of registered functions are made only where `condition` is TRUE."""
    copied = value.copy()
    for call in [found for found in copied.find_all(exp.Anonymous) if registered_type(found) is not None]:
        guarded = _guarded(call, condition)
        if call is copied:
            copied = guarded
        else:
            call.replace(guarded)
    return copied


def _guarded(call: exp.Anonymous, condition: exp.Expr) -> exp.Expr:
    """A call with a condition as its first argument, beside the one that it may have already."""
    name, arguments = call.name, list(call.expressions)
    guard: exp.Expr = exp.Paren(this=condition.copy())
    if name.startswith(GUARDED):
        guard = exp.And(this=guard, expression=exp.Paren(this=arguments.pop(0)))
    else:
        name = f"{GUARDED}{name.lower()}"
    found = exp.Anonymous(this=name, expressions=[guard, *arguments])
    found.meta[_REGISTERED] = registered_type(call)
    return found
