"""With how many tasks groups run: with what was decided for them, and with what nobody else keeps busy.

Alone, a query would have all cores. A group that has fewer while another one rests would be slower than that for
nothing. So what was decided for a group is the least that it gets. Spark divides the cores among those that want them.
"""

from __future__ import annotations

from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.values import Grouping, GroupName


def idle_cores(situation: Situation, grouping: Grouping) -> dict[GroupName, float]:
    """For each group, the cores that the others leave idle.

    What a group did with other members tells nothing. It is taken to rest until it is measured.
    """
    cores = float(situation.settings.cores or 0)
    before = {group.name: group.members for group in situation.grouping.groups}
    # the main group runs without members too, so it may have been measured before it gets its first ones
    busy = {
        group.name: situation.health[group.name].busy
        for group in grouping.groups
        if group.name in situation.health and before.get(group.name) == group.members
    }
    return {group.name: cores - sum(busy.values()) + busy.get(group.name, 0.0) for group in grouping.groups}


SPARE = 0.75
"""A group keeps a task that others want for no more than this part of the time: another width costs something, too."""


def width_of(tasks: int, idle: float, cores: int, groups: int, now: int = 0) -> int:
    """The tasks of a group's jobs, when so many were decided for it: its even share of the cores at least.

    >>> width_of(1, 1.9, cores=2, groups=2), width_of(1, 0.7, cores=2, groups=2), width_of(3, 1.0, cores=8, groups=4)
    (2, 1, 3)
    >>> width_of(1, 1.4, cores=2, groups=2, now=1), width_of(1, 1.4, cores=2, groups=2, now=2)
    (1, 2)
    """
    wanted = min(cores, max(tasks, cores // max(1, groups), round(idle), 1))
    return now if wanted < now <= cores and idle >= now - SPARE else wanted
