"""The shared join's own yardstick: time per epoch at 1 and at 100 queries over joined streams, and what is stored.

Every stream brings `rows` tuples per epoch; all results are written. For plain joins the last epoch's joined rows are
then written once more, one copy per query, to see what that would cost.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, assert_never

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import headrace
from headrace_bench import astream, astream_joins
from headrace_bench.epochs import Feed, create_streams, folder, own_spark, run_timed
from headrace_bench.meters import Meter
from headrace_bench.spine import COUNT, numbers, screen

WARM_UP = 2
WORD = 64
"""Queries per column of a query-set."""

COPY = "copy"
"""A column that holds the key once more. Streams have it beside AStream's columns."""


class Kind(StrEnum):
    """What the queries ask for.

    JOIN is AStream's figure 7: joined rows. COMPLEX is its section 4.7: a sum per key over joins of several streams.
    How it runs is the planner's choice. COPIED asks for the same sums per copy of the key. No planner can tell the copy
    from any other column, so joined rows are grouped, whatever the statistics say (decision 0016). GROUPED is figure 7
    with a COUNT and a SUM per value of a field of the other stream.
    """

    JOIN = "join"
    COMPLEX = "complex"
    COPIED = "copied"
    GROUPED = "grouped"


@dataclass(frozen=True, slots=True)
class Joins:
    """What is run. `most_joins` bounds the joins of a complex query."""

    kind: Kind
    queries: int
    epochs: int
    feed: Feed
    most_joins: int
    seed: int

    @property
    def streams(self) -> str:
        several = self.kind in (Kind.COMPLEX, Kind.COPIED)
        return "abcdef"[: self.most_joins + 1 if several else 2]

    def texts(self) -> list[str]:
        rng = Random(self.seed)
        return [text_of(self.kind, rng, self.most_joins) for _ in range(self.queries)]

    def tables(self, epoch: int) -> dict[str, pa.Table]:
        """A table per stream. Streams have the same keys at the same times, and other fields."""
        feed, found = self.feed, {}
        for number, name in enumerate(self.streams):
            table = Feed(feed.rows, feed.keys, feed.rate, seed=number).table(epoch)
            found[name] = table.append_column(COPY, table["key"])
        return found


@dataclass(frozen=True, slots=True)
class JoinsRun:
    """What was seen: medians and means over the measured epochs."""

    joins: Joins
    seconds: float
    cpu_s: float
    found_rows: float
    stored_rows: float
    stored_bytes: float
    state_bytes: float

    @property
    def rate(self) -> float:
        """Events of all streams per second."""
        return self.joins.feed.rows * len(self.joins.streams) / self.seconds


def text_of(kind: Kind, rng: Random, most_joins: int) -> str:
    """A random query of a kind.

    >>> text_of(Kind.COPIED, Random(1), 1).startswith("SELECT a.copy, SUM(")
    True
    >>> text_of(Kind.GROUPED, Random(1), 1).partition(" FROM ")[0]
    'SELECT b.field2, COUNT(*) AS n, SUM(a.field1) AS total'
    """
    match kind:
        case Kind.JOIN:
            return astream_joins.join(rng).cql()
        case Kind.COMPLEX:
            return astream_joins.complex_query(rng, most_joins=most_joins).cql()
        case Kind.COPIED:
            text = astream_joins.complex_query(rng, most_joins=most_joins).cql()
            head, tail = "SELECT a.key, ", " GROUP BY a.key"
            assert text.startswith(head) and text.endswith(tail)
            middle = text.removeprefix(head).removesuffix(tail)
            return f"SELECT a.{COPY}, {middle} GROUP BY a.{COPY}"
        case Kind.GROUPED:
            query = astream_joins.join(rng)
            field = rng.randint(2, astream.FIELDS)
            chosen = f"b.field{field}, COUNT(*) AS n, SUM(a.field1) AS total"
            return f"SELECT {chosen} FROM {astream_joins.cql_sources(query)} GROUP BY b.field{field}"
        case _:
            assert_never(kind)


def run_joins(spark: Any, joins: Joins, console: Console) -> JoinsRun:
    """Run it in a warehouse of its own."""
    seen, stored, cpu_s = [], [], 0.0
    with (
        Meter() as meter,
        folder() as place,
        headrace.open(place / "warehouse", spark=spark, progress=False) as hr,
    ):
        create_streams(hr, joins.streams, f"{astream.DDL}, {COPY} BIGINT")
        for number, text in enumerate(joins.texts()):
            hr.create_query(text, f"q{number}")
        for epoch in range(joins.epochs + WARM_UP):
            before, tables = result_files(place / "warehouse"), joins.tables(epoch)
            spent = meter.cpu_s
            timed = run_timed(hr, tables)
            new = result_files(place / "warehouse") - before
            if epoch >= WARM_UP:
                seen.append(timed)
                cpu_s += meter.cpu_s - spent
                stored.append(sizes(new))
        if joins.kind is Kind.JOIN and joins.queries > 1:
            slots = [info.slot for info in hr.queries() if info.slot is not None]
            console.print(copies(new, slots, place / "copies"))
        state = sum(path.stat().st_size for path in (place / "warehouse").glob("groups/*/segments/**/*.*"))
    rows, bytes_ = zip(*stored, strict=True)
    return JoinsRun(
        joins,
        statistics.median(timed.seconds for timed in seen),
        cpu_s / len(seen),
        statistics.mean(timed.cost["result_rows"] for timed in seen),
        statistics.mean(rows),
        statistics.mean(bytes_),
        state,
    )


