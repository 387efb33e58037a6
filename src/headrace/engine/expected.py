"""What the last epoch of a group tells of the work of the next one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from headrace.engine.records import Commit
from headrace.model.metrics import OperatorMetrics, QueryCounts
from headrace.optimizer.place import EpochWork


def cpu_seconds(commit: Commit) -> float:
    """What the kernels of an epoch took."""
    return sum(spent.map_seconds + spent.reduce_seconds for spent in commit.operators.values())


def after_epoch(work: EpochWork, before: Commit | None, members: Collection[int]) -> EpochWork:
    """The work of an epoch, with what is known by the last one that had tuples.

    What was done for queries that are no `members` any more is not done now. It may be why they left.
    """
    if before is None:
        return work
    metrics, spent = before.metrics, cpu_seconds(before)
    stays = sum(_for_members(one, members) for one in before.operators.values())
    clock = metrics.map_seconds + metrics.reduce_seconds
    return replace(
        work,
        before=(stays, metrics.input_rows),
        clock_seconds=clock * (stays / spent if spent > 0 else 1.0),
    )


def _for_members(spent: OperatorMetrics, members: Collection[int]) -> float:
    """The CPU seconds of an operator for these queries: of functions by who called them, and of the rest by rows."""
    called = sum(one.seconds for one in spent.functions.values())
    rows = spent.matched + spent.joined or spent.rows
    rest = max(0.0, spent.map_seconds + spent.reduce_seconds - called)
    return rest * _share(rows, members) + sum(
        one.seconds * _share(one.wanted, members) for one in spent.functions.values()
    )


def _share(counts: QueryCounts, members: Collection[int]) -> float:
    """The part of what was counted by query that is these queries'; all of it where nothing was counted.

    >>> _share(QueryCounts.of([1, 2], [30, 10]), {1}), _share(QueryCounts.of([], []), {1})
    (0.75, 1.0)
    """
    return counts.only(members).total / counts.total if counts else 1.0
