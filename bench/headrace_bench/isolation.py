"""FunShare's W1 with the engine itself: what each policy of sharing costs at one input rate, and how the queries fare.

    python -m headrace_bench.isolation [queries] [events per second] [seconds] [policies...]

Prints a table, and draws it if a folder is given with HEADRACE_BENCH_OUT. All policies run one after the other in one
process, over the same events. The conductor looks every two seconds and merges every six, where it would do so every
ten and sixty: the run is that much shorter than the paper's. Windows are six seconds long for the same reason.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import headrace
from headrace.optimizer.grouping.timetable import Timetable
from headrace.workloads.isolation import STREAMS, Traffic, draw_queries
from headrace.workloads.nexmark import Nexmark
from headrace_bench.epochs import own_spark
from headrace_bench.meters import Meter

POLICIES = ("isolated", "full", "overlap", "selectivity", "functional")
WATCH_S, MERGE_S = 2.0, 6.0
STEP_S = 0.5


@dataclass(frozen=True)
class Fared:
    """What a policy came to in the second half of its run.

    `cpu` is CPU seconds per second of the driver, of Spark and of all workers; `tasks_cpu` is that of tasks alone.
    `worst` and `mean` are the parts of their input that queries processed, and `behind_s` how far the slowest was
    behind in the end.
    """

    policy: str
    groups: int
    cpu: float
    tasks_cpu: float
    worst: float
    mean: float
    behind_s: float
    events: int
    error: float | None
    delay_s: float | None

    def line(self) -> str:
        error = "" if self.error is None else f"{self.error:.0%}"
        delay = "" if self.delay_s is None else f"{self.delay_s:.2f}"
        return (
            f"{self.policy:>12} {self.groups:6d} {self.cpu:6.2f} {self.tasks_cpu:6.2f} {self.worst:6.2f} "
            f"{self.mean:6.2f} {self.behind_s:7.1f} {self.events:7d} {error:>6} {delay:>6}"
        )


HEAD = f"{'policy':>12} groups    cpu  tasks  worst   mean  behind  events  error  delay"


def measure(spark: Any, policy: str, queries: int, rate: int, seconds: int) -> Fared:
    """Run one policy over a fresh warehouse."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-") as folder,
        headrace.open(Path(folder, "w"), spark=spark, progress=False, sharing=policy) as hr,
    ):
        for stream in ("person", "auction"):
            hr.create_stream(stream, STREAMS[stream], event_time="date_time", watermark="1 second")
        texts = [query.cql() for query in draw_queries("W1", queries, (0.1, 0.1), seed=1, range_s=6)]
        hr.create_queries([(f"w{i}", text) for i, text in enumerate(texts)])
        hr.warm_up()
        _look_often(hr)
        hr.start(interval="1 second")
        with feeding(hr, rate):
            time.sleep(seconds / 2)
            before = _counts(hr)
            with Meter() as meter:
                time.sleep(seconds / 2)
                after = _counts(hr)
            return _fared(hr, policy, before, after, meter.cpu_s)


def _look_often(hr: Any) -> None:
    conductor = hr._running.conducting._conductor
    conductor._settings = replace(conductor._settings, watch_every_s=WATCH_S, merge_every_s=MERGE_S)
    conductor._state.timetable = Timetable.start(time.time(), conductor._settings)


@contextmanager
def feeding(hr: Any, rate: int) -> Iterator[None]:
    """Append events at a rate; those of a step are made before it is due."""
    stopping = threading.Event()
    # bids are not read here, so there are few
    people = Nexmark(datetime(2026, 1, 1, tzinfo=UTC), rate, seed=1, proportions=(1, 3, 1))
    traffic, step = Traffic(people), round(rate * STEP_S)

    def run() -> None:
        first, due = 0, time.monotonic()
        while not stopping.wait(max(0.0, due - time.monotonic())):
            made = traffic.events(first, step)
            for stream in ("person", "auction"):
                hr.append(stream, made[stream])
            first, due = first + step, due + STEP_S

    thread = threading.Thread(target=run, name="feed")
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


@dataclass(frozen=True)
class _Counts:
    """Where a run stands: tuples that came in, and those that each query's group has processed."""

    at: float
    arrived: int
    processed: dict[str, int]
    homes: dict[str, str]


def _counts(hr: Any) -> _Counts:
    stage = hr._running.conducting._stage
    homes = {info.name: info.group for info in hr.queries()}
    cursors = {group: hr._delivered.cursor(group) for group in set(homes.values())}
    done = {group: sum(stage.processed(cursor).values()) for group, cursor in cursors.items()}
    processed = {name: done[group] for name, group in homes.items()}
    return _Counts(time.time(), sum(stage.arrived().values()), processed, homes)


def _fared(hr: Any, policy: str, before: _Counts, after: _Counts, cpu_s: float) -> Fared:
    elapsed, arrived = after.at - before.at, max(1, after.arrived - before.arrived)
    shares = [min(1.0, (after.processed[q] - before.processed[q]) / arrived) for q in after.processed]
    recent = [epoch.cost for epoch in hr.recent_epochs() if before.at < epoch.committed_at <= after.at]
    told = hr.sharing()
    return Fared(
        policy,
        len(set(after.homes.values())),
        cpu_s / elapsed,
        sum(cost.map_cpu + cost.reduce_cpu + cost.finish_cpu for cost in recent) / elapsed,
        min(shares),
        sum(shares) / len(shares),
        (after.arrived - min(after.processed.values())) * elapsed / arrived,
        len(hr.events()),
        told.prediction_error,
        told.reconfiguration_seconds,
    )


def draw(path: Path, found: Sequence[Fared]) -> None:
    """CPU and the worst query of every policy, as bars."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6))
    names = [one.policy for one in found]
    left.bar(names, [one.cpu for one in found], label="all processes")
    left.bar(names, [one.tasks_cpu for one in found], label="tasks")
    left.set(title="CPU seconds per second", ylabel="cores")
    left.legend()
    right.bar(names, [one.worst for one in found])
    right.set(title="worst query: part of its input processed", ylim=(0, 1.05))
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    queries, rate, seconds = [int(n) for n in [*sys.argv[1:4], *("16", "2000", "40")[len(sys.argv[1:4]) :]]]
    policies = sys.argv[4:] or POLICIES
    print(f"W1, {queries} queries of 10 %, {rate:,} events/s, {seconds} s each\n{HEAD}", flush=True)
    found = []
    with own_spark() as spark:
        for policy in policies:
            found.append(measure(spark, policy, queries, rate, seconds))
            print(found[-1].line(), flush=True)
    if folder := os.environ.get("HEADRACE_BENCH_OUT"):
        draw(Path(folder, "isolation.png"), found)


if __name__ == "__main__":
    main()
