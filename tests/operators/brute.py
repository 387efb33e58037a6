"""A slow, obvious evaluator of shared aggregation: Python loops over tuples, queries and windows."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from headrace.model.predicate import And, Compare, Const, IsNull, Not, Op, Or, Predicate
from headrace.model.query import AggregateFunction as F
from headrace.model.query import Aggregation
from headrace.model.window import SessionWindow, Window

Row = dict[str, Any]


def truth(predicate: Predicate, row: Row) -> bool | None:
    match predicate:
        case Const(value):
            return value
        case IsNull(operand):
            return row[operand.sql] is None
        case Not(child):
            inner = truth(child, row)
            return None if inner is None else not inner
        case And(children):
            answers = [truth(child, row) for child in children]
            return False if False in answers else None if None in answers else True
        case Or(children):
            answers = [truth(child, row) for child in children]
            return True if True in answers else None if None in answers else False
        case Compare(operand, op, value):
            found = row[operand.sql]
            return None if found is None else compare(found, op, value)


def order(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def compare(found: Any, op: Op, value: Any) -> bool:
    if isinstance(value, float) or isinstance(found, float):
        found, value = float(found), float(value)
    left, right = order(found), order(value)
    return {
        Op.LT: left < right,
        Op.LE: left <= right,
        Op.GT: left > right,
        Op.GE: left >= right,
        Op.EQ: left == right,
    }[op]


def aggregate(function: F, values: list[Any], rows: int) -> Any:
    known = [value for value in values if value is not None]
    match function:
        case F.COUNT_ALL:
            return rows
        case F.COUNT:
            return len(known)
        case F.SUM:
            return sum(known) if known else None
        case F.AVG:
            return sum(known) / len(known) if known else None
        case F.MIN:
            return min(known, key=order) if known else None
        case F.MAX:
            return max(known, key=order) if known else None
    count = len(known)
    if count == 0 or (count == 1 and function in (F.VAR_SAMP, F.STDDEV_SAMP)):
        return None
    mean = math.fsum(known) / count
    spread = math.fsum((x - mean) ** 2 for x in known)
    variance = spread / (count - 1 if function in (F.VAR_SAMP, F.STDDEV_SAMP) else count)
    return math.sqrt(variance) if function in (F.STDDEV_POP, F.STDDEV_SAMP) else variance


def windows_of(
    body: Aggregation, epochs: list[tuple[list[Row], int, int]], first: int, last: int
) -> dict[tuple[Any, ...], list[Any]]:
    """{(start, end, keys..): aggregates} for a query active in epochs [first, last).

    Each epoch is (tuples, W(e-1), W(e)).
    """
    assert isinstance(body.window, Window)
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for rows, closed, _ in epochs[first:last]:
        for row in rows:
            if row["ts"] is None or truth(body.where, row) is not True:
                continue
            for start in body.window.starts_of(row["ts"]):
                end = start + body.window.range_us
                if end > closed:
                    keys = tuple(canonical(row[key.sql]) for key in body.keys)
                    groups[start, end, *keys].append(row)
    done = epochs[min(last, len(epochs)) - 1][2]
    return {group: _aggregates(body, rows) for group, rows in groups.items() if group[1] <= done}


def sessions_of(
    body: Aggregation, epochs: list[tuple[list[Row], int, int]], first: int, last: int
) -> list[tuple[tuple[Any, ...], list[Any]]]:
    """[((start, end, keys..), aggregates)] by playing the epochs one by one, tuple by tuple."""
    assert isinstance(body.window, SessionWindow)
    gap = body.window.gap_us
    done, sessions = [], defaultdict[tuple[Any, ...], list[tuple[int, int, list[Row]]]](list)
    for rows, closed, watermark in epochs[first:last]:
        for row in rows:
            if row["ts"] is None or truth(body.where, row) is not True or row["ts"] + gap <= closed:
                continue
            keys = tuple(canonical(row[key.sql]) for key in body.keys)
            start, end, held = row["ts"], row["ts"] + gap, [row]
            apart = []
            for other in sessions[keys]:
                if other[0] <= end and start <= other[1]:
                    start, end, held = min(start, other[0]), max(end, other[1]), held + other[2]
                else:
                    apart.append(other)
            sessions[keys] = [*apart, (start, end, held)]
        for keys, found in sessions.items():
            done += [((s, e, *keys), _aggregates(body, held)) for s, e, held in found if e <= watermark]
            sessions[keys] = [session for session in found if session[1] > watermark]
    return done


def _aggregates(body: Aggregation, rows: list[Row]) -> list[Any]:
    return [
        aggregate(a.function, [r[a.input.sql] for r in chosen] if a.input else [], len(chosen))
        for a in body.aggregates
        for chosen in [[r for r in rows if truth(a.filter, r) is True]]
    ]


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
