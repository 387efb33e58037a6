"""EXPLAIN: the same plan objects the engine runs, as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from headrace.model.blocks import BLOCKS, EVERY_BLOCK, ONE_BLOCK
from headrace.model.plan import (
    AggregatingOperator,
    AggregationOperator,
    Family,
    GroupingOperator,
    InputRole,
    JoinOperator,
    JoinStep,
    OperandIndex,
    Operator,
    ScanPath,
    SelectionOperator,
    SessionOperator,
    SharedPlan,
)
from headrace.model.predicate import TRUE, And, Compare, Const, IsNull, Not, Or, Predicate
from headrace.model.query import Aggregation, Fallback, Join, Projection, Query
from headrace.model.strategy import Choice, Strategy
from headrace.model.ways import FamilyWay, input_role
from headrace.model.window import AnyWindow, SessionWindow, Window

SHOWN = 8


def explain_plan(plan: SharedPlan, ways: Sequence[FamilyWay] = ()) -> str:
    """What a group shares: operators, families, windows, lanes, and what is not shared and why.

    `ways` says how running tasks found the queries of tuples.
    """
    lines = [
        f"shared plan {plan.version}: {len(plan.operators)} operators, {len(plan.fallbacks)} on their own"
    ]
    for operator in plan.operators:
        lines += _operator_lines(operator, ways)
    for fallback in plan.fallbacks:
        lines.append(
            f"  plain Spark: query {fallback.query} on {', '.join(fallback.streams)}: {fallback.reason}"
        )
    return "\n".join(lines)


def explain_query(
    query: Query, plan: SharedPlan | None, choice: Choice, ways: Sequence[FamilyWay] = ()
) -> str:
    """How one query is run and why, what else was considered, with whom it shares, and the plain Spark SQL it equals.

    `plan` and `choice` are those that its group runs; without a plan, the query runs in no group. `ways` says how
    running tasks found the queries of tuples.
    """
    word = "stream" if len(query.plan.streams) == 1 else "streams"
    lines = [f"query {query.name} on {word} {', '.join(query.plan.streams)}"]
    lines += ["plain Spark SQL:", *(f"  {line}" for line in query.plan.plain_sql.splitlines())]
    match query.plan.body:
        case Aggregation() as body:
            session = isinstance(body.window, SessionWindow)
            kind = "session" if session else "windowed"
            lines.append(f"shared {kind} aggregation, {render_window(body.window)}")
            keys, *aggregates = _aggregation_lines(body)
            lines += [keys, f"  where: {render_predicate(body.where)}", *aggregates]
        case Projection() as body:
            lines.append("shared selection: each accepted tuple is stored once with its query-set")
            lines.append(f"  where: {render_predicate(body.where)}")
        case Join() as body:
            lines += _join_query_lines(body, choice.strategy)
        case Fallback(reason, window):
            lines.append(f"not shared: {reason}")
            lines.append(f"  runs as plain Spark SQL over the log, {_when(window)}")
        case never:
            assert_never(never)
    lines += choice_lines(choice)
    mine = [o for o in plan.operators if query.id in queries_of(o)] if plan else []
    for operator in mine:
        others = len(queries_of(operator)) - 1
        lines.append(f"runs in operator {operator.id} with {others} other queries:")
        lines += _operator_lines(operator, ways)[1:]
    if plan is not None and not mine and not isinstance(query.plan.body, Fallback):
        lines.append("not active in the current epoch")
    return "\n".join(lines)


def _aggregation_lines(body: Aggregation) -> list[str]:
    session = isinstance(body.window, SessionWindow)
    nothing = "none (one group)" if session else "none (one group per window)"
    lines = ["  keys: " + (", ".join(key.sql for key in body.keys) or nothing)]
    for aggregate in body.aggregates:
        what = aggregate.input.sql if aggregate.input else "*"
        only = "" if aggregate.filter == Const(True) else f" where {render_predicate(aggregate.filter)}"
        lines.append(f"  {aggregate.function.value}({what}){only}: {aggregate.type.name}")
    return lines


def choice_lines(choice: Choice) -> list[str]:
    """Why a query runs as it does, and every other strategy with the reason against it."""
    rejected = [f"  not {other.strategy.value}: {other.reason}" for other in choice.rejected]
    return [f"strategy: {choice.strategy.value}", f"  because {choice.reason}", *rejected]


_JOINS = {
    Strategy.JOINED_ROWS: "shared join: each joined row is stored once with its query-set",
    Strategy.READ_GROUPS: "shared join: each joined row is stored once with its query-set",
    Strategy.JOINED_GROUPS: "shared join feeding a shared aggregation: joined rows are grouped in the same job, "
    "not stored",
    Strategy.PRODUCT: "shared aggregation of a join by its key: a product of the streams' aggregations, nothing is "
    "joined",
}


def _join_query_lines(body: Join, strategy: Strategy) -> list[str]:
    lines = [_JOINS[strategy]]
    if isinstance(body.then, Aggregation):
        lines += _aggregation_lines(body.then)
    else:
        if body.then.where is not None:
            lines.append(f"  when rows are read: where {body.then.where}")
        if body.then.groups is not None:
            lines.append(f"  when rows are read: grouped by {', '.join(body.then.groups)}")
    for number, side in enumerate(body.sides):
        lines.append(f"  {side.stream}, {render_window(side.window)}")
        for key in body.keys_of(number):
            lines.append(f"    key: {', '.join(_BLOCKS.get(part, part.sql) for part in key)}")
        lines.append(f"    where: {render_predicate(side.where)}")
    for hub in body.hubs if len(body.hubs) > 1 else ():
        met = zip(hub.sides, hub.keys, strict=True)
        texts = (f"{body.sides[side].stream} ({', '.join(part.sql for part in key)})" for side, key in met)
        lines.append(f"  meet on one key: {' = '.join(texts)}")
    for across in body.across:
        left, right = body.carried[across.left].name, body.carried[across.right].name
        lines.append(f"  across: {left} {across.op.value} {right}")
    if body.called != TRUE:
        lines.append(f"  decided last, by calls: {render_predicate(body.called)}")
    return lines


_BLOCKS = {
    EVERY_BLOCK: f"none; each tuple is in all of {BLOCKS} blocks",
    ONE_BLOCK: "none; each tuple is in one block",
}


def _when(window: AnyWindow | None) -> str:
    match window:
        case None:
            return "per epoch"
        case SessionWindow():
            return (
                f"when a session closes, {render_window(window)}; reads the log from the query's first epoch"
            )
        case Window():
            return f"when a window closes, {render_window(window)}"
        case never:
            assert_never(never)


def queries_of(operator: Operator) -> frozenset[int]:
    return frozenset(operator.queries)


_KINDS: dict[type[Operator], str] = {
    AggregationOperator: "windowed aggregation",
    GroupingOperator: "aggregation",
    SessionOperator: "session aggregation",
    SelectionOperator: "selection",
}


def _operator_lines(operator: Operator, every: Sequence[FamilyWay]) -> list[str]:
    ways = [way for way in every if way.operator == operator.id]
    if isinstance(operator, JoinOperator):
        return _join_lines(operator, ways)
    kind = _KINDS[type(operator)]
    lines = [f"  {operator.id}: shared {kind} of {operator.stream} for {len(queries_of(operator))} queries"]
    if isinstance(operator, GroupingOperator):
        slides = _some(dict.fromkeys(_seconds(window.slide_us) for window in operator.windows))
        lines.append(f"    fed by {operator.join}, once per query and window that holds a row")
        lines.append(f"    keys: {len(operator.keys) or 'none'}")
        lines.append(f"    windows end every: {slides}")
        return [*lines, _lane_line(operator), *_family_lines(operator.families, operator.operands, ways)]
    lines.append(f"    scan: {_SCANS[operator.path]}, columns {_some(o.sql for o in operator.scanned)}")
    if isinstance(operator, AggregationOperator) and operator.product is not None:
        lines.append(f"    its rows are factors of {operator.product}")
    if not isinstance(operator, SelectionOperator):
        lines.append(f"    keys: {_some(key.sql for key in operator.keys) or 'none'}")
        word, found = (
            ("windows", operator.windows)
            if isinstance(operator, AggregationOperator)
            else ("sessions", operator.gaps)
        )
        lines.append(f"    {word}: {len(found)}: {_some(map(render_window, found))}")
        lines.append(_lane_line(operator))
    return lines + _family_lines(operator.families, operator.operands, ways)


def _lane_line(operator: AggregatingOperator) -> str:
    return f"    lanes: {_some(f'{lane.name} with {len(lane.columns)} entries' for lane in operator.lanes)}"


def _join_lines(operator: JoinOperator, ways: Sequence[FamilyWay]) -> list[str]:
    streams = ", ".join(operator.clock)
    lines = [f"  {operator.id}: shared join of {streams} for {len(operator.queries)} queries"]
    for number, input_ in enumerate(operator.inputs):
        lines.append(
            f"    input {number}: {input_.stream} by {_some(key.sql for key in input_.keys)}, "
            f"each tuple routed and kept once for {len(input_.filters)} filters"
        )
        lines.append(f"    scan: {_SCANS[input_.path]}, columns {_some(o.sql for o in input_.scanned)}")
        lines += _family_lines(input_.families, input_.operands, ways)
    for chain in operator.chains[:SHOWN]:
        names = ", ".join(" >< ".join(map(_input_role, hub.inputs)) for hub in chain.hubs)
        windows = {query.windows for query in chain.queries}
        fed = "" if chain.feeds is None else f", fed to {chain.feeds}"
        lines.append(f"    chain {names}: {len(chain.queries)} queries with {len(windows)} windows{fed}")
        if len(chain.hubs) > 1:
            lines += [_order_line(chain.order(start)) for start in range(len(chain.leaves))]
    if len(operator.chains) > SHOWN:
        lines.append(f"    and {len(operator.chains) - SHOWN} more chains")
    lines += [f"    partners of input {way.operands[0]} found by {way}" for way in ways if way.is_of_join]
    return lines


def _order_line(order: Sequence[JoinStep]) -> str:
    """From whose new tuples rows go where: `then by` is another key, and another stage."""
    text = f"      new tuples of {_input_role(order[0].met)}"
    for step in order[1:]:
        text += "" if step.hop is None else f", then by the key of {_input_role(step.hop[1])}"
        text += f" >< {_input_role(step.met)}"
    return text


def _input_role(met: InputRole) -> str:
    return input_role(met.input, met.role)


def _family_lines(
    families: Sequence[Family], operands: Sequence[OperandIndex], ways: Sequence[FamilyWay]
) -> list[str]:
    lines = []
    for family in families[:SHOWN]:
        names = [operands[i] for i in family.operands]
        index = ", ".join(f"{i.operand.sql} ({len(i.constants)} constants)" for i in names) or "no predicate"
        lines.append(f"    family on {index}: {len(family.columns)} filters")
        reads = tuple(i.operand.sql for i in names)
        mine = [
            way
            for way in ways
            if not way.is_of_join and way.operands == reads and way.filters <= len(family.columns)
        ]
        lines += [f"      found by {way}" for way in mine]
    if len(families) > SHOWN:
        lines.append(f"    and {len(families) - SHOWN} more families")
    return lines


_SCANS = {
    ScanPath.FAST: "fast (pyarrow reads the columns)",
    ScanPath.CATALYST: "Catalyst (Spark evaluates first)",
}


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f", and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def render_window(window: AnyWindow) -> str:
    """A window in words.

    >>> render_window(Window(10_000_000, 5_000_000)), render_window(SessionWindow(5_000_000))
    ('range 10 s slide 5 s', 'gap 5 s')
    """
    if isinstance(window, SessionWindow):
        return f"gap {_seconds(window.gap_us)}"
    text = f"range {_seconds(window.range_us)} slide {_seconds(window.slide_us)}"
    return text + (f" offset {_seconds(window.offset_us)}" if window.offset_us else "")


def _seconds(micros: int) -> str:
    return f"{micros / 1_000_000:g} s"


def render_predicate(predicate: Predicate) -> str:
    """A predicate tree as text, with constants in the operand's physical domain.

    >>> render_predicate(Not(Const(None)))
    'NOT (NULL)'
    """
    match predicate:
        case Compare(operand, op, value):
            return f"{operand.sql} {op.value} {value!r}"
        case IsNull(operand):
            return f"{operand.sql} IS NULL"
        case Const(value):
            return "NULL" if value is None else str(value).upper()
        case And(children):
            return " AND ".join(f"({render_predicate(child)})" for child in children)
        case Or(children):
            return " OR ".join(f"({render_predicate(child)})" for child in children)
        case Not(child):
            return f"NOT ({render_predicate(child)})"
        case never:
            assert_never(never)
