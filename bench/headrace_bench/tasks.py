"""The tasks of an epoch without a JVM: what map and reduce tasks cost by themselves, as CPU time, and what of it.

AStream's tuples and aggregation queries, or those of `predicates`, go through the same functions that Spark's workers
run, in this process. Beside it stands the time that plain pyarrow takes to write the same result rows, which nobody
can go below.
"""

from __future__ import annotations

import cProfile
import pstats
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol
from unittest import mock

import click
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from headrace.engine import job
from headrace.engine.chain import run_chain
from headrace.engine.job import Job, JobContext, JobResult, run_job
from headrace.engine.paths import plan_path
from headrace.engine.plans import plan_file
from headrace.engine.result_files import bare_that_repeat, parquet_options
from headrace.log.chunks import write_chunk
from headrace.model.epoch import NEVER_US, Epoch, StreamEpoch
from headrace.model.partitioning import even_partitioning
from headrace.model.plan import SharedPlan
from headrace.model.predicate import TRUE, Compare, Op, Operand, conjunction
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    EpochId,
    Query,
    QueryId,
    QueryPlan,
    Stream,
    StreamName,
)
from headrace.model.state import SegmentFile
from headrace.model.types import BIGINT, DOUBLE, Column, SqlType
from headrace.model.window import AnyWindow, SessionWindow, Window
from headrace.planner.group import Member, plan_group
from headrace_bench import astream, predicate_tasks
from headrace_bench.epochs import Feed, folder
from headrace_bench.spine import COUNT, numbers, screen

FIELDS = ("key", *(f"field{i}" for i in range(1, astream.FIELDS + 1)))
STREAM = Stream(
    StreamName(astream.STREAM),
    (*(Column(name, BIGINT) for name in FIELDS), Column("ts", SqlType("timestamp"))),
    "ts",
    0,
)
GROUP = "main"


def as_query(found: astream.AggregationQuery, number: int, gap_ms: int = 0) -> Query:
    """What the parser makes of the query's text, without Spark; with a gap it is over sessions in place of windows."""
    function = AggregateFunction(found.aggregate.lower())
    aggregate = Aggregate(
        function, Operand(f"field{found.field}", BIGINT), TRUE, DOUBLE if found.aggregate == "AVG" else BIGINT
    )
    where = conjunction(
        *(Compare(Operand(f"field{field}", BIGINT), Op(op), value) for field, op, value in found.predicates)
    )
    window: AnyWindow = Window(found.range_s * 1_000_000, found.slide_s * 1_000_000)
    if gap_ms:
        window = SessionWindow(gap_ms * 1_000)
    body = Aggregation(window, where, (Operand("key", BIGINT),), (aggregate,), (), None)
    return Query(QueryId(number), f"q{number}", QueryPlan("", (STREAM.name,), body, (), "", ""))


def make_members(
    queries: int, seed: int = 1, window_max_s: int = 10, columns: int = 1, gap_max_ms: int = 0
) -> list[Member]:
    """Members of a group with random aggregation queries: of windows, or of sessions with gaps of up to so much."""
    rng = Random(seed)
    found = [astream.aggregation(rng, window_max_s, mixed=True, columns=columns) for _ in range(queries)]
    gaps = [rng.randint(1, gap_max_ms) if gap_max_ms else 0 for _ in found]
    return [
        Member(as_query(query, n + 1, gap), n) for n, (query, gap) in enumerate(zip(found, gaps, strict=True))
    ]


@contextmanager
def in_this_process() -> Iterator[None]:
    """Jobs run here, and no JVM is asked."""

    def stages(spark: Any, loads: list[bytes], scans: Any, partitions: int, count: int) -> list[bytes]:
        return run_chain(loads, partitions, count)

    with mock.patch.object(job, "_run_stages", stages):
        yield


