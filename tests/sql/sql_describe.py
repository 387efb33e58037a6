"""Plans as a few readable lines, for goldens and assertions."""

from __future__ import annotations

from headrace.model.predicate import And, Compare, Const, IsNull, Not, Operand, Or, Predicate
from headrace.model.query import Aggregate, Aggregation, Body, Fallback, Join, JoinedRows, Projection
from headrace.model.window import AnyWindow, SessionWindow
from headrace.planner.strategies import product_obstacle
from headrace.sql.bodies.windows import render_window_arguments


def describe(body: Body) -> str:
    match body:
        case Aggregation():
            lines = [
                f"aggregation by {_window(body.window)}",
                f"where {show(body.where)}",
                *(f"k{i} = {_operand(key)}" for i, key in enumerate(body.keys)),
                *(f"a{i} = {_aggregate(aggregate)}" for i, aggregate in enumerate(body.aggregates)),
                *(f"finish {text}" for text in body.finish),
            ]
            return "\n".join(lines + ([f"having {body.having}"] if body.having else []))
        case Projection():
            return "\n".join([f"projection where {show(body.where)}", *map(_operand, body.outputs)])
        case Join():
            return "\n".join(_join(body))
        case Fallback():
            per = "epoch" if body.window is None else _window(body.window)
            return f"fallback per {per}: {body.reason}"


def _join(body: Join) -> list[str]:
    lines = []
    for number, side in enumerate(body.sides):
        keys = " and on ".join(", ".join(map(_operand, key)) for key in body.keys_of(number))
        lines.append(f"join {side.stream} by {_window(side.window)} on {keys} where {show(side.where)}")
    for hub in body.hubs if len(body.hubs) > 1 else ():
        met = zip(hub.sides, hub.keys, strict=True)
        lines.append("meet " + " = ".join(f"{side}({', '.join(map(_operand, key))})" for side, key in met))
    for across in body.across:
        left, right = body.carried[across.left], body.carried[across.right]
        lines.append(f"across {left.name} {across.op.value} {right.name}")
    if isinstance(body.then, JoinedRows):
        read = body.then
        lines += [f"read where {read.where}"] if read.where else []
        lines += [f"read by {', '.join(read.groups)}"] if read.groups else []
        lines += [f"read because {read.unshared}"] if read.unshared else []
        lines += [f"read having {read.having}"] if read.having else []
        return [*lines, *(f"read {text}" for text in read.finish), *(["fragile"] if read.fragile else [])]
    obstacle = product_obstacle(body)
    product = "a product is possible" if obstacle is None else f"no product: {obstacle}"
    fragile = ["fragile"] if body.then.fragile else []
    return [*lines, product, *describe(body.then).splitlines(), *fragile]


def _window(window: AnyWindow) -> str:
    name = "session_window" if isinstance(window, SessionWindow) else "window"
    return f"{name}({render_window_arguments(window)})"


def show(predicate: Predicate) -> str:
    match predicate:
        case Compare(operand, op, value):
            return f"{_name(operand)} {op.value} {value!r}"
        case IsNull(operand):
            return f"{_name(operand)} is null"
        case Const(value):
            return str(value)
        case And(children):
            return "(" + " and ".join(map(show, children)) + ")"
        case Or(children):
            return "(" + " or ".join(map(show, children)) + ")"
        case Not(child):
            return f"not {show(child)}"


def _name(operand: Operand) -> str:
    return operand.sql if operand.plain else "{" + operand.sql + "}"


def _operand(operand: Operand) -> str:
    return f"{_name(operand)}: {operand.type.name}"


def _aggregate(aggregate: Aggregate) -> str:
    inner = "" if aggregate.input is None else _operand(aggregate.input)
    filtered = "" if aggregate.filter == Const(True) else f" filter {show(aggregate.filter)}"
    fractions = "".join(f", {fraction}" for fraction in aggregate.fractions)
    return f"{aggregate.function.value}({inner}{fractions}): {aggregate.type.name}{filtered}"
