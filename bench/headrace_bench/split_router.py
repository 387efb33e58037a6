"""What the router of a split does, timed: the driver deals physical windows out to p splitters, and no tuple passes it.

Measured are the CPU seconds of the driver for everything that it does with one epoch: dealing out pieces, telling each
splitter, reading what they report, telling the processors, and making the commit. Pipes and processes are left out.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

from headrace.engine import beside
from headrace.engine.splits.commits import next_commit
from headrace.engine.splits.job import spread_chunks
from headrace.engine.splits.messages import ProcessReport, ProcessWork, SavedState, SplitReport
from headrace.log.chunks import ROW_GROUP_ROWS
from headrace.model import codec
from headrace.model.epoch import Chunk
from headrace.model.splits import BundleFile, Counts, SubStreamCost, no_split_commit
from headrace_bench.split_costs import Bench, timed

WORKERS = 64
"""So many processors share the sub-streams of a large cluster."""


@dataclass(frozen=True, slots=True)
class Routed:
    """CPU seconds of the driver for one epoch of p windows for p splitters, and q sub-streams."""

    splitters: int
    sub_streams: int
    dealing: float
    """For the windows: this is what the paper's router does."""
    rest: float
    """For sub-streams: their processors, their state and the commit."""

    @property
    def rate(self) -> float:
        """Tuples per second that the windows of a router have."""
        return self.splitters * ROW_GROUP_ROWS / self.dealing

    def cells(self, splitter_s: float) -> tuple[str, ...]:
        """A line of the report; `splitter_s` is what one splitter takes for its window."""
        share = self.dealing / (self.dealing + splitter_s)
        return (
            *(str(self.splitters), str(self.sub_streams), f"{self.dealing * 1e3:.2f}", f"{self.rate:,.0f}"),
            *(f"{share:.0%}", f"{self.rest * 1e3:.2f}"),
        )


def routed(bench: Bench, splitters: int, sub_streams: int) -> Routed:
    """Time the driver's part of one epoch."""
    epoch = replace(bench.epoch(sub_streams), watermark_us=1)
    chunks = [
        Chunk(f"log/input/{n:012d}-{'0' * 32}.parquet", ROW_GROUP_ROWS, 1 << 23, 0, 1)
        for n in range(splitters)
    ]
    file = BundleFile(f"splits/000000/waiting/e{0:012d}-{'0' * 80}", 0, 1 << 23, 1, ROW_GROUP_ROWS, 0, 1)
    reported = codec.dumps(SplitReport(file, file, Counts(ROW_GROUP_ROWS, ROW_GROUP_ROWS), 0.1))

    def deal() -> list[SplitReport]:
        found, told = [], codec.dumps(epoch)
        for work in spread_chunks(epoch, chunks, splitters):
            _asked((told, codec.dumps(work)))
            found.append(_answered(reported))
        return found

    dealing, reports = timed(deal)
    tasks = min(WORKERS, sub_streams)
    shares = [range(number, sub_streams, tasks) for number in range(tasks)]
    processed = [
        codec.dumps(
            ProcessReport(
                file,
                {str(at): SavedState(1_000, snapshot=True) for at in share},
                {str(at): SubStreamCost(10, 10, 0.1, 1_000) for at in share},
            )
        )
        for share in shares
    ]

    def finish() -> bytes:
        due = tuple(report.due for report in reports)
        work = codec.dumps(ProcessWork(epoch, "", "", due, (), {}, {}))
        for number, share in enumerate(shares):
            _asked((work, number, list(share)))
        done = [_answered(report) for report in processed]
        before = replace(no_split_commit(epoch.split), epoch=-1)
        return codec.dumps(next_commit(before, 0, "", 1, reports, done))

    return Routed(splitters, sub_streams, dealing, timed(finish)[0])


def _asked(load: tuple[object, ...]) -> bytes:
    return beside.packed((1, "split", "key", None, [load]))


def _answered(report: bytes) -> Any:
    _, (found,), _ = pickle.loads(beside.packed((1, [report], None))[beside.LENGTH.size :])
    return codec.loads(found)
