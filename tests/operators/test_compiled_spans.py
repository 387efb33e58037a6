"""The kernels that go over the spans of all windows, against plain loops, with windows that have none of something."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from test_compiled_windows import rng_of

from headrace.operators.compiled.spans import (
    add_slices,
    add_stored_rows,
    find_slices,
    keep_slices,
    keep_stored_rows,
    match_ids,
    place_rows,
    put_totals,
)
from headrace.operators.compiled.storing import list_live, pick_stored, span_of_windows
from headrace.operators.windows.lanes.extremes import GREATEST, LEAST, nothing_in
from headrace.operators.windows.packed import PackedPart

Array = np.ndarray[Any, Any]
KEYS = [0, 1, 5]
WIDTHS = (np.int8, np.int16, np.int32, np.int64)


def bounds_of(counts: list[int]) -> Array:
    return np.append(0, np.cumsum(counts))


class Layout:
    """Three windows, one of them without entries and one without spans, over six slices."""

    def __init__(self, rng: np.random.Generator, keys: int) -> None:
        self.keys = keys
        self.entries, self.spans = bounds_of([2, 0, 3, 1]), bounds_of([3, 2, 0, 1])
        self.first = rng.integers(0, 6, self.spans[-1])
        self.last = np.array([rng.integers(low, 7) for low in self.first])

    def cells(self) -> list[tuple[int, int, int]]:
        """(entry, span, where its keys begin), in the order of the layout."""
        found, at = [], 0
        for w in range(len(self.spans) - 1):
            for e in range(self.entries[w], self.entries[w + 1]):
                for s in range(self.spans[w], self.spans[w + 1]):
                    found.append((e, s, at))
                    at += self.keys
        return found

    @property
    def size(self) -> int:
        return len(self.cells()) * self.keys


@pytest.mark.parametrize("tuples", [0, 1, 300])
def test_each_time_is_in_the_last_slice_that_starts_by_then(tuples: int) -> None:
    rng = rng_of()
    starts = np.unique(rng.integers(-50, 50, 9))
    times = rng.integers(starts[0], 60, tuples)
    times[: tuples // 2].sort()
    index, present = np.empty(tuples, np.int64), np.zeros(len(starts), np.bool_)
    find_slices(times, starts, index, present)
    assert (index == np.searchsorted(starts, times, "right") - 1).all()
    assert np.flatnonzero(present).tolist() == sorted(set(index.tolist()))


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize(("of", "into"), [(np.int32, np.int32), (np.int32, np.int64), (np.int64, np.int64)])
def test_spans_are_differences_of_totals(keys: int, of: type, into: type) -> None:
    rng = rng_of()
    layout = Layout(rng, keys)
    running = rng.integers(-1_000, 1_000, (5, 7, keys)).astype(of)
    low, high = rng.integers(0, 5, (2, 6))
    found = np.empty(layout.size, into)
    put_totals(running, low, high, layout.entries, layout.spans, layout.first, layout.last, found)
    for e, s, at in layout.cells():
        wide = running.astype(np.int64)
        over = wide[high[e]] - wide[low[e]]
        assert (found[at : at + keys] == over[layout.last[s]] - over[layout.first[s]]).all()


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("dense", [True, False])
def test_spans_are_made_of_their_slices(keys: int, dense: bool) -> None:
    rng = rng_of()
    layout = Layout(rng, keys)
    occupied = np.ones((6, keys), np.bool_) if dense else rng.random((6, keys)) < 0.5
    occupied[rng.integers(0, 6), :1] = True  # a block of keys without any tuple is not folded
    slices, of_row = map(np.ascontiguousarray, np.nonzero(occupied))
    bounds = np.searchsorted(slices, np.arange(7))
    partials = rng.integers(LEAST // -2, LEAST // 2, (6, len(slices)))
    given = of_row[:0] if dense else of_row
    some = (partials, given, bounds, keys, layout.entries, layout.spans, layout.first, layout.last)
    sums, least, greatest = np.empty((3, layout.size), np.int64)
    add_slices(*some, sums)
    keep_slices(*some, True, LEAST, least)
    keep_slices(*some, False, GREATEST, greatest)
    for e, s, at in layout.cells():
        inside = (slices >= layout.first[s]) & (slices < layout.last[s])
        for key in range(keys):
            mine = partials[e, inside & (of_row == key)].tolist()
            assert sums[at + key] == np.array([sum(mine) % 2**64], np.uint64).view(np.int64)[0]
            assert (least[at + key], greatest[at + key]) == (min([LEAST, *mine]), max([GREATEST, *mine]))


@pytest.mark.parametrize("counts", [[0, 0], [1, 1], [40, 0, 25]])
def test_rows_are_in_the_spans_that_hold_their_slices(counts: list[int]) -> None:
    rng = rng_of()
    rows, spans = bounds_of(counts), bounds_of([len(counts) + 2] * len(counts))
    slices = rng.integers(0, 100, rows[-1])
    low = np.concatenate([np.sort(rng.integers(0, 90, len(counts) + 2)) for _ in counts])
    high = np.concatenate([np.sort(low[a:b] + rng.integers(1, 30)) for a, b in pairwise(spans)])
    first, last = np.empty((2, len(slices)), np.int32)
    place_rows(slices, rows, low, high, spans, first, last)
    for w in range(len(counts)):
        for r in range(rows[w], rows[w + 1]):
            mine = np.arange(spans[w], spans[w + 1])
            inside = (low[mine] <= slices[r]) & (slices[r] < high[mine])
            assert np.arange(first[r], last[r]).tolist() == np.flatnonzero(inside).tolist()


def test_stored_entries_are_found_by_their_ids() -> None:
    rng = rng_of()
    entries, begin = bounds_of([4, 0, 6]), np.array([7, 12, 0, 7, 12, 12])
    ids = np.concatenate([np.sort(rng.choice(20, n, replace=False)) for n in (4, 6)])
    stored = np.concatenate([np.sort(rng.choice(20, n, replace=False)) for n in (7, 5)])
    found, at, bounds = np.empty(12, np.int64), np.empty(12, np.int64), np.empty(4, np.int64)
    match_ids(ids, entries, stored, begin, found, at, bounds)
    for w in range(3):
        mine, theirs = ids[entries[w] : entries[w + 1]], stored[begin[2 * w] : begin[2 * w + 1]]
        some = slice(bounds[w], bounds[w + 1])
        assert (
            theirs[found[some]].tolist() == np.intersect1d(mine, theirs).tolist() == mine[at[some]].tolist()
        )


def stored_case(
    rng: np.random.Generator, layout: Layout
) -> tuple[list[Array | None], PackedPart, tuple[Any, ...]]:
    """(stored partials of each window, the same packed, what kernels are told)."""
    count = [0 if layout.keys == 0 else int(n) for n in rng.integers(0, 9, 4)]
    dtypes = rng.permutation(4)
    blocks: list[Array | None] = []
    for w in range(4):
        limits = np.iinfo(WIDTHS[dtypes[w]])
        some = rng.integers(limits.min, limits.max, (3, count[w] + 2), endpoint=True, dtype=limits.dtype)
        some[rng.random(some.shape) < 0.2] = limits.max
        blocks.append(None if w == 2 else some)
    packed = PackedPart.of(blocks)
    width = np.diff(layout.entries)
    asked = [min(2, int(n)) for n in width]
    found = np.concatenate([rng.permutation(3)[:n] for n in asked])
    at = np.concatenate([rng.permutation(int(n))[:few] for n, few in zip(width, asked, strict=True)])
    rows = np.concatenate([rng.permutation(n + 2)[:n] for n in count])
    keys, runs = rng.integers(0, max(layout.keys, 1), len(rows)), [min(n, 3) for n in count]
    spans = np.repeat(np.diff(layout.spans), runs)
    first = np.array([rng.integers(0, n + 1) for n in spans], np.int64)
    last = np.array([rng.integers(a, n + 1) for a, n in zip(first, spans, strict=True)], np.int64)
    starts = [
        low + int(cut)
        for low, n, few in zip(bounds_of(count), count, runs, strict=False)
        for cut in sorted([0, *rng.integers(0, n + 1, max(few - 1, 0))])[:few]
    ]
    begin, length = np.array([*starts, len(rows)], np.int64), np.array(count, np.int64) + 2
    of = bounds_of(runs)
    told = (
        packed.types,
        packed.firsts,
        length,
        found,
        at,
        bounds_of(asked),
        rows,
        keys,
        begin,
        first,
        last,
        of,
    )
    return blocks, packed, (*packed.numbers, *told, layout.entries, layout.spans, layout.keys)


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("seed", range(4))
def test_stored_rows_are_combined_with_the_spans_they_are_in(keys: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layout = Layout(rng, keys)
    blocks, _, told = stored_case(rng, layout)
    _, _, _, found, at, bounds, rows, of_row, begin, first, last, of = told[4:16]
    starts = {(e, s): begin for e, s, begin in layout.cells()}
    before = rng.integers(-100, 100, layout.size)
    for least in (None, True, False):
        expected, into = before.astype(object), before.copy()
        for w in range(4):
            block = blocks[w]
            for i in range(bounds[w], bounds[w + 1]) if block is not None else ():
                for g, j in [(r, j) for r in range(of[w], of[w + 1]) for j in range(begin[r], begin[r + 1])]:
                    value = int(block[found[i], rows[j]])
                    nothing = least is not None and value == nothing_in(block.dtype, least)
                    for s in range(first[g], last[g]) if not nothing else ():
                        place = starts[layout.entries[w] + at[i], layout.spans[w] + s] + of_row[j]
                        known = expected[place]
                        expected[place] = (
                            known + value if least is None else (min if least else max)(known, value)
                        )
        if least is None:
            add_stored_rows(*(*told, into))
            narrow = before.astype(np.int32)
            add_stored_rows(*(*told, narrow))
            assert (narrow == into.astype(np.int32)).all()
        else:
            keep_stored_rows(*(*told, least, into))
        assert into.view(np.uint64).tolist() == [int(value) % 2**64 for value in expected]


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_live_rows_are_listed_and_stored_in_their_widths(keys: int, dtype: type, share: float) -> None:
    rng = rng_of()
    layout = Layout(rng, keys)
    counts = np.where(rng.random(layout.size) < share, rng.integers(-100, 100, layout.size), 0).astype(dtype)
    most = int(layout.spans[-1]) * keys
    of_key, places, rows = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(5, np.int64)
    list_live(counts, layout.entries, layout.spans, keys, np.empty(3 * keys, np.bool_), of_key, places, rows)
    span = np.zeros((4, 2), np.int64)
    span_of_windows(counts, layout.entries, layout.spans, keys, -7, span)
    types = np.array([1, 0, 8, 4], np.uint8)
    part = PackedPart.empty(types, np.diff(layout.entries) * np.diff(rows))
    taken = (places[: rows[-1]], rows, types, part.firsts, np.array([-99, -98, -97, -96]), -7)
    pick_stored(counts, layout.entries, layout.spans, keys, *taken, *part.numbers)
    at = 0
    for w in range(4):
        entries, spans = int(np.diff(layout.entries)[w]), int(np.diff(layout.spans)[w])
        cube = counts[at : at + entries * spans * keys].reshape(entries, spans, keys)
        at += cube.size
        live = [(k, s) for k in range(keys) for s in range(spans) if (cube[:, s, k] != 0).any()]
        some = slice(rows[w], rows[w + 1])
        assert of_key[some].tolist() == [k for k, _ in live]
        assert places[some].tolist() == [s * keys + k for k, s in live]
        kept = cube[cube != -7]
        assert span[w].tolist() == [min(0, kept.min(initial=0)), max(0, kept.max(initial=0))]
        if types[w] and entries:
            expected = [
                [-99 + w if cube[e, s, k] == -7 else cube[e, s, k] for k, s in live] for e in range(entries)
            ]
            assert part.block(w, entries, len(live)).tolist() == expected
