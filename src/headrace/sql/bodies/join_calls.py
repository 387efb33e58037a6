"""Conditions of a join that calls decide: registered functions of several sides, and scores of their vectors."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.model.query import Stream
from headrace.model.types import Column, SqlType
from headrace.sql.bodies.predicates import Compiler
from headrace.sql.bodies.registered import mark_call, outermost_calls
from headrace.sql.resolve.columns import column
from headrace.sql.resolve.functions import function_name
from headrace.sql.resolve.joins import JoinOrigin
from headrace.sql.text.dialect import render

FLOAT = SqlType("float")
SCORES = frozenset(("vector_cosine_similarity", "vector_inner_product"))
"""Spark's functions of two vectors that joins decide by themselves."""

_ARGUMENT = "argument"


def mark_scores(node: exp.Expr, origin: JoinOrigin) -> None:
    """Let scores of vectors of two sides be calls that joins make."""
    for call in node.find_all(exp.Anonymous):
        if function_name(call) in SCORES and len(call.expressions) == 2:
            sides = [origin.sides_in(argument) for argument in call.expressions]
            if all(len(some) == 1 for some in sides) and sides[0] != sides[1]:
                mark_call(call, FLOAT)


def is_similarity(node: exp.Expr, origin: JoinOrigin) -> bool:
    """Whether a condition asks for a score above a constant."""
    inner = node.unnest()
    if not isinstance(inner, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return False
    upper, lower = inner.this.unnest(), inner.expression.unnest()
    if isinstance(inner, exp.LT | exp.LTE):
        upper, lower = lower, upper
    return function_name(upper) in SCORES and not origin.sides_in(lower)


def with_columns(
    node: exp.Expr,
    origin: JoinOrigin,
    type_of: Callable[[exp.Expr], SqlType],
    literals: tuple[str, ...],
    timezone: str,
) -> exp.Expr | None:
    """A copy of a condition with a column for each argument of its calls; None when tasks cannot decide it.

    `argument_of` tells what each of these columns stands for.
    """
    copied, columns = node.copy(), list[Column]()
    for call in outermost_calls(copied):
        for argument in list(call.expressions):
            if len(origin.sides_in(argument)) > 1:
                return None
            inner = argument.unnest()
            columns.append(Column(f"a{len(columns)}", type_of(inner)))
            replaced = column(columns[-1].name)
            replaced.meta[_ARGUMENT] = (inner.copy(), columns[-1].type)
            argument.replace(replaced)
    stream = Stream(origin.stream.name, tuple(columns), "", 0)
    return copied if Compiler(stream, literals, timezone, render).only_atoms(copied) else None


def argument_of(node: exp.Expr) -> tuple[exp.Expr, SqlType] | None:
    """The argument that a column stands for, with its type; None for any other node."""
    found: tuple[exp.Expr, SqlType] | None = node.meta.get(_ARGUMENT)
    return found if isinstance(node, exp.Column) else None
