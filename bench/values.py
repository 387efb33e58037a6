"""What aggregates over all values of a group cost: time per epoch, shared and as plain Spark, in one run.

    .venv/bin/python bench/values.py [--others 42] [--queries 8,64] [--rows 200000] [--epochs 4] [--keys 100]

Beside `others` mixed aggregation queries run so many with COUNT(DISTINCT), median, percentile, collect_set and MAX_BY.
"plain Spark" is the same texts with these functions declared to have no shared form. Each setting has its own
warehouse, the first epochs are left out, and a sample of the queries is audited at the end.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

import headrace
from headrace.engine.spark import start_session
from headrace.model.lanes import is_factor
from headrace.sql.bodies import aggregates, calls
from headrace.workloads import astream

START = datetime(2026, 1, 1, tzinfo=UTC)
WARM_UP = 2
CALLS = (
    "COUNT(DISTINCT field1) AS a",
    "median(field2) AS a",
    "percentile(field1, array(0.5, 0.99)) AS a",
    "COUNT(DISTINCT field1, field3) AS a",
    "max_by(field1, field2) AS a",
    "collect_set(field4 % 50) AS a",
)


def main() -> None:
    options = parse_options()
    spark = start_session("local[2]")
    table = Table("value queries", "other queries", "run as", "s per epoch", "result rows", "audit")
    try:
        for count in options.queries:
            for shared in (True, False) if count else (True,):
                if not shared and count > options.most_plain:
                    continue
                with read_as(shared):
                    seconds, rows, audit = run(spark, count, options)
                how = "shared" if shared else "plain Spark"
                table.add_row(str(count), str(options.others), how, f"{seconds:.2f}", f"{rows:,}", audit)
        Console(width=120).print(table)
    finally:
        spark.stop()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--queries", type=lambda text: [int(n) for n in text.split(",")], default=[0, 8, 64])
    parser.add_argument(
        "--most-plain", type=int, default=8, help="more than these are not run as plain Spark"
    )
    parser.add_argument("--others", type=int, default=42)
    parser.add_argument("--rows", type=int, default=200_000, help="events per epoch")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--rate", type=int, default=50_000, help="events per second of event time")
    return parser.parse_args()


@contextmanager
def read_as(shared: bool) -> Iterator[None]:
    """Let texts be read as they are, or as if the functions of this benchmark had no shared form."""
    known = calls.read_call

    def refuse(node: Any, literals: tuple[str, ...]) -> calls.Call:
        call = known(node, literals)
        if not is_factor(call.function):
            raise calls.NotShared("it is measured as plain Spark")
        return call

    aggregates.read_call = known if shared else refuse  # type: ignore[attr-defined]
    try:
        yield
    finally:
        aggregates.read_call = known  # type: ignore[attr-defined]


def value_query(rng: Random, number: int) -> str:
    window = rng.choice(["'4 seconds'", "'4 seconds', '2 seconds'", "'6 seconds', '3 seconds'"])
    where = f"field{rng.randint(1, 5)} > {rng.randint(0, 50)}"
    return (
        f"SELECT key, {CALLS[number % len(CALLS)]} FROM {astream.STREAM} WHERE {where} "
        f"GROUP BY key, window(ts, {window})"
    )


def run(spark: Any, count: int, options: argparse.Namespace) -> tuple[float, int, str]:
    """(median seconds per epoch, result rows of all queries, what audits of a sample said)."""
    path = tempfile.mkdtemp(prefix="headrace-bench-")
    rng, seconds = Random(1), []
    try:
        with headrace.open(f"{path}/warehouse", spark=spark, progress=False) as hr:
            hr.create_stream(
                astream.STREAM, astream.DDL, event_time=astream.EVENT_TIME, watermark="0 seconds"
            )
            for _ in range(options.others):
                hr.create_query(astream.aggregation_text(astream.aggregation(rng, 10, mixed=True), rng))
            values = [hr.create_query(value_query(rng, n), name=f"v{n}") for n in range(count)]
            for epoch in range(options.epochs + WARM_UP):
                first = epoch * options.rows
                hr.append(
                    astream.STREAM,
                    astream.tuples(options.rows, START, options.rate, options.keys, first=first),
                )
                began = time.perf_counter()
                hr.run_available()
                if epoch >= WARM_UP:
                    seconds.append(time.perf_counter() - began)
            sample = values[: len(CALLS)]
            ok = sum(query.audit().ok for query in sample)
            rows = sum(info.rows or 0 for info in hr.queries())
            return statistics.median(seconds), rows, f"{ok} of {len(sample)} ok"
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
