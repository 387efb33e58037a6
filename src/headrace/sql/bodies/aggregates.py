"""Windowed aggregations: keys, shared aggregate calls, and what finishes them into the query's columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.model.query import AggregateFunction, Stream, StreamName
from headrace.model.tables import WINDOW_EDGES, WINDOW_END, SessionTable, aggregate_column, key_column
from headrace.model.types import Kind, SqlType
from headrace.sql.binding import AggregateShape, AggregationShape
from headrace.sql.bodies.calls import (
    INTERVALS,
    ORDERED,
    Call,
    NotShared,
    both,
    check_call,
    read_call,
    result_type,
)
from headrace.sql.bodies.operands import OperandShape
from headrace.sql.bodies.windows import is_window_column, window_edge
from headrace.sql.render.templates import Template
from headrace.sql.resolve.columns import Flat, column, enclosed
from headrace.sql.resolve.functions import is_aggregate
from headrace.sql.resolve.safety import cannot_raise
from headrace.sql.text.dialect import render

_COUNTABLE = ORDERED | {Kind.BINARY}
_NO_KEY = frozenset((Kind.NESTED, Kind.VOID))

_AVERAGES = {
    AggregateFunction.AVG: (AggregateFunction.SUM, AggregateFunction.COUNT),
    AggregateFunction.AVG_DISTINCT: (AggregateFunction.SUM_DISTINCT, AggregateFunction.COUNT_DISTINCT),
}
"""What averages are made of where their type has a division of its own."""


@dataclass(slots=True)
class _Collector:
    """Rewrites expressions over tuples into expressions over result rows, collecting the calls it meets."""

    keys: list[str]
    literals: tuple[str, ...]
    calls: dict[tuple[object, ...], Call] = field(default_factory=dict)
    averages: dict[str, SqlType] = field(default_factory=dict)

    def over_result(self, node: exp.Expr) -> exp.Expr:
        return node.copy().transform(self._step, copy=False)

    def _step(self, node: exp.Expr) -> exp.Expr:
        text = render(node) if not isinstance(node, exp.Identifier) else ""
        if text in self.keys:
            return column(key_column(self.keys.index(text)))
        edge = window_edge(node)
        if edge is not None:
            return column(WINDOW_EDGES[edge])
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
        call = read_call(node, self.literals)
        if call.function in _AVERAGES:
            type_ = self.averages.get(render(call.inputs[0]))
            if type_ is not None and type_.kind is Kind.DECIMAL:
                return self._decimal_average(call, type_)
            if type_ is not None and type_.kind in INTERVALS:
                return self._interval_average(call)
        return self._result(call)

    def _sum_and_count(self, call: Call) -> tuple[exp.Column, exp.Column]:
        total, count = (replace(call, function=function) for function in _AVERAGES[call.function])
        return self._result(total), self._result(count)

    def _result(self, call: Call) -> exp.Column:
        identity = call.identity
        self.calls.setdefault(identity, call)
        result = column(aggregate_column(list(self.calls).index(identity)))
        result.meta["nonzero"] = call.function is AggregateFunction.COUNT_ALL and call.filter is None
        return result

    def _decimal_average(self, call: Call, type_: SqlType) -> exp.Expr:
        """Spark's AVG over DECIMAL(p,s) is SUM / COUNT, rounded half up to DECIMAL(p+4,s+4)."""
        total, count = self._sum_and_count(call)
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
        total, count = self._sum_and_count(call)
        divisor = exp.Anonymous(this="nullif", expressions=[count, exp.Literal.number(0)])
        average = exp.Paren(this=exp.Div(this=total, expression=divisor, typed=False, safe=False))
        average.meta["harmless"] = Kind.INTERVAL
        return average


def window_struct() -> exp.Expr:
    """The window as a struct of a result row's edges."""
    fields: list[exp.Expr] = []
    for edge, name in WINDOW_EDGES.items():
        fields += [exp.Literal.string(edge), column(name)]
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
    inputs = _aggregate_inputs(flat, literals)
    types = types_of([f"any_value({render(node)})" for node in (*keys, *inputs)])
    key_types, input_types = types[: len(keys)], types[len(keys) :]
    for node, type_ in zip(keys, key_types, strict=True):
        if type_.kind in _NO_KEY or not type_.travels:
            raise NotShared(f"the key {render(node)} is of type {type_.name}")
    of_input = {render(node): type_ for node, type_ in zip(inputs, input_types, strict=True)}
    collector = _Collector([render(key) for key in keys], literals, averages=of_input)
    finish = [collector.over_result(item.node) for item in flat.items]
    having = [collector.over_result(node) for node in flat.having]
    calls = [_countable(call, of_input) for call in collector.calls.values()]
    for call in calls:
        check_call(call, of_input)
    results = [result_type(call, of_input) for call in calls]
    return AggregationShape(
        keys=tuple(operand(node, type_, None) for node, type_ in zip(keys, key_types, strict=True)),
        aggregates=tuple(
            AggregateShape(
                function=call.function,
                input=_input_shape(
                    [operand(node, of_input[render(node)], call.filter) for node in call.inputs]
                ),
                filter=None if call.filter is None else guarded(call.filter),
                type=type_,
                fractions=call.fractions,
            )
            for call, type_ in zip(calls, results, strict=True)
        ),
        finish=tuple(Template.of(render(node)) for node in finish),
        having=Template.of(" AND ".join(f"({render(node)})" for node in having)) if having else None,
        fragile=_may_raise([*finish, *having], key_types, results, literals),
    )


def _input_shape(parts: list[OperandShape]) -> OperandShape | None:
    """What a call reads: nothing, a value, or a row of several."""
    if len(parts) > 1:
        return OperandShape.row(tuple(parts))
    return parts[0] if parts else None


def _may_raise(
    nodes: list[exp.Expr], keys: list[SqlType], aggregates: list[SqlType], literals: tuple[str, ...]
) -> bool:
    """Whether an expression over result rows may fail for some row. Patterns are lifted, so each may be a bad one."""
    table = SessionTable(tuple(keys), tuple(aggregates))  # it has both edges
    rows = Stream(StreamName("results"), table.columns, WINDOW_END, 0)
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


def _aggregate_inputs(flat: Flat, literals: tuple[str, ...]) -> list[exp.Expr]:
    inputs: dict[str, exp.Expr] = {}
    for expression in flat.expressions():
        for node in expression.find_all(exp.Anonymous):
            if is_aggregate(node):
                inputs |= {render(input_): input_ for input_ in read_call(node, literals).inputs}
    return list(inputs.values())


def _countable(call: Call, of_input: dict[str, SqlType]) -> Call:
    """COUNT of what kernels cannot read counts the tuples in which it is not NULL."""
    if call.function is not AggregateFunction.COUNT or of_input[render(call.inputs[0])].kind in _COUNTABLE:
        return call
    present = exp.Not(this=exp.Is(this=enclosed(call.inputs[0]), expression=exp.Null()))
    return Call(AggregateFunction.COUNT_ALL, (), both(call.filter, present))
