"""Windowed aggregations: keys, shared aggregate calls, and what finishes them into the query's columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.model.query import AggregateFunction, Stream, StreamName
from headrace.model.types import BIGINT, TIMESTAMP, Column, Kind, SqlType
from headrace.sql.binding import AggregateShape, AggregationShape, OperandShape
from headrace.sql.bodies.windows import is_window_column, window_edge
from headrace.sql.render.templates import Template
from headrace.sql.resolve.columns import Flat, column, enclosed
from headrace.sql.resolve.functions import function_name, is_aggregate
from headrace.sql.resolve.safety import cannot_raise
from headrace.sql.text.dialect import render

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

_NUMERIC = frozenset((Kind.INTEGER, Kind.FLOATING, Kind.DECIMAL))
_INTERVALS = frozenset((Kind.INTERVAL, Kind.MONTHS))
_ORDERED = _NUMERIC | _INTERVALS
_ORDERED |= {Kind.BOOLEAN, Kind.STRING, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}
_COUNTABLE = _ORDERED | {Kind.BINARY}
_NO_KEY = frozenset((Kind.NESTED, Kind.VOID))


_INPUTS = {
    AggregateFunction.MIN: _ORDERED,
    AggregateFunction.MAX: _ORDERED,
    AggregateFunction.SUM: _NUMERIC | _INTERVALS,
}


class NotShared(Exception):
    """The shared operator does not cover this aggregation; the message is the reason that EXPLAIN prints."""


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate call before its types are known."""

    function: AggregateFunction
    input: exp.Expr | None
    filter: exp.Expr | None

    @property
    def identity(self) -> tuple[AggregateFunction, str, str]:
        """Equal for calls that always have the same result."""
        return (
            self.function,
            "" if self.input is None else render(self.input),
            "" if self.filter is None else render(self.filter),
        )


def read_call(node: exp.Expr) -> Call:
    """The shared form of an aggregate call; raises NotShared when it has none."""
    condition = None
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    if not isinstance(node, exp.Anonymous):
        raise NotShared(f"{render(node)} has no shared form")
    name, arguments = function_name(node) or "", node.expressions
    if any(isinstance(argument, exp.Distinct) for argument in arguments):
        raise NotShared(f"{name.upper()}(DISTINCT ...) needs all values of a group")
    if name == "count_if" and len(arguments) == 1:
        return Call(AggregateFunction.COUNT_ALL, None, _both(condition, arguments[0]))
    if name == "count" and len(arguments) == 1:
        return _count(arguments[0], condition)
    if name not in _FUNCTIONS or len(arguments) != 1:
        raise NotShared(f"{name}() has no shared form")
    return Call(_FUNCTIONS[name], arguments[0], condition)


def _count(argument: exp.Expr, condition: exp.Expr | None) -> Call:
    if isinstance(argument, exp.Star | exp.Literal | exp.Boolean):
        return Call(AggregateFunction.COUNT_ALL, None, condition)
    return Call(AggregateFunction.COUNT, argument, condition)


def _both(left: exp.Expr | None, right: exp.Expr) -> exp.Expr:
    return right if left is None else exp.And(this=enclosed(left), expression=enclosed(right))


