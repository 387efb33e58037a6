"""What splitting costs, measured and predicted: splitters and processors by themselves, on one core, without Spark.

Some splits calibrate the costs of this engine (`optimizer/splitting/engine_costs.py`). With these, the rates of others
are predicted, and then measured. All times are CPU seconds. Tuples are those of Linear Road; 99 % are routed, 0.5 % go
to all sub-streams, and 0.5 % nowhere, as in the paper.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine import beside
from headrace.engine.messages import Piece
from headrace.engine.splits.code import SplitCode, pack
from headrace.engine.splits.due import DueTuples
from headrace.engine.splits.messages import (
    PlacedPiece,
    ProcessWork,
    SplitEpoch,
    SplitReport,
    SplitWork,
)
from headrace.engine.splits.routing import CHUNK_ROWS
from headrace.engine.splits.tasks import split_task
from headrace.engine.splits.workers import own_cores
from headrace.log.chunks import ROW_GROUP_ROWS
from headrace.model import codec
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.query import Stream, StreamName
from headrace.model.splits import FUNCTION, Split
from headrace.model.types import Column, SqlType
from headrace.optimizer.splitting.costs import Shares
from headrace.optimizer.splitting.engine_costs import (
    Cut,
    EngineCosts,
    ProcessorCosts,
    SplitterCosts,
    fitted,
)
from headrace.optimizer.splitting.planning import splitters_by_heuristic
from headrace.workloads.linear_road import split as road
from headrace.workloads.linear_road.rules import COLUMNS
from headrace_bench.epochs import folder
from headrace_bench.spine import numbers, screen

SHARES = Shares(0.99, 0.005, 0.005)


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
        pq.write_table(tuples(rows), root / "input.parquet", row_group_size=ROW_GROUP_ROWS)
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

    def split_by(
        self,
        splitters: int,
        sub_streams: int,
        shares: Shares,
    ) -> list[tuple[float, SplitReport]]:
        """(CPU seconds, report) of each of so many splitters, which have equal parts of the tuples."""
        route = ByVehicle(sub_streams, shares)
        code = pack("bench", SplitCode(_no_operator, route, route.broadcast))
        found = []
        for number, path in enumerate(self.parts(splitters)):
            epoch = codec.dumps(replace(self.epoch(sub_streams), folder=f"work/{number}"))
            piece = PlacedPiece(Piece(path, None, None), number * CHUNK_ROWS)
            work = codec.dumps(SplitWork(number, (piece,)))
            folder = self.root / "work" / str(number)
            seconds, reports = timed(
                lambda: list(split_task(code, epoch, work)),  # noqa: B023
                before=lambda: shutil.rmtree(folder, ignore_errors=True),  # noqa: B023
            )
            found.append((seconds, codec.loads(reports[0])))
        return found

    def parts(self, count: int) -> list[str]:
        """The tuples as so many files."""
        made = []
        whole = pq.read_table(self.root / "input.parquet")
        size = -(-whole.num_rows // count)
        for number, start in enumerate(range(0, whole.num_rows, size)):
            path = f"part-{count}-{number}.parquet"
            if not (self.root / path).exists():
                pq.write_table(whole.slice(start, size), self.root / path, row_group_size=ROW_GROUP_ROWS)
            made.append(path)
        return made

    def read(self) -> float:
        """CPU seconds of reading all tuples, and nothing else."""
        names = [column.name for column in self.stream.columns]
        return timed(lambda: pq.read_table(self.root / "input.parquet", columns=names, use_threads=False))[0]

    def merge(self, sub_streams: int, reports: list[SplitReport]) -> tuple[float, float]:
        """CPU seconds of processors without an operator: of one that opens the splitters' files, and of all together
        for putting the tuples of their sub-streams in order.
        """
        due = tuple(report.due for report in reports if report.due is not None)
        work = ProcessWork(self.epoch(sub_streams), "", "", due, (), {}, {})

        def run(due: DueTuples) -> None:
            for _ in due.each(range(sub_streams)):
                pass

        opening, tuples = timed(lambda: DueTuples(work))
        return opening, timed(lambda: run(tuples))[0]

    def measure(self, cut: Cut) -> Measured:
        """What an epoch like this costs."""
        done = self.split_by(cut.splitters, cut.sub_streams, cut.shares)
        reports = [report for _, report in done]
        opening, merging = self.merge(cut.sub_streams, reports)
        shutil.rmtree(self.root / "work")
        return Measured(cut, tuple(seconds for seconds, _ in done), opening, merging)


def timed(run: Callable[[], Any], before: Callable[[], None] | None = None) -> tuple[float, Any]:
    """The least CPU seconds of five runs, and what the last one gave. What happens before each does not count."""
    spent, found = [], None
    for _ in range(5):
        if before is not None:
            before()
        began = time.process_time()
        found = run()
        spent.append(time.process_time() - began)
    return max(min(spent), 1e-9), found


def _no_operator() -> Any:
    raise NotImplementedError("this benchmark runs no operator")


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds of an epoch: of each splitter, of one processor that opens their files, and of the rest of all
    processors.
    """

    cut: Cut
    splitters: tuple[float, ...]
    opening: float
    merging: float

    @property
    def processors(self) -> float:
        return self.opening * self.cut.processors + self.merging

    @property
    def routing_rate(self) -> float:
        """Tuples per second, as the busiest splitter allows when each has a core."""
        return self.cut.tuples / max(self.splitters)

    @property
    def merging_rate(self) -> float:
        """Tuples per second of processors with a core each."""
        return self.cut.tuples / (self.processors / self.cut.processors)

    @property
    def efficiency(self) -> float:
        return sum(self.splitters) / (sum(self.splitters) + self.processors)


