"""Aggregate calls and their shared forms: the one place in SQL that knows the aggregate functions.

`read_call` says which function a call is and what it reads. `check_call` says for which types there is a shared form,
and `result_type` what Spark's result is. A new function is a case in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from headrace.model.query import AggregateFunction
from headrace.model.types import BIGINT, DOUBLE, Kind, SqlType
from headrace.sql.render.templates import HOLE
from headrace.sql.resolve.columns import enclosed
from headrace.sql.resolve.functions import function_name
from headrace.sql.text.dialect import render
from headrace.sql.text.literals import read_number

_FUNCTIONS = {
    "sum": AggregateFunction.SUM,
    "avg": AggregateFunction.AVG,
    "mean": AggregateFunction.AVG,
    "min": AggregateFunction.MIN,
    "max": AggregateFunction.MAX,
    "var_pop": AggregateFunction.VAR_POP,
    "var_samp": AggregateFunction.VAR_SAMP,
    "variance": AggregateFunction.VAR_SAMP,
    "stddev_pop": AggregateFunction.STDDEV_POP,
    "stddev_samp": AggregateFunction.STDDEV_SAMP,
    "stddev": AggregateFunction.STDDEV_SAMP,
    "std": AggregateFunction.STDDEV_SAMP,
}
SHARED_FUNCTIONS = frozenset(_FUNCTIONS)
"""Functions of one number or value whose result does not hang on the order of the tuples."""

_OF_DISTINCT = {
    "count": AggregateFunction.COUNT_DISTINCT,
    "sum": AggregateFunction.SUM_DISTINCT,
    "avg": AggregateFunction.AVG_DISTINCT,
    "mean": AggregateFunction.AVG_DISTINCT,
    "min": AggregateFunction.MIN,
    "max": AggregateFunction.MAX,
    "collect_set": AggregateFunction.COLLECT_SET,
}

_BY = {"min_by": AggregateFunction.MIN_BY, "max_by": AggregateFunction.MAX_BY}

NUMERIC = frozenset((Kind.INTEGER, Kind.FLOATING, Kind.DECIMAL))
INTERVALS = frozenset((Kind.INTERVAL, Kind.MONTHS))
ORDERED = NUMERIC | INTERVALS
ORDERED |= {Kind.BOOLEAN, Kind.STRING, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}

_INPUTS = {
    AggregateFunction.MIN: ORDERED,
    AggregateFunction.MAX: ORDERED,
    AggregateFunction.SUM: NUMERIC | INTERVALS,
    AggregateFunction.SUM_DISTINCT: NUMERIC | INTERVALS,
    AggregateFunction.MIN_BY: ORDERED,
    AggregateFunction.MAX_BY: ORDERED,
    AggregateFunction.COUNT_DISTINCT: ORDERED,
    AggregateFunction.COLLECT_SET: ORDERED - {Kind.TIME, Kind.MONTHS, Kind.INTERVAL},
}
"""What each function takes; NUMERIC if it is not here."""


class NotShared(Exception):
    """The shared operator does not cover this aggregation; the message is the reason that EXPLAIN prints."""


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate call before its types are known. MIN_BY and MAX_BY have (ordering, value) as their inputs.

    `fractions` are the percentiles that are asked for; `many` says that they come as an array.
    """

    function: AggregateFunction
    inputs: tuple[exp.Expr, ...]
    filter: exp.Expr | None
    fractions: tuple[float, ...] = ()
    many: bool = False

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for calls that always have the same result."""
        condition = "" if self.filter is None else render(self.filter)
        return (self.function, *map(render, self.inputs), condition, self.fractions, self.many)


def read_call(node: exp.Expr, literals: tuple[str, ...]) -> Call:
    """The shared form of an aggregate call; raises NotShared when it has none."""
    condition = None
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    if not isinstance(node, exp.Anonymous):
        raise NotShared(f"{render(node)} has no shared form")
    name, arguments = function_name(node) or "", node.expressions
    match name, arguments:
        case _, [exp.Distinct() as distinct]:
            return _of_distinct(name, distinct, condition)
        case "count_if", [argument]:
            return Call(AggregateFunction.COUNT_ALL, (), both(condition, argument))
        case "count", [exp.Star() | exp.Literal() | exp.Boolean()]:
            return Call(AggregateFunction.COUNT_ALL, (), condition)
        case "count", [argument]:
            return Call(AggregateFunction.COUNT, (argument,), condition)
        case "collect_set", [argument]:
            return Call(AggregateFunction.COLLECT_SET, (argument,), condition)
        case "min_by" | "max_by", [value, ordering]:
            return Call(_BY[name], (ordering, value), condition)
        case "median", [argument]:
            return Call(AggregateFunction.PERCENTILE, (argument,), condition, (0.5,))
        case "percentile", [argument, fractions]:
            found, many = _fractions(fractions, literals)
            return Call(AggregateFunction.PERCENTILE, (argument,), condition, found, many)
        case _, [argument] if name in _FUNCTIONS and not isinstance(argument, exp.Star):
            return Call(_FUNCTIONS[name], (argument,), condition)
    raise NotShared(f"{name}() has no shared form")


def _of_distinct(name: str, distinct: exp.Distinct, condition: exp.Expr | None) -> Call:
    inputs = tuple(distinct.expressions)
    if name not in _OF_DISTINCT or any(isinstance(part, exp.Star) for part in inputs):
        raise NotShared(f"{name.upper()}(DISTINCT ...) has no shared form")
    if len(inputs) > 1 and name != "count":
        raise NotShared(f"{name.upper()}(DISTINCT ...) of several values has no shared form")
    return Call(_OF_DISTINCT[name], inputs, condition)


def _fractions(node: exp.Expr, literals: tuple[str, ...]) -> tuple[tuple[float, ...], bool]:
    """(the percentiles that are asked for, whether as an array); raises NotShared unless they are numbers."""
    many = isinstance(node, exp.Anonymous) and function_name(node) == "array"
    parts = node.expressions if many else [node]
    numbers = [None if HOLE in render(part) else read_number(part, literals) for part in parts]
    if not numbers or any(number is None or not 0 <= number <= 1 for number in numbers):
        raise NotShared(f"percentile() has a shared form for numbers only, not for {render(node)}")
    return tuple(float(number) for number in numbers if number is not None), many


def both(left: exp.Expr | None, right: exp.Expr) -> exp.Expr:
    """The conjunction of two conditions, of which the first may be absent."""
    return right if left is None else exp.And(this=enclosed(left), expression=enclosed(right))


def spoken(function: AggregateFunction) -> str:
    """The function as people write it.

    >>> spoken(AggregateFunction.COUNT_DISTINCT), spoken(AggregateFunction.MAX_BY)
    ('COUNT(DISTINCT ...)', 'max_by()')
    """
    name = function.value.removesuffix("_distinct")
    return f"{name}()" if name == function.value else f"{name.upper()}(DISTINCT ...)"


def check_call(call: Call, of_input: Mapping[str, SqlType]) -> None:
    """Raises NotShared where kernels cannot read an input of the call."""
    if call.function is AggregateFunction.COUNT:
        return
    for node in call.inputs:
        type_ = of_input[render(node)]
        if type_.kind not in _INPUTS.get(call.function, NUMERIC):
            raise NotShared(f"{spoken(call.function)} over {type_.name} has no shared form")
        if type_.kind is Kind.DECIMAL and not type_.fits_int64:
            raise NotShared(f"{spoken(call.function)} over {type_.name} does not fit 64 bits")
        if type_.kind is Kind.STRING and type_.name != "string":
            raise NotShared(f"{spoken(call.function)} over {type_.name} has no shared form")


def result_type(call: Call, of_input: Mapping[str, SqlType]) -> SqlType:
    """Spark's result type; `tests/sql/test_against_spark.py` checks the rules."""
    types = [of_input[render(node)] for node in call.inputs]
    match call.function:
        case AggregateFunction.COUNT_ALL | AggregateFunction.COUNT | AggregateFunction.COUNT_DISTINCT:
            return BIGINT
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return types[0]
        case AggregateFunction.MIN_BY | AggregateFunction.MAX_BY:
            return types[1]
        case AggregateFunction.SUM | AggregateFunction.SUM_DISTINCT:
            return _sum_type(types[0])
        case AggregateFunction.COLLECT_SET:
            return SqlType(f"array<{types[0].name}>")
        case AggregateFunction.PERCENTILE:
            return SqlType("array<double>") if call.many else DOUBLE
        case AggregateFunction.AVG | AggregateFunction.AVG_DISTINCT:
            return DOUBLE
        case AggregateFunction.VAR_POP | AggregateFunction.VAR_SAMP:
            return DOUBLE
        case AggregateFunction.STDDEV_POP | AggregateFunction.STDDEV_SAMP:
            return DOUBLE
        case _:
            assert_never(call.function)


def _sum_type(type_: SqlType) -> SqlType:
    match type_.kind:
        case Kind.INTEGER:
            return BIGINT
        case Kind.DECIMAL:
            return SqlType(f"decimal({min(type_.precision + 10, 38)},{type_.scale})")
        case Kind.INTERVAL | Kind.MONTHS:
            return type_
        case _:
            return DOUBLE
