"""Linear Road's L-rating: how many expressways are answered rightly and in time, at the rate at which cars report.

The state is warmed by traffic that is played as fast as it goes. Then every second the tuples of that second are
appended, and the session runs in the background. An answer is delivered when the commit that names it counts. The
response time of a tuple is from the end of its second until then. The validator reads all of it, with these times, and
5 seconds as the limit (10 for expenditures).
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.workloads.linear_road import split as road
from headrace.workloads.linear_road.traffic import Traffic
from headrace.workloads.linear_road.validator import Validator, Verdict
from headrace_bench.epochs import folder, own_spark
from headrace_bench.meters import Meter
from headrace_bench.spine import numbers, screen

SEGMENTS = (
    "SELECT XWay, Dir, Seg, COUNT(DISTINCT VID) AS cars, AVG(Spd) AS speed, window.start AS minute FROM traffic "
    "WHERE Type = 0 GROUP BY XWay, Dir, Seg, window(ts, '1 minute')"
)
"""How much of Linear Road is SQL: cars and speeds of every segment and minute, as a shared query beside the splits."""

POLL_S = 0.01
LAST_ANSWERS_S = 30.0
"""How long to wait for the answers to the last second."""


@dataclass
class Commits:
    """The commits of a split as they come: when each counted, and up to which time tuples were answered."""

    handle: Any
    at: dict[int, float] = field(default_factory=dict)
    marks: list[tuple[int, float]] = field(default_factory=list)

    def look(self) -> None:
        found = self.handle.metrics()
        if found.committed_at and found.epoch not in self.at:
            self.at[found.epoch] = found.committed_at
            self.marks.append((found.watermark_us, found.committed_at))

    def answered(self, second: int) -> float | None:
        """When all tuples of a second were answered."""
        later = (moment for mark, moment in self.marks if mark >= (second + 1) * 1_000_000)
        return next(later, None)


@dataclass(frozen=True, slots=True)
class Rating:
    """What one number of expressways gave. Response times are seconds, one for each second of traffic."""

    expressways: int
    tuples_per_s: float
    responses: list[float]
    verdict: Verdict
    cores: float
    peak_mb: dict[str, float]

    @property
    def valid(self) -> bool:
        return self.verdict.ok

    def cells(self) -> tuple[str, ...]:
        spread = np.percentile(self.responses, [50, 99, 100])
        memory = ", ".join(f"{kind} {size:,.0f}" for kind, size in sorted(self.peak_mb.items()))
        times = (f"{value:.2f}" for value in spread)
        return (
            *(str(self.expressways), f"{self.tuples_per_s:,.0f}", *times),
            *(f"{self.cores:.2f}", memory, "yes" if self.valid else "NO"),
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
@click.option("--segments", is_flag=True, help="Also run the statistics of segments as a shared SQL query.")
def linear_road(expressways: list[int], seconds: int, warm_up: int, full: bool, segments: bool) -> None:
    """Linear Road at its real rate; ends with the first number of expressways that is not valid."""
    from rich.table import Table

    headers = ("expressways", "tuples/s", "p50 s", "p99 s", "max s", "cores", "peak MB", "valid")
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
        operator=partial(road.RoadOperator, history=history),
        outputs=road.OUTPUTS,
    )
    hr.create_split(
        "sums",
        "road_balances",
        1,
        route=lambda batch: np.zeros(batch.num_rows, np.int64),
        operator=partial(road.SumOperator, count),
        schema=road.OUTPUTS["balances"],
    )


def rate(spark: Any, place: Path, count: int, warm_up: int, seconds: int, segments: bool) -> Rating:
    """Play so many expressways."""
    import headrace

    traffic = Traffic(count)
    begin = traffic.seconds - seconds
    history = [road.RuledHistory(traffic.seed, count, traffic.vehicles, xway) for xway in range(count)]
    validator = Validator(
        paid=lambda vid, day, xway: int(history[xway].paid(np.array([vid]), np.array([day]))[0])
    )
    with headrace.open(place, spark=spark, progress=False) as hr:
        create(hr, traffic)
        if segments:
            hr.create_query(SEGMENTS, name="segments")
        if warm_up:
            for batch in traffic.batches(begin - warm_up, begin, rows=200_000):
                validator.feed(batch)
                hr.append("traffic", pa.Table.from_batches([road.as_tuples(batch)]))
                hr.run_available()
        played = list(traffic.batches(begin, rows=1))
        played = [batch for batch in played if batch.num_rows]
        with Meter() as meter:
            started, watched = time.monotonic(), play(hr, played)
            took = time.monotonic() - started
        zero, splits = watched
        for batch in played:
            validator.feed(batch)
        for kind in road.OUTPUTS:
            check(hr, validator, kind, splits["sums" if kind == "balances" else "road"], zero, begin)
    responses = []
    for batch in played:
        second = int(batch.column("Time")[0].as_py())
        answered = splits["road"].answered(second)
        # without an answer it took at least as long as we waited
        responses.append((answered or zero + seconds + LAST_ANSWERS_S) - (zero + second + 1 - begin))
    tuples = sum(batch.num_rows for batch in played)
    return Rating(count, tuples / seconds, responses, validator.verdict(), meter.cpu_s / took, meter.peak_mb)


def play(hr: Any, played: list[pa.RecordBatch]) -> tuple[float, dict[str, Commits]]:
    """Append every second its tuples, at the end of that second; (when the first one began, what was committed)."""
    splits = {name: Commits(hr.split(name)) for name in ("road", "sums")}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(POLL_S):
            for commits in splits.values():
                commits.look()

    watcher = threading.Thread(target=watch, name="commits", daemon=True)
    watcher.start()
    hr.start("200 milliseconds")
    zero, first = time.time(), int(played[0].column("Time")[0].as_py())
    for batch in played:
        due = zero + int(batch.column("Time")[0].as_py()) - first + 1
        time.sleep(max(0.0, due - time.time()))
        hr.append("traffic", pa.Table.from_batches([road.as_tuples(batch)]))
    last = int(played[-1].column("Time")[0].as_py())
    hr.close_stream("traffic")
    until = time.time() + LAST_ANSWERS_S
    while time.time() < until and any(c.answered(last) is None for c in splits.values()):
        time.sleep(0.1)
    hr.stop()
    hr.run_available()
    stop.set()
    watcher.join()
    for commits in splits.values():
        commits.look()
    return zero, splits


def check(hr: Any, validator: Validator, kind: str, commits: Commits, zero: float, begin: int) -> None:
    """Give the answers of a kind to the validator, with the moments of their commits in seconds of the traffic.

    Answers of the warming up are not timed.
    """
    stream = "sums" if kind == "balances" else f"road_{kind}"
    epochs = hr._sealer.epochs(hr._sealer.first)
    for chunk in [chunk for epoch in epochs for chunk in getattr(epoch.of(stream), "chunks", ())]:
        made = int(Path(chunk.path).name.split("-")[0])  # rows of a split are named by their epoch
        for rows in pq.read_table(hr._warehouse.path(chunk.path)).combine_chunks().to_batches():
            times = rows.column("Time").to_numpy().astype(np.float64)
            emit = commits.at.get(made, zero) - zero + begin - 1
            timed = np.where(times < begin, times, np.maximum(times, emit))
            answers = rows.drop_columns([road.EVENT_TIME]).append_column("Emit", pa.array(timed))
            validator.check(kind, answers)
