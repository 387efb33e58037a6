"""The latency floor: where the wall time of a tiny epoch goes, by phases, with many queries.

The driver's functions that make a phase are wrapped with clocks here, so that the product carries none of them. A
phase's time is its own: what runs inside it and is a phase itself is taken off. What the tasks say of themselves comes
last.
"""

from __future__ import annotations

import importlib
import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import click
from rich.table import Table

from headrace_bench import astream
from headrace_bench.epochs import Feed, create_streams, own_spark, run_timed, warehouse
from headrace_bench.spine import COUNT, create_queries, screen

WARM_UP = 6

PHASES = (
    ("seal", "headrace.log.seal", "Sealer.seal"),
    ("settle groups", "headrace.engine.groups", "Groups.settle"),
    ("decide strategies", "headrace.engine.group", "Group._choose"),
    ("plan", "headrace.engine.group", "Group.plan_for"),
    ("look at files", "headrace.engine.attempt", "check_segments"),
    ("look at files", "headrace.engine.attempt", "check_chunks"),
    ("write the plan", "headrace.storage.warehouse", "Warehouse.replace_value"),
    ("prepare the job", "headrace.engine.job", "run_job"),
    ("Spark job", "headrace.engine.job", "_run_stages"),
    ("own worker", "headrace.engine.own_worker", "OwnWorker.run"),
    ("read reports", "headrace.engine.job", "decode_report"),
    ("rows that cannot be finished", "headrace.engine.attempt", "find_unfinishable"),
    ("make the commit", "headrace.engine.group", "make_commit"),
    ("write the commit", "headrace.engine.group", "Group._put"),
    ("compaction", "headrace.engine.compaction", "Compaction.rewrite"),
    ("upkeep", "headrace.engine.upkeep", "Upkeep.after"),
    ("divide costs", "headrace.running.run", "Running._committed"),
    ("run an epoch, all else", "headrace.engine.group", "Group.run_next"),
)
"""(phase, module, what is timed in it)."""


@dataclass(slots=True)
class Clocks:
    """Seconds of each phase in the epoch under way, of all threads, and how often files were synced."""

    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    syncs: int = 0
    _inside: threading.local = field(default_factory=threading.local)

    def wrap(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            stack = self._stack()
            stack.append(0.0)
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                took, inner = time.perf_counter() - began, stack.pop()
                self.spent[phase] += took - inner
                if stack:
                    stack[-1] += took

        return timed

    def _stack(self) -> list[float]:
        if not hasattr(self._inside, "stack"):
            self._inside.stack = []
        found: list[float] = self._inside.stack
        return found

    def take(self) -> dict[str, float]:
        """What was spent since the last call."""
        taken, self.spent = dict(self.spent), defaultdict(float)
        return taken


@contextmanager
def clocked() -> Iterator[Clocks]:
    """Every phase has a clock in the block."""
    clocks = Clocks()
    with ExitStack() as stack:
        for phase, module, name in PHASES:
            owner: Any = importlib.import_module(module)
            *path, last = name.split(".")
            for part in path:
                owner = getattr(owner, part)
            target = getattr(owner, last)
            stack.enter_context(mock.patch.object(owner, last, clocks.wrap(phase, target)))
            if name == "run_job":  # imported by name where it is called
                attempt = importlib.import_module("headrace.engine.attempt")
                stack.enter_context(mock.patch.object(attempt, last, clocks.wrap(phase, target)))
        stack.enter_context(mock.patch.object(os, "fsync", clocks.wrap("sync to disk", _counted(clocks))))
        yield clocks


def _counted(clocks: Clocks) -> Callable[[int], None]:
    real = os.fsync

    def fsync(handle: int) -> None:
        clocks.syncs += 1
        real(handle)

    return fsync


@dataclass(frozen=True, slots=True)
class Seen:
    """One epoch: wall seconds, seconds of each phase, seconds that tasks took by themselves, result rows, syncs."""

    seconds: float
    phases: dict[str, float]
    map_seconds: float
    reduce_seconds: float
    rows: float
    syncs: int


def run_floor(
    spark: Any, queries: int, epochs: int, feed: Feed, window_max_s: int, changing: bool
) -> list[Seen]:
    """Epochs of a feed with so many queries; with `changing`, one query goes and one comes in each of them."""
    found: list[Seen] = []
    with clocked() as clocks, warehouse(spark) as hr:
        create_streams(hr)
        names = create_queries(hr, queries, 1, window_max_s)
        for epoch in range(epochs + WARM_UP):
            if changing:
                hr.drop_query(names.pop(0))
                names += create_queries(hr, 1, 1000 + epoch, window_max_s, first=queries + epoch)
            table = feed.table(epoch)
            hr.append(astream.STREAM, table)
            clocks.take()
            before = clocks.syncs
            timed = run_timed(hr, {})
            cost = timed.cost
            seen = Seen(
                timed.seconds,
                clocks.take(),
                cost["map_seconds"],
                cost["reduce_seconds"],
                cost["result_rows"],
                clocks.syncs - before,
            )
            if epoch >= WARM_UP:
                found.append(seen)
    return found


def show(seen: Sequence[Seen]) -> Table:
    """Medians over the epochs, in milliseconds."""
    table = Table("phase", "ms (median)", "ms (largest)")

    def line(name: str, values: Sequence[float]) -> None:
        table.add_row(name, f"{statistics.median(values) * 1e3:.1f}", f"{max(values) * 1e3:.1f}")

    names = dict.fromkeys([*(phase for phase, _, _ in PHASES), "sync to disk"])
    for name in names:
        line(name, [epoch.phases.get(name, 0.0) for epoch in seen])
    line("of all else", [epoch.seconds - sum(epoch.phases.values()) for epoch in seen])
    table.add_section()
    line("an epoch", [epoch.seconds for epoch in seen])
    table.add_section()
    line("inside of map tasks, added up", [epoch.map_seconds for epoch in seen])
    line("inside of reduce tasks, added up", [epoch.reduce_seconds for epoch in seen])
    return table


@click.command()
@click.option("--queries", type=COUNT, default=1_000, show_default=True)
@click.option("--rows", type=COUNT, default=1_000, show_default=True, help="Events per epoch.")
@click.option("--epochs", type=COUNT, default=20, show_default=True, help="Measured epochs.")
@click.option("--keys", type=COUNT, default=10, show_default=True, help="Distinct keys.")
@click.option("--rate", type=COUNT, default=1_000, show_default=True, help="Events per second of event time.")
@click.option("--window-max", type=COUNT, default=10, show_default=True, help="Longest window in seconds.")
@click.option("--changing", is_flag=True, help="Before each epoch a query goes and another one comes.")
def floor(
    queries: int, rows: int, epochs: int, keys: int, rate: int, window_max: int, changing: bool
) -> None:
    """Where the time of a tiny epoch goes."""
    with own_spark() as spark:
        seen = run_floor(spark, queries, epochs, Feed(rows, keys, rate), window_max, changing)
    console = screen()
    console.print(show(seen))
    mean_rows, syncs = statistics.mean(e.rows for e in seen), statistics.mean(e.syncs for e in seen)
    console.print(
        f"per epoch: {rows:,} tuples, {queries:,} queries, {mean_rows:,.0f} rows, {syncs:.1f} syncs"
    )


if __name__ == "__main__":
    floor()
