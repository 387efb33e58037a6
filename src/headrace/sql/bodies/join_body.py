"""What a join means to shared operators: what it brings together, and what is asked of its rows.

Groups are an aggregation over carried values where kernels know all of it, else Spark SQL over stored rows, with the
reason. How an aggregation is then run is not decided here but in `planner/strategies`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.model.tables import WINDOW_EDGES
from headrace.model.types import Kind, SqlType
from headrace.sql.binding import AggregationShape, JoinedRowsShape, JoinShape
from headrace.sql.bodies.aggregates import plan_aggregation
from headrace.sql.bodies.calls import SHARED_FUNCTIONS, NotShared
from headrace.sql.bodies.join_conditions import JoinConditions, TypesOf, over_row
from headrace.sql.bodies.operands import OperandShape
from headrace.sql.bodies.predicates import Compiler
from headrace.sql.bodies.windows import is_window_column, window_edge
from headrace.sql.render.templates import Template
from headrace.sql.resolve.columns import Flat
from headrace.sql.resolve.functions import function_name, is_aggregate
from headrace.sql.resolve.joins import JoinOrigin
from headrace.sql.resolve.safety import cannot_raise, safe_kind
from headrace.sql.text.dialect import render

_ORDERLESS = SHARED_FUNCTIONS | {
    *("any", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "count", "count_if", "every", "some"),
    *(
        "corr",
        "covar_pop",
        "covar_samp",
        "kurtosis",
        "median",
        "percentile",
        "skewness",
        "try_avg",
        "try_sum",
    ),
}
"""Aggregates whose value does not hang on the order of their input."""


def plan_join(
    flat: Flat,
    origin: JoinOrigin,
    types_of: TypesOf,
    literals: tuple[str, ...],
    timezone: str,
) -> JoinShape:
    """The meaning of a join that shared operators can run; raises NotShared when they cannot."""
    if origin.outer:
        kind = next(side.kind for side in origin.sides if side.kind != "INNER")
        raise NotShared(f"{kind} JOIN has no shared form")
    if any(side.opaque for side in origin.sides):
        raise NotShared("a join of aggregations has no shared form")

    def finished(then: Callable[[JoinConditions], JoinedRowsShape | AggregationShape]) -> JoinShape:
        join = JoinConditions(flat, origin, types_of, literals, timezone)
        join.sort_conditions()
        hubs, sides, across = join.find_hubs(), join.sides(), join.across()
        called = join.called()
        last = then(join)
        return JoinShape(sides, hubs, tuple(join.carried.values()), across, last, called)

    if flat.group is None:
        return finished(_rows)
    try:
        return finished(_aggregation)
    except NotShared as reason:
        unshared = str(reason)
    return finished(lambda join: replace(_groups(join), unshared=unshared))


def _rows(join: JoinConditions) -> JoinedRowsShape:
    """The rows as they are, finished when they are read."""
    nodes = _finished(join, (item.node for item in join.flat.items))
    return JoinedRowsShape(_texts(nodes), _residual(join), None, None, _may_raise(join, nodes))


def _groups(join: JoinConditions) -> JoinedRowsShape:
    """The rows in groups that are made when they are read."""
    if join.flat.grouping_sets or join.flat.distinct:
        raise NotShared("grouping sets and DISTINCT over a join have no shared form")
    for call in (found for node in join.flat.expressions() for found in node.find_all(exp.Anonymous)):
        if is_aggregate(call) and function_name(call) not in _ORDERLESS:
            raise NotShared(f"{join.text(call)} may hang on the order of the joined rows")
    keys = [node for node in join.flat.group or () if not (is_window_column(node) or window_edge(node))]
    for key in keys:
        if not join.origin.sides_in(key) or any(map(is_window_column, key.find_all(exp.Column))):
            raise NotShared(f"the key {join.text(key)} is not computed from columns of the streams alone")
    finish, having = (
        _finished(join, nodes) for nodes in ((i.node for i in join.flat.items), join.flat.having)
    )
    found = _finished(join, keys)
    for node in (*finish, *having):
        _vouch(join, node)
    return JoinedRowsShape(
        _texts(finish),
        _residual(join),
        (*map(Template.of, WINDOW_EDGES.values()), *_texts(found)),
        _all_of(having),
        _may_raise(join, [*finish, *having, *found]),
    )


def _finished(join: JoinConditions, nodes: Iterable[exp.Expr]) -> list[exp.Expr]:
    """Expressions over stored rows, which carry what these ask for."""
    asked = list(nodes)
    join.carry_columns(asked)
    return [over_row(node) for node in asked]


def _residual(join: JoinConditions) -> Template | None:
    return _all_of(_finished(join, join.residual))


def _may_raise(join: JoinConditions, nodes: Iterable[exp.Expr]) -> bool:
    return join.raising is not None or any(
        node.find(exp.RegexpLike) or not cannot_raise(node, join.row, join.literals) for node in nodes
    )


def _vouch(join: JoinConditions, node: exp.Expr) -> None:
    """Mark the aggregates in `node` that no rows make fail."""
    for call in node.find_all(exp.Anonymous):
        if is_aggregate(call) and (kind := _aggregate_kind(join, call)) is not None:
            call.meta["harmless"] = kind
            outer = call.parent
            if isinstance(outer, exp.Filter) and cannot_raise(outer.expression.this, join.row, join.literals):
                outer.meta["harmless"] = kind


def _aggregate_kind(join: JoinConditions, call: exp.Anonymous) -> Kind | None:
    """The kind of an aggregate's value; None when it may fail: sums of BIGINT and decimals overflow."""
    inputs = [
        part for a in call.expressions for part in (a.expressions if isinstance(a, exp.Distinct) else [a])
    ]
    kinds = [
        Kind.INTEGER if isinstance(node, exp.Star) else safe_kind(node, join.row, join.literals)
        for node in inputs
    ]
    name = function_name(call)
    if None in kinds or any(node.find(exp.RegexpLike) for node in inputs):
        return None
    if name in ("count", "count_if"):
        return Kind.INTEGER
    if name in ("min", "max"):
        return kinds[0]
    if name == "sum" and kinds[0] is Kind.INTEGER:
        narrow = isinstance(inputs[0], exp.Column) and join.row.column(inputs[0].name).type.name != "bigint"
        return Kind.INTEGER if narrow else None
    return Kind.FLOATING if name in SHARED_FUNCTIONS and kinds[0] in (Kind.INTEGER, Kind.FLOATING) else None


