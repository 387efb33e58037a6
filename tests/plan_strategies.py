"""Hypothesis strategies for predicates, windows and queries in physical domains, and columns of the same values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from headrace.model.predicate import TRUE, And, Compare, Const, IsNull, Not, Op, Operand, Or, Predicate
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Body,
    Fallback,
    Projection,
    Query,
    QueryId,
    QueryPlan,
    Stream,
    StreamName,
)
from headrace.model.types import Column, Kind, SqlType
from headrace.model.window import SessionWindow, Window
from headrace.operators.common.encode import decimals

TYPES = (
    "boolean",
    "tinyint",
    "bigint",
    "double",
    "float",
    "string",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal(9,2)",
)
STREAM = Stream(
    StreamName("s"),
    (*(Column(f"c{i}", SqlType(name)) for i, name in enumerate(TYPES)), Column("ts", SqlType("timestamp"))),
    "ts",
    0,
)
OPERANDS = tuple(Operand(column.name, column.type) for column in STREAM.columns[:-1])
COMPUTED = tuple(
    Operand(text, SqlType(name), plain=False)
    for text, name in [("c2 % 3", "bigint"), ("upper(c5)", "string")]
)

_POOLS: dict[str, list[Any]] = {
    "boolean": [0, 1],
    "tinyint": [-128, -1, 0, 1, 127],
    "bigint": [-(2**63), -1, 0, 1, 5, 2**53 + 1, 2**63 - 1],
    "double": [-math.inf, -1.5, -0.0, 0.0, 5e-324, 0.1, 2.0**53, math.inf, math.nan],
    "float": [-math.inf, -1.5, 0.0, 0.25, math.inf, math.nan],
    "string": ["", "a", "A", "ab", "b", "é", "\uffee", "\U0001f642"],
    "date": [-719162, -1, 0, 1, 2932896],
    "timestamp": [-1, 0, 1, 10**15],
    "timestamp_ntz": [-1, 0, 1, 10**15],
    "decimal(9,2)": [-999_999_999, -1, 0, 1, 12345],
}


def values(operand: Operand) -> st.SearchStrategy[Any]:
    """Values of an operand in its physical domain; the same few, so that they meet constants."""
    return st.sampled_from(_POOLS[operand.type.name])


def column(operand: Operand, found: list[Any]) -> pa.Array:
    """Physical values (None: NULL) as the Arrow column that a chunk would hold."""
    kind = operand.type.kind
    if kind is Kind.STRING:
        return pa.array(found, pa.string())
    mask = np.array([value is None for value in found], bool)
    known = [0 if value is None else value for value in found]
    if kind is Kind.FLOATING:
        return pa.array(np.array(known, np.float64), operand.type.arrow, mask=mask, safe=False)
    whole = np.array(known, np.int64)
    match kind:
        case Kind.DECIMAL:
            return decimals(whole, None, mask if mask.any() else None, operand.type)
        case Kind.BOOLEAN:
            return pa.array(whole.astype(bool), mask=mask)
        case Kind.DATE:
            return pa.array(whole.astype(np.int32), pa.int32(), mask=mask).cast(operand.type.arrow)
        case _:
            return pa.array(whole, pa.int64(), mask=mask).cast(operand.type.arrow)


@st.composite
def atoms(draw: st.DrawFn, operands: tuple[Operand, ...] = OPERANDS) -> Predicate:
    operand = draw(st.sampled_from(operands))
    if draw(st.integers(0, 5)) == 0:
        return IsNull(operand)
    return Compare(
        operand,
        draw(st.sampled_from(list(Op))),
        draw(values(operand)) if operand.plain else _constant(draw, operand),
    )


def _constant(draw: st.DrawFn, operand: Operand) -> Any:
    return draw(st.sampled_from(_POOLS[operand.type.name]))


def predicates(operands: tuple[Operand, ...] = OPERANDS) -> st.SearchStrategy[Predicate]:
    leaves = st.one_of(
        atoms(operands), atoms(operands), st.sampled_from([Const(True), Const(False), Const(None)])
    )

    def deeper(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(several.map(And), several.map(Or), inner.map(Not))

    return st.recursive(leaves, deeper, max_leaves=6)


@st.composite
def windows(draw: st.DrawFn, longest: int = 40) -> Window:
    range_us = draw(st.integers(1, longest))
    return Window(range_us, draw(st.integers(1, range_us)), draw(st.integers(-9, 9)))


@st.composite
def aggregates(draw: st.DrawFn) -> Aggregate:
    function = draw(st.sampled_from(list(AggregateFunction)))
    filter_ = draw(st.one_of(st.just(TRUE), predicates()))
    if function is AggregateFunction.COUNT_ALL:
        return Aggregate(function, None, filter_, SqlType("bigint"))
    operand = draw(st.sampled_from([o for o in OPERANDS if o.type.name in ("tinyint", "bigint", "double")]))
    whole = function is AggregateFunction.COUNT or (
        function is AggregateFunction.SUM and operand.type.name != "double"
    )
    same = function in (AggregateFunction.MIN, AggregateFunction.MAX)
    return Aggregate(
        function, operand, filter_, operand.type if same else SqlType("bigint" if whole else "double")
    )


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    operands = (*OPERANDS, *COMPUTED)
    where = draw(predicates(operands))
    match draw(st.integers(0, 5)):
        case 0:
            return Fallback("because", draw(st.one_of(st.none(), windows())))
        case 1:
            return Projection(where, tuple(draw(st.lists(st.sampled_from(operands), min_size=1, max_size=3))))
        case _:
            keys = tuple(draw(st.lists(st.sampled_from(operands[:3]), max_size=2, unique=True)))
            found = tuple(draw(st.lists(aggregates(), min_size=1, max_size=3)))
            window = draw(st.one_of(windows(), windows(), st.integers(1, 40).map(SessionWindow)))
            return Aggregation(window, where, keys, found, tuple(f"a{i}" for i in range(len(found))))


@st.composite
def queries(draw: st.DrawFn, most: int = 4) -> list[Query]:
    """Queries with distinct ids, in no order."""
    ids = draw(st.lists(st.integers(0, 10_000), min_size=1, max_size=most, unique=True))
    return [
        Query(
            QueryId(id_),
            f"q{id_}",
            QueryPlan("", (STREAM.name,), draw(bodies()), (Column("x", SqlType("int")),), "", ""),
        )
        for id_ in ids
    ]
