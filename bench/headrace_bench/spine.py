"""The spine's own yardstick: time per epoch at 1, 100 and 1,000 mixed aggregation queries, in one run.

AStream's tuples (1,000 keys, 50,000 events per second of event time) are appended, each table as one epoch. They are
run with all results written. The first epochs warm up the workers and are left out.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

import click
import psutil
from rich.console import Console
from rich.table import Table

import headrace
from headrace_bench import astream
from headrace_bench.epochs import Feed, Timed, create_streams, own_spark, run_timed, warehouse

WARM_UP = 2
COLUMNS = (
    "queries",
    "s per epoch",
    "events/s",
    "overall/s",
    "result rows/s",
    "create s",
    "map s",
    "reduce s",
    "MB shuffled",
    "MB written",
    "peak MB",
)


@dataclass(frozen=True, slots=True)
class Spine:
    """What is run: so many queries, drawn with a seed, over so many epochs after those that warm up."""

    queries: int
    epochs: int = 6
    feed: Feed = field(default_factory=Feed)
    window_max_s: int = 10
    seed: int = 1


@dataclass(frozen=True, slots=True)
class SpineRun:
    """What was seen: the measured epochs, seconds to create the queries, peak memory by kind of process in MB."""

    spine: Spine
    epochs: list[Timed]
    created_s: float
    peak_mb: dict[str, float]

    @property
    def seconds(self) -> float:
        """The median of an epoch's wall time."""
        return statistics.median(epoch.seconds for epoch in self.epochs)

    def mean(self, name: str) -> float:
        return statistics.mean(epoch.cost[name] for epoch in self.epochs)


def create_queries(hr: Any, count: int, seed: int, window_max_s: int = 10, first: int = 0) -> list[str]:
    """So many random aggregation queries, as people would write them; their names, q0, q1 and so on from `first`."""
    rng, names = Random(seed), [f"q{number}" for number in range(first, first + count)]
    for name in names:
        query = astream.aggregation(rng, window_max_s, mixed=True)
        hr.create_query(astream.aggregation_text(query, rng), name)
    return names


def run_spine(spark: Any, spine: Spine, note: Callable[[str], None] = lambda text: None) -> SpineRun:
    """Run it in a warehouse of its own."""
    seen: list[Timed] = []
    peak: dict[str, float] = {}
    with warehouse(spark) as hr:
        create_streams(hr)
        started = time.perf_counter()
        create_queries(hr, spine.queries, spine.seed, spine.window_max_s)
        created_s = time.perf_counter() - started
        for epoch in range(spine.epochs + WARM_UP):
            note(f"{spine.queries:,} queries, epoch {epoch + 1} of {spine.epochs + WARM_UP}")
            timed = run_timed(hr, {astream.STREAM: spine.feed.table(epoch)})
            note_memory(peak)
            if epoch >= WARM_UP:
                seen.append(timed)
    return SpineRun(spine, seen, created_s, peak)


def note_memory(peak: dict[str, float]) -> None:
    """Raise the peaks to what processes have now."""
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            kind = "jvm" if "java" in process.name() else "driver" if process.pid == me.pid else "worker"
            peak[kind] = max(peak.get(kind, 0.0), process.memory_info().rss / 2**20)
        except psutil.NoSuchProcess:
            continue


def figures(run: SpineRun) -> list[str]:
    """A run's line, under COLUMNS."""
    count, rate = run.spine.queries, run.spine.feed.rows / run.seconds
    return [
        f"{count:,}",
        f"{run.seconds:.2f}",
        f"{rate:,.0f}",
        f"{rate * count:,.0f}",
        f"{run.mean('result_rows') / run.seconds:,.0f}",
        f"{run.created_s:.2f}",
        f"{run.mean('map_seconds'):.2f}",
        f"{run.mean('reduce_seconds'):.2f}",
        f"{run.mean('bytes_shuffled') / 2**20:.0f}",
        f"{run.mean('bytes_written') / 2**20:.0f}",
        ", ".join(f"{kind} {mb:,.0f}" for kind, mb in sorted(run.peak_mb.items())),
    ]


def numbers(ctx: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    """An option that is one or more whole numbers from 1 on.

    >>> numbers(None, None, "1,100")
    [1, 100]
    """
    found = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if not all(found):
        raise click.BadParameter(f"{text} is not a list of numbers such as 1,100")
    return found


def screen() -> Console:
    return Console(width=None if sys.stdout.isatty() else 150)


COUNT = click.IntRange(min=1)


@click.command()
@click.option("--queries", default="1,100,1000", show_default=True, callback=numbers, metavar="NUMBERS")
@click.option("--rows", type=COUNT, default=1_000_000, show_default=True, help="Events per epoch.")
@click.option("--epochs", type=COUNT, default=6, show_default=True, help="Measured epochs.")
@click.option("--keys", type=COUNT, default=1_000, show_default=True, help="Distinct keys.")
@click.option(
    "--rate", type=COUNT, default=50_000, show_default=True, help="Events per second of event time."
)
@click.option("--window-max", type=COUNT, default=10, show_default=True, help="Longest window in seconds.")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same queries.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON in place of a table.")
def spine(
    queries: Sequence[int],
    rows: int,
    epochs: int,
    keys: int,
    rate: int,
    window_max: int,
    seed: int,
    as_json: bool,
) -> None:
    """Time per epoch at some numbers of mixed aggregation queries, in one run on two cores."""
    feed, console = Feed(rows, keys, rate), screen()
    with own_spark() as spark, Console(stderr=True).status("starting") as status:
        runs = [
            run_spine(spark, Spine(count, epochs, feed, window_max, seed), status.update) for count in queries
        ]
    if as_json:
        package = {"package": headrace.__file__}
        print(json.dumps([asdict(run) | {"seconds": run.seconds} | package for run in runs]), flush=True)
        return
    table = Table(*COLUMNS)
    for run in runs:
        table.add_row(*figures(run))
    console.print(table)
    most, least = runs[-1], runs[0]
    if most is least:
        return
    ratio = most.seconds / least.seconds
    console.print(f"time per epoch, {most.spine.queries} queries against {least.spine.queries}: {ratio:.2f}")


if __name__ == "__main__":
    spine()
