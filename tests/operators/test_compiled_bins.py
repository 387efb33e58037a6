"""The kernels that group into bins against plain loops, on random input with empty and one-element cases."""

from __future__ import annotations

import numpy as np
import pytest
from test_compiled_windows import rng_of

from headrace.model.types import BIGINT
from headrace.operators.compiled.bins import (
    add_to_cells,
    keep_in_cells,
    place_in_cells,
    run_totals,
)
from headrace.operators.windows.lanes.base import group_ints
from headrace.operators.windows.lanes.extremes import GREATEST, LEAST, ExtremeLogic

CASES = [(0, 1), (1, 1), (1, 7), (300, 9)]
"""(tuples, bins)."""


@pytest.mark.parametrize(("tuples", "size"), CASES)
@pytest.mark.parametrize("most", [1, 1_000, 2**63 - 1])
def test_bins_hold_sums_and_extremes_of_their_tuples(tuples: int, size: int, most: int) -> None:
    rng = rng_of()
    bins = rng.integers(0, size, tuples).astype(np.int32 if most == 1 else np.int64)
    values = rng.integers(-most, most, tuples, endpoint=True)
    sums, least, greatest = [0] * size, [LEAST] * size, [GREATEST] * size
    for at, value in zip(bins.tolist(), values.tolist(), strict=True):
        sums[at] += value
        least[at], greatest[at] = min(least[at], value), max(greatest[at], value)
    assert group_ints(values, bins, size).view(np.uint64).tolist() == [total % 2**64 for total in sums]
    for ufunc, nothing, expected in ((np.minimum, LEAST, least), (np.maximum, GREATEST, greatest)):
        found = ExtremeLogic(BIGINT, ufunc, nothing).group({"v": values}, bins, size)
        assert found["v"].tolist() == expected


@pytest.mark.parametrize("tuples", [0, 1, 200])
def test_tuples_are_placed_in_the_bins_of_their_cells(tuples: int) -> None:
    rng = rng_of()
    cells, row, first = rng.integers(-1, 5, tuples), rng.integers(0, 9, tuples), rng.integers(0, 4, 6) * 9
    bins = np.empty(tuples, np.int64)
    place_in_cells(cells, first, row, bins)
    assert bins.tolist() == [first[cell + 1] + at for cell, at in zip(cells, row, strict=True)]


@pytest.mark.parametrize("tuples", [0, 1, 200])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_tuples_are_added_and_compared_in_their_cells(tuples: int, dtype: type) -> None:
    rng = rng_of()
    cells, row, first = rng.integers(-1, 5, tuples), rng.integers(0, 9, tuples), rng.permutation(6) * 9
    values = rng.integers(-1_000, 1_000, tuples)
    sums, least, greatest = np.full(54, 3, dtype), np.full(54, LEAST), np.full(54, GREATEST)
    add_to_cells(cells, first, row, values, sums)
    keep_in_cells(cells, first, row, values, True, least)
    keep_in_cells(cells, first, row, values, False, greatest)
    at = first[cells + 1] + row
    for place in range(54):
        mine = values[at == place].tolist()
        assert sums[place] == 3 + sum(mine)
        assert least[place] == min([LEAST, *mine])
        assert greatest[place] == max([GREATEST, *mine])


@pytest.mark.parametrize("shape", [(0, 1, 1), (1, 1, 1), (4, 3, 5)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_totals_run_over_cells_and_slices(shape: tuple[int, int, int], dtype: type) -> None:
    rng = rng_of()
    parts = rng.integers(-1_000, 1_000, shape)
    running = np.full((shape[0] + 3, shape[1] + 1, shape[2]), 7, dtype)
    running[2:-1, 1:] = parts
    run_totals(running, 2, shape[0] + 2)
    assert (running[2:-1, 1:] == parts.cumsum(axis=0).cumsum(axis=1)).all()
    rest = (running[:2], running[-1], running[:, 0])
    assert all((untouched == 7).all() for untouched in rest), "nothing else is touched"
