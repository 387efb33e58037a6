"""Partial aggregates combine to what a naive sum says, however they are grouped; NaN and huge integers too."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.plan import LaneKind
from headrace.model.types import SqlType
from headrace.operators.common.encode import Physical, from_ordered, to_ordered
from headrace.operators.windows.folds import Fold
from headrace.operators.windows.lanes import LaneLogic, Partials, base, logic_for

BIGINT, DOUBLE = SqlType("bigint"), SqlType("double")
INTS = st.one_of(
    st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**63 - 1, -(2**63), 2**31])
)
DYADIC = st.integers(-(2**20), 2**20).map(lambda n: n / 8)
FLOATS = st.one_of(DYADIC, st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0]))


@st.composite
def cells(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> tuple[list[tuple[int, int, Any]], np.ndarray]:
    """([(cell, row, value or None)], member[cell, column])."""
    count, rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    tuples = draw(
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, rows - 1), st.one_of(st.none(), values)),
            min_size=1,
            max_size=24,
        )
    )
    member = draw(
        st.lists(st.lists(st.booleans(), min_size=columns, max_size=columns), min_size=count, max_size=count)
    )
    return tuples, np.array(member, bool).reshape(count, columns)


def physical(values: list[Any], type_: SqlType) -> Physical:
    dtype = np.float64 if type_ == DOUBLE else np.int64
    valid = np.array([value is not None for value in values])
    return Physical(
        np.array([0 if value is None else value for value in values], dtype), None if valid.all() else valid
    )


def folded(
    one: LaneLogic, type_: SqlType, tuples: list[tuple[int, int, Any]], member: np.ndarray
) -> tuple[Partials, int]:
    """Partials [column, row] and the number of rows."""
    rows = max(row for _, row, _ in tuples) + 1
    partials = one.lift(physical([value for *_, value in tuples], type_), len(tuples))
    bins = np.array([cell * rows + row for cell, row, _ in tuples])
    grouped = one.group(partials, bins, len(member) * rows)
    return one.fold({n: p.reshape(len(member), rows) for n, p in grouped.items()}, Fold(member)), rows


def chosen(tuples: list[tuple[int, int, Any]], member: np.ndarray, column: int, row: int) -> list[Any]:
    return [v for cell, r, v in tuples if r == row and member[cell, column] and v is not None]


@given(cells(INTS))
def test_integer_sums_are_exact_and_overflow_is_told(given_: Any) -> None:
    tuples, member = given_
    partials, rows = folded(logic_for(LaneKind.SUM, BIGINT), BIGINT, tuples, member)
    for column in range(member.shape[1]):
        for row in range(rows):
            exact = sum(chosen(tuples, member, column, row))
            wrapped = (exact + 2**63) % 2**64 - 2**63
            assert int(partials["v"][column, row]) == wrapped
            shadow = float(partials["f"][column, row]) if "f" in partials else float(wrapped)
            assert round((shadow - wrapped) / 2**64) == (exact - wrapped) // 2**64


@given(cells(FLOATS))
def test_float_sums_touch_only_their_own_cells(given_: Any) -> None:
    tuples, member = given_
    partials, rows = folded(logic_for(LaneKind.SUM, DOUBLE), DOUBLE, tuples, member)
    for column in range(member.shape[1]):
        for row in range(rows):
            exact = sum(chosen(tuples, member, column, row), 0.0)
            found = float(partials["v"][column, row])
            assert found == exact or (math.isnan(found) and math.isnan(exact))


@pytest.mark.parametrize("kind", [LaneKind.MIN, LaneKind.MAX])
@given(given_=cells(FLOATS))
def test_extremes_order_nan_last(kind: LaneKind, given_: Any) -> None:
    tuples, member = given_
    partials, rows = folded(logic_for(kind, DOUBLE), DOUBLE, tuples, member)
    best = min if kind is LaneKind.MIN else max
    for column in range(member.shape[1]):
        for row in range(rows):
            values = chosen(tuples, member, column, row)
            if values:
                found = float(from_ordered(partials["v"][column, row : row + 1], DOUBLE)[0])
                expected = best(values, key=lambda x: (math.isnan(x), 0.0 if math.isnan(x) else x))
                assert found == expected or (math.isnan(found) and math.isnan(expected))


def test_a_lonely_negative_zero_stays_negative() -> None:
    ordered = to_ordered(Physical(np.array([-0.0, 0.0, -1.0, 5e-324]), None), DOUBLE)
    assert np.argsort(ordered).tolist() == [2, 0, 1, 3]
    assert math.copysign(1.0, from_ordered(ordered, DOUBLE)[0]) == -1.0


@given(cells(FLOATS))
def test_moments_agree_with_exact_arithmetic(given_: Any) -> None:
    tuples, member = given_
    with np.errstate(invalid="ignore"):
        partials, rows = folded(logic_for(LaneKind.MOMENTS, DOUBLE), DOUBLE, tuples, member)
    for column in range(member.shape[1]):
        for row in range(rows):
            values = chosen(tuples, member, column, row)
            assert int(partials["n"][column, row]) == len(values)
            found = float(partials["q"][column, row])
            if not all(map(math.isfinite, values)):
                assert math.isnan(found)
            elif values:
                mean = sum(map(Fraction, values)) / len(values)
                exact = float(sum((Fraction(value) - mean) ** 2 for value in values))
                assert math.isclose(found, exact, rel_tol=1e-12, abs_tol=1e-22)


@given(st.floats(allow_nan=False, allow_infinity=False, width=64), st.integers(1, 40), st.integers(1, 5))
def test_equal_values_deviate_by_exactly_nothing(value: float, count: int, pieces: int) -> None:
    one = logic_for(LaneKind.MOMENTS, DOUBLE)
    partials = one.lift(Physical(np.full(count, value), None), count)
    grouped = one.group(partials, np.arange(count) % pieces, pieces)
    whole = {name: array[None, :] for name, array in grouped.items()}
    assert one.total(whole, 1)["q"].tolist() == [0.0]
    assert one.runs(whole, np.array([0]))["q"].tolist() == [[0.0]]
    halves = one.combine(grouped, grouped)
    assert not halves["q"].any()


VALUED = [LaneKind.SUM, LaneKind.MIN, LaneKind.MAX, LaneKind.MOMENTS]


@given(
    st.sampled_from([(kind, type_) for kind in VALUED for type_ in (BIGINT, DOUBLE)]),
    st.lists(st.one_of(st.none(), DYADIC), min_size=1, max_size=20),
    st.data(),
)
def test_total_runs_and_combine_agree(
    lane: tuple[LaneKind, SqlType], values: list[Any], data: st.DataObject
) -> None:
    kind, type_ = lane
    values = [None if value is None else value if type_ == DOUBLE else int(value) * 2**40 for value in values]
    one = logic_for(kind, type_)
    partials = {
        name: array[None, :] for name, array in one.lift(physical(values, type_), len(values)).items()
    }
    starts = np.array(sorted({0, *data.draw(st.sets(st.integers(0, len(values) - 1), max_size=4))}))
    by_runs = one.total(one.runs(partials, starts), 1)
    at_once = one.total(partials, 1)
    one_by_one = one.zeros((1,))
    for i in range(len(values)):
        one_by_one = one.combine(one_by_one, {name: array[:, i] for name, array in partials.items()})
    for other in (by_runs, one_by_one):
        for name, array in at_once.items():
            assert np.allclose(other[name], array, rtol=1e-12, atol=1e-9, equal_nan=True), name


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        (LaneKind.SUM, DOUBLE),
        (LaneKind.SUM, BIGINT),
        (LaneKind.MIN, DOUBLE),
        (LaneKind.MAX, BIGINT),
        (LaneKind.MOMENTS, DOUBLE),
    ],
)
def test_many_overlapping_ranges_are_what_each_is_alone(
    kind: LaneKind, type_: SqlType, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, one = np.random.default_rng(5), logic_for(kind, type_)
    values: list[float | None] = [
        None if rng.random() < 0.2 else int(rng.integers(-(2**40), 2**40)) for _ in range(2 * 300 * 3)
    ]
    values[7] = -0.0 if type_ == DOUBLE else 2**62  # the sum of a range that holds nothing else
    flat = one.lift(physical(values, type_), len(values))
    partials = {name: array.reshape(2, 300, 3) for name, array in flat.items()}
    lows = np.sort(rng.integers(0, 300, 400))
    highs = np.minimum(lows + rng.integers(0, 200, 400), 300)
    lows[:2], highs[:2] = 2, (3, 2)
    found = []
    for many in (10**9, 1):
        monkeypatch.setattr(base, "MANY_RANGES", many)
        found.append(base.each_range(one, partials, lows, highs))
    for name, alone in found[0].items():
        np.testing.assert_allclose(found[1][name], alone, rtol=1e-9, atol=1e-3)
        if alone.dtype == np.float64:
            assert (np.signbit(found[1][name]) == np.signbit(alone)).all()