@dataclass(slots=True)
class _Collector:
    """Rewrites expressions over tuples into expressions over result rows, collecting the calls it meets."""

    keys: list[str]
    stream: Stream
    calls: dict[tuple[AggregateFunction, str, str], Call] = field(default_factory=dict)
    averages: dict[str, SqlType] = field(default_factory=dict)

    def over_result(self, node: exp.Expr) -> exp.Expr:
        return node.copy().transform(self._step, copy=False)

    def _step(self, node: exp.Expr) -> exp.Expr:
        text = render(node) if not isinstance(node, exp.Identifier) else ""
        if text in self.keys:
            return column(f"k{self.keys.index(text)}")
        edge = window_edge(node)
        if edge is not None:
            return column(f"window_{edge}")
        if is_window_column(node):
            return window_struct()
        if isinstance(
            node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls
        ) or is_aggregate(node):
            return self._aggregate(node)
        if isinstance(node, exp.Column):
            raise NotShared(f"{text} is not one of the grouping keys")
        return node

    def _aggregate(self, node: exp.Expr) -> exp.Expr:
        call = read_call(node)
        if call.function is AggregateFunction.AVG and call.input is not None:
            type_ = self.averages.get(render(call.input))
            if type_ is not None and type_.kind is Kind.DECIMAL:
                return self._decimal_average(call, type_)
            if type_ is not None and type_.kind in _INTERVALS:
                return self._interval_average(call)
        return self._result(call)

    def _result(self, call: Call) -> exp.Column:
        identity = call.identity
        self.calls.setdefault(identity, call)
        result = column(f"a{list(self.calls).index(identity)}")
        result.meta["nonzero"] = call.function is AggregateFunction.COUNT_ALL and call.filter is None
        return result

    def _decimal_average(self, call: Call, type_: SqlType) -> exp.Expr:
        """Spark's AVG over DECIMAL(p,s) is SUM / COUNT, rounded half up to DECIMAL(p+4,s+4)."""
        total = self._result(Call(AggregateFunction.SUM, call.input, call.filter))
        count = self._result(Call(AggregateFunction.COUNT, call.input, call.filter))
        divisor = exp.Cast(
            this=exp.Anonymous(this="nullif", expressions=[count, exp.Literal.number(0)]),
            to=exp.DataType.build("DECIMAL(10, 0)"),
        )
        target = exp.DataType.build(f"DECIMAL({type_.precision + 4}, {type_.scale + 4})")
        average = exp.Cast(this=exp.Div(this=total, expression=divisor, typed=False, safe=False), to=target)
        average.meta["harmless"] = Kind.DECIMAL
        return average

    def _interval_average(self, call: Call) -> exp.Expr:
        """Spark's AVG over intervals is SUM / COUNT, as `/` divides them."""
        total = self._result(Call(AggregateFunction.SUM, call.input, call.filter))
        count = self._result(Call(AggregateFunction.COUNT, call.input, call.filter))
        divisor = exp.Anonymous(this="nullif", expressions=[count, exp.Literal.number(0)])
        average = exp.Paren(this=exp.Div(this=total, expression=divisor, typed=False, safe=False))
        average.meta["harmless"] = Kind.INTERVAL
        return average


def window_struct() -> exp.Expr:
    """The window as a struct of a result row's edges."""
    fields: list[exp.Expr] = []
    for edge in ("start", "end"):
        fields += [exp.Literal.string(edge), column(f"window_{edge}")]
    struct = exp.Anonymous(this="named_struct", expressions=fields)
    struct.meta["harmless"] = Kind.NESTED
    return struct


TypesOf = Callable[[list[str]], list[SqlType]]
"""Spark's types of aggregate expressions over the stream, in one analysis."""


def plan_aggregation(
    flat: Flat, types_of: TypesOf, operand: Callable[[exp.Expr, SqlType, exp.Expr | None], OperandShape],
    guarded: Callable[[exp.Expr], exp.Expr], literals: tuple[str, ...],
) -> AggregationShape:  # fmt: skip
    """The shared form of a flat aggregation; raises NotShared when there is none.

    `operand` makes an operand of an expression, guarded by WHERE and by a call's FILTER where it may raise;
    `guarded` does the same for a FILTER condition.
    """
    if flat.grouping_sets:
        raise NotShared("grouping sets have no shared form")
    if flat.distinct:
        raise NotShared("DISTINCT over some of the grouping keys has no shared form")
    _refuse_windowed_tuples(flat)
    keys = _distinct_keys(flat)
    inputs = _aggregate_inputs(flat)
    types = types_of([f"any_value({render(node)})" for node in (*keys, *inputs)])
    key_types, input_types = types[: len(keys)], types[len(keys) :]
    for node, type_ in zip(keys, key_types, strict=True):
        if type_.kind in _NO_KEY or not type_.travels:
            raise NotShared(f"the key {render(node)} is of type {type_.name}")
    of_input = {render(node): type_ for node, type_ in zip(inputs, input_types, strict=True)}
    collector = _Collector([render(key) for key in keys], flat.stream, averages=of_input)
    finish = [collector.over_result(item.node) for item in flat.items]
    having = [collector.over_result(node) for node in flat.having]
    calls = [_countable(call, of_input) for call in collector.calls.values()]
    for call in calls:
        _check_input(call, of_input)
    return AggregationShape(
        keys=tuple(operand(node, type_, None) for node, type_ in zip(keys, key_types, strict=True)),
        aggregates=tuple(
            AggregateShape(
                function=call.function,
                input=None
                if call.input is None
                else operand(call.input, of_input[render(call.input)], call.filter),
                filter=None if call.filter is None else guarded(call.filter),
                type=_result_type(call, of_input),
            )
            for call in calls
        ),
        finish=tuple(Template.of(render(node)) for node in finish),
        having=Template.of(" AND ".join(f"({render(node)})" for node in having)) if having else None,
        fragile=_may_raise(
            [*finish, *having], key_types, [_result_type(call, of_input) for call in calls], literals
        ),
    )