def _aggregation(join: JoinConditions) -> AggregationShape:
    """An aggregation of the joined rows, over values that each are of one side."""
    if join.residual:
        raise NotShared(f"no kernel decides {join.text(join.residual[0])}")
    compiler = Compiler(join.origin.stream, join.literals, join.timezone, render)

    def operand(node: exp.Expr, type_: SqlType, condition: exp.Expr | None) -> OperandShape:
        if len(join.origin.sides_in(node)) != 1:
            raise NotShared(f"{join.text(node)} is computed from more than one side")
        place = join.carry(node, type_)
        carried = list(join.carried.values())[place]
        return OperandShape(Template.of(carried.name), type_, plain=True)

    def guarded(condition: exp.Expr) -> exp.Expr:
        if not compiler.only_atoms(condition):
            raise NotShared(f"FILTER (WHERE {join.text(condition)}) over a join has no shared form")
        join.carry_columns([condition])
        return condition

    return plan_aggregation(replace(join.flat, where=()), join.types_of, operand, guarded, join.literals)


def _texts(nodes: Iterable[exp.Expr]) -> tuple[Template, ...]:
    return tuple(Template.of(render(node)) for node in nodes)


def _all_of(nodes: Sequence[exp.Expr]) -> Template | None:
    return Template.of(" AND ".join(f"({render(node)})" for node in nodes)) if nodes else None
