"""The compiled kernels of windows against plain loops, on random input with NaN, -0.0, empty and one-element cases."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from headrace.operators.compiled.windows import (
    add_ranges,
    add_stored,
    extreme_ranges,
    find_span,
    keep_stored,
    mark_live,
    pick_cells,
    pick_rows,
    pick_values,
    subtract_totals,
)
from headrace.operators.windows.lanes.extremes import GREATEST, LEAST

Array = np.ndarray[Any, Any]
SHAPES = [(1, 1, 1), (3, 2, 5), (2, 3, 0), (2, 0, 4), (4, 3, 17)]


def rng_of() -> np.random.Generator:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def swapped(values: Array) -> Array:
    """The same values with two axes swapped in memory, and not to be written."""
    found = np.ascontiguousarray(values.swapaxes(0, 1)).swapaxes(0, 1)
    found.flags.writeable = False
    return found


def same(left: Array, right: Array) -> bool:
    """Equal bit by bit: NaN is NaN, and -0.0 is not 0.0."""
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("sizes", [[1], [5, 0, 2], [], [17, 3, 1, 4]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_places_that_have_a_tuple_are_picked(sizes: list[int], dtype: Any) -> None:
    rng = rng_of()
    bounds = np.append(0, np.cumsum(np.array(sizes, np.int64)))
    counts = rng.integers(0, 3, 100).astype(dtype)
    first = rng.integers(0, len(sizes) + 1, 6)
    last = rng.integers(first, len(sizes) + 1)
    start = rng.integers(0, 100 - bounds[-1], 6)  # as if what lies before the first place were there
    runs = np.empty((last - first).sum(), np.int64)
    picked = np.empty((bounds[last] - bounds[first]).sum() + 1, np.int32)
    pick_rows(counts, start, first, last, bounds, runs, picked)
    found = [
        [[p for p in range(bounds[w], bounds[w + 1]) if counts[s + p] > 0] for w in range(low, high)]
        for s, low, high in zip(start, first, last, strict=True)
    ]
    assert runs.tolist() == [len(places) for of_query in found for places in of_query]
    places = [(q, p) for q, of_query in enumerate(found) for window in of_query for p in window]
    assert picked[: len(places)].tolist() == [p for _, p in places]
    floats = rng.choice([0.0, -0.0, np.nan, np.inf, 1.5], counts.shape)
    ends = np.append(0, np.cumsum([sum(map(len, of_query)) for of_query in found]))
    for part, into in ((counts, np.int64), (floats, np.float64)):
        values = np.empty(len(places), into)
        pick_values(part, start, ends, picked[: len(places)], values)
        assert same(values, np.array([part[start[q] + p] for q, p in places], into))
        some = ends[2:5]
        few = np.empty(some[-1] - some[0], into)
        pick_values(part, start[2:4], some, picked[some[0] : some[-1]], few)
        assert same(few, values[some[0] : some[-1]])


@pytest.mark.parametrize(
    ("dtype", "wide"), [(np.int32, np.int32), (np.int32, np.int64), (np.int64, np.int64)]
)
def test_runs_of_rows_and_slices_are_differences_of_totals(dtype: Any, wide: Any) -> None:
    rng = rng_of()
    for rows, slices, keys in ((1, 1, 1), (4, 5, 3), (3, 2, 0)):
        parts = rng.integers(-9, 9, (rows, slices, keys)).astype(dtype)
        running = np.zeros((rows + 1, slices + 1, keys), dtype)
        running[1:, 1:] = parts.cumsum(axis=0).cumsum(axis=1)
        low, first = rng.integers(0, rows + 1, 7), rng.integers(0, slices + 1, 5)
        high, last = rng.integers(low, rows + 1), rng.integers(first, slices + 1)
        sums = np.empty((7, 5, keys), wide)
        subtract_totals(running, low, high, first, last, sums)
        for e in range(7):
            for r in range(5):
                expected = parts[low[e] : high[e], first[r] : last[r]].sum(axis=(0, 1))
                assert sums[e, r].tolist() == expected.tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_ranges_of_slices_are_added_and_compared(shape: tuple[int, int, int]) -> None:
    rng = rng_of()
    part = swapped(rng.choice([-(2**62), -1, 0, 7, 2**62], shape))
    first = rng.integers(0, shape[1] + 1, 4)
    last = rng.integers(first, shape[1] + 1)
    sums = np.ones((shape[0], 4, shape[2]), np.int64)
    add_ranges(part, first, last, sums)
    found = {least: np.full(sums.shape, LEAST if least else GREATEST, np.int64) for least in (True, False)}
    for least, into in found.items():
        extreme_ranges(part, first, last, least, into)
    for e in range(shape[0]):
        for r in range(4):
            for k in range(shape[2]):
                values = [int(part[e, s, k]) for s in range(first[r], last[r])]
                assert (int(sums[e, r, k]) - 1 - sum(values)) % 2**64 == 0
                assert found[True][e, r, k] == min([LEAST, *values])
                assert found[False][e, r, k] == max([GREATEST, *values])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.float64])
def test_stored_partials_are_combined_where_they_belong(dtype: Any) -> None:
    rng = rng_of()
    for entries, slots, keys in ((1, 1, 1), (3, 4, 5)):
        places = np.sort(rng.permutation(slots * keys)[: rng.integers(0, slots * keys + 1)])
        part = rng.integers(-100, 100, (entries + 2, len(places) + 1)).astype(dtype)
        if dtype is np.float64:
            part[rng.random(part.shape) < 0.2] = np.nan
            part[rng.random(part.shape) < 0.2] = -0.0
        part.flags.writeable = False
        wanted = rng.permutation(entries + 2)[:entries]
        rows = rng.permutation(len(places) + 1)[: len(places)]
        at, slot, key = rng.permutation(entries), places // keys, places % keys
        bounds, first = np.searchsorted(slot, np.arange(slots + 1)), np.arange(slots)
        last = np.minimum(first + rng.integers(0, 3, slots), slots)
        into = rng.integers(-50, 50, (entries, slots, keys)).astype(
            np.float64 if dtype is np.float64 else np.int64
        )
        ways: list[tuple[Any, Any]] = [(add_stored, np.add)]
        if dtype is not np.float64:
            ways += [(least_of, np.minimum), (greatest_of, np.maximum)]
        for kernel, ufunc in ways:
            mine, expected = into.copy(), into.copy()
            kernel(part, wanted, rows, at, key, bounds, first, last, mine)
            for i in range(entries):
                for j in range(len(places)):
                    for s in range(slot[j], last[slot[j]]):
                        where, value = (at[i], s, key[j]), part[wanted[i], rows[j]]
                        if ufunc is np.add or value != NOTHING:
                            expected[where] = ufunc(expected[where], value)
            assert same(mine, expected)


def least_of(*arguments: Array) -> None:
    keep_stored(*arguments[:-1], True, NOTHING, arguments[-1])  # type: ignore[call-arg, arg-type]


def greatest_of(*arguments: Array) -> None:
    keep_stored(*arguments[:-1], False, NOTHING, arguments[-1])  # type: ignore[call-arg, arg-type]


NOTHING = 7


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("rows", [0, 1, 9])
def test_cells_are_picked_in_any_layout(dtype: type, rows: int) -> None:
    rng = rng_of()
    partials = rng.integers(-9, 9, (3, 6, 5)).astype(dtype)
    slots, keys = rng.integers(0, 3, rows), rng.integers(0, 5, rows)
    for layout in (partials[:, :3], partials[:, 2:5], swapped(partials)):
        for into in (np.float64,) if dtype is np.float64 else (np.int8, np.int16, np.int32, np.int64):
            picked = np.empty((3, rows), into)
            pick_cells(layout, slots, keys, NOTHING, -99, picked)
            found = [[layout[e, s, k] for s, k in zip(slots, keys, strict=True)] for e in range(3)]
            assert picked.tolist() == [[-99 if value == NOTHING else value for value in row] for row in found]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(0, 2, 3), (1, 1, 1), (3, 4, 5)])
def test_rows_with_a_tuple_and_the_span_of_partials_are_found(dtype: type, shape: tuple[int, ...]) -> None:
    rng = rng_of()
    partials = (rng.integers(-3, 4, shape) * rng.integers(0, 2, shape)).astype(dtype)
    partials[rng.random(shape) < 0.2] = NOTHING
    for layout in (partials, swapped(swapped(partials).copy())):
        live, span = np.zeros((shape[2], shape[1]), bool), np.zeros(2, np.int64)
        mark_live(layout, live)
        find_span(layout, NOTHING, span)
        assert live.tolist() == (partials != 0).any(axis=0).T.tolist()
        known = [0, *partials[partials != NOTHING].tolist()]
        assert span.tolist() == [min(known), max(known)]
