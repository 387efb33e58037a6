"""What people and the machine set: how often to look, how much room to leave, what a group costs by itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scaling:
    """How tasks turn into work done. An epoch first costs `overhead_s` of scheduling, whatever its size.

    `serial` is the part of a task's work that every further task makes slower for all (Amdahl's law). With 0 for both,
    twice the tasks do twice the work.

    >>> round(Scaling(overhead_s=0.2, interval_s=1.0, serial=0.0).useful(4), 2)
    3.2
    """

    overhead_s: float = 0.2
    interval_s: float = 1.0
    serial: float = 0.002

    def __post_init__(self) -> None:
        if not 0 <= self.overhead_s < self.interval_s or self.serial < 0:
            raise ValueError("an interval is longer than the overhead of its epoch")

    def efficiency(self, tasks: float) -> float:
        """The share of `tasks` that does work."""
        return (1 - self.overhead_s / self.interval_s) / (1 + self.serial * max(tasks - 1, 0))

    def useful(self, tasks: float) -> float:
        """CPU seconds of work per second that so many tasks do."""
        return tasks * self.efficiency(tasks)


LEAST_OVERHEAD_S = 0.02
"""No epoch is taken to cost less by itself: nobody knows what hundreds of groups cost as long as there are few."""

UNSTEADY = 1.25
"""What epochs were seen to cost may be so many times what is counted with, or that part of it."""


def follow_overhead(before: float, measured: float) -> float:
    """The overhead to count with from now on. It follows what is measured only as far as it must.

    How many groups there may be depends on it. If it changed at every look, queries would move at every look.

    >>> [follow_overhead(0.2, measured) for measured in (0.2, 0.17, 0.24, 0.5, 0.1, 0.0)]
    [0.2, 0.2, 0.2, 0.4, 0.125, 0.025]
    """
    measured = max(LEAST_OVERHEAD_S, measured)
    return min(max(before, measured / UNSTEADY, LEAST_OVERHEAD_S), measured * UNSTEADY)


@dataclass(frozen=True, slots=True)
class Settings:
    """The knobs of grouping; the defaults are the paper's where it names a figure.

    `threshold` caps the merge threshold. `headroom` is the share of a shared group's tasks that stays free, because
    predictions err. `tolerance` is how much slower than alone a query may be before it counts as penalised. By
    `hysteresis` a merge must pay more that was refused in the last step, and by `chance` standard errors of what the
    samples tell of it at least, because samples differ by chance.
    `driver_threads` is how many groups the driver can start at once. `task_budget` bounds requests for more tasks. With
    `cores`, so many tasks run at the same time whatever groups are given; None means as many as there are.
    Groups may be merged when their cursors are within `meet_within_s` of each other. `low_selectivity` tells the two
    classes of selectivity sharing apart. With `within_isolated` off, policies other than functional isolation may
    take more tasks than isolated queries would. With `bounded` on, they make no more groups than the driver can run, as
    functional isolation always does.
    """

    merge_every_s: float = 60.0
    watch_every_s: float = 10.0
    threshold: float = 1.0
    headroom: float = 0.1
    tolerance: float = 0.05
    hysteresis: float = 0.1
    chance: float = 6.0
    scaling: Scaling = Scaling()
    driver_threads: int = 4
    task_budget: int | None = None
    cores: int | None = None
    meet_within_s: float = 10.0
    low_selectivity: float = 0.05
    within_isolated: bool = True
    bounded: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError("a merge threshold above 1 lets merges slow queries")
        if not all(0 <= share < 1 for share in (self.headroom, self.tolerance, self.hysteresis)):
            raise ValueError("headroom, tolerance and hysteresis are shares below 1")
        if self.watch_every_s <= 0 or self.merge_every_s <= 0:
            raise ValueError("looking takes place every so many seconds")

    @property
    def max_groups(self) -> int:
        """How many groups the driver can start within an interval.

        >>> Settings(scaling=Scaling(overhead_s=0.2, interval_s=1.0), driver_threads=4).max_groups
        20
        """
        if self.scaling.overhead_s == 0:
            return 2**31
        per_thread = self.scaling.interval_s / self.scaling.overhead_s
        return max(1, int(per_thread * self.driver_threads + 1e-9))
