"""The input of a run: Nexmark's events in event time that goes with the clock, whatever the rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from headrace.workloads.isolation import Traffic
from headrace.workloads.nexmark import Nexmark
from headrace_bench.isolation.cases import PROPORTIONS, Load, Phase
from headrace_bench.meters import Meter

START = datetime(2026, 1, 1, tzinfo=UTC)
STEP_S = 1.0
"""So often something arrives: an epoch a second, as for queries that run alone."""

Append = Callable[[str, pa.Table], object]


@dataclass(frozen=True, slots=True)
class Step:
    """What arrives at one moment, in seconds since the start."""

    at: float
    phase: Phase
    tables: dict[str, pa.Table]


def steps(load: Load, course: Sequence[Phase], step_s: float = STEP_S) -> Iterator[Step]:
    """The input, step by step. Numbers of events go on from phase to phase, and so does event time."""
    first, at = 0, 0.0
    for phase in course:
        count = max(1, round(phase.rate * step_s))
        # event number `first` happens when the phase begins
        start = START + timedelta(seconds=at) - timedelta(seconds=first / phase.rate)
        nexmark = Nexmark(start, phase.rate, load.seed, PROPORTIONS[load.workload])
        traffic = Traffic(nexmark, ((0, phase.spread),))
        for _ in range(max(1, round(phase.seconds / step_s))):
            made = traffic.events(first, count)
            yield Step(at, phase, {stream: made[stream] for stream in load.streams})
            first, at = first + count, at + step_s


def made_aside(coming: Iterator[Step], meter: Meter) -> Iterator[Step]:
    """The same steps. What it takes to make them is not counted."""
    while True:
        with meter.aside():
            step = next(coming, None)
        if step is None:
            return
        yield step


@contextmanager
def feeding(append: Append, coming: Iterator[Step], meter: Meter) -> Iterator[threading.Event]:
    """Append steps when they are due; those of a step are made before that. The event says that all have come."""
    stopping, done = threading.Event(), threading.Event()

    def run() -> None:
        began = time.monotonic()
        for step in made_aside(coming, meter):
            if stopping.wait(max(0.0, began + step.at - time.monotonic())):
                break
            for stream, table in step.tables.items():
                append(stream, table)
        done.set()

    thread = threading.Thread(target=run, name="feed", daemon=True)
    thread.start()
    try:
        yield done
    finally:
        stopping.set()
        thread.join()