@dataclass(frozen=True, slots=True)
class Seen:
    """One epoch: CPU seconds in all, of map and of reduce work, and of pyarrow writing the same rows; result rows.

    `plain` is what pyarrow takes as it comes, `writing` what it takes with the settings of result files.
    """

    seconds: float
    map_seconds: float
    reduce_seconds: float
    plain: float
    writing: float
    rows: int
    stored: int


class Tables(Protocol):
    """Streams that go on: the tuples of each epoch, by the stream's name."""

    def tables(self, epoch: int) -> dict[StreamName, pa.Table]: ...


class OneTable(Protocol):
    """A stream that goes on: the tuples of each epoch."""

    def table(self, epoch: int) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class OneStream:
    """A stream that is the only one."""

    feed: OneTable

    def tables(self, epoch: int) -> dict[StreamName, pa.Table]:
        return {STREAM.name: self.feed.table(epoch)}


class Bench:
    """A group in a folder of its own, fed epoch by epoch."""

    def __init__(
        self, root: Path, members: list[Member], streams: Sequence[Stream], feed: Tables, partitions: int
    ) -> None:
        self.root, self.feed, self.partitions = root, feed, partitions
        self.streams = {stream.name: stream for stream in streams}
        self.plan: SharedPlan = plan_group(members, self.streams)
        self.path = plan_path(GROUP, self.plan.version)
        (root / self.path).parent.mkdir(parents=True, exist_ok=True)
        (root / self.path).write_bytes(plan_file(self.plan))
        self.held: list[SegmentFile] = []
        self.closed = NEVER_US

    def prepare(self, number: int) -> Epoch:
        """Write the chunks of an epoch."""
        tables, inflows = self.feed.tables(number), []
        latest = min(table[self.streams[name].event_time][-1].value for name, table in tables.items())
        for name, table in tables.items():
            chunk = write_chunk(self.root, f"log/{name}", table, self.streams[name].event_time, number)
            inflows.append(StreamEpoch(name, (chunk,), self.closed, latest))
        return Epoch(EpochId(number), tuple(inflows))

    def run(self, epoch: Epoch, profile: Callable[[Callable[[], JobResult]], JobResult]) -> Seen:
        context = JobContext(None, self.root, GROUP, even_partitioning(self.partitions), 2)  # type: ignore[arg-type]
        task = Job(self.plan, self.path, epoch, {}, self.held, f"e{epoch.id}")
        began = time.process_time()
        with in_this_process():
            result = profile(lambda: run_job(context, task))
        seconds = time.process_time() - began
        self.held = result.segments
        self.closed = epoch.streams[0].watermark_us
        spent = result.operators.values()
        again = [write_again(self.root / file.path) for file in result.results]
        return Seen(
            seconds,
            sum(one.map_seconds for one in spent),
            sum(one.reduce_seconds for one in spent),
            sum(plain for plain, _ in again),
            sum(writing for _, writing in again),
            result.rows.total,
            sum(file.rows for file in result.results),
        )


def write_again(path: Path) -> tuple[float, float]:
    """CPU seconds that pyarrow takes to write the rows of a result file once more: as it comes, and with the settings
    of result files. The file goes.
    """
    again, seconds = path.with_suffix(".again"), [0.0, 0.0]
    with pq.ParquetFile(path) as file:
        first = pa.Table.from_batches([next(file.iter_batches(1 << 17))])
        settings: list[dict[str, Any]] = [{}, parquet_options(first.schema, bare_that_repeat(first))]
        for i, options in enumerate(settings):
            with pq.ParquetWriter(again, file.schema_arrow, **options) as writer:
                for batch in file.iter_batches(1 << 17):
                    began = time.process_time()
                    writer.write_batch(batch)
                    seconds[i] += time.process_time() - began
                began = time.process_time()
            seconds[i] += time.process_time() - began
    path.unlink()
    again.unlink()
    return seconds[0], seconds[1]


def plainly(work: Callable[[], JobResult]) -> JobResult:
    return work()


def profiled(profile: cProfile.Profile, work: Callable[[], JobResult]) -> JobResult:
    return profile.runcall(work)


