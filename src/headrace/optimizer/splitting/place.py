"""Where the tasks of a split's epoch run, and in how many: as Spark jobs, or in the driver's own processes.

Two Spark jobs cost some tenths of a second before and after the work itself. Where Spark runs on the driver's own cores
it has nothing to give for that. A cluster has more cores, so much work is worth the jobs there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.optimizer.place import Place

JOBS_SECONDS = 0.3
"""What two Spark jobs cost by themselves."""

KEEP = 1.25
"""The other place must be better by this factor: instances have to be opened anew from their state there."""

TASK_SECONDS = 0.05
"""A task more is worth it from so many CPU seconds for each on: it writes files of its own."""


@dataclass(frozen=True, slots=True)
class SplitLoad:
    """What is known before an epoch runs: the CPU seconds of the last one (None before there was one), the cores that
    the driver's processes and Spark have, whether these are the same ones, and what the last epoch ran with.
    """

    seconds: float | None
    own_cores: int
    spark_cores: int
    local: bool
    place: Place | None = None
    tasks: int = 1


def decide_split_place(load: SplitLoad) -> Place:
    """
    >>> decide_split_place(SplitLoad(9.0, own_cores=2, spark_cores=2, local=True)).value
    'own worker'
    >>> decide_split_place(SplitLoad(0.1, own_cores=2, spark_cores=64, local=False)).value
    'own worker'
    >>> decide_split_place(SplitLoad(9.0, own_cores=2, spark_cores=64, local=False)).value
    'Spark'
    """
    if load.local:
        return Place.OWN_WORKER
    seconds = load.seconds or 0.0
    own, spark = seconds / load.own_cores, seconds / load.spark_cores + JOBS_SECONDS
    if load.place is Place.OWN_WORKER:
        spark *= KEEP
    elif load.place is Place.SPARK:
        own *= KEEP
    return Place.OWN_WORKER if own <= spark else Place.SPARK


def decide_processors(load: SplitLoad, sub_streams: int) -> int:
    """In how many own processes the operators run. One fewer only when half of the work would still be enough.

    >>> decide_processors(SplitLoad(0.02, 4, 4, local=True), 8), decide_processors(SplitLoad(2.0, 4, 4, local=True), 8)
    (1, 4)
    >>> decide_processors(SplitLoad(0.15, 4, 4, local=True, tasks=4), 8)
    4
    """
    most = min(load.own_cores, sub_streams)
    if load.seconds is None:
        return most
    worth = max(1, math.ceil(load.seconds / TASK_SECONDS))
    kept = load.tasks if worth * 2 > load.tasks else worth
    return min(most, max(worth, kept))