def _may_raise(
    nodes: list[exp.Expr], keys: list[SqlType], aggregates: list[SqlType], literals: tuple[str, ...]
) -> bool:
    """Whether an expression over result rows may fail for some row. Patterns are lifted, so each may be a bad one."""
    columns = [Column(f"k{i}", type_) for i, type_ in enumerate(keys)]
    columns += [Column(f"a{i}", type_) for i, type_ in enumerate(aggregates)]
    columns += [Column(f"window_{edge}", TIMESTAMP) for edge in ("start", "end")]
    rows = Stream(StreamName("results"), tuple(columns), "window_end", 0)
    return any(node.find(exp.RegexpLike) or not cannot_raise(node, rows, literals) for node in nodes)


def _distinct_keys(flat: Flat) -> list[exp.Expr]:
    keys: dict[str, exp.Expr] = {}
    for node in flat.group or ():
        if is_window_column(node) or window_edge(node) is not None:
            continue
        if any(is_window_column(found) for found in node.find_all(exp.Column)):
            raise NotShared(f"the key {render(node)} is computed from the window")
        keys.setdefault(render(node), node)
    return list(keys.values())


def _refuse_windowed_tuples(flat: Flat) -> None:
    """A tuple may be in many windows, and the shared operator asks for its operands once."""
    asked = list(flat.where)
    for expression in flat.expressions():
        asked += [node for node in expression.find_all(exp.Filter, exp.Anonymous) if _over_tuples(node)]
    for node in asked:
        if any(is_window_column(found) for found in node.find_all(exp.Column)):
            raise NotShared(f"{render(node)} asks each tuple for its window")


def _over_tuples(node: exp.Expr) -> bool:
    return isinstance(node, exp.Filter) or is_aggregate(node)


def _aggregate_inputs(flat: Flat) -> list[exp.Expr]:
    inputs: dict[str, exp.Expr] = {}
    for expression in flat.expressions():
        for node in expression.find_all(exp.Anonymous):
            if is_aggregate(node):
                call = read_call(node)
                if call.input is not None:
                    inputs.setdefault(render(call.input), call.input)
    return list(inputs.values())


def _countable(call: Call, of_input: dict[str, SqlType]) -> Call:
    """COUNT of what kernels cannot read counts the tuples in which it is not NULL."""
    if call.function is not AggregateFunction.COUNT or call.input is None:
        return call
    if of_input[render(call.input)].kind in _COUNTABLE:
        return call
    present = exp.Not(this=exp.Is(this=enclosed(call.input), expression=exp.Null()))
    return Call(AggregateFunction.COUNT_ALL, None, _both(call.filter, present))


def _check_input(call: Call, of_input: dict[str, SqlType]) -> None:
    if call.input is None or call.function is AggregateFunction.COUNT:
        return
    type_ = of_input[render(call.input)]
    if type_.kind not in _INPUTS.get(call.function, _NUMERIC):
        raise NotShared(f"{call.function.value}() over {type_.name} has no shared form")
    if type_.kind is Kind.DECIMAL and not type_.fits_int64:
        raise NotShared(f"{call.function.value}() over {type_.name} does not fit 64 bits")
    if type_.kind is Kind.STRING and type_.name != "string":
        raise NotShared(f"{call.function.value}() over {type_.name} has no shared form")


def _result_type(call: Call, of_input: dict[str, SqlType]) -> SqlType:
    """Spark's result type; `tests/sql/test_against_spark.py` checks the rules."""
    if call.input is None or call.function is AggregateFunction.COUNT:
        return BIGINT
    type_ = of_input[render(call.input)]
    match call.function:
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return type_
        case AggregateFunction.SUM if type_.kind in _INTERVALS:
            return type_
        case AggregateFunction.SUM if type_.kind is Kind.INTEGER:
            return BIGINT
        case AggregateFunction.SUM if type_.kind is Kind.DECIMAL:
            return SqlType(f"decimal({min(type_.precision + 10, 38)},{type_.scale})")
        case _:
            return SqlType("double")
