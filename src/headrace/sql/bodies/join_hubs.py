"""Which equalities of a join are its keys: classes of equal values, and hubs of sides that meet on one or several.

A hub connects sides that no hub before it has connected, so the hubs make a tree; often one hub has all sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.sql.bodies.calls import NotShared
from headrace.sql.resolve.columns import enclosed
from headrace.sql.resolve.joins import JoinOrigin
from headrace.sql.text.dialect import render

Equality = tuple[exp.Expr, exp.Expr]

_Class = dict[tuple[int, str], exp.Expr]
"""Values that are equal in every joined row, by (side, text)."""


@dataclass(frozen=True, slots=True)
class KeyHub:
    """A key of `sides`: `parts[i][side]` is what a side has of its i-th part, for all sides that have one."""

    sides: tuple[int, ...]
    parts: tuple[dict[int, exp.Expr], ...]


@dataclass(slots=True)
class Hubs:
    """What became of the equalities: keys, conditions on one side alone, and comparisons of each row."""

    hubs: list[KeyHub] = field(default_factory=list)
    own: list[tuple[int, exp.Expr]] = field(default_factory=list)
    compared: list[Equality] = field(default_factory=list)


def find_hubs(
    origin: JoinOrigin, equalities: Sequence[Equality], is_key: Callable[[list[exp.Expr]], bool]
) -> Hubs:
    """The keys that connect all sides; raises NotShared when there are none. `is_key` tells by the values' types."""
    found = Hubs()
    component = list(range(len(origin.sides)))
    possible, others = _composites(origin, equalities, is_key)
    found.compared += _checks(origin, equalities, others)
    for classes in possible:
        parts = [_by_side(members) for members in classes]
        first: dict[int, int] = {}
        for side in sorted(parts[0]):
            first.setdefault(component[side], side)
        if len(first) == 1:
            found.compared += _checks(origin, equalities, classes)
            continue
        for members, of_side in zip(classes, parts, strict=True):
            found.own += _repeated(members, of_side)
            for side in sorted(of_side.keys() - first.values()):
                found.compared.append((of_side[first[component[side]]], of_side[side]))
        found.hubs.append(KeyHub(tuple(sorted(first.values())), tuple(parts)))
        component = [min(first) if known in first else known for known in component]
    if len(set(component)) > 1:
        if not equalities:
            raise NotShared("a join without an equality has no shared form")
        raise NotShared("no equalities connect all streams of the join, or their types differ")
    return found


def _composites(
    origin: JoinOrigin, equalities: Sequence[Equality], is_key: Callable[[list[exp.Expr]], bool]
) -> tuple[list[list[_Class]], list[_Class]]:
    """(classes that can be a key, those over the same sides together and over most sides first; the other classes)."""
    found: dict[frozenset[int], list[_Class]] = {}
    others: list[_Class] = []
    for members in _classes(origin, equalities):
        if is_key(list(members.values())):
            found.setdefault(frozenset(side for side, _ in members), []).append(members)
        else:
            others.append(members)

    def place(sides: frozenset[int]) -> tuple[int, list[tuple[str, list[str]]], list[int]]:
        """However a query is written, the same keys come first where its streams differ."""
        texts = []
        for side in sides:
            over = origin.sides[side]
            nodes = [_by_side(members)[side] for members in found[sides]]
            texts.append((str(over.stream.name), sorted(render(over.over_stream(node)) for node in nodes)))
        return -len(sides), sorted(texts), sorted(sides)

    def part(members: _Class) -> list[tuple[str, str]]:
        """And the parts of a key are in the same order."""
        over = [(origin.sides[side], node) for side, node in _by_side(members).items()]
        return sorted((str(side.stream.name), render(side.over_stream(node))) for side, node in over)

    return [sorted(found[sides], key=part) for sides in sorted(found, key=place)], others


def _classes(origin: JoinOrigin, equalities: Iterable[Equality]) -> list[_Class]:
    classes: list[_Class] = []
    for pair in equalities:
        merged = {(_side(origin, node), render(node)): node for node in pair}
        rest = []
        for known in classes:
            if known.keys() & merged.keys():
                merged = known | merged
            else:
                rest.append(known)
        classes = [*rest, merged]
    return classes


def _checks(
    origin: JoinOrigin, equalities: Iterable[Equality], classes: Iterable[_Class]
) -> Iterable[Equality]:
    """The equalities of some classes, to be checked row by row."""
    for members in classes:
        yield from (pair for pair in equalities if (_side(origin, pair[0]), render(pair[0])) in members)


def _repeated(members: _Class, of_side: dict[int, exp.Expr]) -> Iterable[tuple[int, exp.Expr]]:
    """Values of one side that are equal by way of another are equal on their own side."""
    for (side, _), node in members.items():
        if node is not of_side[side]:
            yield side, exp.EQ(this=enclosed(of_side[side]), expression=enclosed(node))


def _by_side(members: _Class) -> dict[int, exp.Expr]:
    """The first value of each side."""
    found: dict[int, exp.Expr] = {}
    for (side, _), node in members.items():
        found.setdefault(side, node)
    return found


def _side(origin: JoinOrigin, node: exp.Expr) -> int:
    return min(origin.sides_in(node))
