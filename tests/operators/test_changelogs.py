"""Changelog-sets follow their definition (AStream 2.1.2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.join.changelogs import changelog_set, words

SLOTS = st.dictionaries(st.integers(0, 130), st.integers(1, 4), max_size=6)


@given(SLOTS, SLOTS)
def test_a_bit_is_set_iff_the_slot_has_the_same_query(before: dict[int, int], after: dict[int, int]) -> None:
    packed = words(changelog_set(before, after), 131)
    found = [bool(int(packed[slot // 64]) >> slot % 64 & 1) for slot in range(131)]
    assert found == [before.get(slot) == after.get(slot) for slot in range(131)]


@given(SLOTS)
def test_nothing_has_changed_since_the_same_time(slots: dict[int, int]) -> None:
    assert changelog_set(slots, slots) == -1
