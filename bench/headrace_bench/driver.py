"""The driver of AStream's figure 5: a queue of tuples and a queue of query requests, pulled as fast as ACKs allow.

Tuples come into being at a fixed rate, whatever the system does; their event time is the wall clock's. They wait in a
FIFO queue until the system has acknowledged what it was given (back-pressure), so waiting counts as latency. Requests
wait in a queue of their own until the one before is acknowledged. A rate is *sustainable* when the age of the oldest
tuple without results does not keep growing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace_bench import astream
from headrace_bench.astream import AggregationQuery, Request
from headrace_bench.systems.system import System
from headrace_bench.trial import Probe, Trial

TICK_S = 0.05
FILES_AHEAD = 2
"""So many files may be unacknowledged: one that is worked on and one that waits."""

GROWTH = 0.05
"""Seconds of age per second: what grows slower counts as noise."""

SETTLING = 0.4
"""The first part of a probe, left out of the judgement."""


class Clock(Protocol):
    """The time of a probe; tests give one that does not wait."""

    def time(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class LiveSystem(System, Protocol):
    """A system whose queries come and go while it runs, and that tells what it delivered when."""

    def request(self, create: Iterable[tuple[int, AggregationQuery]], drop: Iterable[int]) -> None: ...

    def acknowledged(self) -> int:
        """How many creations and deletions have taken effect."""

    def delivered(self) -> list[tuple[float, int]]:
        """(wall-clock time, end in microseconds of the newest window whose rows were there by then)."""


@dataclass(slots=True)
class _Waiting:
    """Query requests: due ones wait until everything before them is acknowledged."""

    schedule: deque[Request]
    queries: Callable[[int], AggregationQuery]
    clock: Clock
    alive: deque[int] = field(default_factory=deque)
    next_number: int = 0
    asked: int = 0
    sent: deque[tuple[float, int]] = field(default_factory=deque)
    latencies: list[float] = field(default_factory=list)

    def step(self, system: LiveSystem, elapsed: float, due_from: float, base: int) -> None:
        acknowledged = system.acknowledged() - base
        while self.sent and self.sent[0][1] <= acknowledged:
            self.latencies.append(self.clock.time() - self.sent.popleft()[0])
        if self.sent or not self.schedule or self.schedule[0].at > elapsed:
            return
        request = self.schedule.popleft()
        created = range(self.next_number, self.next_number + request.create)
        dropped = [self.alive.popleft() for _ in range(min(request.drop, len(self.alive)))]
        self.alive.extend(created)
        self.next_number += request.create
        self.asked += request.create + len(dropped)
        system.request([(number, self.queries(number)) for number in created], dropped)
        self.sent.append((due_from + request.at, self.asked))


class Generator:
    """Tuples whose event time is when they were due. Fields are drawn once and used in turn."""

    def __init__(self, trial: Trial, rate: int, started: float) -> None:
        self._rate, self._started, self._keys = rate, started, trial.keys
        pool = astream.tuples(1 << 18, datetime.fromtimestamp(0, UTC), 1, trial.keys, seed=trial.seed)
        self._pool, self._size = pool.drop_columns(["key", "ts"]), 1 << 18

    def due(self, now: float) -> int:
        return int((now - self._started) * self._rate)

    def write(self, first: int, last: int, path: Path) -> None:
        """Tuples [first, last) as one file that appears whole."""
        number = np.arange(first, last, dtype=np.int64)
        event_us = int(self._started * 1e6) + number * 1_000_000 // self._rate
        rows = self._pool.take(pa.array(number % self._size))
        columns = {"key": pa.array(number % self._keys)}
        columns |= {name: rows[name] for name in rows.column_names}
        columns["ts"] = pa.array(event_us).cast(pa.timestamp("us", tz="UTC"))
        hidden = path.with_name(f".{path.name}")
        half = max(1, (last - first + 1) // 2)
        pq.write_table(
            pa.table(columns), hidden, compression="none", use_dictionary=False, row_group_size=half
        )
        hidden.rename(path)


def run_probe(
    system: LiveSystem,
    trial: Trial,
    source: Path,
    rate: int,
    seconds: float,
    requests: Iterable[Request] = (),
    note: Callable[[Probe], None] = lambda probe: None,
    clock: Clock = time,
) -> Probe:
    """Feed `rate` tuples a second for so many seconds, send the requests when they are due, and watch."""
    probe, rng = Probe(rate), Random(trial.seed + 1)
    drawn: dict[int, AggregationQuery] = {}

    def query(number: int) -> AggregationQuery:
        while number not in drawn:
            drawn[len(drawn)] = astream.aggregation(
                rng, trial.window_max_s, mixed=trial.mixed, columns=trial.columns
            )
        return drawn[number]

    before, acknowledged = system.done(), system.acknowledged()
    waiting = _Waiting(deque(requests), query, clock)
    files: deque[int] = deque()
    started = clock.time()
    generator = Generator(trial, rate, started)
    fed = 0
    while (now := clock.time()) - started < seconds:
        done = system.done() - before
        while files and files[0] <= done:
            files.popleft()
        due = generator.due(now)
        if due > fed and len(files) < FILES_AHEAD:
            generator.write(fed, due, source / f"{int(now * 1e6):020}.parquet")
            fed = due
            files.append(fed)
        waiting.step(system, now - started, started, acknowledged)
        probe.ages.append((round(now - started, 3), round(now - started - done / rate, 3)))
        probe.most_queries = max(probe.most_queries, len(waiting.alive))
        note(probe)
        clock.sleep(TICK_S)
    probe.seconds, probe.fed_rows, probe.done_rows = clock.time() - started, fed, system.done() - before
    probe.growth = growth(probe.ages, probe.seconds)
    probe.sustained = probe.growth < GROWTH
    probe.ages = probe.ages[:: max(1, len(probe.ages) // 200)]
    probe.latencies = percentiles(window_latencies(system.delivered(), started, probe.seconds))
    probe.deployments = percentiles(waiting.latencies)
    probe.requests, probe.acknowledged = waiting.asked, system.acknowledged() - acknowledged
    asked = acknowledged + waiting.asked + len(waiting.alive)
    system.request([], waiting.alive)  # the next probe begins with the queries this one began with
    _drain(system, before + fed, asked, clock)
    return probe


def _drain(system: LiveSystem, rows: int, requests: int, clock: Clock, patience_s: float = 120.0) -> None:
    """What was fed and asked is worked off before anything else is measured."""
    deadline = clock.time() + patience_s
    while (system.done() < rows or system.acknowledged() < requests) and clock.time() < deadline:
        clock.sleep(TICK_S)


def growth(ages: list[tuple[float, float]], seconds: float) -> float:
    """Slope of the age of the oldest tuple without results, after the first part.

    Between two epochs' ends the age grows as the clock goes, so only what is left after each end is judged.

    >>> growth([(t / 10, 1.0 + t % 7 / 10) for t in range(200)], 20.0) < 0.01
    True
    >>> round(growth([(t / 10, t / 20 + t % 7 / 10) for t in range(200)], 20.0), 1)
    0.5
    """
    left = [now for before, now in pairwise(ages) if now[1] < before[1] and now[0] >= SETTLING * seconds]
    if len(left) < 3:  # an epoch takes a third of the time: nothing settles
        late = [age for age in ages if age[0] >= SETTLING * seconds]
        left = late[:: max(1, len(late) - 1)]
    if len(left) < 2:
        return 0.0
    times, rest = np.array(left).T
    return float(np.polyfit(times, rest, 1)[0])


def window_latencies(delivered: list[tuple[float, int]], started: float, seconds: float) -> list[float]:
    """Seconds from the end of a window until its rows were there, for each whole second that some window ends at.

    >>> window_latencies([(101.5, 100_000_000), (103.0, 102_000_000)], 99.0, 10.0)
    [1.5, 2.0, 1.0]
    """
    found, last = [], int(started)
    for at, newest_us in delivered:
        if newest_us < started * 1e6 or at > started + seconds:
            continue
        ends = range(last + 1, newest_us // 1_000_000 + 1)
        found += [round(at - end, 3) for end in ends]
        last = max(last, newest_us // 1_000_000)
    return found


def percentiles(values: list[float]) -> dict[str, float]:
    """p50, p95 and max; nothing of nothing."""
    if not values:
        return {}
    at = np.percentile(values, [50, 95, 100])
    return {name: round(float(value), 3) for name, value in zip(("p50", "p95", "max"), at, strict=True)}


def find_sustainable(
    probe: Callable[[int], Probe], estimate: float, probes: int = 4, step: float = 0.3
) -> list[Probe]:
    """Close in on the highest sustainable rate from an estimate; the step halves at each turn.

    >>> fake = lambda rate: Probe(rate, sustained=rate <= 110)
    >>> [p.rate for p in find_sustainable(fake, 100)]
    [100, 130, 115, 108]
    """
    found: list[Probe] = []
    rate = estimate
    for _ in range(probes):
        found.append(probe(max(1, round(rate))))
        if found[-1].sustained:
            rate *= 1 + step
            if any(not p.sustained for p in found):
                step /= 2
                rate = found[-1].rate + estimate * step
        else:
            best = max((p.rate for p in found if p.sustained), default=0)
            step /= 2
            rate = best + estimate * step if best else found[-1].rate * (1 - 2 * step)
    return found
