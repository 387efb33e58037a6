"""Who runs an epoch next: a pure decision over the groups and splits that have one to run.

Groups take turns. What plain Spark runs costs many times what a shared query does, so groups of such queries (*plain*
groups) would hold up the others on a machine that they share. They get a bounded part of it, and wait like this while
shared groups have work:

    shared groups   ▇▇▇▇▇▇ ▇▇▇▇▇▇ ▇▇▇▇▇▇ ▇▇▇▇▇▇ ▇▇▇▇▇▇            an epoch each, as soon as it is sealed
    plain groups    ▒▒▒▒▒▒               ▒▒▒▒▒▒       ▒▒▒▒ ▒▒▒▒    one at a time; it rests twice as long as the last one
                                                                 ran, unless the others have been idle for a moment
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

SIDE_BY_SIDE = 4
"""So many groups run an epoch at the same time at most. More would only wait for Spark's cores."""

PATIENCE = 16
"""So many turns of others a group of low priority waits at most."""

IDLE_SECONDS = 0.25
"""When shared groups have had nothing to run for so long, plain ones need not rest."""

RESTS = 2.0
"""Plain groups rest so many times as long as one of them ran: most epochs of the others then meet none of them."""

LONGEST_REST = 30.0
"""No plain group waits longer than this for the others."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A group or split with an epoch to run. `turn` is the number of its last turn, -1 when it had none.

    It is `light` if its last epoch needed no Spark job.
    """

    name: str
    plain: bool = False
    priority: int = 0
    turn: int = -1
    light: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """What plain groups may take of a machine while there are shared queries: so many at a time, of so many tasks."""

    groups: int
    tasks: int


def plain_room(cores: int, threads: int = SIDE_BY_SIDE) -> Room:
    """At most half as many groups as there are cores, and together not the last core.

    >>> plain_room(cores=2, threads=4), plain_room(cores=8, threads=4)
    (Room(groups=1, tasks=1), Room(groups=3, tasks=2))
    """
    groups = max(1, min(threads - 1, cores // 2))
    return Room(groups, max(1, (cores - 1) // groups))


@dataclass(frozen=True, slots=True)
class Pace:
    """When plain groups may run beside others, by a clock that never goes back.

    Shared groups had something to run until `busy_until`, and the rest of plain groups ends at `rested_at`.
    """

    busy_until: float = float("-inf")
    rested_at: float = float("-inf")

    def seen(self, now: float, *, busy: bool) -> Pace:
        """After a look at the shared groups: whether one has an epoch to run, or runs it."""
        return replace(self, busy_until=now) if busy else self

    def ended(self, now: float, seconds: float) -> Pace:
        """After an epoch of a plain group, which took so long.

        >>> pace = Pace().ended(7.0, seconds=1.0).seen(8.9, busy=True)
        >>> pace.lets_plain(8.9), pace.lets_plain(9.0)
        (False, True)
        >>> Pace().seen(7.0, busy=True).ended(7.0, seconds=1.0).lets_plain(7.25)
        True
        """
        return replace(self, rested_at=now + min(RESTS * seconds, LONGEST_REST))

    def lets_plain(self, now: float) -> bool:
        return now >= self.rested_at or now >= self.busy_until + IDLE_SECONDS


def choose_next(
    due: Collection[Contender], running: Sequence[Contender], threads: int, turn: int, plain: int
) -> list[str]:
    """Who begins an epoch now, in order: as many as there are free threads at most, and as many plain groups as make
    `plain` with those that run. `turn` is the number of the last turn.

    Where plain groups may run, the one that has waited longest goes before the others, so that it finds a thread. One
    light group runs beside those: it waits for no core, and would wait long for a thread.

    >>> shared, unshared = Contender("main", turn=8), Contender("plain-7", plain=True, turn=2)
    >>> choose_next([shared, unshared], [], threads=4, turn=8, plain=1)
    ['plain-7', 'main']
    >>> choose_next([shared, unshared], [], threads=4, turn=8, plain=0)
    ['main']
    >>> heavy = [Contender(f"auto-{i}") for i in range(5)]
    >>> choose_next([heavy[4], Contender("main", light=True)], heavy[:4], threads=4, turn=8, plain=0)
    ['main']
    """
    alongside = threads > 1
    taken = any(one.light for one in running)
    free = threads - len(running) + (alongside and taken)
    left = plain - sum(one.plain for one in running)
    unshared = _in_order([one for one in due if one.plain], 0, turn)[: max(0, left)]
    shared = [one for one in due if not one.plain]
    order = [*unshared[:1], *_in_order(shared, free - bool(unshared), turn), *unshared[1:]]
    beside = next((one for one in order if one.light), None) if alongside and not taken else None
    chosen = [one for one in order if one is not beside][: max(0, free)]
    return [one.name for one in ([] if beside is None else [beside]) + chosen]


def _in_order(due: Collection[Contender], free: int, turn: int) -> list[Contender]:
    """Whoever has not had a turn for longest is first. If not all can run, higher priority comes before that.

    A group that has been passed over for many turns is first whatever its priority, so that nobody starves.
    """
    if len(due) <= free:
        return sorted(due, key=lambda one: one.turn)
    return sorted(due, key=lambda one: (one.turn > turn - PATIENCE, -one.priority, one.turn))
