"""What the last epoch of a group tells of the work of the next one."""

from __future__ import annotations

from dataclasses import replace

from headrace.engine.records import Commit
from headrace.optimizer.place import EpochWork


def cpu_seconds(commit: Commit) -> float:
    """What the kernels of an epoch took."""
    return sum(spent.map_seconds + spent.reduce_seconds for spent in commit.operators.values())


def after_epoch(work: EpochWork, before: Commit | None) -> EpochWork:
    """The work of an epoch, with what is known by the last one that had tuples."""
    if before is None:
        return work
    metrics = before.metrics
    return replace(
        work,
        before=(cpu_seconds(before), metrics.input_rows),
        clock_seconds=metrics.map_seconds + metrics.reduce_seconds,
    )
