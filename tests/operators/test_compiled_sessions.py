"""The kernels of sessions against plain loops, on random input with no row, one row, NaN and -0.0.

query 0, gap 2      key 0 ----------------   key 1 ---
rows                0  1     5               0
open sessions             4--6                  1--2
sessions            0--1  4--6               0--2
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_compiled_windows import rng_of, same

from headrace.operators.compiled.sessions import (
    add_to_sessions,
    count_wanted,
    find_sessions,
    keep_in_sessions,
    list_wanted,
    place_rows,
)

Array = np.ndarray[Any, Any]
Row = tuple[int, int, int]
"""(key, start, last)"""


def plain_sessions(rows: list[Row], gap: int) -> list[Row]:
    found: list[Row] = []
    for key, start, last in sorted(rows):
        if found and found[-1][0] == key and start - gap <= found[-1][2]:
            found[-1] = (key, found[-1][1], max(found[-1][2], last))
        else:
            found.append((key, start, last))
    return found


def drawn(rng: np.random.Generator, rows: int, keys: int) -> Array:
    """[part, row]: key, start and last of rows, by key and start."""
    found = np.stack([rng.integers(0, keys, rows), rng.integers(-50, 50, rows)])
    found = found[:, np.lexsort(found[::-1])]
    return np.ascontiguousarray(np.concatenate([found, found[1:] + rng.integers(0, 4, rows)]))


@pytest.mark.parametrize(("rows", "cells", "columns"), [(0, 1, 1), (1, 1, 1), (50, 4, 6)])
def test_wanted_rows_are_listed(rows: int, cells: int, columns: int) -> None:
    rng = rng_of()
    cell, starts = rng.integers(0, cells, rows), rng.integers(0, 9, rows)
    wanted, limits = rng.random((columns, cells)) < 0.5, rng.integers(0, 9, columns)
    counts = np.empty(columns, np.int64)
    count_wanted(cell, wanted, starts, limits, counts)
    expected = [
        [i for i in range(rows) if wanted[c, cell[i]] and starts[i] > limits[c]] for c in range(columns)
    ]
    assert counts.tolist() == [len(mine) for mine in expected]
    found = np.empty(counts.sum() + 1, np.int64)
    list_wanted(cell, wanted, starts, limits, np.cumsum(counts) - counts, found)
    assert found[:-1].tolist() == [row for mine in expected for row in mine]


@pytest.mark.parametrize(("rows", "held", "queries"), [(0, 0, 2), (1, 0, 1), (0, 3, 2), (60, 20, 5)])
def test_sessions_are_found_and_filled(rows: int, held: int, queries: int) -> None:
    """Queries read a column each, but the first, which has open sessions alone. One more column is a filter."""
    rng = rng_of()
    keys, starts, lasts = drawn(rng, rows, 3)
    columns = [np.flatnonzero(rng.random(rows) < 0.6) for _ in range(queries)]
    filtered = columns[-1][rng.random(len(columns[-1])) < 0.5]
    listed = [*columns, filtered]
    counts = np.array([len(mine) for mine in listed])
    every, first = np.concatenate(listed), np.cumsum(counts) - counts
    of_column = np.arange(queries)
    of_column[0] = -1
    before = [drawn(rng, held, 3) for _ in range(queries)]
    open_ = np.concatenate(before, axis=1)
    open_bounds, gaps = np.arange(queries + 1) * held, rng.integers(1, 9, queries)
    read = [[] if q == 0 else columns[q].tolist() for q in range(queries)]
    expected = [
        plain_sessions(
            [(keys[i], starts[i], lasts[i]) for i in read[q]] + list(zip(*before[q], strict=True)), gaps[q]
        )
        for q in range(queries)
    ]
    begin = np.cumsum([0, *(len(mine) + held for mine in read)])
    found, sizes = np.empty((3, begin[-1]), np.int64), np.empty(queries, np.int64)
    some, into = rng.permutation(queries), (begin, *found, sizes)
    for mine in (some[:1], some[1:]):  # each call leaves the others alone
        inputs: Any = (
            keys,
            starts,
            lasts,
            every,
            first,
            counts,
            *np.ascontiguousarray(open_),
            open_bounds,
            gaps,
        )
        find_sessions(mine, of_column[mine], *inputs, *into)
    got = [list(zip(*found[:, begin[q] : begin[q] + sizes[q]].tolist(), strict=True)) for q in range(queries)]
    assert got == expected
    packed = np.concatenate([found[:, begin[q] : begin[q] + sizes[q]] for q in range(queries)], axis=1)
    bounds = np.append(0, np.cumsum(sizes))
    query = np.append(np.arange(queries), queries - 1)
    counts[0] = 0  # nothing of query 0's column is in a session of it
    if queries == 1:
        counts[:] = 0
    session = np.full(len(every), -1)
    place_rows(keys, starts, every, first, counts, query, packed[0].copy(), packed[2].copy(), bounds, session)
    for c in range(len(counts)):
        for i in range(first[c], first[c] + counts[c]):
            key, start = keys[every[i]], starts[every[i]]
            inside = [
                s for s, (k, low, high) in enumerate(expected[query[c]]) if k == key and low <= start <= high
            ]
            assert inside == [session[i] - bounds[query[c]]]
    check_partials(rng, (rows, every, first, counts, session), bounds, query)


def check_partials(rng: np.random.Generator, placed: Any, bounds: Array, query: Array) -> None:
    """Sums and extremes of entries, whose sessions lie one entry after the other."""
    rows, every, first, counts, session = placed
    columns = rng.integers(0, len(counts), 4)
    sizes = np.diff(bounds)[query[columns]]
    offsets = np.cumsum(sizes) - sizes
    shift = offsets - bounds[query[columns]]
    places = (every, first, counts, columns, shift, session)
    ints = rng.choice([-(2**62), -1, 0, 2**62], rows)
    floats = rng.choice([0.0, -0.0, np.nan, np.inf, 1.5], rows)
    kernels: list[tuple[Any, Any, Any, Any]] = [
        (ints, 0, np.add, lambda into: add_to_sessions(ints, *places, into)),
        (floats, 0.0, np.add, lambda into: add_to_sessions(floats, *places, into)),
        (ints, 7, np.minimum, lambda into: keep_in_sessions(ints, *places, True, into)),
        (ints, 7, np.maximum, lambda into: keep_in_sessions(ints, *places, False, into)),
    ]
    for values, start, ufunc, run in kernels:
        into = np.full(int(sizes.sum()), start, values.dtype)
        expected = into.copy()
        run(into)
        with np.errstate(all="ignore"):
            for e, c in enumerate(columns):
                for i in range(first[c], first[c] + counts[c]):
                    at = shift[e] + session[i]
                    expected[at] = ufunc(expected[at], values[every[i]])
        assert same(into, expected)
