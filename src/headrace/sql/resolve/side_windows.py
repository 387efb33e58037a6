"""The windows of a join's sides: which are said to be equal, and where one stands for all.

Each side's window is a hidden column of its own (`__headrace_window0`, `__headrace_window1`), which an outer join may
leave NULL. The window of the joined row is never NULL.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headrace.model.query import WINDOW_COLUMN
from headrace.sql.bodies.windows import is_window_column, window_column, window_edge
from headrace.sql.resolve.columns import Item, Scope
from headrace.sql.resolve.functions import function_name

_FIRST_OF = ("coalesce", "nvl", "ifnull")


class Links:
    """Which sides the conditions say to be in the same window."""

    def __init__(self, count: int) -> None:
        self._group = list(range(count))

    def add(self, nodes: list[exp.Expr]) -> None:
        for node in nodes:
            pair = _equal_windows(node)
            groups = [] if pair is None else [{self._group[side] for side in sides} for sides in pair]
            if groups and all(len(group) == 1 for group in groups):
                old, new = (group.pop() for group in groups)
                self._group = [new if group == old else group for group in self._group]

    def joined(self, number: int) -> bool:
        return self._group[number] == self._group[0]


def _equal_windows(node: exp.Expr) -> tuple[frozenset[int], frozenset[int]] | None:
    """The sides of which `node` says that their windows are equal; several where one of theirs is taken."""
    if not isinstance(node, exp.EQ | exp.NullSafeEQ):
        return None
    left, right = node.this.unnest(), node.expression.unnest()
    if isinstance(left, exp.Dot) and isinstance(right, exp.Dot):
        edges = (left.expression.name.lower(), right.expression.name.lower())
        if edges not in (("start", "start"), ("end", "end")):
            return None
        left, right = left.this.unnest(), right.this.unnest()
    numbers = (_window_numbers(left), _window_numbers(right))
    return numbers if all(numbers) else None


def _window_numbers(node: exp.Expr) -> frozenset[int]:
    """The sides whose window, or the first of whose windows that is not NULL, `node` is."""
    parts = node.expressions if function_name(node) in _FIRST_OF else [node]
    numbers = [_window_number(part.unnest()) for part in parts]
    return frozenset() if None in numbers else frozenset(n for n in numbers if n is not None)


def _window_number(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Column) and node.name.startswith(WINDOW_COLUMN) and node.name != WINDOW_COLUMN:
        return int(node.name.removeprefix(WINDOW_COLUMN))
    return None


def is_of_window(node: exp.Expr) -> bool:
    return is_window_column(node.unnest()) or window_edge(node.unnest()) is not None


def is_same_window(node: exp.Expr) -> bool:
    """Whether `node` compares the query's window, or an edge of it, with itself."""
    inner = node.unnest()
    if not isinstance(inner, exp.EQ | exp.NullSafeEQ):
        return False
    left, right = inner.this.unnest(), inner.expression.unnest()
    return is_of_window(left) and left == right


def one_window(node: exp.Expr, sides: frozenset[int] | None) -> exp.Expr:
    """The windows of these sides (None: of all) as the one window of the join."""

    def step(found: exp.Expr) -> exp.Expr:
        number = _window_number(found)
        return window_column() if number is not None and (sides is None or number in sides) else found

    return node.copy().transform(step, copy=False)


def merged_windows(node: exp.Expr, sides: int) -> exp.Expr:
    """`node` with the window of the join in place of the first window of all its `sides` that is not NULL."""

    def step(found: exp.Expr) -> exp.Expr:
        if function_name(found) not in _FIRST_OF:
            return found
        parts = [part.unnest() for part in found.expressions]
        edges = {part.expression.name.lower() if isinstance(part, exp.Dot) else "" for part in parts}
        windows = [part.this.unnest() if isinstance(part, exp.Dot) else part for part in parts]
        if len(edges) != 1 or not all(map(_is_some_window, windows)):
            return found
        numbers = {_window_number(window) for window in windows}
        if not numbers & {None} and len(numbers) < sides:
            return found
        edge = edges.pop()
        return exp.Dot(this=window_column(), expression=exp.to_identifier(edge)) if edge else window_column()

    return node.copy().transform(step, copy=False)


def _is_some_window(node: exp.Expr) -> bool:
    return is_window_column(node) or _window_number(node) is not None


def one_window_scope(scope: Scope, sides: frozenset[int] | None) -> Scope:
    def item(found: Item) -> Item:
        return Item(found.name, one_window(found.node, sides))

    parts = tuple(replace(part, items=tuple(map(item, part.items))) for part in scope.parts)
    return Scope(None, tuple(map(item, scope.items)), parts)
