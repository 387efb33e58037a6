"""The shared join's own yardstick: time per epoch at 1 and at 100 join queries, and what storing a row once saves.

    .venv/bin/python bench/joins.py [--queries 1,100] [--rows 100000] [--epochs 6] [--keys 50000] [--complex]
        [--strategy product|joined]

AStream's join template (figure 7) over two streams, or with --complex its complex queries over six. Every stream brings
`rows` tuples per epoch at 50,000 per second of event time; results are written. --strategy has all complex queries run
as products, or as joined rows that are grouped. The last epoch's joined rows are then
written once more, one copy per query, to see what that would cost.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import headrace
from headrace.engine.spark import start_session
from headrace.model.strategy import Choice, Strategy
from headrace.operators.selection import WORD
from headrace.planner import group
from headrace.workloads import astream, astream_joins

START = datetime(2026, 1, 1, tzinfo=UTC)
WARM_UP = 2
STRATEGIES = {"product": Strategy.PRODUCT, "joined": Strategy.JOINED_GROUPS}


def main() -> None:
    options = parse_options()
    if options.strategy is not None:
        forced = Choice(STRATEGIES[options.strategy], "the benchmark asks for it")
        group.choice_of = lambda query, recorded: forced
    spark = start_session("local[2]")
    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table(
        "queries",
        "s per epoch",
        "events/s",
        "overall/s",
        "rows found",
        "rows stored",
        "B per row",
        "state MB",
    )
    medians: list[float] = []
    try:
        for count in options.queries:
            console.print(f"{count} queries ...")
            seen = run(spark, count, options, console)
            medians.append(seen["seconds"])
            rate = options.rows * (6 if options.complex else 2) / seen["seconds"]
            table.add_row(
                f"{count:,}",
                f"{seen['seconds']:.2f}",
                f"{rate:,.0f}",
                f"{rate * count:,.0f}",
                f"{seen['found']:,}",
                f"{seen['stored']:,}",
                f"{seen['bytes'] / max(seen['stored'], 1):.1f}",
                f"{seen['state'] / 2**20:.1f}",
            )
        console.print(table)
        most, least = options.queries[-1], options.queries[0]
        console.print(f"time per epoch, {most} queries against {least}: {medians[-1] / medians[0]:.2f}")
    finally:
        spark.stop()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--queries", type=lambda text: [int(n) for n in text.split(",")], default=[1, 100])
    parser.add_argument("--rows", type=int, default=100_000, help="events per stream and epoch")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--rate", type=int, default=50_000, help="events per stream and second of event time")
    parser.add_argument(
        "--complex", action="store_true", help="joins of two to six streams, then an aggregation"
    )
    parser.add_argument("--strategy", choices=STRATEGIES, help="instead of the default for each query")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def run(spark: Any, count: int, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Medians and means over the measured epochs."""
    path = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    rng = Random(options.seed)
    streams = "abcdef" if options.complex else "ab"
    make = astream_joins.complex_query if options.complex else astream_joins.join
    seen = []
    try:
        with headrace.open(path / "warehouse", spark=spark, progress=False) as hr:
            for name in streams:
                hr.create_stream(name, astream.DDL, event_time=astream.EVENT_TIME, watermark="0 seconds")
            for _ in range(count):
                hr.create_query(make(rng).cql())
            for epoch in range(options.epochs + WARM_UP):
                for number, name in enumerate(streams):
                    data = astream.tuples(
                        options.rows,
                        START,
                        options.rate,
                        options.keys,
                        seed=number,
                        first=epoch * options.rows,
                    )
                    hr.append(name, data)
                hr.run_available()
                if epoch >= WARM_UP:
                    seen.append(hr._group.commit)
            if not options.complex and count > 1:
                copies(hr, console)
    finally:
        shutil.rmtree(path, ignore_errors=True)
    stored = [sum(f.rows for f in c.results if f.first_epoch == c.epoch) for c in seen]
    bytes_ = [sum(f.bytes for f in c.results if f.first_epoch == c.epoch) for c in seen]
    return {
        "seconds": statistics.median(c.metrics.seconds for c in seen),
        "found": round(statistics.mean(c.metrics.result_rows for c in seen)),
        "stored": round(statistics.mean(stored)),
        "bytes": statistics.mean(bytes_),
        "state": statistics.mean(sum(s.bytes for s in c.segments) for c in seen),
    }


def copies(hr: Any, console: Console) -> None:
    """Write the last epoch's joined rows as a copy per query, as a system without query-sets would."""
    commit, root = hr._group.commit, hr._warehouse.root
    files = [file for file in commit.results if file.first_epoch == commit.epoch]
    table = pa.concat_tables([pq.read_table(root / file.path) for file in files], promote_options="default")
    words = [name for name in table.column_names if name.startswith("qs")]
    bare = table.drop_columns(words)
    out = root / "copies"
    out.mkdir()
    started, rows = time.perf_counter(), 0
    for entry in hr._catalog.active_entries(commit.epoch):
        word = table.column(f"qs{entry.slot // WORD}").to_numpy().view(np.uint64)
        mine = np.flatnonzero((word >> np.uint64(entry.slot % WORD)) & np.uint64(1))
        rows += len(mine)
        pq.write_table(bare.take(pa.array(mine)), out / f"{entry.slot}.parquet", compression="lz4")
    spent = time.perf_counter() - started
    once, size = sum(f.bytes for f in files), sum(path.stat().st_size for path in out.iterdir())
    console.print(
        f"last epoch: {table.num_rows:,} joined rows stored once in {once / 2**20:.1f} MB; a copy per query would be "
        f"{rows:,} rows in {size / 2**20:.1f} MB, and {spent:.1f} s to write"
    )


if __name__ == "__main__":
    main()
