"""How large epochs become, for groups that are played: who runs what is sealed, and how long anybody waits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.optimizer.place import CROWDED_TUPLES
from headrace.running.pace import (
    GROWS,
    LEAST_ROWS,
    LONGEST_S,
    EpochSizes,
    InputRate,
    epoch_bound,
    longest_epoch,
)

MOST = 1_000_000
PACES = st.dictionaries(st.sampled_from("abcd"), st.floats(1.0, 1e7), min_size=1)


@given(PACES, st.floats(0, 1e6), st.integers(1, MOST))
def test_an_epoch_is_long_for_a_slow_group_only_where_input_or_the_fastest_one_need_it(
    paces: dict[str, float], rate: float, last: int
) -> None:
    bound = epoch_bound(paces, MOST, rate, last)
    assert LEAST_ROWS <= bound <= MOST
    assert bound <= max(LEAST_ROWS, round(LONGEST_S * max(paces.values())))
    assert bound <= max(
        LEAST_ROWS, round(max(rate, max(paces.values()) / 4, LONGEST_S * min(paces.values())))
    )
    assert bound <= max(LEAST_ROWS, round(max(rate, max(paces.values()) / 4)), GROWS * last)
    if len(paces) > 1:
        assert bound <= CROWDED_TUPLES


@given(PACES, st.floats(0, 1e6), st.integers(1, MOST))
def test_while_a_group_is_unknown_nothing_grows_and_input_is_kept_up_with(
    paces: dict[str, float], rate: float, last: int
) -> None:
    bound = epoch_bound({**paces, "new": None}, MOST, rate, last)
    assert bound <= max(LEAST_ROWS, round(max(rate, max(paces.values()) / 4)), last)
    # a group that always fails never has a pace, and must not make the others fall behind
    assert bound >= min(CROWDED_TUPLES, round(min(rate, LONGEST_S * max(paces.values()))))


def test_a_burst_is_no_rate() -> None:
    seen, tuples = InputRate(), 0
    for second in range(20):
        tuples += 500_000 if second == 17 else 2_000
        seen = seen.seen(float(second), tuples).seen(second + 0.5, tuples + 7)
    assert seen.usual == 2_000
    assert InputRate().usual == InputRate().seen(3.0, 900).usual == 0


@dataclass
class Played:
    """A group that takes so many seconds for an epoch, and so many tuples per second more. `waits` says after each
    tenth of a second how many tuples it has not run yet.
    """

    name: str
    pace: float
    overhead: float
    done: int = 0
    took: float = 0.0
    ends: float | None = None
    longest: float = 0.0
    waits: list[int] = field(default_factory=list)


def play(groups: list[Played], rate: int, tenths: int, backlog: int = 0, before: int = 20_000) -> list[int]:
    """The sizes of the epochs that are sealed, while ten chunks come every second. All lived in `main` `before`, and
    its last epoch took two seconds.
    """
    sizes, epochs, came = EpochSizes(), list[int](), backlog
    pending = deque([rate // 10] * (10 * backlog // rate))
    sizes.sealed(before, -1.0)
    sizes.ran("main", before, 2.0)
    for tenth in range(tenths):
        now = tenth / 10
        pending.append(rate // 10)
        came += rate // 10
        sizes.came(now, came)
        for group in groups:
            if group.ends is not None and now >= group.ends:
                sizes.ran(group.name, epochs[group.done], group.took, group.took - group.overhead)
                group.done, group.ends = group.done + 1, None
        behind = {group.name: len(epochs) - group.done for group in groups}
        bound = sizes.bound(behind, MOST)
        rests = sum(pending) < bound and sizes.rests(behind, now)
        if pending and not rests and any(group.done == len(epochs) for group in groups):
            taken = pending.popleft()
            while pending and taken + pending[0] <= bound:
                taken += pending.popleft()
            epochs.append(taken)
            sizes.sealed(taken, now)
        for group in groups:
            if group.ends is None and group.done < len(epochs):
                group.took = group.overhead + epochs[group.done] / group.pace
                group.ends, group.longest = now + group.took, max(group.longest, group.took)
            group.waits.append(came - sum(epochs[: group.done]))
    return epochs


def test_after_a_split_the_light_group_keeps_up_and_epochs_stay_short_for_the_heavy_one() -> None:
    heavy, light = Played("auto-0", 5_000.0, 0.4), Played("main", 150_000.0, 0.15)
    epochs = play([heavy, light], rate=25_000, tenths=600, backlog=200_000)
    assert max(light.waits[50:]) <= 2 * 25_000  # it had worked off what others left to it within 5 s
    assert heavy.longest <= 8.0
    # the heavy one is busy with tuples, and not with beginning epochs
    assert sum(epochs[: heavy.done + 1]) >= 0.9 * 5_000 * 60
    assert len(epochs) < 100


def test_a_light_group_whose_epochs_are_jobs_is_not_doomed_by_small_ones() -> None:
    heavy, light = Played("auto-0", 10.0, 0.4), Played("main", 100_000.0, 0.6)
    play([heavy, light], rate=25_000, tenths=900, backlog=200_000)
    assert max(light.waits[800:]) <= 2.5 * 25_000


def test_a_group_that_is_behind_by_small_epochs_catches_up() -> None:
    heavy, light = Played("auto-0", 5_000.0, 0.4), Played("main", 150_000.0, 0.05)
    play([heavy, light], rate=1_000, tenths=900, backlog=20_000)
    assert heavy.waits[100] > 5_000
    assert max(heavy.waits[800:]) <= 5_000
    assert max(light.waits[20:]) <= 2_000


@pytest.mark.parametrize("overhead", [0.05, 0.1, 0.2, 0.4])
def test_a_group_by_itself_grows_its_epochs_until_they_are_long_and_loses_nothing(overhead: float) -> None:
    alone = Played("main", 10_000.0, overhead)
    epochs = play([alone], rate=25_000, tenths=600, before=2_000)
    longest = longest_epoch([overhead])
    assert 0.8 * longest < alone.longest < 1.5 * longest
    assert sum(epochs[: alone.done]) > 0.8 * 10_000 * 60
