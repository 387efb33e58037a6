"""Sessions of all queries: which micro-sessions each query wants, the sessions that they make with those that were
open, and what they add to these.

Rows are in the order of keys and of moments within a key, for each query and for each column that a query reads. So
sessions are found by one walk over them, and nothing is sorted. The rows of column c are `rows[first[c]]` and what
follows, `counts[c]` of them. The sessions of query q are those in [bounds[q], bounds[q + 1]).
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64

from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.compiled.compiling import compiled, given, made

_WANTED = (given(int64), given(boolean, 2), given(int64), given(int64))
_ROWS = (given(int64), given(int64), given(int64))


@compiled((*_WANTED, made(int64)))
def count_wanted(cells: Ints, wanted: Bools, starts: Ints, limits: Ints, counts: Ints) -> None:
    """counts[c]: the rows in a cell that column c wants, as wanted[c, cell] says, and later than limits[c]."""
    for c in range(len(counts)):
        mine, limit, found = wanted[c], limits[c], 0
        for row in range(len(cells)):
            found += mine[np.uint64(cells[row])] & (starts[row] > limit)
        counts[c] = found


@compiled((*_WANTED, given(int64), made(int64)))
def list_wanted(cells: Ints, wanted: Bools, starts: Ints, limits: Ints, first: Ints, rows: Ints) -> None:
    """These rows, column by column. There is room for one more."""
    for c in range(len(first)):
        mine, limit, at = wanted[c], limits[c], first[c]
        for row in range(len(cells)):
            rows[at] = row  # written in any case: a jump that nobody can foresee costs more
            at += mine[np.uint64(cells[row])] & (starts[row] > limit)


@compiled((*(given(int64),) * 2, *_ROWS, *_ROWS, *_ROWS, *(given(int64),) * 3, *(made(int64),) * 4))
def find_sessions(
    queries: Ints,
    column: Ints,
    keys: Ints,
    starts: Ints,
    lasts: Ints,
    rows: Ints,
    first: Ints,
    counts: Ints,
    open_keys: Ints,
    open_starts: Ints,
    open_lasts: Ints,
    open_bounds: Ints,
    gaps: Ints,
    begin: Ints,
    found_keys: Ints,
    found_starts: Ints,
    found_lasts: Ints,
    sizes: Ints,
) -> None:
    """The sessions of each query q = queries[i] are put from begin[q] on, `sizes[q]` of them: its rows, which are those
    of column[i] (-1: none), merged with the open sessions [open_bounds[q], open_bounds[q + 1]).

    A row is in the session of those before it if it has their key, and starts at most gaps[q] after the last of them.
    """
    for i in range(len(queries)):
        q, c = queries[i], column[i]
        gap, base = gaps[q], begin[q]
        at = first[c] if c >= 0 else 0
        end = at + counts[c] if c >= 0 else 0
        held, until, place = open_bounds[q], open_bounds[q + 1], base - 1
        while at < end or held < until:
            fresh = held == until
            if not fresh and at < end:
                row = rows[at]
                fresh = keys[row] < open_keys[held]
                fresh |= (keys[row] == open_keys[held]) & (starts[row] < open_starts[held])
            if fresh:
                row = rows[at]
                key, start, last = keys[row], starts[row], lasts[row]
                at += 1
            else:
                key, start, last = open_keys[held], open_starts[held], open_lasts[held]
                held += 1
            if place >= base and found_keys[place] == key and start - gap <= found_lasts[place]:
                found_lasts[place] = max(found_lasts[place], last)
            else:
                place += 1
                found_keys[place], found_starts[place], found_lasts[place] = key, start, last
        sizes[q] = place + 1 - base


@compiled((*(given(int64),) * 2, *_ROWS, *_ROWS, given(int64), made(int64)))
def place_rows(
    keys: Ints,
    starts: Ints,
    rows: Ints,
    first: Ints,
    counts: Ints,
    query: Ints,
    found_keys: Ints,
    found_lasts: Ints,
    bounds: Ints,
    session: Ints,
) -> None:
    """session[i]: the session that rows[i] is in. Column c is read by query[c], and its rows are in sessions of it."""
    for c in range(len(first)):
        place = bounds[query[c]]
        for i in range(first[c], first[c] + counts[c]):
            key, start = keys[rows[i]], starts[rows[i]]
            while found_keys[place] < key or found_lasts[place] < start:
                place += 1
            session[i] = place


_PLACED = (*_ROWS, given(int64), given(int64), given(int64))


@compiled(*((given(dtype), *_PLACED, made(dtype)) for dtype in (int64, float64)))
def add_to_sessions(
    values: Array,
    rows: Ints,
    first: Ints,
    counts: Ints,
    columns: Ints,
    shift: Ints,
    session: Ints,
    into: Array,
) -> None:
    """into[shift[e] + session[i]] += values[rows[i]], for every entry e and every row of columns[e]."""
    for e in range(len(columns)):
        c, at = columns[e], shift[e]
        for i in range(first[c], first[c] + counts[c]):
            into[np.uint64(at + session[i])] += values[rows[i]]


@compiled((given(int64), *_PLACED, boolean, made(int64)))
def keep_in_sessions(
    values: Ints,
    rows: Ints,
    first: Ints,
    counts: Ints,
    columns: Ints,
    shift: Ints,
    session: Ints,
    least: bool,
    into: Ints,
) -> None:
    """The same with the least, or the greatest, in place of the sum."""
    for e in range(len(columns)):
        c, begin = columns[e], shift[e]
        for i in range(first[c], first[c] + counts[c]):
            at, value = np.uint64(begin + session[i]), values[rows[i]]
            into[at] = min(into[at], value) if least else max(into[at], value)
