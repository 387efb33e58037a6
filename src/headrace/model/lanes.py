"""Which partials an aggregate function is made of: the one table that planner and kernels share."""

from __future__ import annotations

from typing import assert_never

from headrace.model.plan import LaneKind
from headrace.model.predicate import Operand
from headrace.model.query import AggregateFunction
from headrace.model.types import Kind


def lanes_needed(function: AggregateFunction) -> tuple[LaneKind, ...]:
    """The partials a function is lowered from, besides ROWS.

    >>> lanes_needed(AggregateFunction.COUNT_ALL), lanes_needed(AggregateFunction.COUNT)
    ((), (<LaneKind.NULLS: 'nulls'>,))
    """
    match function:
        case AggregateFunction.COUNT_ALL:
            return ()
        case AggregateFunction.COUNT:
            return (LaneKind.NULLS,)
        case AggregateFunction.SUM | AggregateFunction.AVG:
            return (LaneKind.NULLS, LaneKind.SUM)
        case AggregateFunction.MIN:
            return (LaneKind.NULLS, LaneKind.MIN)
        case AggregateFunction.MAX:
            return (LaneKind.NULLS, LaneKind.MAX)
        case AggregateFunction.MIN_BY:
            return (LaneKind.MIN,)
        case AggregateFunction.MAX_BY:
            return (LaneKind.MAX,)
        case AggregateFunction.VAR_POP | AggregateFunction.VAR_SAMP:
            return (LaneKind.MOMENTS,)
        case AggregateFunction.STDDEV_POP | AggregateFunction.STDDEV_SAMP:
            return (LaneKind.MOMENTS,)
        case (
            AggregateFunction.COUNT_DISTINCT
            | AggregateFunction.SUM_DISTINCT
            | AggregateFunction.AVG_DISTINCT
            | AggregateFunction.PERCENTILE
            | AggregateFunction.COLLECT_SET
        ):
            return (LaneKind.BAG,)
        case _:
            assert_never(function)


def keeps_values(function: AggregateFunction) -> bool:
    """Whether a function needs every value of a group, so that its partials grow with these."""
    return LaneKind.BAG in lanes_needed(function)


def has_vocabulary(operand: Operand) -> bool:
    """Whether an input has no numbers for its values, so that these are ranked in a vocabulary: strings and rows."""
    return bool(operand.parts) or operand.type.kind is Kind.STRING


def holds_ranks(name: str, sql: str) -> bool:
    """Whether the lane or bag of this name has ranks in the vocabulary of the input with this text."""
    return name.endswith(f":{_ranks_domain(sql)}")


def is_ranked(name: str) -> bool:
    """Whether the lane of this name has ranks in the vocabulary of some input.

    >>> is_ranked("min:words:shop"), is_ranked("min:int")
    (True, False)
    """
    return name.partition(":")[2].startswith(_RANKS)


def is_least(name: str) -> bool:
    """Whether the lane of this name has minima.

    >>> is_least("min:int"), is_least("max:words:min:")
    (True, False)
    """
    return name.startswith(f"{LaneKind.MIN.value}:")


def is_extreme(name: str) -> bool:
    """Whether the lane of this name has minima or maxima.

    >>> is_extreme("max:int"), is_extreme("sum:int")
    (True, False)
    """
    return name.startswith((f"{LaneKind.MIN.value}:", f"{LaneKind.MAX.value}:"))


_RANKS = "words:"
"""Segments have it in their names of lanes, so it stays as it is."""


def _ranks_domain(sql: str) -> str:
    return f"{_RANKS}{sql}"


def lane_domain(kind: LaneKind, operand: Operand | None) -> str:
    """Which partials of a kind live in one array: integers, floats, or what one input's vocabulary ranks.

    A bag is always of one input.
    """
    if operand is None:
        return "int"
    ranked = kind in (LaneKind.MIN, LaneKind.MAX, LaneKind.BAG) and has_vocabulary(operand)
    if ranked:
        return _ranks_domain(operand.sql)
    if kind is LaneKind.BAG:
        return f"values:{operand.sql}"
    floating = operand.type.kind is Kind.FLOATING
    return "float" if kind is LaneKind.MOMENTS or (kind is LaneKind.SUM and floating) else "int"


def is_factor(function: AggregateFunction) -> bool:
    """Whether a function of joined rows follows from the function of one side's tuples and the other sides' counts.

    A row of MIN_BY and MAX_BY may be of two sides, and what keeps values is left to joined rows.
    """
    by = (AggregateFunction.MIN_BY, AggregateFunction.MAX_BY)
    return function not in by and not keeps_values(function)
