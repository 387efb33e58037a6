"""Kernels look at candidates and give the pairs that some query wants, in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.bitrows import as_given
from headrace.operators.compiled.joins import narrow_ranges, pair_groups, probe_ranges
from headrace.operators.join.groups import Groups
from headrace.operators.join.windows import Containment

Pairs = tuple[Ints, Ints, Array]
"""(row, tuple, query-set) of pairs that some query wants."""


@dataclass(slots=True)
class Candidates:
    """Row `row[i]` may meet the tuples [first[i], last[i])."""

    row: Ints
    first: Ints
    last: Ints

    @property
    def pairs(self) -> int:
        return int(np.maximum(self.last - self.first, 0).sum())


@dataclass(slots=True)
class Rows:
    """What decides who wants a row: query-sets [word, row], and its moment at each earlier position."""

    sets: Array
    moments: Sequence[Ints]


@dataclass(slots=True)
class Tuples:
    """The same of tuples, which have one moment each."""

    sets: Array
    moment: Ints


def probe(
    candidates: Candidates, rows: Rows, tuples: Tuples, contains: Sequence[Containment], block: int
) -> Iterator[Pairs]:
    """The pairs that some query wants and has a window for, in blocks of at most so many; no block is empty.

    The table of the first containment is looked up together with the query-sets, for every candidate. What else there
    is to ask about windows is asked of the pairs that are left.
    """
    found = contains[0].table
    base, table, moment = _looked_up(found, contains[0].width, rows, tuples)
    asked = range(0 if found is None else 1, len(contains))
    for left, right, sets in _probed(
        candidates, base, as_given(rows.sets), as_given(tuples.sets), moment, table, block
    ):
        for number in asked:
            contains[number].restrict(sets, rows.moments[number][left], tuples.moment[right])
        left, right, sets = drop_empty(left, right, sets) if asked else (left, right, sets)
        if len(left):
            yield left, right, sets


def _looked_up(table: Array | None, width: int, rows: Rows, tuples: Tuples) -> tuple[Ints, Array, Ints]:
    """(where each row's part of the table begins, the table, the place of each tuple's moment in that part)."""
    if table is not None:
        return rows.moments[0] * width, table, tuples.moment
    anything = np.full((len(rows.sets), 1), ~np.uint64(0))
    return np.zeros(rows.sets.shape[1], np.int64), anything, np.zeros(len(tuples.moment), np.int64)


def _probed(
    candidates: Candidates, base: Ints, sets: Array, theirs: Array, moment: Ints, table: Array, block: int
) -> Iterator[Pairs]:
    where = candidates.row, candidates.first, candidates.last, base
    room = min(block, candidates.pairs)
    cursor = np.array([0, -1, 0])
    while room and cursor[0] < len(candidates.row):
        found = _empty(len(sets), room)
        probe_ranges(*where, sets, theirs, moment, table, cursor, *found)
        if cursor[2]:
            yield _filled(found, int(cursor[2]))


def pairs_of_groups(
    left: Groups, right: Groups, a: Ints, b: Ints, sets: Array, block: int
) -> Iterator[Pairs]:
    """All that the pairs of groups `a[i]` and `b[i]` hold, in blocks; their query-sets are `sets[word, i]`."""
    room = min(block, int((left.sizes[a] * right.sizes[b]).sum()))
    cursor = np.zeros(4, np.int64)
    groups = as_given(sets), left.order, left.offsets, right.order, right.offsets
    while cursor[0] < len(a):
        found = _empty(len(sets), room)
        pair_groups(a, b, *groups, cursor, *found)
        yield _filled(found, int(cursor[3]))


def _empty(words: int, room: int) -> Pairs:
    return np.empty(room, np.int64), np.empty(room, np.int64), np.empty((words, room), np.uint64)


def _filled(found: Pairs, count: int) -> Pairs:
    """The first pairs of a block. Few of them leave it, for query-sets may wait until a row group is full."""
    left, right, sets = found[0][:count], found[1][:count], found[2][:, :count]
    if 2 * count < len(found[0]):
        return left.copy(), right.copy(), sets.copy()
    return left, right, sets


def search(times: Ints, early: Ints, late: Ints, first: Ints, last: Ints) -> None:
    """[first[i], last[i]) of ascending times shrinks to those that are in [early[i], late[i])."""
    wide = times if times.dtype in (np.int32, np.int64) else times.astype(np.int32)
    narrow_ranges(as_given(wide), early, late, first, last)


def drop_empty(left: Ints, right: Ints, sets: Array) -> Pairs:
    """The pairs that have a bit."""
    some = np.flatnonzero(has_bits(sets))
    if len(some) == len(left):
        return left, right, sets
    return left[some], right[some], np.take(sets, some, axis=1)


def has_bits(sets: Array) -> Array:
    """Which columns of [word, row] have a bit."""
    return np.not_equal(sets[0], 0) if len(sets) == 1 else np.logical_or.reduce(sets, axis=0)
