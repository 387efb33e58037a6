"""What the last epoch of a group tells of the work of the next one."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from headrace.engine.records import Commit
from headrace.model.metrics import OperatorMetrics
from headrace.optimizer.place import EpochWork


def cpu_seconds(commit: Commit) -> float:
    """What the kernels of an epoch took."""
    return sum(spent.map_seconds + spent.reduce_seconds for spent in commit.operators.values())


def after_epoch(work: EpochWork, before: Commit | None, members: Container[int]) -> EpochWork:
    """The work of an epoch, with what is known by the last one that had tuples.

    Functions that only queries called which are no `members` any more cost nothing now: they were why these left.
    """
    if before is None:
        return work
    metrics, spent = before.metrics, cpu_seconds(before)
    stays = max(0.0, spent - sum(_gone(one, members) for one in before.operators.values()))
    clock = metrics.map_seconds + metrics.reduce_seconds
    return replace(
        work,
        before=(stays, metrics.input_rows),
        clock_seconds=clock * (stays / spent if spent > 0 else 1.0),
    )


def _gone(spent: OperatorMetrics, members: Container[int]) -> float:
    """The CPU seconds of functions that no member calls."""
    return sum(
        called.seconds
        for called in spent.functions.values()
        if called.wanted and not any(int(query) in members for query in called.wanted)
    )
