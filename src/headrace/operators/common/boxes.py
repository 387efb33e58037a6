"""Boxes: a predicate as a few products of sets of regions, one set per operand, of which a tuple is in one at most.

`country = 'DE' AND price > 9` is one box. `a > 3 OR b = 5` is two: `a > 3`, and `b = 5` where `a > 3` is not TRUE. A
tuple is in a box when each operand's region is in the box's set, so boxes need no logic of their own, and NULL has
been thought of already: it is a region.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from headrace.model.partitioning import Ranges, intersect_ranges
from headrace.model.plan import OperandIndex
from headrace.model.predicate import And, Compare, Const, IsNull, Not, Op, Operand, Or, Predicate, Value
from headrace.operators.common.arrays import Ints
from headrace.operators.common.regions import region_count

MOST_BOXES = 16
"""A predicate that needs more boxes has none: cells decide it."""

Box = Mapping[Operand, Ranges]
"""A set of regions, as ranges, for each operand that matters; none of them is empty."""


def union(parts: Iterable[tuple[int, int]]) -> Ranges:
    """The regions of any of these ranges.

    >>> union([(4, 6), (0, 2), (2, 3)])
    ((0, 3), (4, 6))
    """
    found: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        elif low < high:
            found.append((low, high))
    return tuple(found)


def complement(ranges: Ranges, count: int) -> Ranges:
    """The other regions of an operand that has `count` of them.

    >>> complement(((2, 3),), 4)
    ((0, 2), (3, 4))
    """
    edges = [0, *(edge for part in ranges for edge in part), count]
    return tuple((low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high)


class BoxMaker:
    """Makes boxes of the predicates over some operands."""

    def __init__(self, indexes: Sequence[OperandIndex]) -> None:
        self._counts = {index.operand: region_count(index) for index in indexes}
        self._places = {
            index.operand: {_known(value): i for i, value in enumerate(index.constants)} for index in indexes
        }

    def boxes(self, predicate: Predicate) -> list[Box] | None:
        """Where the predicate is TRUE; None when that takes more than MOST_BOXES boxes."""
        return self._boxes(predicate, wanted=True)

    def _boxes(self, predicate: Predicate, wanted: bool) -> list[Box] | None:
        """Where the predicate is TRUE, or FALSE, as wanted: NULL is neither."""
        match predicate:
            case Const(value):
                return [{}] if value is wanted else []
            case Not(child):
                return self._boxes(child, not wanted)
            case IsNull(operand):
                null = ((self._counts[operand] - 1, self._counts[operand]),)
                return [{operand: null if wanted else complement(null, self._counts[operand])}]
            case Compare(operand, op, value):
                ranges = self._compared(operand, op, value, wanted)
                return [{operand: ranges}] if ranges else []
            case And(children) | Or(children):
                both = isinstance(predicate, And) is wanted
                found = [self._boxes(child, wanted) for child in children]
                known = [boxes for boxes in found if boxes is not None]
                if len(known) < len(found):
                    return None
                return self._products(known) if both else self._disjoint(known)
            case never:
                assert_never(never)

    def _compared(self, operand: Operand, op: Op, value: Value, wanted: bool) -> Ranges:
        at, known = 2 * self._places[operand][_known(value)] + 1, self._counts[operand] - 1
        match op:
            case Op.EQ:
                low, high = at, at + 1
            case Op.LT:
                low, high = 0, at
            case Op.LE:
                low, high = 0, at + 1
            case Op.GT:
                low, high = at + 1, known
            case Op.GE:
                low, high = at, known
            case never:
                assert_never(never)
        return union([(low, high)]) if wanted else complement(((low, high),), known)

    def _products(self, parts: Sequence[list[Box]]) -> list[Box] | None:
        """Where one box of each part is: boxes that did not overlap do not overlap now."""
        found: list[Box] = [{}]
        for boxes in sorted(parts, key=len):
            met = [_meet(one, other) for one in found for other in boxes]
            found = [box for box in met if box is not None]
            if len(found) > MOST_BOXES:
                return None
        return found

    def _disjoint(self, parts: Sequence[list[Box]]) -> list[Box] | None:
        """Where any box is, without overlaps. What reads one operand is put together first: most of what OR joins."""
        single: dict[Operand, list[tuple[int, int]]] = {}
        rest: list[Box] = []
        for box in (box for boxes in parts for box in boxes):
            if len(box) == 1:
                ((operand, ranges),) = box.items()
                single.setdefault(operand, []).extend(ranges)
            else:
                rest.append(box)
        found: list[Box] = []
        for box in [*({operand: union(ranges)} for operand, ranges in single.items()), *rest]:
            pieces = [box]
            for other in found:
                pieces = [left for piece in pieces for left in self._without(piece, other)]
            found.extend(pieces)
            if len(found) > MOST_BOXES:
                return None
        return found

    def _without(self, box: Box, other: Box) -> list[Box]:
        """What is left of a box, in pieces that do not overlap."""
        if _meet(box, other) is None:
            return [box]
        pieces, inside = [], box
        for operand, ranges in other.items():
            outside = _meet(inside, {operand: complement(ranges, self._counts[operand])})
            if outside is not None:
                pieces.append(outside)
            met = _meet(inside, {operand: ranges})
            assert met is not None, "boxes meet in every operand"
            inside = met
        return pieces


def _known(value: Value) -> Value | None:
    """A constant as a key: NaN equals nothing, itself included."""
    return None if value != value else value


def _meet(left: Box, right: Box) -> Box | None:
    """The box inside of both; None when there is none."""
    found = dict(left)
    for operand, ranges in right.items():
        met = intersect_ranges(found[operand], ranges) if operand in found else ranges
        if not met:
            return None
        found[operand] = met
    return found


@dataclass(frozen=True, slots=True)
class BoxTable:
    """The boxes of a family as arrays. Box b has `counts[b, o]` ranges of operand o, from `bounds[b, o]` on.

    Ranges are in codes: the regions of all operands one after the other, operand o's from `offsets[o]` on. `column[b]`
    is the position in the family of the query that the box is of; there are so many `queries`.
    """

    queries: int
    offsets: Ints
    column: Ints
    bounds: Ints
    counts: Ints
    lows: Ints
    highs: Ints

    @property
    def boxes(self) -> int:
        return len(self.column)

    @property
    def operands(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(indexes: Sequence[OperandIndex], found: Sequence[Sequence[Box]]) -> BoxTable:
        """The table of the boxes that each query of a family has."""
        offsets = np.append(0, np.cumsum([region_count(index) for index in indexes])).astype(np.int64)
        everything = [((0, region_count(index)),) for index in indexes]
        column, counts, lows, highs = [], [], [], []
        for position, boxes in enumerate(found):
            for box in boxes:
                column.append(position)
                for index, every, offset in zip(indexes, everything, offsets.tolist(), strict=False):
                    ranges = box.get(index.operand, every)
                    counts.append(len(ranges))
                    lows += [low + offset for low, _ in ranges]
                    highs += [high + offset for _, high in ranges]
        sizes = np.array(counts, np.int64).reshape(len(column), len(indexes))
        ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)
        return BoxTable(
            len(found),
            offsets,
            np.array(column, np.int64),
            ends - sizes,
            sizes,
            np.array(lows, np.int32),
            np.array(highs, np.int32),
        )

    def weights(self, tuples: Ints) -> Ints:
        """[box, operand]: how many tuples are in each box's set of each operand, given the tuples of each code."""
        before = np.append(0, np.cumsum(tuples))
        inside = np.append(0, np.cumsum(before[self.highs] - before[self.lows]))
        return inside[self.bounds + self.counts] - inside[self.bounds]
