"""A slow, obvious evaluator of shared aggregation: Python loops over tuples, queries and windows."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from headrace.model.lanes import keeps_values
from headrace.model.predicate import And, Compare, Const, IsNull, Not, Op, Operand, Or, Predicate
from headrace.model.query import Aggregate, Aggregation
from headrace.model.query import AggregateFunction as F
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


def normal(value: Any) -> Any:
    """What Spark's DISTINCT tells apart: one NaN, one zero."""
    if isinstance(value, tuple):
        return tuple(map(normal, value))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def row_order(row: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(part is not None, 0 if part is None else order(part)) for part in row]


def percentile(known: list[Any], fraction: float) -> float | None:
    if not known:
        return None
    known = sorted(known, key=order)
    place = (len(known) - 1) * fraction
    low, high = known[math.floor(place)], known[math.ceil(place)]
    if low == high:
        return float(low)
    return float(low) + (place - math.floor(place)) * (float(high) - float(low))


def distinct(values: list[Any]) -> list[Any]:
    return list({normal(value): value for value in values}.values())


def over_values(one: Aggregate, values: list[Any]) -> Any:
    """The functions that ask for all values of a group."""
    whole = [v for v in values if not (v is None or (isinstance(v, tuple) and None in v))]
    match one.function:
        case F.MIN_BY | F.MAX_BY:
            rows = [row for row in values if row[0] is not None]
            pick = min if one.function is F.MIN_BY else max
            return pick(rows, key=row_order)[1] if rows else None
        case F.COUNT_DISTINCT:
            return len(distinct(whole))
        case F.SUM_DISTINCT:
            return sum(distinct(whole)) if whole else None
        case F.AVG_DISTINCT:
            return sum(distinct(whole)) / len(distinct(whole)) if whole else None
        case F.COLLECT_SET:
            return sorted(distinct(whole), key=order)
        case F.PERCENTILE if one.type.name == "double":
            return percentile(whole, one.fractions[0])
    return [percentile(whole, fraction) for fraction in one.fractions] if whole else None


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
    found = []
    for one in body.aggregates:
        chosen = [r for r in rows if truth(one.filter, r) is True]
        values = [read(one.input, row) for row in chosen] if one.input else []
        by_values = one.function in (F.MIN_BY, F.MAX_BY) or keeps_values(one.function)
        found.append(over_values(one, values) if by_values else aggregate(one.function, values, len(chosen)))
    return found


def read(operand: Operand, row: Row) -> Any:
    return tuple(row[part.sql] for part in operand.parts) if operand.parts else row[operand.sql]


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