def figures(queries: int, seen: list[Seen]) -> list[str]:
    """A line under the headers of `tasks`."""

    def middle(name: str) -> float:
        return statistics.median([float(getattr(one, name)) for one in seen])

    seconds, plain, writing = middle("seconds"), middle("plain"), middle("writing")
    return [
        f"{queries:,}",
        f"{seconds:.3f}",
        f"{middle('map_seconds'):.3f}",
        f"{middle('reduce_seconds'):.3f}",
        f"{plain:.3f}",
        f"{seconds / plain:.2f}" if plain else "",
        f"{writing:.3f}",
        f"{statistics.mean(one.rows for one in seen):,.0f}",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f}",
    ]


@click.command()
@click.option("--queries", default="1,1000", show_default=True, callback=numbers, metavar="NUMBERS")
@click.option("--rows", type=COUNT, default=500_000, show_default=True, help="Events per epoch.")
@click.option("--epochs", type=COUNT, default=4, show_default=True, help="Measured epochs.")
@click.option("--warm-up", type=COUNT, default=2, show_default=True, help="Epochs before these.")
@click.option("--keys", type=COUNT, default=1_000, show_default=True, help="Distinct keys.")
@click.option(
    "--rate", type=COUNT, default=50_000, show_default=True, help="Events per second of event time."
)
@click.option("--window-max", type=COUNT, default=10, show_default=True, help="Longest window in seconds.")
@click.option(
    "--gap-max",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Sessions in place of windows, with gaps of up to so many milliseconds.",
)
@click.option("--partitions", type=COUNT, default=2, show_default=True, help="Reduce tasks.")
@click.option(
    "--conjuncts",
    type=click.IntRange(0, predicate_tasks.MOST_CONJUNCTS),
    help="Tuples and queries of `predicates` with so many conjuncts; 0 for one product each.",
)
@click.option(
    "--asked",
    type=click.Choice([one.value for one in predicate_tasks.Asked]),
    default=predicate_tasks.Asked.WINDOWS.value,
    show_default=True,
    help="With --conjuncts: what is asked of the tuples that are accepted.",
)
@click.option(
    "--products",
    type=COUNT,
    help="With --conjuncts: how many products there are; else as many as queries of one product each.",
)
@click.option("--profile", is_flag=True, help="Print the most expensive functions of the measured epochs.")
def tasks(
    queries: list[int],
    rows: int,
    epochs: int,
    warm_up: int,
    keys: int,
    rate: int,
    window_max: int,
    gap_max: int,
    partitions: int,
    conjuncts: int | None,
    asked: str,
    products: int | None,
    profile: bool,
) -> None:
    """CPU seconds of an epoch's tasks, all in this process."""
    pa.set_cpu_count(1)
    table = Table("queries", "CPU s", "map s", "reduce s", "plain s", "ratio", "tuned s", "rows", "peak MB")
    for count in queries:
        found: list[Seen] = []
        profiler = cProfile.Profile(time.process_time)
        with folder() as root:
            if conjuncts is None:
                members = make_members(count, window_max_s=window_max, gap_max_ms=gap_max)
                bench = Bench(root, members, [STREAM], OneStream(Feed(rows, keys, rate)), partitions)
            else:
                members = predicate_tasks.make_members(
                    count, conjuncts, window_max, asked=predicate_tasks.Asked(asked)
                )
                known = products or (count if conjuncts == 0 else None)
                fed = predicate_tasks.PredicateFeed(rows, keys, rate, known)
                bench = Bench(root, members, [predicate_tasks.STREAM], OneStream(fed), partitions)
            for number in range(warm_up + epochs):
                epoch = bench.prepare(number)
                measured = number >= warm_up
                how = partial(profiled, profiler) if profile and measured else plainly
                seen = bench.run(epoch, how)
                if measured:
                    found.append(seen)
        table.add_row(*figures(count, found))
        if profile:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(28)
    screen().print(table)


if __name__ == "__main__":
    tasks()
