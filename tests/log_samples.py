"""A stream, a plan and an opened log for the tests of catalog and log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.catalog.catalog import Catalog
from headrace.catalog.waiting import Batching
from headrace.log.append import append
from headrace.log.arrivals import Arrivals
from headrace.log.seal import Sealer
from headrace.model.predicate import TRUE
from headrace.model.query import Projection, Query, QueryPlan, Stream, StreamName
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, Column
from headrace.storage.warehouse import Warehouse
from processes import Finished, run_text

PURCHASES = Stream(
    StreamName("purchases"),
    (Column("userID", BIGINT), Column("price", DOUBLE), Column("ts", TIMESTAMP)),
    event_time="ts",
    watermark_us=10,
)

PLAN = QueryPlan("SELECT 1", (PURCHASES.name,), Projection(TRUE, ()), (), "SELECT 1", "SELECT 1")


@dataclass
class FakeClock:
    time: float = 1000.0

    def now(self) -> float:
        return self.time


@dataclass
class Opened:
    warehouse: Warehouse
    catalog: Catalog
    arrivals: Arrivals
    sealer: Sealer

    def append(self, *times: int | None, stream: Stream = PURCHASES, max_chunk_rows: int = 1_000_000) -> int:
        rows = rows_at(*times)
        return append(self.warehouse, self.arrivals, stream, rows, max_chunk_rows=max_chunk_rows)

    def close(self) -> None:
        self.warehouse.release()


def open_log(root: Path | str, clock: FakeClock | None = None, batching: Batching | None = None) -> Opened:
    warehouse = Warehouse(root)
    warehouse.acquire()
    try:
        catalog = Catalog(warehouse, clock=clock, batching=batching)
        arrivals = Arrivals(warehouse)
        return Opened(warehouse, catalog, arrivals, Sealer(warehouse, catalog, arrivals, clock=clock))
    except BaseException:
        warehouse.release()
        raise


def rows_at(*times: int | None) -> pa.Table:
    """One purchase per event time, in microseconds."""
    return pa.table(
        {
            "userID": pa.array(range(len(times)), pa.int64()),
            "price": pa.array([1.0] * len(times), pa.float64()),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


def run_script(script: str, *arguments: object, kill_at: str | None = None) -> Finished:
    """Run Python text in a process of its own, with the modules of this one, told to die at a point."""
    return run_text(script, *arguments, **({} if kill_at is None else {"HEADRACE_KILL_AT": kill_at}))


def active(log: Opened, epoch: int) -> tuple[Query, ...]:
    return tuple(entry.query for entry in log.catalog.active_entries(epoch))
