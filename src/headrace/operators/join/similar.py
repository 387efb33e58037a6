"""A quick look at scores: blocks of rows and tuples are multiplied once for all queries, before anything is paired.

Pairs whose score cannot reach the lowest bound that any query has are never made. What is left is scored exactly
(`called`), so the look may be rough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from headrace.model.plan import JoinedQuery, at_position
from headrace.model.predicate import And, Compare, Op, Operand, Predicate
from headrace.operators.common.arrays import Bools, Ints
from headrace.operators.common.scores import SCORES, Directions, directions, may_reach
from headrace.operators.join.logic import Step
from headrace.operators.join.partners import MayScore
from headrace.operators.join.prefix import Prefix
from headrace.operators.join.side import Held, Stock


@dataclass(frozen=True, slots=True)
class Bound:
    """No query wants pairs of these operands with a lower score. `earlier` is of the position that rows have."""

    function: str
    earlier: tuple[int, Operand]
    later: Operand
    at_least: float


def score_bounds(step: Step) -> tuple[Bound, ...]:
    """The lowest scores that queries of a step ask for; nothing when some query takes any.

    Scores of a tuple that is joined at a later step are no concern of this one.
    """
    before = {earlier.position for earlier in step.before}
    lowest: dict[tuple[str, tuple[int, Operand], Operand], float] = {}
    for query in step.queries:
        found = next(_bounds(query, step.position, before), None)
        if found is None:
            return ()
        of = (found.function, found.earlier, found.later)
        lowest[of] = min(found.at_least, lowest.get(of, found.at_least))
    return tuple(Bound(*of, at_least) for of, at_least in lowest.items())


def _bounds(query: JoinedQuery, position: int, before: set[int]) -> Iterator[Bound]:
    named = {at_position(*one): one for one in query.called_with}
    for atom in _conjuncts(query.called):
        match atom:
            case Compare(Operand(function=function, arguments=(left, right)), Op.GT | Op.GE, float(value)):
                if function in SCORES and left in named and right in named:
                    one, other = named[left], named[right]
                    if one[0] == position:
                        one, other = other, one
                    if other[0] == position and one[0] in before:
                        yield Bound(function, one, other[1], value)


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for child in predicate.children:
            yield from _conjuncts(child)
    else:
        yield predicate


@dataclass(slots=True)
class Looks:
    """The directions of the vectors that stocks hold, each worked out once."""

    _known: dict[tuple[int, Operand], tuple[Held, Directions]] = field(default_factory=dict)

    def may_score(self, bounds: tuple[Bound, ...], prefix: Prefix, stock: Stock) -> MayScore:
        """Which pairs of rows and tuples of a stock some query may want."""
        sides = []
        for bound in bounds:
            held, rows = prefix.tuples[bound.earlier[0]]
            sides.append((bound, self._of(held, bound.earlier[1]), rows, self._of(stock, bound.later)))

        def look(rows: Ints, tuples: slice) -> Bools:
            found: Bools | None = None
            for bound, left, of_row, right in sides:
                one = may_reach(bound.function, left.take(of_row[rows]), right.take(tuples), bound.at_least)
                found = one if found is None else found | one
            assert found is not None
            return found

        return look

    def _of(self, held: Held, operand: Operand) -> Directions:
        if (id(held), operand) not in self._known:
            column = held.column(operand, np.arange(held.content.rows))
            self._known[id(held), operand] = (held, directions(column))
        return self._known[id(held), operand][1]
