"""Linear Road's L-rating: how many expressways are answered rightly and in time, at the rate at which cars report.

The state is warmed by traffic that is played as fast as it goes. Then every second the tuples of that second are
appended, and the session runs in the background. An answer is delivered when the commit that names it counts. The
response time of a tuple is from the end of its second until then. The validator reads all of it, with these times, and
5 seconds as the limit (10 for expenditures, 30 for travel times).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from headrace.model.splits import SplitCommit
from headrace.workloads.linear_road import split as road
from headrace.workloads.linear_road import sql
from headrace.workloads.linear_road.past import PastTable
from headrace.workloads.linear_road.traffic import Traffic
from headrace.workloads.linear_road.validator import Verdict
from headrace_bench.epochs import folder, own_spark
from headrace_bench.meters import Meter
from headrace_bench.road_check import Answers, Played, all_shares, validate
from headrace_bench.road_parts import Answered, Fed, parts_of, render_parts
from headrace_bench.spine import numbers, screen

POLL_S = 0.01
WARM_ROWS = 1_000_000
LAST_ANSWERS_S = 30.0
"""How long to wait for the answers to the last second."""


@dataclass
class Commits:
    """The commits of a split as they come: when each counted, and up to which time tuples were answered."""

    session: Any
    name: str
    at: dict[int, float] = field(default_factory=dict)
    marks: list[tuple[int, int]] = field(default_factory=list)
    """(watermark, epoch) of each."""
    made: dict[int, SplitCommit] = field(default_factory=dict)

    def look(self) -> None:
        """Whoever looks sees a commit when its record is written, so that this is when it counts."""
        splits = self.session._runs().splits
        commit = splits.of(self.session._catalog.splits.get(self.name)).commit
        if commit.committed_at and commit.epoch not in self.at:
            self.at[commit.epoch] = time.time()
            self.marks.append((commit.watermark_us, commit.epoch))
            self.made[commit.epoch] = replace(commit, state={}, chains={}, sub_streams={}, outputs={})

    def epoch_of(self, second: int) -> int | None:
        """The epoch in which all tuples of a second were answered."""
        later = (epoch for mark, epoch in self.marks if mark >= (second + 1) * 1_000_000)
        return next(later, None)

    def answered(self, second: int) -> float | None:
        """When all tuples of a second were answered."""
        epoch = self.epoch_of(second)
        return None if epoch is None else self.at[epoch]


@dataclass(frozen=True, slots=True)
class Rating:
    """What one number of expressways gave. Response times are seconds, one for each second of traffic."""

    expressways: int
    tuples_per_s: float
    responses: list[float]
    verdict: Verdict
    cores: float
    """Without those that made the traffic."""
    peak_mb: dict[str, float]
    late_s: float
    """How much later than due tuples were appended at worst: what this machine, or this program, was too slow for."""

    @property
    def valid(self) -> bool:
        return self.verdict.ok

    def cells(self) -> tuple[str, ...]:
        spread = np.percentile(self.responses, [50, 99, 100])
        memory = ", ".join(f"{kind} {size:,.0f}" for kind, size in sorted(self.peak_mb.items()))
        times = (f"{value:.2f}" for value in spread)
        return (
            *(str(self.expressways), f"{self.tuples_per_s:,.0f}", *times),
            *(f"{self.late_s:.2f}", f"{self.cores:.2f}", memory, "yes" if self.valid else "NO"),
        )


@click.command("linear-road")
@click.option(
    "--expressways", default="1,2,4", show_default=True, callback=numbers, help="Which numbers to try."
)
@click.option("--seconds", default=60, show_default=True, help="How long each is measured.")
@click.option(
    "--warm-up", default=420, show_default=True, help="Seconds of traffic before that, played fast."
)
@click.option("--full", is_flag=True, help="All three hours at the real rate, without warming up.")
@click.option("--segments", is_flag=True, help="Also run the statistics of segments as shared SQL queries.")
def linear_road(expressways: list[int], seconds: int, warm_up: int, full: bool, segments: bool) -> None:
    """Linear Road at its real rate; ends with the first number of expressways that is not valid."""
    from rich.table import Table

    headers = (
        *("expressways", "tuples/s", "p50 s", "p99 s", "max s"),
        *("fed late s", "cores", "peak MB", "valid"),
    )
    table, best = Table(*headers), 0
    with own_spark() as spark:
        for count in expressways:
            with folder() as place:
                rating = rate(
                    spark, place, count, 0 if full else warm_up, 10_800 if full else seconds, segments
                )
            table.add_row(*rating.cells())
            click.echo(rating.verdict.render())
            if not rating.valid:
                break
            best = count
    screen().print(table)
    click.echo(f"L-rating: {best} of those tried" if best else "none of those tried is valid")


def create(hr: Any, traffic: Traffic) -> None:
    """The streams and splits of Linear Road. Routes are functions, so that no tuple passes through the JVM."""
    count = traffic.expressways
    history = partial(road.RuledHistory, traffic.seed, count, traffic.vehicles)
    hr.create_stream("traffic", road.DDL, event_time=road.EVENT_TIME)
    hr.create_split(
        "road",
        "traffic",
        count,
        route=road.route,
        broadcast=road.broadcast,
        operator=partial(road.RoadOperator, history=history, past=partial(PastTable.by_rule, traffic.seed)),
        outputs=road.OUTPUTS,
    )
    for wanted in road.sums(count):
        hr.create_split(**wanted)


def rate(spark: Any, place: Path, count: int, warm_up: int, seconds: int, segments: bool) -> Rating:
    """Play so many expressways."""
    import headrace

    traffic = Traffic(count)
    begin = traffic.seconds - seconds
    played = Played(traffic, begin - warm_up, begin, traffic.seconds)
    with headrace.open(place, spark=spark, progress=False) as hr:
        create(hr, traffic)
        if segments:
            for name, text in sql.QUERIES.items():
                hr.create_query(text, name=name)
        if warm_up:
            warm(hr, played)
        with Meter() as meter:
            started = time.monotonic()
            seen = play(hr, played)
            took = time.monotonic() - started
        answers = [file for kind in road.OUTPUTS for file in delivered(hr, kind, seen, played.start)]
        parts = road_parts(hr, seen, played)
    click.echo(f"{count} expressways were played in {took:.0f} s; now every answer is validated")
    verdict = validate(played, all_shares(played), answers)
    responses = []
    for second in range(begin, traffic.seconds):
        answered = seen.splits["road"].answered(second)
        # without an answer it took at least as long as we waited
        due = seen.due(second, played)
        responses.append((answered or due + seconds + LAST_ANSWERS_S) - due)
    click.echo(render_parts(parts))
    cores = (meter.cpu_s - seen.made_s) / took
    tuples_per_s = seen.tuples / (played.end - played.start)
    return Rating(count, tuples_per_s, responses, verdict, cores, meter.peak_mb, seen.late_s)


def warm(hr: Any, played: Played) -> None:
    """Fill the state with earlier traffic, as fast as it goes."""
    for batch in played.traffic.batches(played.warm, played.start, rows=WARM_ROWS):
        hr.append("traffic", pa.Table.from_batches([road.as_tuples(batch)]))
        hr.run_available()


@dataclass
class Seen:
    """A run as it was seen: when it began, what was committed when, and what making the traffic took of this process.

    `late_s` is how much later than due the tuples of a second were appended, at worst.
    """

    zero: float
    splits: dict[str, Commits]
    tuples: int = 0
    made_s: float = 0.0
    late_s: float = 0.0
    appended: dict[int, tuple[float, float]] = field(default_factory=dict)
    """When appending the tuples of a second began, and when it ended."""

    def due(self, second: int, played: Played) -> float:
        """The end of a second: when its tuples are to be appended."""
        return self.zero + second + 1 - played.start


def road_parts(hr: Any, seen: Seen, played: Played) -> dict[int, dict[str, float]]:
    """What the response times are made of, by second. The last second has none: no tuple comes after it."""
    found: dict[int, dict[str, float]] = {}
    commits = seen.splits["road"]
    for second in range(played.begin, played.end - 1):
        epoch = commits.epoch_of(second)
        if epoch is None or second + 1 not in seen.appended:
            continue
        commit = commits.made[epoch]
        answered = Answered(
            sealed=hr._sealer.epoch(epoch).sealed_at,
            taken=commit.cost.seconds,
            split=commit.cost.split_wall,
            process=commit.cost.process_wall,
            counted=commits.at[epoch],
            committing=commit.committed_at,
        )
        fed = Fed(seen.due(second, played), *seen.appended[second + 1])
        found[second] = parts_of(fed, answered)
    return found


def play(hr: Any, played: Played) -> Seen:
    """Append every second its tuples, at the end of that second."""
    splits = {name: Commits(hr, name) for name in ("road", "sums")}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(POLL_S):
            for commits in splits.values():
                commits.look()

    watcher = threading.Thread(target=watch, name="commits", daemon=True)
    watcher.start()
    ahead = Ahead(played)
    hr.start("200 milliseconds")
    seen = Seen(time.time() + 0.5, splits)
    for second, table in ahead:
        due = seen.due(second, played)
        time.sleep(max(0.0, due - time.time()))
        began = time.time()
        seen.late_s = max(seen.late_s, began - due)
        hr.append("traffic", table)
        seen.appended[second] = began, time.time()
        seen.tuples += table.num_rows
    hr.close_stream("traffic")
    until = time.time() + LAST_ANSWERS_S
    while time.time() < until and any(c.answered(played.end - 1) is None for c in splits.values()):
        time.sleep(0.1)
    hr.stop()
    hr.run_available()
    stop.set()
    watcher.join()
    for commits in splits.values():
        commits.look()
    seen.made_s = ahead.cpu_s
    return seen


class Ahead:
    """The tuples of every second, made some seconds before they are due by a process of their own."""

    def __init__(self, played: Played, seconds: int = 8) -> None:
        context = get_context("spawn")
        self._queue: Any = context.Queue(seconds)
        self._process = context.Process(target=make_seconds, args=(played, self._queue), daemon=True)
        self._process.start()
        self._first = self._queue.get()
        self.cpu_s = 0.0

    def __iter__(self) -> Iterator[tuple[int, pa.Table]]:
        found = self._first
        while not isinstance(found, float):
            second, data = found
            with pa.ipc.open_stream(data) as reader:
                yield second, reader.read_all()
            found = self._queue.get()
        self.cpu_s = found
        self._process.join()


def make_seconds(played: Played, queue: Any) -> None:
    """Put the tuples of every second into a queue, and at last how many CPU seconds that took."""
    pa.set_cpu_count(1)
    for batch in played.traffic.batches(played.start, played.end, rows=1):
        if batch.num_rows:
            timed = road.as_tuples(batch)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, timed.schema) as writer:
                writer.write_batch(timed)
            queue.put((int(batch.column("Time")[0].as_py()), sink.getvalue().to_pybytes()))
    queue.put(time.process_time())


def delivered(hr: Any, kind: str, seen: Seen, start: int) -> Iterator[Answers]:
    """The files with answers of a kind, and the moments of their commits in seconds of the traffic."""
    stream, split = ("sums", "sums") if kind == "balances" else (f"road_{kind}", "road")
    epochs = hr._sealer.epochs(hr._sealer.first)
    for chunk in [chunk for epoch in epochs for chunk in getattr(epoch.of(stream), "chunks", ())]:
        made = int(Path(chunk.path).name.split("-")[0])  # rows of a split are named by their epoch
        counted = seen.splits[split].at.get(made)
        if counted is not None:  # else it is of the warming up
            yield Answers(kind, str(hr._warehouse.path(chunk.path)), counted - seen.zero + start - 1)
