"""What splitting costs, measured and predicted: splitters and processors by themselves, on one core, without Spark.

Three rates of one splitter and two of one processor calibrate the paper's equations 3 and 4. With these, the rates for
more sub-streams are predicted, and then measured. All times are CPU seconds. Tuples are those of Linear Road; 99 % are
routed, 0.5 % go to all sub-streams, and 0.5 % nowhere, as in the paper.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.messages import Piece
from headrace.engine.splits.code import SplitCode, pack
from headrace.engine.splits.messages import (
    PlacedPiece,
    ProcessWork,
    SplitEpoch,
    SplitReport,
    SplitWork,
)
from headrace.engine.splits.routing import CHUNK_ROWS
from headrace.engine.splits.tasks import Sources, split_task
from headrace.model import codec
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.query import Stream, StreamName
from headrace.model.splits import FUNCTION, Split
from headrace.model.types import Column, SqlType
from headrace.optimizer.splitting.costs import (
    Costs,
    Shares,
    measured_processor,
    measured_splitter,
    work_of,
)
from headrace.optimizer.splitting.planning import splitters_by_heuristic
from headrace.workloads.linear_road import split as road
from headrace.workloads.linear_road.rules import COLUMNS
from headrace_bench.epochs import folder
from headrace_bench.spine import numbers, screen

SHARES = Shares(0.99, 0.005, 0.005)
SPLITTERS = 8
"""So many input streams calibrate the cost of merging."""

NOTHING = Costs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def tuples(rows: int, seed: int = 0) -> pa.Table:
    """Tuples like those of Linear Road, in the order of time. `VID` is random, and decides where a tuple goes."""
    rng = np.random.default_rng(seed)
    columns = {name: pa.array(rng.integers(0, 1 << 20, rows, dtype=np.int32)) for name in COLUMNS}
    columns["Time"] = pa.array(np.sort(rng.integers(0, 60, rows, dtype=np.int32)))
    batch = pa.record_batch(columns)
    return pa.Table.from_batches([road.as_tuples(batch)])


class ByVehicle:
    """A route by the vehicle's number, with the shares of the paper."""

    def __init__(self, sub_streams: int, shares: Shares) -> None:
        self.sub_streams, self.shares = sub_streams, shares

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        vid, luck = self._drawn(batch)
        return pa.array(vid % self.sub_streams, mask=luck >= self.shares.routed)

    def broadcast(self, batch: pa.RecordBatch) -> pa.Array:
        _, luck = self._drawn(batch)
        return pa.array((luck >= self.shares.routed) & (luck < self.shares.routed + self.shares.broadcast))

    def _drawn(self, batch: pa.RecordBatch) -> tuple[Any, Any]:
        vid = batch.column("VID").to_numpy()
        return vid, (vid * 7919 % 100_003) / 100_003


