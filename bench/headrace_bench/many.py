"""Many live queries: how long people wait for creations, for lists and for epochs, and what memory it takes.

Epochs run in the background meanwhile, fed by a thread. Everything goes through the public API.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import click
from rich.table import Table

from headrace_bench import astream
from headrace_bench.epochs import Feed, create_streams, own_spark, warehouse
from headrace_bench.floor import clocked
from headrace_bench.spine import COUNT, note_memory, screen


@contextmanager
def feeding(hr: Any, feed: Feed, every_s: float) -> Iterator[None]:
    """A thread appends tuples in the block, and epochs run in the background."""
    done = threading.Event()

    def append() -> None:
        number = 0
        while not done.wait(every_s):
            hr.append(astream.STREAM, feed.table(number))
            number += 1

    thread = threading.Thread(target=append, daemon=True)
    thread.start()
    hr.start(interval="200 milliseconds")
    try:
        yield
    finally:
        done.set()
        thread.join()
        hr.stop()


def texts(count: int, seed: int = 1, window_max_s: int = 10) -> list[str]:
    """So many random aggregation queries."""
    rng = Random(seed)
    found = (astream.aggregation(rng, window_max_s, mixed=True) for _ in range(count))
    return [astream.aggregation_text(query, rng) for query in found]


def timed(call: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def run_many(spark: Any, queries: int, one_by_one: int, profile: bool) -> dict[str, float]:
    """Seconds, and megabytes at the end; `one_by_one` of the queries are created by a call each, after all others."""
    found: dict[str, float] = {}
    peak: dict[str, float] = {}
    with clocked() as clocks, warehouse(spark) as hr:
        create_streams(hr)
        found["plain sync of the same disk, each"] = sync_seconds(hr)
        hr.create_query(texts(1, seed=9)[0])  # Spark's parser is loaded by now
        with feeding(hr, Feed(1_000, 10, 1_000), 0.5):
            wanted = texts(queries)
            first = [(text, f"q{n}") for n, text in enumerate(wanted[: queries - one_by_one])]
            found["create the first at once"] = timed(lambda: hr.create_queries(first))[0] if first else 0.0
            clocks.take()
            profiler = cProfile.Profile()
            if profile:
                profiler.enable()
            waits = [timed(lambda text=text: hr.create_query(text))[0] for text in wanted[-one_by_one:]]
            profiler.disable()
            found[f"create {one_by_one:,}, one by one"] = sum(waits)
            found["the longest of these"] = max(waits)
            settled = time.perf_counter()
            while hr.metrics().active_queries < queries:
                time.sleep(0.05)
            found["until all of them run"] = time.perf_counter() - settled
            last = max(epoch.epoch for epoch in hr.recent_epochs())
            while max(epoch.epoch for epoch in hr.recent_epochs()) < last + 5:
                time.sleep(0.05)
            note_memory(peak)
        found["queries()"] = min(timed(hr.queries)[0] for _ in range(3))
        found["repr of queries()"] = timed(lambda: repr(hr.queries()))[0]
        epochs = [epoch.cost for epoch in hr.recent_epochs()][-5:]
        found["an epoch"] = statistics.median(cost.seconds for cost in epochs)
        name = hr.create_query(texts(1, seed=5)[0]).name
        hr.append(astream.STREAM, Feed(1_000, 10, 1_000).table(10_000))
        found["an epoch with a new query"] = timed(hr.run_available)[0]
        found["of that, planning"] = hr.recent_epochs()[-1].cost.plan_seconds
        found["explain"] = timed(lambda: hr.query(name).explain())[0]
        found["status"] = timed(lambda: hr.query(name).status())[0]
        if profile:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    return found | {f"MB of the {kind}": mb for kind, mb in peak.items()}


def sync_seconds(hr: Any, times: int = 100) -> float:
    """What one small write and its sync take, the floor of a creation that is acknowledged by itself."""
    path = os.path.join(hr.path, "..", "sync")
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
        os.fsync(file.fileno())
        began = time.perf_counter()
        for i in range(times):
            os.pwrite(file.fileno(), bytes(800), i * 800)
            os.fdatasync(file.fileno())
    return (time.perf_counter() - began) / times


@click.command()
@click.option("--queries", type=COUNT, default=1_000, show_default=True)
@click.option("--one-by-one", type=COUNT, default=1_000, show_default=True, help="Created by a call each.")
@click.option("--profile", is_flag=True, help="Print what the creating thread did.")
def many(queries: int, one_by_one: int, profile: bool) -> None:
    """Waits and memory with many live queries, while small epochs run."""
    with own_spark() as spark:
        found = run_many(spark, queries, min(one_by_one, queries), profile)
    table = Table("what", "seconds")
    for name, value in found.items():
        table.add_row(name, f"{value:,.0f}" if name.startswith("MB") else f"{value:.4f}")
    screen().print(table)


if __name__ == "__main__":
    many()
