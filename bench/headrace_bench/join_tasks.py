"""The tasks of an epoch of joins without a JVM: FunShare's W1 and W2, or AStream's joins, shared or each query alone.

W1 joins few keys with many, and every query wants a range of both sides. Of W2 there are the two queries that average
prices; the third calls a function, whose time is no join's. AStream's queries are those of `joins`, over 50,000 keys. A
one-second epoch goes through the same functions that Spark's workers run, in this process.
"""

from __future__ import annotations

import cProfile
import pstats
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from random import Random

import click
import pyarrow as pa
from rich.table import Table

from headrace.model.query import Query, QueryId, Stream, StreamName
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, Column, SqlType
from headrace.planner.group import Member
from headrace.sql import parse_query
from headrace.workloads.isolation import STREAMS, Traffic, draw_queries
from headrace.workloads.isolation import Kind as Asked
from headrace.workloads.nexmark import EVENT_TIME, Nexmark
from headrace_bench import astream
from headrace_bench.epochs import START, Feed, folder
from headrace_bench.isolation.cases import PROPORTIONS, RANGE_S
from headrace_bench.joins import Kind, text_of
from headrace_bench.spine import COUNT, numbers, screen
from headrace_bench.tasks import Bench, Seen, plainly, profiled

KEYS = 50_000
"""Keys of AStream's streams."""


class Workload(StrEnum):
    """What is asked."""

    PREFERRED = "W1"
    AVERAGES = "W2"
    ASTREAM = "AStream"
    GROUPED = "AStream-grouped"

    @property
    def is_astream(self) -> bool:
        return self in (Workload.ASTREAM, Workload.GROUPED)

    @property
    def streams(self) -> dict[StreamName, Stream]:
        """The streams that are joined, as the catalog has them; each one's watermark is its latest event."""
        if self.is_astream:
            definitions, time = dict.fromkeys("ab", astream.DDL), astream.EVENT_TIME
        else:
            names = ("person", "auction") if self is Workload.PREFERRED else ("auction", "bid")
            definitions, time = {name: STREAMS[name] for name in names}, EVENT_TIME
        return {StreamName(n): Stream(StreamName(n), columns_of(d), time, 0) for n, d in definitions.items()}

    def texts(self, queries: int, seed: int) -> list[str]:
        """So many queries. Ranges of the filter attribute are 10 % of it."""
        if self.is_astream:
            rng, kind = Random(seed), Kind.JOIN if self is Workload.ASTREAM else Kind.GROUPED
            return [text_of(kind, rng, 1) for _ in range(queries)]
        found = draw_queries(self.value, 2 * queries, (0.1, 0.1), seed, RANGE_S)
        plain = [query for query in found if query.kind is not Asked.PRICE_ANOMALY]
        return [query.cql() for query in plain[:queries]]

    def tables(self, rate: int, epoch: int) -> dict[StreamName, pa.Table]:
        """An epoch of one second, `rate` events of all streams."""
        if self.is_astream:
            half = rate // 2
            feeds = (Feed(half, KEYS, half, seed) for seed in range(2))
            return {name: feed.table(epoch) for name, feed in zip(self.streams, feeds, strict=True)}
        traffic = Traffic(Nexmark(START, rate, 1, PROPORTIONS[self.value]))
        made = traffic.events(epoch * rate, rate)
        return {name: made[name] for name in self.streams}


def columns_of(definition: str) -> tuple[Column, ...]:
    named = (column.split() for column in definition.split(", "))
    return tuple(Column(name, SqlType(type_.lower())) for name, type_ in named)


class Analyzer:
    """What Spark says of the queries: a window, and then numbers or an average."""

    def schema(self, sql: str, *streams: Stream) -> tuple[Column, ...]:
        found = [Column("window_start", TIMESTAMP), Column("window_end", TIMESTAMP), Column("first", BIGINT)]
        found.append(Column("second", DOUBLE if "AVG(" in sql else BIGINT))
        if any(stream.event_time == astream.EVENT_TIME for stream in streams):
            found.append(Column("third", BIGINT))
        return tuple(found)

    def difference(self, original: str, rendered: str) -> str | None:
        return None


