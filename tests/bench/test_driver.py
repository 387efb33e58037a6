"""The driver's queues against a system that works at a known speed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headrace_bench.astream import AggregationQuery, Request
from headrace_bench.driver import run_probe
from headrace_bench.trial import Trial
from headrace_bench.workload import Query

TRIAL = Trial("fake", 1, keys=7)


@dataclass
class Clock:
    """Time passes when somebody waits."""

    now: float = 1e9

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Fake:
    """Works off so many tuples a second, in order; acknowledges requests after a while."""

    source: Path
    speed: float
    name: str = "fake"
    asked: list[tuple[float, int]] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    worked: float = 0.0
    clock: Clock = field(default_factory=Clock)
    before: float = 0.0

    def __post_init__(self) -> None:
        self.before = self.clock.time()

    def open(self, feed: Path, work: Path, streams: Sequence[str]) -> None: ...
    def create(self, queries: Sequence[Query]) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...

    def rows(self, number: int) -> list[tuple[Any, ...]]:
        return []

    def facts(self) -> dict[str, Any]:
        return {}

    def done(self) -> int:
        there = sum(pq.read_metadata(path).num_rows for path in sorted(self.source.glob("[0-9]*.parquet")))
        now = self.clock.time()
        self.worked = min(there, self.worked + self.speed * (now - self.before))
        self.before = now
        return int(self.worked)

    def request(self, create: Iterable[tuple[int, AggregationQuery]], drop: Iterable[int]) -> None:
        for number, _ in create:
            self.alive.add(number)
            self.seen.add(number)
            self.asked.append((self.clock.time(), 1))
        for number in drop:
            self.alive.remove(number)
            self.asked.append((self.clock.time(), 1))

    def acknowledged(self) -> int:
        return sum(n for at, n in self.asked if self.clock.time() - at > 0.2)

    def delivered(self) -> list[tuple[float, int]]:
        return []


def test_a_fast_system_sustains_and_gets_every_tuple_in_order(tmp_path: Path) -> None:
    fake = Fake(tmp_path, 1e6)
    probe = run_probe(fake, TRIAL, tmp_path, 5_000, 1.2, clock=fake.clock)
    assert probe.sustained and probe.growth < 0.05
    files = [pq.read_table(path) for path in sorted(tmp_path.glob("[0-9]*.parquet"))]
    keys = [key for table in files for key in table["key"].to_pylist()]
    assert keys == [i % 7 for i in range(probe.fed_rows)]
    times = [ts.value for table in files for ts in table["ts"]]
    assert times == sorted(times)
    assert abs(probe.fed_rows - 6_000) < 1_500


def test_a_slow_system_does_not_and_files_wait(tmp_path: Path) -> None:
    fake = Fake(tmp_path, 2_000)
    probe = run_probe(fake, TRIAL, tmp_path, 5_000, 1.5, clock=fake.clock)
    assert not probe.sustained
    assert probe.growth > 0.2
    assert probe.ages[-1][1] > 0.5


def test_requests_wait_for_the_one_before(tmp_path: Path) -> None:
    fake = Fake(tmp_path, 1e6)
    requests = [Request(0.0, 3, 0), Request(0.05, 2, 1), Request(0.1, 1, 2)]
    probe = run_probe(fake, TRIAL, tmp_path, 1_000, 1.0, requests, clock=fake.clock)
    assert probe.requests == probe.acknowledged == 9
    assert fake.seen == {0, 1, 2, 3, 4, 5} and fake.alive == set()
    assert probe.most_queries == 4
    assert probe.deployments["max"] > 0.4, "the third waited for two others"
