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


def grouping_cost(union_load: Any, load: Any, tasks: Any, busy: Any) -> Any:
    """Equation 1 for a group of `load` and `busy` tasks that becomes part of a union with `tasks` tasks in all.

    Numbers or arrays. Infinite when the union has no task more than the group keeps busy now.

    >>> float(grouping_cost(3.0, 2.0, 4.0, 1.0))
    0.4444444444444444
    """
    added = 1 - load / union_load
    spare = 1 - busy / tasks
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spare > 0, np.maximum(added, 0) / np.maximum(spare, 1e-12), np.inf)


def merge_threshold(tasks: Any, busy: Any, demand: Any, settings: Settings) -> Any:
    """The cost below which T tasks are enough: at most 1, and less when tasks scale worse than linearly.

    The `demand` is the part of `busy` that is useful work. Of T tasks, the efficiency at that size does useful work,
    and the headroom stays free. The union keeps the group's rate when efficiency · T does what `demand` did. Written
    as a bound on Equation 1, that is the value given here. A group that is small beside T needs hardly any room.
    """
    scaling = settings.scaling
    useful = (1 - scaling.overhead_s / scaling.interval_s) * (1 - settings.headroom)
    wanted = demand * (1 + scaling.serial * (tasks - 1)) / useful
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(tasks > busy, (tasks - wanted) / np.maximum(tasks - busy, 1e-12), -np.inf)
    return np.minimum(found, settings.threshold)


@dataclass(frozen=True, slots=True)
class Part:
    """A group that is merged: its load, the tasks it keeps busy, and the useful work they do."""

    load: float
    busy: float
    demand: float


def provision(union_load: float, parts: Sequence[Part], at_most: int, settings: Settings) -> int | None:
    """The fewest tasks with which the cost of every part is below its threshold; None if `at_most` are too few.

    The paper provisions for the part that needs most from the others. That alone may leave a larger part short, so
    here every part is looked at.

    >>> from headrace.optimizer.grouping.settings import Scaling
    >>> plain = Settings(headroom=0.0, scaling=Scaling(overhead_s=0.0, serial=0.0))
    >>> provision(3.0, [Part(2.0, 2.0, 2.0), Part(2.0, 2.0, 2.0)], 4, plain)
    3
    """
    low, high = 1, at_most
    if at_most < 1 or not _enough(union_load, parts, at_most, settings):
        return None
    # with a threshold that falls as tasks grow, there may be an upper end too; `at_most` is below it, as checked
    while low < high:
        middle = (low + high) // 2
        if _enough(union_load, parts, middle, settings):
            high = middle
        else:
            low = middle + 1
    return low


def _enough(union_load: float, parts: Sequence[Part], tasks: int, settings: Settings) -> bool:
    useful = settings.scaling.useful(tasks) * (1 - settings.headroom)
    for part in parts:
        if part.demand * union_load > useful * part.load * (1 + 1e-9):
            return False
        if settings.threshold < 1:
            cost = float(grouping_cost(union_load, part.load, tasks, part.busy))
            if cost >= settings.threshold:
                return False
    return True


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
