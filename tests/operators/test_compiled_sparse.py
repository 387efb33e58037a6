"""The kernels of listed rows against plain loops, on random input with NaN, -0.0, empty and one-element cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_compiled_windows import rng_of, same

from headrace.operators.compiled.sparse import (
    add_runs,
    count_keys,
    extremes_of_runs,
    list_keys,
    name_places,
    sort_rows,
)
from headrace.operators.windows.segment import FEW_SLICES, few_distinct

Array = np.ndarray[Any, Any]
CASES = [(0, 1, 1), (1, 1, 1), (40, 5, 3), (40, 1, 9), (200, 30, 12)]
"""(rows, keys, slots)."""


def placed(keys: Array, slots: Array, many_keys: int, many_slots: int) -> tuple[Array, Array]:
    """(the place of each row, keys and slots of places), by the kernels."""
    by_slot, order = np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
    sort_rows(slots, np.zeros(many_slots + 1, np.int64), np.arange(len(keys), dtype=np.int32), by_slot)
    sort_rows(keys, np.zeros(many_keys + 1, np.int64), by_slot, order)
    places, distinct = np.empty(len(keys), np.int64), np.empty((2, len(keys)), np.int32)
    count = np.zeros(1, np.int64)
    name_places(slots, keys, order, places, distinct, count)
    return places, distinct[:, : count[0]]


def draw(rows: int, many_keys: int, many_slots: int, rng: np.random.Generator) -> tuple[Array, Array]:
    keys, slots = rng.integers(0, many_keys, rows), rng.integers(0, many_slots, rows)
    return keys.astype(np.int32), slots.astype(np.int32)


@pytest.mark.parametrize(("rows", "many_keys", "many_slots"), CASES)
def test_rows_of_a_key_and_slot_have_one_place(rows: int, many_keys: int, many_slots: int) -> None:
    keys, slots = draw(rows, many_keys, many_slots, rng_of())
    places, distinct = placed(keys, slots, many_keys, many_slots)
    pairs = list(zip(keys.tolist(), slots.tolist(), strict=True))
    assert list(zip(*distinct.tolist(), strict=True)) == sorted(set(pairs))
    assert [sorted(set(pairs))[place] for place in places] == pairs


@pytest.mark.parametrize(("rows", "many_keys", "many_slots"), CASES)
def test_windows_list_their_keys_and_combine_their_rows(rows: int, many_keys: int, many_slots: int) -> None:
    rng = rng_of()
    _, distinct = placed(*draw(rows, many_keys, many_slots, rng), many_keys, many_slots)
    keys, slots = np.ascontiguousarray(distinct)
    starts = np.unique(rng.integers(0, many_slots + 1, 5))  # windows in time, of one length
    until = np.minimum(starts + rng.integers(1, many_slots + 1), many_slots)
    first, last = (np.searchsorted(edges, np.arange(many_slots), "right") for edges in (until, starts))
    counts = np.zeros(len(starts), np.int64)
    count_keys(keys, slots, first, last, counts)
    windows = list(zip(starts.tolist(), until.tolist(), strict=True))
    inside = [[(k, s) for k, s in distinct.T.tolist() if low <= s < high] for low, high in windows]
    assert counts.tolist() == [len({key for key, _ in pairs}) for pairs in inside]
    listed, runs = np.empty(counts.sum(), np.int32), np.empty((2, counts.sum()), np.int64)
    list_keys(keys, slots, first, last, until, np.cumsum(counts) - counts, listed, runs)
    assert listed.tolist() == [key for pairs in inside for key in sorted({key for key, _ in pairs})]
    of_window = np.repeat(np.arange(len(starts)), counts)
    for one, window, low, high in zip(listed, of_window, *runs, strict=True):
        pairs = enumerate(distinct.T.tolist())
        mine = [i for i, (key, slot) in pairs if key == one and (key, slot) in inside[window]]
        assert mine == list(range(low, high))
    ints = rng.choice([-(2**62), -1, 0, 7, 2**62], (3, len(keys)))
    floats = rng.choice([0.0, -0.0, np.nan, np.inf, 1.5], (3, len(keys)))
    for part in (ints, floats):
        sums = np.empty((3, runs.shape[1]), part.dtype)
        add_runs(part, runs, sums)
        assert same(sums, expected(np.add, part, runs))
    for least, ufunc in ((True, np.minimum), (False, np.maximum)):
        kept = np.empty((3, runs.shape[1]), np.int64)
        extremes_of_runs(ints, runs, least, kept)
        assert same(kept, expected(ufunc, ints, runs))


@np.errstate(over="ignore", invalid="ignore")
def expected(ufunc: np.ufunc, part: Array, runs: Array) -> Array:
    found = np.empty((len(part), runs.shape[1]), part.dtype)
    for i, (low, high) in enumerate(runs.T):
        found[:, i] = part[:, low]
        for row in range(low + 1, high):
            found[:, i] = ufunc(found[:, i], part[:, row])
    return found


@pytest.mark.parametrize("distinct", [1, 3, FEW_SLICES, FEW_SLICES + 1])
def test_distinct_values_are_found_whether_few_or_many(distinct: int) -> None:
    rng = rng_of()
    known = np.unique(rng.integers(-(2**62), 2**62, distinct))
    values = np.concatenate([known, rng.choice(known, 500)])
    rng.shuffle(values)
    assert few_distinct(values).tolist() == known.tolist()
    assert few_distinct(values[:0]).tolist() == []
