"""The crew: groups run side by side, wait for nobody, and fail alone."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.model.errors import EngineError, HeadraceError
from headrace.running import crew as crew_module
from headrace.running.crew import Crew
from waiting import until

WAIT = 20.0


class FakeGroup:
    """A group with so many sealed epochs to run; `gate` holds an epoch up, `error` makes it fail."""

    def __init__(self, name: str, epochs: int) -> None:
        self.name, self.left, self.spark = name, epochs, None
        self.gate = threading.Event()
        self.error: EngineError | None = None
        self.priority, self.plain, self.light = 0, False, False
        self.gate.set()

    def run_next(self) -> Any:
        assert self.gate.wait(WAIT)
        if self.error is not None:
            raise self.error
        self.left -= 1
        return SimpleNamespace(group=self.name)


class FakeGroups:
    """Several groups; notes which of them were running whenever queries could change groups."""

    cores = 2

    def __init__(self, *groups: FakeGroup) -> None:
        self.groups = {group.name: group for group in groups}
        self.settled: list[set[str]] = []

    def settle(self, running: Collection[str], failing: Collection[str]) -> set[str]:
        self.settled.append(set(running))
        return set()

    def due(self) -> list[str]:
        return [group.name for group in self.groups.values() if group.left]

    def get(self, name: str) -> FakeGroup:
        return self.groups[name]

    def lived_in(self) -> list[str]:
        return list(self.groups)

    def priority(self, name: str) -> int:
        return self.groups[name].priority

    def is_plain(self, name: str) -> bool:
        return self.groups[name].plain

    def is_light(self, name: str) -> bool:
        return self.groups[name].light

    def shares(self) -> bool:
        return not all(group.plain for group in self.groups.values())


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def nothing(session: Any) -> Any:
        yield

    monkeypatch.setattr(crew_module, "active", nothing)
    monkeypatch.setattr(crew_module, "is_gone", lambda spark: False)


def crew_of(groups: FakeGroups, threads: int = 4) -> tuple[Crew, list[str]]:
    done: list[str] = []
    return Crew(groups, lambda group, commit: done.append(group.name), threads), done  # type: ignore[arg-type]


def test_a_slow_group_holds_nobody_up() -> None:
    slow, quick = FakeGroup("slow", 1), FakeGroup("quick", 3)
    slow.gate.clear()
    crew, done = crew_of(FakeGroups(slow, quick))
    until(lambda: crew.dispatch() or done == ["quick"] * 3)  # type: ignore[func-returns-value]
    assert crew.caught_up(), "the quick one has run everything, so that more may be sealed"
    slow.gate.set()
    crew.run_to_end(lambda: False)
    assert done == [*["quick"] * 3, "slow"]
    crew.close()


def test_a_group_that_all_queries_have_left_is_no_trouble_any_more() -> None:
    group = FakeGroup("alerts", 1)
    group.error = EngineError("EPOCH_FAILED", "no disk")
    crew, _ = crew_of(FakeGroups(group, FakeGroup("main", 0)))
    crew.dispatch()
    until(lambda: crew.troubles.keys() == {"alerts"})
    group.left = 0
    assert crew.troubles == {}
    crew.close()


def test_groups_that_came_for_a_moment_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "REMEMBERED", 3)
    groups = FakeGroups(FakeGroup("main", 99))
    crew, done = crew_of(groups)
    for number in range(9):
        groups.groups[f"transit-{number}-1"] = FakeGroup(f"transit-{number}-1", 1)
        crew.dispatch()
        until(lambda: not crew.busy)
    assert len(crew._turns) <= 4 and len(crew._retries) <= 4
    assert done.count("main") == len(done) - 9 == 9
    crew.close()


class FakeSplits(FakeGroups):
    """Splits beside the groups."""

    def running(self) -> list[str]:
        return [name for name, split in self.groups.items() if split.error is None]


def test_splits_run_beside_groups_and_sealing_waits_for_the_quickest_of_both() -> None:
    group, split = FakeGroup("main", 2), FakeGroup("split:road", 2)
    split.gate.clear()
    done: list[str] = []
    splits: Any = FakeSplits(split)
    crew = Crew(FakeGroups(group), lambda one, commit: done.append(one.name), splits=splits)  # type: ignore[arg-type]
    until(lambda: crew.dispatch() or done == ["main"] * 2)  # type: ignore[func-returns-value]
    assert crew.due() == ["split:road"] and crew.caught_up(), "the group has run everything"
    group.left = 1
    assert not crew.caught_up(), "both are behind"
    split.gate.set()
    crew.run_to_end(lambda: False)
    assert done.count("split:road") == 2 and crew.due() == []
    split.left, split.error = 1, EngineError("EPOCH_FAILED", "no luck")
    with pytest.raises(HeadraceError, match="no luck"):
        crew.run_to_end(lambda: False)
    assert list(crew.troubles) == ["split:road"]
    splits.groups.clear()  # somebody drops it
    assert crew.troubles == {}
    crew.close()


def test_when_all_are_behind_nobody_has_caught_up() -> None:
    slow = FakeGroup("main", 2)
    slow.gate.clear()
    crew, done = crew_of(FakeGroups(slow))
    crew.dispatch()
    assert not crew.caught_up()
    slow.gate.set()
    crew.run_to_end(lambda: False)
    assert done == ["main", "main"] and crew.caught_up()
    crew.close()


def test_a_group_that_fails_fails_alone_and_its_error_comes_last() -> None:
    bad, good = FakeGroup("bad", 2), FakeGroup("good", 3)
    bad.error = EngineError("EPOCH_FAILED", "no")
    crew, done = crew_of(FakeGroups(bad, good))
    with pytest.raises(HeadraceError, match="EPOCH_FAILED"):
        crew.run_to_end(lambda: False)
    assert done == ["good"] * 3
    assert set(crew.troubles) == {"bad"}
    bad.error = None
    crew.run_to_end(lambda: False)
    assert bad.left == 0 and not crew.troubles
    crew.close()


def test_a_failed_group_rests_in_the_background_until_its_time() -> None:
    bad = FakeGroup("bad", 1)
    bad.error = EngineError("EPOCH_FAILED", "no")
    crew, done = crew_of(FakeGroups(bad))
    crew.dispatch()
    until(lambda: not crew.busy)
    bad.error = None
    crew.dispatch()
    assert not crew.busy, "half a second has not passed"
    crew.forgive()
    crew.dispatch()
    until(lambda: done == ["bad"])
    crew.close()


def test_a_cancelled_epoch_is_no_trouble() -> None:
    group = FakeGroup("main", 1)
    group.error = EngineError("EPOCH_CANCELLED", "somebody wanted it")
    crew, _ = crew_of(FakeGroups(group))
    with pytest.raises(HeadraceError, match="EPOCH_CANCELLED"):
        crew.run_to_end(lambda: False)
    assert not crew.troubles
    crew.close()


def test_nobody_starves_when_there_are_more_groups_than_threads() -> None:
    groups = [FakeGroup(f"g{i}", 30) for i in range(5)]
    crew, done = crew_of(FakeGroups(*groups), threads=2)
    until(lambda: crew.dispatch() or len(done) >= 50)  # type: ignore[func-returns-value]
    assert min(done.count(group.name) for group in groups) >= 8
    crew.run_to_end(lambda: False)
    crew.close()


def test_no_more_epochs_at_a_time_than_threads() -> None:
    groups = [FakeGroup(f"g{i}", 1) for i in range(6)]
    for group in groups:
        group.gate.clear()
    fakes = FakeGroups(*groups)
    crew, done = crew_of(fakes, threads=2)
    for _ in range(3):
        crew.dispatch()
    assert max(map(len, fakes.settled)) == 2
    for group in groups:
        group.gate.set()
    crew.run_to_end(lambda: False)
    assert sorted(done) == sorted(group.name for group in groups)
    crew.close()


def test_higher_priority_is_first_and_nobody_starves() -> None:
    groups = [FakeGroup(f"g{i}", 100) for i in range(4)]
    groups[3].priority = 5
    crew, done = crew_of(FakeGroups(*groups), threads=1)
    until(lambda: crew.dispatch() or len(done) >= 60)  # type: ignore[func-returns-value]
    counts = {group.name: done.count(group.name) for group in groups}
    assert counts["g3"] >= 40, counts
    assert min(counts.values()) >= 2, counts
    crew.run_to_end(lambda: False)
    crew.close()


def held_up(count: int) -> list[FakeGroup]:
    """Plain groups whose epochs do not end before somebody lets them."""
    groups = [FakeGroup(f"plain-{i}", 1) for i in range(count)]
    for group in groups:
        group.plain = True
        group.gate.clear()
    return groups


def test_plain_groups_leave_threads_and_time_to_the_others() -> None:
    plain = held_up(6)
    main = FakeGroup("main", 3)
    fakes = FakeGroups(main, *plain)
    crew, done = crew_of(fakes)
    until(lambda: crew.dispatch() or done == ["main"] * 3)  # type: ignore[func-returns-value]
    assert max(map(len, fakes.settled)) <= 2, "one plain group at a time, beside the main group"
    main.left = 3  # more is sealed
    until(lambda: crew.dispatch() or len(done) == 6)  # type: ignore[func-returns-value]
    for group in plain:
        group.gate.set()
    until(lambda: crew.dispatch() or len(done) == 12)  # type: ignore[func-returns-value]
    crew.close()


def test_where_all_is_run_to_the_end_plain_groups_take_all_threads() -> None:
    plain = held_up(3)
    main = FakeGroup("main", 1)
    fakes = FakeGroups(main, *plain)
    crew, done = crew_of(fakes)
    crew.dispatch(at_once=True)
    crew.dispatch(at_once=True)
    assert {group.name for group in plain} <= fakes.settled[-1], "nobody waits for the main group"
    until(lambda: done == ["main"])
    for group in plain:
        group.gate.set()
    crew.run_to_end(lambda: False)
    assert len(done) == 4
    crew.close()