def calibrating(rows: int) -> list[Cut]:
    """The epochs that calibrate the costs. Numbers of sub-streams and splitters are others than those of reports."""
    nobody, everybody = Shares(0.0, 0.0, 1.0), Shares(1.0, 0.0, 0.0)
    cuts = [Cut(rows, nobody, 8), Cut(rows, everybody, 8), Cut(rows, nobody, 8, 24)]
    return cuts + [Cut(rows, SHARES, q, p) for q in (2, 90, 600) for p in (1, 6, 24)]


def calibrate(bench: Bench) -> EngineCosts:
    """The costs of this engine on this machine."""
    found = [bench.measure(cut) for cut in calibrating(bench.rows)]
    merged = [one for one in found if one.cut.shares.omitted < 1]
    return EngineCosts(
        SplitterCosts(
            *fitted([SplitterCosts.amounts(one.cut) for one in found], [sum(one.splitters) for one in found])
        ),
        ProcessorCosts(
            *fitted([ProcessorCosts.amounts(one.cut) for one in merged], [one.processors for one in merged])
        ),
    )


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

        page = like_a_worker(write_report, report, sub_streams, rows, window, desired)
        click.echo(f"wrote {page}")
        return
    from rich.table import Table

    headers = (
        "q",
        "p by Eq. 6",
        "routing predicted /s",
        "measured /s",
        "merging predicted /s",
        "measured /s",
    )
    table = Table(*headers, "efficiency predicted", "measured")
    for cells in like_a_worker(lines, sub_streams, rows, window, desired):
        table.add_row(*cells)
    screen().print(table)


def lines(sub_streams: list[int], rows: int, window: int, desired: int) -> list[tuple[str, ...]]:
    """What was predicted and measured for each number of sub-streams."""
    pa.set_cpu_count(1)
    found = []
    with folder() as root:
        bench = Bench(root, rows, window)
        costs = calibrate(bench)
        one = costs.splitter.rate(Cut(rows, Shares(1.0, 0.0, 0.0), 1))
        for q in sub_streams:
            planned = splitters_by_heuristic(desired, one, q, SHARES.broadcast)
            cut = Cut(rows, SHARES, q, planned, min(q, own_cores()))
            found.append((str(q), str(planned), *shown(costs, bench.measure(cut))))
    return found


def like_a_worker(run: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function of a module in a process that keeps its memory as the own workers do."""
    os.environ.update(beside.KEEP_MEMORY | os.environ)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run, *arguments).result()


def shown(costs: EngineCosts, found: Measured) -> tuple[str, ...]:
    """Predicted and measured, as cells of a table: the rates of splitters and of processors, and the efficiency."""
    cut = found.cut
    rates = (costs.splitter.rate(cut), found.routing_rate, costs.processor.rate(cut), found.merging_rate)
    shares = (costs.efficiency(cut), found.efficiency)
    return (*(f"{rate:,.0f}" for rate in rates), *(f"{share:.2f}" for share in shares))
