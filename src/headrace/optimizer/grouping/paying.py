"""Whether a split helps where cores are counted: what every group would get of them before it and after it.

All groups share the cores that there are. If there is simply more input than these can process, a split adds work and
no cores: what it gives to those who leave, it takes from others. So what everybody would get is worked out for the
groups after the split, and compared with what each query would have alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.model.query import QueryId
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.throughput import fair_part, isolated_share
from headrace.optimizer.grouping.values import GroupName, SharingGroup
from headrace.optimizer.grouping.work import estimate_work

BUSY = 0.85
"""All cores are busy when so much of what they can do is done. Then a group that has just been split off works off what
waits for it, and others get less than they will have afterwards."""


def shares_of_cores(loads: Mapping[GroupName, float], room: float) -> dict[GroupName, float]:
    """The part of its input that each group processes: all get what they need up to the same part of the room.

    >>> found = shares_of_cores({GroupName("light"): 0.5, GroupName("a"): 1.0, GroupName("b"): 3.0}, room=2.0)
    >>> [(name, round(share, 2)) for name, share in found.items()]
    [('light', 1.0), ('a', 0.75), ('b', 0.25)]
    """
    part = fair_part(loads.values(), room)
    return {name: min(1.0, part / load) if load > 0 else 1.0 for name, load in loads.items()}


def pays_on_shared_cores(
    situation: Situation, group: SharingGroup, leaving: tuple[QueryId, ...], fair: float
) -> bool:
    """Whether the member of a group that is furthest below its isolated throughput comes nearer to it by a split,
    and no query of another group falls below its own. `fair` is what `fair_tasks` gave.

    Loads of groups are those that were measured. What the two parts of the group need is estimated, as a part of what
    was measured of both. If nothing is known of those who leave, the split is taken to pay.
    """
    cores, settings = situation.settings.cores, situation.settings
    health = situation.health[group.name]
    rest = tuple(query for query in group.members if query not in set(leaving))
    parts = _loads_of_parts(situation, group, leaving, rest)
    if cores is None or parts is None:
        return True
    room = settings.scaling.useful(cores)
    there = {g.name for g in situation.grouping.groups} & situation.health.keys()
    loads = {name: situation.health[name].load for name in there}
    others = there - {group.name}
    gone = GroupName("")
    split = {name: loads[name] for name in others} | {gone: parts[0]}
    after = shares_of_cores(split | ({group.name: parts[1]} if rest else {}), room)
    share = health.share
    if sum(situation.health[name].busy for name in there) >= BUSY * room:
        share = max(share, shares_of_cores(loads, room)[group.name])
    before = min(_relative(situation, group.members, share, fair))
    found = _relative(situation, leaving, after[gone], fair)
    if rest:
        found += _relative(situation, rest, after[group.name], fair)
    if min(found) * (1 - settings.hysteresis) <= before:
        return False
    least = 1 - settings.tolerance
    by_name = situation.grouping.by_name()
    return not any(
        now < least <= then
        for name in others
        for then, now in zip(
            _relative(situation, by_name[name].members, situation.health[name].share, fair),
            _relative(situation, by_name[name].members, after[name], fair),
            strict=True,
        )
    )


def _loads_of_parts(
    situation: Situation, group: SharingGroup, leaving: tuple[QueryId, ...], rest: tuple[QueryId, ...]
) -> tuple[float, float] | None:
    """What those who leave need, and the others; None if nothing is known of those who leave."""
    facts = {query: situation.queries[query] for query in group.members}
    work = estimate_work(facts, situation.statistics, situation.costs)
    whole, gone = work.load(group.members), work.load(leaving)
    if gone <= 0:
        return None
    scale = situation.health[group.name].load / whole
    return scale * gone, scale * work.load(rest) if rest else 0.0


def _relative(situation: Situation, members: Iterable[QueryId], share: float, fair: float) -> list[float]:
    """What members of a group get that processes such a share, as a part of what each would get alone."""
    return [share / isolated_share(situation, query, fair) for query in members]
