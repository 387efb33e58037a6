"""The spine's own yardstick: time per epoch at 1 and at 1,000 mixed aggregation queries, in one run.

    .venv/bin/python bench/spine.py [--queries 1,100,1000] [--rows 1000000] [--epochs 6] [--keys 1000]

AStream's tuples (1,000 keys, 50,000 events per second of event time) are appended, each as one epoch, and run with all
results written. The first epochs warm up the workers and are left out. It says what it saw; docs quote such a run.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from random import Random

import psutil
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import headrace
from headrace.engine.records import Metrics
from headrace.engine.spark import start_session
from headrace.workloads import astream

START = datetime(2026, 1, 1, tzinfo=UTC)
WARM_UP = 2


def main() -> None:
    options = parse_options()
    spark = start_session("local[2]")
    table = Table(
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
    console = Console(width=None if sys.stdout.isatty() else 150)
    medians: list[float] = []
    try:
        for count in options.queries:
            with Progress(console=console, transient=True) as progress:
                task = progress.add_task(f"{count} queries", total=options.epochs + WARM_UP)
                seen, created, peak = run(spark, count, options, lambda: progress.advance(task))  # noqa: B023
            medians.append(statistics.median(m.seconds for m in seen))
            table.add_row(*figures(count, seen, created, peak, options.rows))
        console.print(table)
        most, least = options.queries[-1], options.queries[0]
        console.print(f"time per epoch, {most} queries against {least}: {medians[-1] / medians[0]:.2f}")
    finally:
        spark.stop()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--queries", type=lambda text: [int(n) for n in text.split(",")], default=[1, 100, 1000]
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="events per epoch")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--rate", type=int, default=50_000, help="events per second of event time")
    parser.add_argument("--window-max", type=int, default=10, help="longest window in seconds")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def run(spark, count, options, advance):  # type: ignore[no-untyped-def]
    """(metrics per measured epoch, seconds to create the queries, peak memory per process in MB)."""
    path = tempfile.mkdtemp(prefix="headrace-bench-")
    rng = Random(options.seed)
    seen: list[Metrics] = []
    peak: dict[str, float] = {}
    try:
        with headrace.open(f"{path}/warehouse", spark=spark, progress=False) as hr:
            hr.create_stream(
                astream.STREAM, astream.DDL, event_time=astream.EVENT_TIME, watermark="0 seconds"
            )
            started = time.perf_counter()
            for _ in range(count):
                query = astream.aggregation(rng, options.window_max, mixed=True)
                hr.create_query(astream.aggregation_text(query, rng))
            created = time.perf_counter() - started
            for epoch in range(options.epochs + WARM_UP):
                data = astream.tuples(
                    options.rows, START, options.rate, options.keys, first=epoch * options.rows
                )
                hr.append(astream.STREAM, data)
                hr.run_available()
                advance()
                note_memory(peak)
                if epoch >= WARM_UP:
                    seen.append(hr._group.commit.metrics)
    finally:
        shutil.rmtree(path, ignore_errors=True)
    return seen, created, peak


def note_memory(peak: dict[str, float]) -> None:
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            kind = "jvm" if "java" in process.name() else "driver" if process.pid == me.pid else "worker"
            peak[kind] = max(peak.get(kind, 0.0), process.memory_info().rss / 2**20)
        except psutil.NoSuchProcess:
            pass


def figures(count: int, seen: list[Metrics], created: float, peak: dict[str, float], rows: int) -> list[str]:
    seconds = statistics.median(m.seconds for m in seen)
    mean = lambda name: statistics.mean(getattr(m, name) for m in seen)  # noqa: E731
    return [
        f"{count:,}",
        f"{seconds:.2f}",
        f"{rows / seconds:,.0f}",
        f"{rows / seconds * count:,.0f}",
        f"{mean('result_rows') / seconds:,.0f}",
        f"{created:.2f}",
        f"{mean('map_seconds'):.2f}",
        f"{mean('reduce_seconds'):.2f}",
        f"{mean('bytes_shuffled') / 2**20:.0f}",
        f"{mean('bytes_written') / 2**20:.0f}",
        ", ".join(f"{kind} {mb:,.0f}" for kind, mb in sorted(peak.items())),
    ]


if __name__ == "__main__":
    main()
