"""Cells agree with predicates: a tuple's cell says of every query whether it takes the tuple."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from brute import truth
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.plan import Family, OperandIndex
from headrace.model.plan.predicates import group_families, index_operands
from headrace.model.predicate import And, Compare, Op, Operand
from headrace.model.types import SqlType
from headrace.operators.common import cells, regions
from headrace.operators.common.cells import FamilyIndex
from headrace.operators.common.regions import region_count, regions_of
from plan_strategies import OPERANDS, column, predicates, values


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    one = st.fixed_dictionaries({o.sql: st.one_of(st.none(), values(o)) for o in OPERANDS})
    return draw(st.lists(one, min_size=1, max_size=12))


def accepted(found: list[dict[str, Any]], wanted: list[Any]) -> list[list[bool]]:
    """[row][predicate] as the shared index decides it."""
    indexes = index_operands(wanted)
    placed = [regions_of(column(i.operand, [row[i.operand.sql] for row in found]), i) for i in indexes]
    answers = [[False] * len(wanted) for _ in found]
    for family in group_families(wanted, indexes):
        located = FamilyIndex(family, indexes, wanted).locate(placed, len(found))
        for row, cell in enumerate(located.ids.tolist()):
            for position, predicate in enumerate(family.columns):
                answers[row][predicate] = cell >= 0 and bool(located.membership[cell, position])
    return answers


@given(rows(), st.lists(predicates(), min_size=1, max_size=6))
def test_cells_agree_with_predicates(found: list[dict[str, Any]], wanted: list[Any]) -> None:
    expected = [[truth(predicate, row) is True for predicate in wanted] for row in found]
    assert accepted(found, wanted) == expected


@given(rows(), st.lists(predicates(), min_size=1, max_size=4))
def test_cells_that_are_not_enumerated_agree_too(found: list[dict[str, Any]], wanted: list[Any]) -> None:
    before, cells.DENSE_CELLS = cells.DENSE_CELLS, 0
    try:
        expected = [[truth(predicate, row) is True for predicate in wanted] for row in found]
        assert accepted(found, wanted) == expected
    finally:
        cells.DENSE_CELLS = before


@given(st.sampled_from(OPERANDS), st.data())
def test_regions_do_not_depend_on_how_they_are_found(operand: Any, data: st.DataObject) -> None:
    """Long columns of small integers and repeated strings go through tables; short ones are searched."""
    constants = data.draw(st.lists(values(operand), min_size=1, max_size=5))
    (index,) = index_operands(Compare(operand, Op.LT, constant) for constant in constants)
    few = data.draw(st.lists(st.one_of(st.none(), values(operand)), min_size=1, max_size=8))
    short = regions_of(column(operand, few), index)
    many = regions_of(pa.chunked_array([column(operand, few * 700), column(operand, few[:1])]), index)
    assert many.tolist() == short.tolist() * 700 + short.tolist()[:1]
    assert int(many.max()) < region_count(index)
    assert many.dtype == regions.region_dtype(index)


def test_codes_do_not_outgrow_64_bits() -> None:
    """More operands, or more constants on them, than one integer can number."""
    wide = [Operand(f"c{i:02}", SqlType("bigint")) for i in range(33)]
    assert_accepts(wide, dict.fromkeys(wide, (5,)), 5)
    deep = [Operand(f"d{i}", SqlType("bigint")) for i in range(6)]
    assert_accepts(deep, {operand: tuple(range(0, 2200, 2)) for operand in deep}, 500)


def assert_accepts(operands: list[Operand], constants: dict[Operand, tuple[int, ...]], limit: int) -> None:
    """The index answers `every operand > limit` as numpy does."""
    rng = np.random.default_rng(7)
    indexes = [OperandIndex(operand, constants[operand]) for operand in operands]
    predicate = And(tuple(Compare(operand, Op.GT, limit) for operand in operands))
    family = FamilyIndex(Family(tuple(range(len(operands))), (0,)), indexes, [predicate])
    drawn = [rng.choice([limit - 1, limit + 1, 2 * limit], 5_000, p=[0.02, 0.49, 0.49]) for _ in operands]
    placed = [regions_of(pa.array(v), index) for v, index in zip(drawn, indexes, strict=True)]
    located = family.locate(placed, 5_000)
    taken = np.array([cell >= 0 and bool(located.membership[cell, 0]) for cell in located.ids])
    assert (taken == np.logical_and.reduce([v > limit for v in drawn])).all()
