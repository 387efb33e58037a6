"""The kernels of joins against plain loops, on random input with empty and one-element cases, and in small blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_compiled_windows import rng_of

from headrace.operators.compiled.joins import repeat_rows
from headrace.operators.join.groups import group_rows
from headrace.operators.join.probing import Candidates, Rows, Tuples, pairs_of_groups, probe, search
from headrace.operators.join.windows import Containment

Array = np.ndarray[Any, Any]
CASES = [(0, 0), (1, 0), (0, 1), (1, 1), (7, 40), (40, 7)]
"""(rows, tuples)."""


def random_sets(rng: np.random.Generator, words: int, rows: int) -> Array:
    """Query-sets of three queries, some of which are empty."""
    bits = rng.random((3, words, rows)) < 0.4
    places = np.array([1, 4, 2**63], np.uint64)
    return np.asarray(np.tensordot(places, bits.astype(np.uint64), 1), np.uint64)


def random_table(rng: np.random.Generator, words: int, sizes: tuple[int, int], known: bool) -> Containment:
    """Which queries have a window for two moments: as a table, or to be worked out pair by pair."""
    contains = Containment.__new__(Containment)
    whole = random_sets(rng, words, sizes[0] * sizes[1]) | np.uint64(1)
    contains.width, contains.table = sizes[1], whole

    def restrict(sets: Array, left: Array, right: Array) -> None:
        sets &= whole[:, left * sizes[1] + right]

    if not known:
        contains.table = None
        contains.restrict = restrict  # type: ignore[method-assign]
    return contains


@pytest.mark.parametrize(("rows", "tuples"), CASES)
@pytest.mark.parametrize("words", [1, 3])
def test_pairs_are_those_that_some_query_wants(rows: int, tuples: int, words: int) -> None:
    for known in ((True,), (False,), (True, True), (True, False)):
        check_pairs(rows, tuples, words, known)


def check_pairs(rows: int, tuples: int, words: int, known: tuple[bool, ...]) -> None:
    rng = rng_of()
    sets, theirs = random_sets(rng, words, rows), random_sets(rng, words, tuples)
    moments, moment = [rng.integers(0, 3, rows) for _ in known], rng.integers(0, 4, tuples)
    contains = [random_table(rng, words, (3, 4), one) for one in known]
    row = np.flatnonzero(rng.random(rows) < 0.8)
    first = rng.integers(0, tuples + 1, len(row))
    last = np.minimum(first + rng.integers(-1, tuples + 1, len(row)), tuples)
    expected = []
    for r, low, high in zip(row.tolist(), first.tolist(), last.tolist(), strict=True):
        for t in range(low, high):
            both = (sets[:, r] & theirs[:, t])[:, None]
            for one, mine in zip(contains, moments, strict=True):
                one.restrict(both, mine[[r]], moment[[t]])
            if both.any():
                expected.append((r, t, both[:, 0].tolist()))
    candidates = Candidates(row, first, last)
    for block in (1, 5, 10_000):
        found = []
        pairs = probe(candidates, Rows(sets, moments), Tuples(theirs, moment), contains, block)
        for left, right, both in pairs:
            assert 0 < len(left) <= block
            found += list(zip(left.tolist(), right.tolist(), both.T.tolist(), strict=True))
        assert found == expected


@pytest.mark.parametrize(("rows", "tuples"), [(1, 1), (7, 40), (40, 7)])
@pytest.mark.parametrize("block", [1, 5, 10_000])
def test_pairs_of_groups_are_taken_apart(rows: int, tuples: int, block: int) -> None:
    rng = rng_of()
    groups = []
    for count in (rows, tuples):
        keys, moment = np.sort(rng.integers(0, 3, count)), rng.integers(0, 2, count)
        sets = random_sets(rng, 2, count)
        groups.append(group_rows(keys, [moment], sets))
        known = list(zip(keys.tolist(), moment.tolist(), *sets.tolist(), strict=True))
        members = np.split(groups[-1].order, groups[-1].offsets[1:-1])
        assert sorted(np.concatenate(members).tolist()) == list(range(count))
        distinct = [{known[i] for i in some} for some in members]
        assert all(len(one) == 1 for one in distinct) and len(members) == len(set(known))
        assert [known[some[0]][0] for some in members] == groups[-1].keys.tolist()
    left, right = groups
    a, b = rng.integers(0, len(left.keys), 20), rng.integers(0, len(right.keys), 20)
    both = random_sets(rng, 2, 20)
    expected = []
    for pair, (one, other) in enumerate(zip(a, b, strict=True)):
        for i in left.order[left.offsets[one] : left.offsets[one + 1]].tolist():
            theirs = right.order[right.offsets[other] : right.offsets[other + 1]].tolist()
            expected += [(i, j, both[:, pair].tolist()) for j in theirs]
    found = []
    for mine, others, words in pairs_of_groups(left, right, a, b, both, block):
        assert 0 < len(mine) <= block
        found += list(zip(mine.tolist(), others.tolist(), words.T.tolist(), strict=True))
    assert found == expected
    assert list(pairs_of_groups(left, right, a[:0], b[:0], both[:, :0], block)) == []


@pytest.mark.parametrize("times", [0, 1, 50])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_ranges_shrink_to_times(times: int, dtype: type) -> None:
    rng = rng_of()
    ascending = np.sort(rng.integers(-100, 100, times)).astype(dtype)
    first = rng.integers(0, times + 1, 30)
    last = rng.integers(first, times + 1)
    early = rng.choice([-(2**62), -101, 3, 99, 2**62], 30) + rng.integers(-20, 20, 30)
    late = early + rng.integers(0, 60, 30)
    expected = [
        [int(low + np.searchsorted(ascending[low:high], bound)) for bound in (begin, end)]
        for low, high, begin, end in zip(first, last, early, late, strict=True)
    ]
    search(ascending, early, late, first, last)
    assert np.stack([first, last], axis=1).tolist() == expected


@pytest.mark.parametrize("rows", [0, 1, 20])
@pytest.mark.parametrize("room", [1, 5, 10_000])
def test_rows_are_repeated_for_their_queries_and_windows(rows: int, room: int) -> None:
    """Queries at places 0 and 66 have windows of 6 and 9 for the two tuples, 2 apart; that at 127 has 3 and 3, 3 apart.

    Place 2 is that of a query which is not fed.
    """
    rng = rng_of()
    sets = random_sets(rng, 2, rows)  # bits 0, 2 and 63 of two words
    sets[1] |= np.uint64(4)
    places, slides, phases = {0: 0, 66: 0, 127: 1}, np.array([2, 3]), np.array([1, -2])
    windows = np.full(128, -1)
    windows[list(places)] = list(places.values())
    ranges = np.array([[6, 9], [3, 3]])
    times, bound = rng.integers(-9, 9, (2, rows)), rng.integers(-20, 10, rows)
    low = np.maximum(times.max(axis=0), bound)
    expected = [
        (row, end, place)
        for row in range(rows)
        for place in sorted(places)
        if int(sets[place // 64, row]) >> place % 64 & 1
        for end in range(-30, 30)
        if (end - phases[places[place]]) % slides[places[place]] == 0
        and all(low[row] < end <= times[p, row] + ranges[places[place], p] for p in range(2))
    ]
    cursor, counts, found = np.zeros(3, np.int64), np.zeros(128, np.int64), []
    while cursor[0] < rows:
        row, ends, place = (np.empty(room, np.int64) for _ in range(3))
        repeat_rows(sets, times, low, windows, slides, phases, ranges, cursor, row, ends, place, counts)
        found += list(zip(*(column[: cursor[2]].tolist() for column in (row, ends, place)), strict=True))
    assert found == expected
    assert counts.tolist() == [sum(place == one for _, _, one in expected) for place in range(128)]
