"""Which queries change groups now: a pure decision from wishes and cursors.

A query goes from one group to another between two epochs, when both have reached the same one, so that nobody waits:

    same cursor        the query changes groups with the next epoch. So it does when nobody lives in the other group,
                       unless the query is catching up: it does that in a group of its own to the end
    other cursors      the query leaves its group at that group's cursor, into a group of its own: a transit group. That
                       one catches up, and its query goes on when the cursors meet
    almost the same    a transit group that is an epoch ahead of its target lets the target finish the epoch under way.
                       Only the query that is on its way waits for that
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.model.grouping import GroupKind, Relocation, Wish, kind_of, transit_group
from headrace.model.query import QueryId

NEAR_EPOCHS = 1


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a group stands. `cursor` is the last epoch it need not run any more, `committed` its last commit.

    `due` says that a sealed epoch waits for it, `running` that one is under way, `members` how many queries live in it.
    """

    cursor: int
    committed: int
    members: int
    due: bool = False
    running: bool = False
    failing: bool = False


NOBODY = Standing(cursor=-1, committed=-1, members=0)
"""A group that does not exist yet."""


@dataclass(frozen=True, slots=True)
class Traveller:
    """A query that lives in `group` from epoch `since` on, and is wanted elsewhere."""

    query: QueryId
    group: str
    wish: Wish
    since: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """Queries that change groups together, from `epoch` on."""

    epoch: int
    source: str
    target: str
    moves: tuple[Relocation, ...]


def plan_moves(travellers: Sequence[Traveller], standings: Mapping[str, Standing]) -> list[Step]:
    """What can be done now. No group is both left and joined: the next look sees what the first step made.

    Several groups may go into one with the same epoch, so that a merge of many is done at once.

    >>> here, there = Standing(7, 7, members=2), Standing(7, 7, members=1)
    >>> [step] = plan_moves([Traveller(QueryId(3), "a", Wish("b", 6))], {"a": here, "b": there})
    >>> step.epoch, step.target
    (8, 'b')
    """
    bands: dict[tuple[str, str], list[Traveller]] = defaultdict(list)
    for traveller in travellers:
        bands[traveller.group, traveller.wish.group].append(traveller)
    steps: list[Step] = []
    left: set[str] = set()
    joined: dict[str, int] = {}
    for (source, target), band in sorted(bands.items()):
        here, there = standings[source], standings.get(target, NOBODY)
        epoch = here.cursor + 1
        band = [traveller for traveller in band if traveller.since < epoch]  # others have yet to arrive
        if not band or here.running or source in joined or target in left:
            continue
        if joined.get(target, epoch) != epoch:
            continue
        arrived = kind_of(source) is not GroupKind.TRANSIT or there.members > 0 or not here.due
        if can_take(there, epoch) and arrived:
            moves = tuple(Relocation(t.query, source, target, t.wish.epoch) for t in band)
        elif here.due and kind_of(source) is not GroupKind.TRANSIT:
            target = transit_group(int(band[0].query), epoch)
            moves = tuple(Relocation(t.query, source, target) for t in band)
        else:
            continue
        steps.append(Step(epoch, source, target, moves))
        left.add(source)
        joined[target] = epoch
    return steps


def can_take(there: Standing, epoch: int) -> bool:
    """Whether a group can run `epoch` with more queries: it has not begun it, and has nothing else to run before."""
    if there.running or there.committed >= epoch:
        return False
    return there.members == 0 or there.cursor == epoch - 1


def holds_back(source: str, target: str, standings: Mapping[str, Standing]) -> bool:
    """Whether a group whose queries are on their way to `target` should leave its next epoch for a moment."""
    if kind_of(source) is not GroupKind.TRANSIT or target not in standings:
        return False
    here, there = standings[source], standings[target]
    moving = there.running or (there.due and not there.failing)
    return moving and 0 < here.cursor - there.cursor <= NEAR_EPOCHS