def result_files(root: Path) -> set[Path]:
    """The files that epochs wrote. Upkeep merges some of them later, into files whose names begin with an m."""
    return {path for path in (root / "results").rglob("*.parquet") if not path.name.startswith("m")}


def sizes(files: set[Path]) -> tuple[int, int]:
    """Rows and bytes of result files."""
    return sum(pq.read_metadata(path).num_rows for path in files), sum(path.stat().st_size for path in files)


def copies(files: set[Path], slots: Sequence[int], out: Path) -> str:
    """Write joined rows as a copy per query, as a system without query-sets would; what that cost."""
    table = pa.concat_tables([pq.read_table(path) for path in sorted(files)], promote_options="default")
    bare = table.drop_columns([name for name in table.column_names if name.startswith("qs")])
    out.mkdir()
    started, rows = time.perf_counter(), 0
    for slot in slots:
        word = table.column(f"qs{slot // WORD}").to_numpy().view(np.uint64)
        mine = np.flatnonzero((word >> np.uint64(slot % WORD)) & np.uint64(1))
        rows += len(mine)
        pq.write_table(bare.take(pa.array(mine)), out / f"{slot}.parquet", compression="lz4")
    spent = time.perf_counter() - started
    once, size = sizes(files)[1], sum(path.stat().st_size for path in out.iterdir())
    return (
        f"last epoch: {table.num_rows:,} joined rows stored once in {once / 2**20:.1f} MB; a copy per query would be "
        f"{rows:,} rows in {size / 2**20:.1f} MB, and {spent:.1f} s to write"
    )


KINDS = (
    "join: joined rows. complex: a sum per key. copied: the same per copy of the key. grouped: per another field. May "
    "be given again, to compare kinds in one run."
)
COLUMNS = (
    "kind",
    "queries",
    "s per epoch",
    "CPU s per epoch",
    "events/s",
    "overall/s",
    "rows found",
    "rows stored",
    "B per row",
    "state MB on disk",
)


@click.command()
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([kind.value for kind in Kind]),
    multiple=True,
    default=["join"],
    show_default=True,
    help=KINDS,
)
@click.option("--queries", default="1,100", show_default=True, callback=numbers, metavar="NUMBERS")
@click.option("--rows", type=COUNT, default=100_000, show_default=True, help="Events per stream and epoch.")
@click.option("--epochs", type=COUNT, default=6, show_default=True, help="Measured epochs.")
@click.option("--keys", type=COUNT, default=50_000, show_default=True, help="Few are hot, many are sparse.")
@click.option("--rate", type=COUNT, default=50_000, show_default=True, help="Events per stream and second.")
@click.option(
    "--most-joins", type=click.IntRange(1, 5), default=5, show_default=True, help="Of a complex query."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same queries.")
def joins(kinds: Sequence[str], queries: Sequence[int], **others: Any) -> None:
    """Time per epoch of queries over joined streams, in one run on two cores."""
    console, runs = screen(), []
    feed = Feed(others.pop("rows"), others.pop("keys"), others.pop("rate"))
    with own_spark() as spark:
        for kind, count in product(kinds, queries):
            console.print(f"{kind}, {count:,} queries ...")
            runs.append(run_joins(spark, Joins(Kind(kind), count, feed=feed, **others), console))
    table = Table(*COLUMNS)
    for run in runs:
        table.add_row(*figures(run))
    console.print(table)
    for run in runs[1:]:
        console.print(
            f"time per epoch, {titled(run)} against {titled(runs[0])}: {run.seconds / runs[0].seconds:.2f}"
        )


def titled(run: JoinsRun) -> str:
    return f"{run.joins.queries} {run.joins.kind} queries"


def figures(run: JoinsRun) -> list[str]:
    """A run's line, under COLUMNS."""
    return [
        run.joins.kind.value,
        f"{run.joins.queries:,}",
        f"{run.seconds:.2f}",
        f"{run.cpu_s:.2f}",
        f"{run.rate:,.0f}",
        f"{run.rate * run.joins.queries:,.0f}",
        f"{run.found_rows:,.0f}",
        f"{run.stored_rows:,.0f}",
        f"{run.stored_bytes / max(run.stored_rows, 1):.1f}",
        f"{run.state_bytes / 2**20:.1f}",
    ]