class Bench:
    """Splits and merges files in one folder, and tells how long that took."""

    def __init__(self, root: Path, rows: int, window: int) -> None:
        self.root, self.rows, self.window = root, rows, window
        pq.write_table(tuples(rows), root / "input.parquet", row_group_size=1 << 17)
        columns = tuple(
            Column(n, SqlType("timestamp" if n == road.EVENT_TIME else "int")) for n in (*COLUMNS, "ts")
        )
        self.stream = Stream(StreamName("input"), columns, road.EVENT_TIME, 0)

    def epoch(self, sub_streams: int) -> SplitEpoch:
        split = Split(0, "bench", "input", sub_streams, FUNCTION, FUNCTION, None, (), {}, 0)
        return SplitEpoch(
            root=str(self.root),
            split=split,
            stream=self.stream,
            epoch=0,
            attempt="a",
            closed_us=NEVER_US,
            watermark_us=FOREVER_US,
            folder="work",
            home="home",
            window_rows=self.window,
        )

    def split(self, sub_streams: int, shares: Shares) -> tuple[float, SplitReport]:
        """(CPU seconds, report) of one splitter for all tuples."""
        groups = pq.read_metadata(self.root / "input.parquet").num_row_groups
        (found,) = self.split_by(1, sub_streams, shares, [("input.parquet", tuple(range(groups)))])
        return found

    def split_by(
        self,
        splitters: int,
        sub_streams: int,
        shares: Shares,
        parts: Sequence[tuple[str, tuple[int, ...]]] = (),
    ) -> list[tuple[float, SplitReport]]:
        """(CPU seconds, report) of each of so many splitters, which have equal parts of the tuples."""
        route = ByVehicle(sub_streams, shares)
        code = pack("bench", SplitCode(_no_operator, route, route.broadcast))
        found = []
        for number, (path, groups) in enumerate(parts or self.parts(splitters)):
            pieces = tuple(
                PlacedPiece(Piece(path, (group,), None), (number * len(groups) + group) * CHUNK_ROWS)
                for group in groups
            )
            work = codec.dumps(SplitWork(self.epoch(sub_streams), number, pieces))
            seconds, reports = timed(lambda: list(split_task(code, work)))  # noqa: B023
            found.append((seconds, codec.loads(reports[0])))
        return found

    def parts(self, count: int) -> list[tuple[str, tuple[int, ...]]]:
        """The tuples as so many files."""
        made: list[tuple[str, tuple[int, ...]]] = []
        whole = pq.read_table(self.root / "input.parquet")
        size = -(-whole.num_rows // count)
        for number, start in enumerate(range(0, whole.num_rows, size)):
            path = f"part-{count}-{number}.parquet"
            if not (self.root / path).exists():
                pq.write_table(whole.slice(start, size), self.root / path, row_group_size=1 << 30)
            made.append((path, (0,)))
        return made

    def read(self) -> float:
        """CPU seconds of reading all tuples, and nothing else."""
        names = [column.name for column in self.stream.columns]
        return timed(lambda: pq.read_table(self.root / "input.parquet", columns=names, use_threads=False))[0]

    def merge(self, sub_streams: int, reports: list[SplitReport]) -> tuple[float, int]:
        """(CPU seconds, tuples received) of all processors together, without an operator."""
        due = tuple(report.due for report in reports if report.due is not None)
        work = ProcessWork(self.epoch(sub_streams), "", "", due, (), {}, {})

        def run() -> int:
            sources = Sources(work)
            return sum(len(sources.tuples(number)[1]) for number in range(sub_streams))

        return timed(run)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """The least CPU seconds of three runs, and what the last one gave."""
    spent, found = [], None
    for _ in range(3):
        before = time.process_time()
        found = run()
        spent.append(time.process_time() - before)
    return max(min(spent), 1e-9), found


def _no_operator() -> Any:
    raise NotImplementedError("this benchmark runs no operator")


def calibrate(bench: Bench) -> Costs:
    """The costs of the model, from five measured rates. More work that was measured as less costs nothing more."""
    reading = bench.rows / bench.read()
    omitting = bench.rows / bench.split(1, Shares(0.0, 0.0, 1.0))[0]
    routing = bench.rows / bench.split(1, Shares(1.0, 0.0, 0.0))[0]
    omitting = min(omitting, reading)
    costs = measured_splitter(NOTHING, reading=reading, omitting=omitting, routing=min(routing, omitting))
    report = bench.split(1, Shares(1.0, 0.0, 0.0))[1]
    rates = []
    for inputs in (1, SPLITTERS):
        seconds, received = bench.merge(1, [report] * inputs)
        rates.append(received / seconds)
    return measured_processor(costs, one=rates[0], many=min(rates), splitters=SPLITTERS)


@click.command("splits")
@click.option("--sub-streams", default="1,4,16,64,256,512", show_default=True, callback=numbers)
@click.option("--rows", default=400_000, show_default=True, help="Tuples of a splitter's share.")
@click.option("--window", default=1 << 16, show_default=True, help="Rows of a physical window.")
@click.option(
    "--desired", default=10_000_000, show_default=True, help="Tuples per second to plan splitters for."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    help="Measure p by heuristic, by model, p = 1 and p = q; write a page with plots here, those of the paper beside.",
)
def splits(sub_streams: list[int], rows: int, window: int, desired: int, report: Path | None) -> None:
    """What splitting costs on one core: predicted by the paper's cost model, and measured."""
    if report is not None:
        from headrace_bench.split_report import write_report

        click.echo(f"wrote {write_report(report, sub_streams, rows, window, desired)}")
        return
    from rich.table import Table

    headers = (
        "q",
        "p by Eq. 6",
        "splitter predicted /s",
        "measured /s",
        "processor predicted /s",
        "measured /s",
    )
    table = Table(*headers, "efficiency predicted", "measured")
    with folder() as root:
        bench = Bench(root, rows, window)
        costs = calibrate(bench)
        for q in sub_streams:
            one = 1 / costs.splitter(Shares(1.0, 0.0, 0.0), 1)
            planned = splitters_by_heuristic(desired, one, q, SHARES.broadcast)
            split_s, done = bench.split(q, SHARES)
            merge_s, received = bench.merge(q, [done])
            table.add_row(
                *(str(q), str(planned)),
                *(f"{1 / costs.splitter(SHARES, q):,.0f}", f"{rows / split_s:,.0f}"),
                *(f"{1 / costs.processor(1):,.0f}", f"{received / merge_s:,.0f}"),
                *(
                    f"{work_of(costs, SHARES, 1, q, levels=0).efficiency:.2f}",
                    f"{split_s / (split_s + merge_s):.2f}",
                ),
            )
    screen().print(table)
