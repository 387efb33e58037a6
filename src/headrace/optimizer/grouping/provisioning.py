"""The resource manager: how many tasks a group needs so that nobody in it is slowed (section IV-C).

Equation 1 asks how much work joining another group adds, against the tasks that come with it. With T tasks together,
of which B were busy for group j before, it says (1 - Load(j) / Load(union)) / ((T - B) / T). That is at most 1 when T
tasks do the union at the rate at which B tasks did group j.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.optimizer.grouping.settings import Settings

TINY = 1e-9


def grouping_cost(union_load: Any, load: Any, tasks: Any, busy: Any) -> Any:
    """Equation 1 for a group of `load` and `busy` tasks that becomes part of a union with `tasks` tasks in all.

    Numbers or arrays. Huge when the union has no task more than the group keeps busy now, and has more work.

    >>> float(grouping_cost(3.0, 2.0, 4.0, 1.0))
    0.4444444444444444
    """
    return (union_load - load) * tasks / (union_load * np.maximum(tasks - busy, TINY))


def highest_cost(union_load: Any, tasks: Any, left: tuple[Any, Any], right: tuple[Any, Any]) -> Any:
    """The larger cost of both directions. Of either side its load and busy tasks are given; numbers or arrays."""
    (load, busy), (other_load, other_busy) = left, right
    mine = (union_load - load) / np.maximum(tasks - busy, TINY)
    theirs = (union_load - other_load) / np.maximum(tasks - other_busy, TINY)
    return np.maximum(np.maximum(mine, theirs), 0) * (tasks / union_load)


def merge_threshold(tasks: float, busy: float, demand: float, settings: Settings) -> float:
    """The cost below which T tasks are enough: at most 1, and less when tasks scale worse than linearly.

    The `demand` is the part of `busy` that is useful work. Of T tasks, the efficiency at that size does useful work,
    and the headroom stays free. The union keeps the group's rate when efficiency · T does what `demand` did. Written
    as a bound on Equation 1, that is the value given here. A group that is small beside T needs hardly any room.

    >>> from headrace.optimizer.grouping.settings import Scaling
    >>> merge_threshold(8, 2.0, 2.0, Settings(headroom=0.0, scaling=Scaling(overhead_s=0.0, serial=0.0)))
    1.0
    >>> round(merge_threshold(8, 2.0, 2.0, Settings(headroom=0.2, scaling=Scaling(overhead_s=0.0))), 3)
    0.911
    """
    if tasks <= busy:
        return 0.0
    wanted: float = demand * tasks / usable_tasks(tasks, settings)
    return max(0.0, min((tasks - wanted) / (tasks - busy), settings.threshold))


def usable_tasks(tasks: Any, settings: Settings) -> Any:
    """Of so many tasks, those whose work may be planned with: what scales, less the headroom."""
    scaling = settings.scaling
    share = (1 - scaling.overhead_s / scaling.interval_s) * (1 - settings.headroom)
    return tasks * share / (1 + scaling.serial * (tasks - 1))


@dataclass(frozen=True, slots=True)
class MergedGroup:
    """A group that is merged: its load, the tasks it keeps busy, and the useful work they do."""

    load: float
    busy: float
    demand: float


def provision(
    union_load: float, groups: Sequence[MergedGroup], at_most: int, settings: Settings
) -> int | None:
    """The fewest tasks with which the cost of every group is below its threshold; None if `at_most` are too few.

    The paper provisions for the group that needs most from the others. That alone may leave a larger one short, so
    here every group is looked at.

    >>> from headrace.optimizer.grouping.settings import Scaling
    >>> plain = Settings(headroom=0.0, scaling=Scaling(overhead_s=0.0, serial=0.0))
    >>> provision(3.0, [MergedGroup(2.0, 2.0, 2.0), MergedGroup(2.0, 2.0, 2.0)], 4, plain)
    3
    """
    low, high = 1, at_most
    if at_most < 1 or not _enough(union_load, groups, at_most, settings):
        return None
    # with a threshold that falls as tasks grow, there may be an upper end too; `at_most` is below it, as checked
    while low < high:
        middle = (low + high) // 2
        if _enough(union_load, groups, middle, settings):
            high = middle
        else:
            low = middle + 1
    return low


def _enough(union_load: float, groups: Sequence[MergedGroup], tasks: int, settings: Settings) -> bool:
    useful = usable_tasks(tasks, settings) * (1 + TINY)
    return all(
        group.demand * union_load <= useful * group.load
        and (
            settings.threshold == 1
            or (union_load - group.load) * tasks < settings.threshold * union_load * (tasks - group.busy)
        )
        for group in groups
    )


def tasks_for(load: float, at_most: int, settings: Settings, headroom: float | None = None) -> int:
    """The fewest tasks that keep up with a load and leave headroom; `at_most` if none do.

    >>> tasks_for(2.0, 8, Settings())
    3
    """
    free = settings.headroom if headroom is None else headroom
    low = max(1, min(at_most, math.floor(load)))
    for tasks in range(low, at_most):
        if settings.scaling.useful(tasks) * (1 - free) >= load:
            return tasks
    return max(1, at_most)
