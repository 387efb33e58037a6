"""Multisets of rows compared as the audit compares them: exactly, but floats within a tolerance."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Row = tuple[Any, ...]
TOLERANCE = 1e-9


def compare_rows(
    expected: Iterable[Row], actual: Iterable[Row], noise: float = 0.0
) -> tuple[list[Row], list[Row]]:
    """(rows that are missing, rows that are unexpected). Linear when all is well.

    Floats may also differ by `noise`, whatever their size.

    >>> compare_rows([(1, 2.0), (1, 2.0)], [(1, 2.0 + 1e-12), (2, 2.0)])
    ([(1, 2.0)], [(2, 2.0)])
    >>> compare_rows([(1, 0.0)], [(1, -1.8e-17)], noise=1e-12)
    ([], [])
    """
    wanted, found = _group(expected), _group(actual)
    missing: list[Row] = []
    unexpected: list[Row] = []
    for key in wanted.keys() | found.keys():
        left, right = wanted.get(key, []), found.get(key, [])
        lost, extra = _match(*_merge(left, right, noise), noise)
        missing += lost
        unexpected += extra
    return missing, unexpected


def _group(rows: Iterable[Row]) -> dict[Row, list[Row]]:
    """Rows by what must be equal to the letter; inside a group, ordered by their floats."""
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(_exact(value) for value in row)].append(row)
    for group in groups.values():
        if len(group) > 1:
            group.sort(key=_place)
    return groups


def _exact(value: Any) -> Any:
    match value:
        case float():
            return "float"
        case dict():
            return tuple((name, _exact(inner)) for name, inner in value.items())
        case list() | tuple():
            return tuple(map(_exact, value))
        case _:
            return value


def _floats(value: Any) -> Iterator[float]:
    match value:
        case float():
            yield value
        case dict():
            yield from _floats(tuple(value.values()))
        case list() | tuple():
            for inner in value:
                yield from _floats(inner)


def _order(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def same_row(left: Row, right: Row, noise: float = 0.0) -> bool:
    return all(same_value(a, b, noise) for a, b in zip(left, right, strict=True))


def same_value(left: Any, right: Any, noise: float = 0.0) -> bool:
    """Equal, or floats within the relative tolerance or `noise`; NaN equals NaN. Structs, maps and arrays by their
    parts.

    >>> same_value({"x": [0.1 + 0.2, None]}, {"x": [0.3, None]}), same_value([1.0], [1.0, 2.0])
    (True, False)
    """
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=noise)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            same_value(left[name], right[name], noise) for name in left
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(
            same_value(a, b, noise) for a, b in zip(left, right, strict=True)
        )
    return bool(left == right)


def _merge(left: Sequence[Row], right: Sequence[Row], noise: float) -> tuple[list[Row], list[Row]]:
    """What is left of each side when rows that meet in order are struck out."""
    lost, extra, r = [], [], 0
    for row in left:
        while r < len(right) and not same_row(row, right[r], noise) and _place(right[r]) < _place(row):
            extra.append(right[r])
            r += 1
        if r < len(right) and same_row(row, right[r], noise):
            r += 1
        else:
            lost.append(row)
    return lost, [*extra, *right[r:]]


def _place(row: Row) -> list[tuple[bool, float]]:
    return [_order(value) for value in _floats(row)]


def _match(left: Sequence[Row], right: Sequence[Row], noise: float) -> tuple[list[Row], list[Row]]:
    """The same in any order: rounding may have put rows of several floats in another."""
    rest = list(right)
    lost = []
    for row in left:
        for i, other in enumerate(rest):
            if same_row(row, other, noise):
                del rest[i]
                break
        else:
            lost.append(row)
    return lost, rest
