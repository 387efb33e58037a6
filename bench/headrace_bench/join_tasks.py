"""The tasks of an epoch of joins without a JVM: FunShare's W1 and W2 at a rate, shared, or each query by itself.

W1 joins few keys with many, and every query wants a range of both sides. Of W2 there are the two queries that average
prices; the third calls a function, whose time is no join's. A one-second epoch goes through the same functions that
Spark's workers run, in this process.
"""

from __future__ import annotations

import cProfile
import pstats
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import click
import pyarrow as pa
from rich.table import Table

from headrace.model.query import Query, QueryId, Stream, StreamName
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, Column, SqlType
from headrace.planner.group import Member
from headrace.sql import parse_query
from headrace.workloads.isolation import STREAMS, Kind, RangeQuery, Traffic, draw_queries
from headrace.workloads.nexmark import EVENT_TIME, Nexmark
from headrace_bench.epochs import START, folder
from headrace_bench.isolation.cases import PROPORTIONS, RANGE_S
from headrace_bench.spine import COUNT, numbers, screen
from headrace_bench.tasks import Bench, Seen, plainly, profiled


def stream_of(name: str) -> Stream:
    """A stream of the workloads as the catalog has it; its watermark is its latest event."""
    columns = (definition.split() for definition in STREAMS[name].split(", "))
    return Stream(
        StreamName(name),
        tuple(Column(column, SqlType(type_.lower())) for column, type_ in columns),
        EVENT_TIME,
        0,
    )


class Analyzer:
    """What Spark says of the queries: a window, and an average of a group or two numbers."""

    def schema(self, sql: str, *streams: Stream) -> tuple[Column, ...]:
        window = (Column("window_start", TIMESTAMP), Column("window_end", TIMESTAMP))
        if "AVG(" in sql.upper():
            return (*window, Column("group", BIGINT), Column("price", DOUBLE))
        return (*window, Column("id", BIGINT), Column("auction", BIGINT))

    def difference(self, original: str, rendered: str) -> str | None:
        return None


def drawn(workload: str, queries: int, seed: int) -> list[RangeQuery]:
    """So many queries of 10 % each, without those that call a function."""
    found = draw_queries(workload, 2 * queries, (0.1, 0.1), seed, RANGE_S)
    return [query for query in found if query.kind is not Kind.PRICE_ANOMALY][:queries]


def members_of(queries: Sequence[RangeQuery]) -> list[Member]:
    """Members of a group with these queries."""
    found = []
    for number, query in enumerate(queries):
        streams = {name: stream_of(name) for name in query.streams}
        plan = parse_query(query.cql(), streams, Analyzer())
        found.append(Member(Query(QueryId(number + 1), f"q{number}", plan), number))
    return found


@dataclass(frozen=True, slots=True)
class RateFeed:
    """One-second epochs of a workload's streams at a rate."""

    workload: str
    rate: int
    names: tuple[str, ...]

    def tables(self, epoch: int) -> dict[StreamName, pa.Table]:
        traffic = Traffic(Nexmark(START, self.rate, 1, PROPORTIONS[self.workload]))
        made = traffic.events(epoch * self.rate, self.rate)
        return {StreamName(name): made[name] for name in self.names}


@dataclass(frozen=True, slots=True)
class Run:
    """What is run: `warm_up` epochs that fill the windows, then those that count."""

    workload: str
    rate: int
    warm_up: int
    epochs: int
    partitions: int
    profiler: cProfile.Profile | None = None

    def seen(self, queries: Sequence[RangeQuery]) -> list[Seen]:
        """The measured epochs of these queries in one group."""
        names = queries[0].streams
        feed = RateFeed(self.workload, self.rate, names)
        found = []
        with folder() as root:
            bench = Bench(
                root, members_of(queries), [stream_of(name) for name in names], feed, self.partitions
            )
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
@click.option("--workload", type=click.Choice(["W1", "W2"]), default="W1", show_default=True)
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
        run = Run(workload, rate, warm_up, epochs, partitions, profiler)
        asked = drawn(workload, count, seed)
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
