"""Sources that fail are read again, later each time; the others are read meanwhile."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from headrace.model.errors import LogError
from headrace.running import retries
from headrace.running.feeding import Feeds
from headrace.running.retries import LONGEST_SECONDS, Retry


@dataclass
class FakeTime:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeIngest:
    """Does what an ingest does, unless `broken`."""

    broken: bool = False
    done: list[str] = field(default_factory=list)

    def _do(self, what: str) -> None:
        if self.broken:
            raise LogError("SOURCE_MISSING", "it is gone")
        self.done.append(what)

    def start(self, interval: float) -> None:
        self._do("start")

    def stop(self) -> None:
        self.done.append("stop")

    def tick(self) -> None:
        self._do("tick")

    def run_available(self) -> None:
        self._do("run")


def test_retries_are_later_each_time_and_start_over_after_a_success() -> None:
    time = FakeTime()
    retry = Retry(time)
    waits = []
    for _ in range(9):
        assert retry.due
        retry.failed(LogError("X", "it failed"))
        assert not retry.due
        waits.append(retry.retry_at - time.now)
        time.now = retry.retry_at
    assert waits == [0.5, 1, 2, 4, 8, 16, LONGEST_SECONDS, LONGEST_SECONDS, LONGEST_SECONDS]
    assert retry.since == 1000.0
    retry.passed()
    retry.failed(LogError("X", "it failed"))
    assert (retry.since, retry.retry_at) == (time.now, time.now + 0.5)
    time.now -= 3600
    assert retry.due, "a clock that was set back holds nobody up"


def test_foreign_errors_are_told_in_our_words() -> None:
    error = retries.in_our_words(ValueError("[SOME_CONDITION] it broke SQLSTATE: 42\n\tat org.apache.Spark"))
    assert error.detail == "[SOME_CONDITION] it broke"


def feeds_of(time: FakeTime, **ingests: Any) -> Feeds:
    feeds = Feeds(time)
    for name, ingest in ingests.items():
        feeds.add(name, ingest)
    return feeds


def test_one_broken_source_keeps_no_other_from_being_read() -> None:
    time, broken, sound = FakeTime(), FakeIngest(broken=True), FakeIngest()
    feeds = feeds_of(time, broken=broken, sound=sound)
    feeds.start(1.0)
    feeds.tick()
    feeds.tick()
    assert sound.done == ["start", "tick", "tick"]
    found = feeds.get("broken")
    assert found is not None and found.retry.error is not None and broken.done == []
    broken.broken = False
    feeds.tick()
    assert broken.done == [], "it is not due yet"
    time.now += 1
    feeds.tick()
    assert broken.done == ["tick"] and found.retry.error is None
    feeds.stop()
    assert sound.done[-1] == broken.done[-1] == "stop"


def test_run_available_reads_all_and_tells_which_failed() -> None:
    time, broken, sound = FakeTime(), FakeIngest(broken=True), FakeIngest()
    feeds = feeds_of(time, broken=broken, sound=sound)
    assert [error.code for error in feeds.run_available(threading.Event())] == ["SOURCE_MISSING"]
    assert sound.done == ["run"]
    interrupted = threading.Event()
    interrupted.set()
    assert feeds.run_available(interrupted) == [] and sound.done == ["run"]


def test_a_source_added_while_running_is_started() -> None:
    feeds = Feeds()
    feeds.start(1.0)
    late = FakeIngest()
    feeds.add("late", late)  # type: ignore[arg-type]
    assert late.done == ["start"]
    feeds.remove("late")
    assert late.done == ["start", "stop"] and feeds.get("late") is None