def members_of(texts: Sequence[str], streams: dict[StreamName, Stream]) -> list[Member]:
    """Members of a group with these queries."""
    by_name = {str(name): stream for name, stream in streams.items()}
    plans = (parse_query(text, by_name, Analyzer()) for text in texts)
    return [Member(Query(QueryId(n + 1), f"q{n}", plan), n) for n, plan in enumerate(plans)]


@dataclass(frozen=True, slots=True)
class RateFeed:
    """One-second epochs of a workload's streams at a rate."""

    workload: Workload
    rate: int

    def tables(self, epoch: int) -> dict[StreamName, pa.Table]:
        return self.workload.tables(self.rate, epoch)


@dataclass(frozen=True, slots=True)
class Run:
    """What is run: `warm_up` epochs that fill the windows, then those that count."""

    workload: Workload
    rate: int
    warm_up: int
    epochs: int
    partitions: int
    profiler: cProfile.Profile | None = None

    def seen(self, texts: Sequence[str]) -> list[Seen]:
        """The measured epochs of these queries in one group."""
        streams, feed = self.workload.streams, RateFeed(self.workload, self.rate)
        found = []
        with folder() as root:
            bench = Bench(root, members_of(texts, streams), list(streams.values()), feed, self.partitions)
            for number in range(self.warm_up + self.epochs):
                epoch = bench.prepare(number)
                measured = number >= self.warm_up
                work = partial(profiled, self.profiler) if self.profiler and measured else plainly
                seen = bench.run(epoch, work)
                if measured:
                    found.append(seen)
        return found


@dataclass(slots=True)
class Line:
    """Medians over epochs, added up over groups."""

    queries: int
    how: str
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, seen: Sequence[Seen]) -> None:
        for name in ("seconds", "map_seconds", "reduce_seconds", "writing", "rows", "stored"):
            middle = statistics.median(float(getattr(one, name)) for one in seen)
            self.sums[name] = self.sums.get(name, 0.0) + middle

    def cells(self) -> list[str]:
        s = self.sums
        each = [f"{s[name]:.3f}" for name in ("seconds", "map_seconds", "reduce_seconds", "writing")]
        per_row = f"{1e9 * s['seconds'] / s['stored']:.0f}" if s["stored"] else ""
        return [f"{self.queries:,}", self.how, *each, f"{s['rows']:,.0f}", f"{s['stored']:,.0f}", per_row]


@click.command()
@click.option(
    "--workload", type=click.Choice([one.value for one in Workload]), default="W1", show_default=True
)
@click.option("--queries", default="1,12,128", show_default=True, callback=numbers, metavar="NUMBERS")
@click.option("--rate", type=COUNT, default=20_000, show_default=True, help="Events per second.")
@click.option("--epochs", type=COUNT, default=3, show_default=True, help="Measured epochs.")
@click.option("--warm-up", type=COUNT, default=RANGE_S, show_default=True, help="Epochs before these.")
@click.option("--partitions", type=COUNT, default=1, show_default=True, help="Reduce tasks.")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same queries.")
@click.option(
    "--alone", is_flag=True, help="Each query in a group of its own, too; their times are added up."
)
@click.option("--profile", is_flag=True, help="Print the most expensive functions of the measured epochs.")
def join_tasks(
    workload: str,
    queries: list[int],
    rate: int,
    epochs: int,
    warm_up: int,
    partitions: int,
    seed: int,
    alone: bool,
    profile: bool,
) -> None:
    """CPU seconds of an epoch's tasks of joins, all in this process."""
    pa.set_cpu_count(1)
    names = (
        "queries",
        "how",
        "CPU s",
        "map s",
        "reduce s",
        "writing s",
        "rows found",
        "rows stored",
        "ns/row",
    )
    table = Table(*names)
    for count in queries:
        profiler = cProfile.Profile(time.process_time) if profile else None
        run = Run(Workload(workload), rate, warm_up, epochs, partitions, profiler)
        asked = Workload(workload).texts(count, seed)
        line = Line(count, "shared")
        line.add(run.seen(asked))
        table.add_row(*line.cells())
        if alone:
            apart = Line(count, "alone")
            for query in asked:
                apart.add(run.seen([query]))
            table.add_row(*apart.cells())
        if profiler is not None:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(28)
    screen().print(table)


if __name__ == "__main__":
    join_tasks()
