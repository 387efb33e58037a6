"""Changelog-sets follow AStream's Eq. 1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.changelogs import ALL, ChangelogSets, changelog_set, words

SLOTS = st.dictionaries(st.integers(0, 5), st.integers(1, 4), max_size=6)


def holds(history: list[dict[int, int]], i: int, j: int, slot: int) -> bool:
    """Whether a slot holds the same query, or nobody, at all times from i to j: the definition."""
    low, high = min(i, j), max(i, j)
    return len({history[time].get(slot) for time in range(low, high + 1)}) == 1


@given(st.lists(SLOTS, min_size=1, max_size=8), st.data())
def test_between_is_set_iff_the_slot_kept_its_query(
    history: list[dict[int, int]], data: st.DataObject
) -> None:
    sets = ChangelogSets(0, history[0])
    for slots in history[1:]:
        sets.append(slots)
    times = st.integers(0, len(history) - 1)
    for i, j in data.draw(st.lists(st.tuples(times, times), max_size=20)):
        found = sets.between(i, j)
        assert [bool(found >> slot & 1) for slot in range(7)] == [
            holds(history, i, j, slot) for slot in range(7)
        ]


@given(st.lists(SLOTS, min_size=2, max_size=8), st.integers(0, 7))
def test_forgetting_keeps_the_rest(history: list[dict[int, int]], before: int) -> None:
    full, partial = ChangelogSets(0, history[0]), ChangelogSets(0, history[0])
    for slots in history[1:]:
        full.append(slots)
        partial.append(slots)
    partial.between(full.last, 0)
    partial.forget(before)
    for i in range(partial.first, partial.last + 1):
        assert partial.between(partial.last, i) == full.between(full.last, i)
    if partial.first > 0:
        with pytest.raises(IndexError):
            partial.between(partial.last, partial.first - 1)


def test_the_figure_of_the_paper() -> None:
    # AStream Figure 3c: Q2 leaves, Q3 takes its slot; the changelog-set is 10 (first slot written first).
    assert changelog_set({0: 1, 1: 2}, {0: 1, 1: 3}) & 0b11 == 0b01


def test_a_time_against_itself_is_all_ones() -> None:
    sets = ChangelogSets(3, {0: 1})
    sets.append({0: 2})
    assert sets.between(3, 3) == sets.between(4, 4) == ALL
    assert sets.between(3, 4) == sets.between(4, 3)


def test_words_are_little_endian_uint64() -> None:
    assert words(0b101, 3).tolist() == [5]
    assert words(ALL, 130).tolist() == [2**64 - 1, 2**64 - 1, 3]
    assert words(ALL, 0).tolist() == []
