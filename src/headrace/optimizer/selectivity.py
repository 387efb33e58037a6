"""What share of a stream's tuples a predicate lets in, guessed from its form alone.

It is a guess for queries that have not run yet. What is measured of a query takes its place.
"""

from __future__ import annotations

from math import prod
from typing import assert_never

from headrace.model.predicate import And, Compare, Const, IsNull, Not, Op, Or, Predicate

EQUAL, ORDERED, MISSING = 0.1, 0.5, 0.1
"""Shares for `=`, for `<` and its like with a constant that may lie anywhere, and for IS NULL."""


def guess_selectivity(predicate: Predicate) -> float:
    """A share between 0 and 1, as if all parts of a predicate had nothing to do with each other.

    >>> from headrace.model.predicate import TRUE, Operand
    >>> from headrace.model.types import BIGINT
    >>> large = Compare(Operand("x", BIGINT), Op.GT, 5)
    >>> guess_selectivity(TRUE), guess_selectivity(large), guess_selectivity(And((large, Not(large))))
    (1.0, 0.5, 0.25)
    """
    match predicate:
        case Compare(_, op, _):
            return EQUAL if op is Op.EQ else ORDERED
        case IsNull():
            return MISSING
        case Const(value):
            return 1.0 if value else 0.0
        case And(children):
            return prod(map(guess_selectivity, children))
        case Or(children):
            return 1.0 - prod(1.0 - guess_selectivity(child) for child in children)
        case Not(child):
            return 1.0 - guess_selectivity(child)
        case _:
            assert_never(predicate)
