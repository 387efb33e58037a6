"""Balanced partitions: which task owns which key groups, so that no core rests while another one has most of the work.

Keys are spread by a hash, as equally as chance has it. A few busy keys can all belong to one task:

    even        |░░░░░░░░░░░░░░|▓░▓░░▓░▓░▓░░░░|     task 0 rests, task 1 has everything
    balanced    |░░░░░░░░░░░░░░░▓░▓░░▓|░▓░▓░░░░|     cut where the work is the same on both sides

Each partition stays a run of neighbouring key groups, so state is still named in few ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.partitioning import Partitioning

LEAST_S = 0.1
"""A change has to spare the busiest task so many CPU seconds of an epoch. It has a price: state is read in parts."""

LEAST_SHARE = 0.15
"""And so large a share of what it has to do: what an epoch costs varies by itself."""


@dataclass(frozen=True, slots=True)
class Balanced:
    """A better partitioning. The busiest task had `before_s` of an epoch's `total_s` CPU seconds, and has `after_s`."""

    partitioning: Partitioning
    before_s: float
    after_s: float
    total_s: float

    @property
    def reason(self) -> str:
        """Why, for people.

        >>> from headrace.model.partitioning import even_partitioning
        >>> Balanced(even_partitioning(2), 2.0, 1.2, 2.0).reason
        'keys are spread anew: the busiest of 2 tasks had 100% of the work of an epoch, 2.0 s, and has 60% now'
        """
        before, after = self.before_s / self.total_s, self.after_s / self.total_s
        return (
            f"keys are spread anew: the busiest of {self.partitioning.partitions} tasks had {before:.0%} of the work "
            f"of an epoch, {self.before_s:.1f} s, and has {after:.0%} now"
        )


def decide_balance(seconds: Sequence[float], now: Partitioning) -> Balanced | None:
    """A partitioning with which the busiest task has clearly less to do, as wide as the one in force; None to leave it.

    Key group g takes `seconds[g]` of CPU in an epoch.

    >>> from headrace.model.partitioning import even_partitioning
    >>> seconds = [0.0] * 256
    >>> for busy in (158, 190, 206, 224, 249):
    ...     seconds[busy] = 0.4
    >>> decide_balance(seconds, even_partitioning(2)).partitioning.owned(1)
    ((224, 256),)
    >>> decide_balance([0.01] * 256, even_partitioning(2)) is None
    True
    """
    work = work_of(seconds, now)
    before, total = max(work), sum(work)
    least = max(total / now.partitions, max(seconds))
    if not _is_worth_it(before, least):
        return None
    found = _cut(seconds, now.partitions, least, before)
    after = max(work_of(seconds, found))
    return Balanced(found, before, after, total) if _is_worth_it(before, after) else None


def work_of(seconds: Sequence[float], partitioning: Partitioning) -> list[float]:
    """What each partition has to do, when key group g takes `seconds[g]`."""
    work = [0.0] * partitioning.partitions
    for some, owner in zip(seconds, partitioning.table, strict=True):
        work[owner] += some
    return work


def _is_worth_it(before: float, after: float) -> bool:
    return before - after >= max(LEAST_S, LEAST_SHARE * before)


def _cut(seconds: Sequence[float], partitions: int, least: float, most: float) -> Partitioning:
    """Runs of neighbours of which the heaviest is as light as can be: its weight is between `least` and `most`."""
    for _ in range(30):
        middle = (least + most) / 2
        if _runs_within(seconds, middle) <= partitions:
            most = middle
        else:
            least = middle
    owner, weight, table = 0, 0.0, list[int]()
    for g, some in enumerate(seconds):
        # the partitions that are left must have a key group each
        last_chance = len(seconds) - g <= partitions - 1 - owner
        if table and owner + 1 < partitions and (weight + some > most or last_chance):
            owner, weight = owner + 1, 0.0
        weight += some
        table.append(owner)
    return Partitioning(tuple(table))


def _runs_within(seconds: Sequence[float], most: float) -> int:
    """How many runs it takes when each is filled up to so much. None is more by itself.

    >>> _runs_within([1.0, 1.0, 2.0, 1.0], 2.0)
    3
    """
    runs, weight = 1, 0.0
    for some in seconds:
        if weight + some > most:
            runs, weight = runs + 1, 0.0
        weight += some
    return runs
