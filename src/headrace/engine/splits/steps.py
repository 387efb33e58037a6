"""The steps of a split's epoch: splitters route tuples, processors run operators; before that, state may have to move.

Nothing that they make counts until the runner writes the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.engine.splits.commits import due_files
from headrace.engine.splits.faults import run_again
from headrace.engine.splits.messages import (
    ProcessReport,
    ProcessWork,
    ResizeWork,
    SplitEpoch,
    SplitReport,
)
from headrace.engine.splits.placing import Placed
from headrace.engine.splits.resizing import is_due, resized_commit
from headrace.model.epoch import Chunk
from headrace.model.splits import SplitCommit
from headrace.storage import faults


@dataclass(frozen=True, slots=True)
class Ran:
    """The tasks of an epoch: the commit that it follows, what splitters and processors report, and how long they took
    by the clock.
    """

    base: SplitCommit
    routed: list[SplitReport]
    split_wall: float
    processed: list[ProcessReport]
    """None of them when the watermark did not move."""
    process_wall: float
    own_workers: int
    """How many of them ran operators."""


def run_steps(
    place: Placed,
    told: SplitEpoch,
    before: SplitCommit,
    chunks: Sequence[Chunk],
    splitters: int,
    cuts: Mapping[str, tuple[int, ...]],
    check_wanted: Callable[[], None],
) -> Ran:
    """Run the tasks of the epoch after a commit. `check_wanted` raises when the split is to stop."""
    started = time.perf_counter()
    check_wanted()
    base = _resized(place, told, before)
    routed = place.jobs.split(told, chunks, splitters)
    split_wall = time.perf_counter() - started
    faults.reach("split.routed")
    if told.watermark_us <= told.closed_us:
        return Ran(base, routed, split_wall, [], 0.0, place.own_workers)
    work = ProcessWork(
        told,
        base.version,
        told.version,
        tuple(report.due for report in routed if report.due is not None),
        due_files(base, told.watermark_us),
        base.state,
        base.chains,
        cuts=dict(cuts),
    )
    check_wanted()
    processed = place.jobs.process(work, place.tasks)
    process_wall = time.perf_counter() - started - split_wall
    faults.reach("split.processed")
    done = {sub_stream for report in processed for sub_stream in report.saved}
    if len(done) != told.split.sub_streams:
        raise run_again(told.split.name, told.epoch, "a worker that had taken sub-streams was lost")
    return Ran(base, routed, split_wall, processed, process_wall, place.own_workers)


def _resized(place: Placed, told: SplitEpoch, commit: SplitCommit) -> SplitCommit:
    """The last commit; with state and waiting tuples moved when it had another number of sub-streams."""
    if not is_due(commit, told.split):
        return replace(commit, sub_stream_count=told.split.sub_streams, layout=told.split.layout)
    work = ResizeWork(told, commit.watermark_us, commit.waiting, commit.state, commit.chains)
    report = place.jobs.resize(work)
    faults.reach("split.resized")
    return resized_commit(commit, told.split, report)
