"""Epochs that are run and timed one by one, through the public API alone, so that older checkouts run them too."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace
from headrace_bench import astream

START = datetime(2026, 1, 1, tzinfo=UTC)
MASTER = "local[2]"

COUNTED = ("result_rows", "map_seconds", "reduce_seconds", "bytes_shuffled", "bytes_written")


@dataclass(frozen=True, slots=True)
class Timed:
    """What was appended and run at once: its wall time, and what its epochs say of themselves, added up."""

    seconds: float
    epochs: int
    cost: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Feed:
    """AStream's tuples as a stream that goes on: `rows` of them per epoch, at `rate` per second of event time."""

    rows: int = 500_000
    keys: int = 1_000
    rate: int = 50_000
    seed: int = 0

    def table(self, epoch: int) -> pa.Table:
        return astream.tuples(self.rows, START, self.rate, self.keys, seed=self.seed, first=epoch * self.rows)


@contextmanager
def own_spark() -> Iterator[Any]:
    """A Spark session with Headrace's own settings. A warehouse that nobody uses brings it and ends it."""
    with folder() as place, headrace.open(place / "idle", master=MASTER, progress=False) as idle:
        yield idle.spark


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def warehouse(spark: Any, **options: Any) -> Iterator[Any]:
    """A new warehouse on a Spark session, removed afterwards."""
    with folder() as place, headrace.open(place / "warehouse", spark=spark, progress=False, **options) as hr:
        yield hr


def create_streams(hr: Any, names: str = astream.STREAM, ddl: str = astream.DDL) -> None:
    """Streams of one schema, AStream's by default. Each is named by a letter; its watermark is its latest event."""
    for name in names:
        hr.create_stream(name, ddl, event_time=astream.EVENT_TIME, watermark="0 seconds")


def run_timed(hr: Any, tables: Mapping[str, pa.Table]) -> Timed:
    """Append a table to each of some streams; time how long it takes to run all that is there."""
    for stream, table in tables.items():
        hr.append(stream, table)
    at, started = time.time(), time.perf_counter()
    epochs = hr.run_available()
    seconds = time.perf_counter() - started
    costs = [epoch.cost for epoch in hr.recent_epochs() if epoch.committed_at >= at]
    return Timed(seconds, epochs, {name: sum(getattr(cost, name) for cost in costs) for name in COUNTED})
