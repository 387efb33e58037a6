"""Who leaves a group that falls behind, where all groups share the cores that there are.

Algorithm 2 of the paper gives a query that is penalised tasks of its own. Here there are no cores beside those that all
groups share: what a split gives to some, it may take from others. So what every group would get of the cores is worked
out for some ways to part a group, each group as much as every other one up to what it needs. The best of them is taken
if it clearly helps, and nobody is hurt by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.model.query import QueryId
from headrace.optimizer.grouping.monitor import GroupHealth
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import Floats
from headrace.optimizer.grouping.throughput import fair_part, fair_tasks, isolated_load, isolated_share
from headrace.optimizer.grouping.values import FunctionName, GroupName, OperatorId, SharingGroup, SplitCause
from headrace.optimizer.grouping.wording import why_foreign, why_heavy, why_part, why_pressed
from headrace.optimizer.grouping.work import Work, estimate_work

BUSY = 0.85
"""All cores are busy when so much of what they can do is done. Then a group that has just been split off works off what
waits for it, and the others get less than they will have afterwards."""

DEAR = 0.1
"""What takes less than this part of a group's CPU seconds does not hold it up."""

RESTORES = 1 / 3
"""A split that brings the worst query to its isolated throughput has to gain this part of the margin."""

TINY = 0.01
"""A difference in throughput that nobody notices."""

GONE = GroupName("")
"""Those who leave, as long as their group has no name."""


@dataclass(frozen=True, slots=True)
class Parting:
    """A way to part a group: who leaves it, why, and what those who leave and those who stay need then."""

    leaving: tuple[QueryId, ...]
    cause: SplitCause
    why: str
    gone: float
    rest: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """What groups get of the cores: `shares` of their input, by what they `need` in CPU seconds per second of input.

    A group that falls behind while cores rest keeps so many of them busy at most as its `widths` says: something in it
    may be done by one task after the other. `alone` is the share that each query would have in isolation.
    """

    needs: Mapping[GroupName, float]
    widths: Mapping[GroupName, float]
    shares: Mapping[GroupName, float]
    alone: Mapping[QueryId, float]
    room: float

    @staticmethod
    def of(situation: Situation) -> Outlook:
        """By what was measured of each group, and estimated of those of which nothing was.

        If two groups fall behind, cores are what they lack, though not all may seem to be busy: somebody else on this
        machine has the others.
        """
        cores, fair = situation.settings.cores, fair_tasks(situation)
        assert cores is not None
        room = situation.settings.scaling.useful(cores)
        needs = {name: health.load for name, health in situation.health.items()}
        for group in situation.grouping.groups:
            if group.name not in needs and not group.apart:
                needs[group.name] = _work(situation, group.members).load(group.members)
        behind = {name: health for name, health in situation.health.items() if health.lags}
        total = sum(health.busy for health in situation.health.values())
        if len(behind) > 1:
            room = min(room, total)
        busy = total >= BUSY * room
        # while all cores are busy, nobody knows how many of them a group could use
        widths = {} if busy else {name: health.busy for name, health in behind.items()}
        shares = shares_of_cores(needs, room, widths)
        for name, health in situation.health.items():
            shares[name] = max(health.share, shares[name]) if busy else health.share
        alone = {query: isolated_share(situation, query, fair) for query in situation.queries}
        return Outlook(needs, widths, shares, alone, room)

    def parted(self, group: SharingGroup, parting: Parting, new: GroupName = GONE) -> Outlook:
        """What groups would get after a split."""
        needs = {**self.needs, group.name: parting.rest, new: parting.gone}
        widths = {**self.widths, new: self.widths.get(group.name, self.room)}
        return replace(self, needs=needs, widths=widths, shares=shares_of_cores(needs, self.room, widths))

    def isolated(self, members: Iterable[QueryId]) -> Floats:
        """The share that each of these queries would have in isolation."""
        return np.array([self.alone[query] for query in members])

    def worst(self, name: GroupName, isolated: Floats) -> float:
        """The least that a member of a group gets, as a part of what it would have in isolation."""
        return min(1.0, self.shares[name] / float(isolated.max()))

    def hurts(self, before: Outlook, least: float, name: GroupName, isolated: Floats) -> bool:
        """Whether a group gets less than `before`, and somebody in it less than this part of what it has isolated."""
        wanted = min(least, before.worst(name, isolated))
        return self.shares[name] < before.shares[name] and self.worst(name, isolated) < wanted * (1 - TINY)

    def content(self, groups: Iterable[tuple[GroupName, Floats]]) -> float:
        """How much of their isolated throughput all members of these groups get together, in queries."""
        return sum(float(np.minimum(1.0, self.shares[name] / isolated).sum()) for name, isolated in groups)


def shares_of_cores(
    needs: Mapping[GroupName, float], room: float, widths: Mapping[GroupName, float]
) -> dict[GroupName, float]:
    """The part of its input that each group processes: all get what they can use up to the same part of the room.

    >>> light, a, b = map(GroupName, ("light", "a", "b"))
    >>> def shares(**widths: float) -> list[float]:
    ...     found = shares_of_cores({light: 0.5, a: 1.0, b: 3.0}, 2.0, {GroupName(n): w for n, w in widths.items()})
    ...     return [round(share, 2) for share in found.values()]
    >>> shares(), shares(b=0.3)
    ([1.0, 0.75, 0.25], [1.0, 1.0, 0.1])
    """
    wanted = {name: min(need, widths.get(name, room)) for name, need in needs.items()}
    part = fair_part(wanted.values(), room)
    return {
        name: min(1.0, min(part, wanted[name]) / need) if need > 0 else 1.0 for name, need in needs.items()
    }


def best_parting(situation: Situation, group: SharingGroup, outlook: Outlook) -> Parting | None:
    """The way to part a group that leaves its worst query nearest to isolation and gives most; None if none helps.

    A split helps if the member that is furthest below its isolated throughput comes nearer to it by `hysteresis`, or
    comes to have it. Or if the members get more by that much on average, and the worst of them about as much as before:
    isolated throughput is little where hundreds of queries would have to share the cores. In no case all queries
    together get less of their isolated throughput, or somebody in another group falls below its own.

    Queries that share a function or an operator stay together if any such way helps. Otherwise what a query needs is
    known from a sample only, so it has to help twice as much.
    """
    ways, scale = _Ways(situation, group), _Scale(situation, group, outlook)
    for partings, margin in ((ways.by_piece(), 1.0), (ways.by_need(), 2.0)):
        found = [
            (value, parting)
            for parting in partings
            if (value := scale.value(parting, margin * situation.settings.hysteresis)) is not None
        ]
        if found:
            return max(found, key=lambda one: one[0])[1]
    return None


class Uniting:
    """What groups would get after some merges. Groups have numbers, and a union the name of the first of its own."""

    def __init__(self, situation: Situation, groups: Sequence[SharingGroup], work: Work) -> None:
        self._least, self._groups, self._work = 1 - situation.settings.tolerance, groups, work
        self._outlook = Outlook.of(situation)
        self._isolated = [self._outlook.isolated(group.members) for group in groups]
        self._enough = not self._outlook.widths and sum(self._outlook.needs.values()) <= self._outlook.room

    def hurts(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Whether somebody would be slower than now, and than alone, if two unions of groups were one."""
        if self._enough:  # together they need no more than apart
            return False
        before, after, name = self._outlook, self._united(left, right), self._name(left)
        for part in (left, right):
            isolated = np.concatenate([self._isolated[i] for i in part])
            home = self._name(part)
            wanted = min(self._least, before.worst(home, isolated))
            if after.shares[name] < before.shares[home] and after.worst(name, isolated) < wanted:
                return True
        return False

    def unite(self, left: Sequence[int], right: Sequence[int]) -> None:
        """From now on two unions are one, with the name of the left one."""
        if not self._enough:
            self._outlook = self._united(left, right)

    def _united(self, left: Sequence[int], right: Sequence[int]) -> Outlook:
        outlook, name, gone = self._outlook, self._name(left), self._name(right)
        loads = [self._work.load(self._members(part)) for part in (left, right, [*left, *right])]
        need = outlook.needs[name] + outlook.needs[gone]
        need *= loads[2] / (loads[0] + loads[1]) if loads[0] + loads[1] > 0 else 1.0
        needs = {other: least for other, least in outlook.needs.items() if other != gone} | {name: need}
        widths = {other: width for other, width in outlook.widths.items() if other not in (name, gone)}
        return replace(
            outlook, needs=needs, widths=widths, shares=shares_of_cores(needs, outlook.room, widths)
        )

    def _name(self, part: Sequence[int]) -> GroupName:
        return self._groups[part[0]].name

    def _members(self, part: Sequence[int]) -> list[QueryId]:
        return [query for i in part for query in self._groups[i].members]


class _Scale:
    """How good ways to part a group are, to be compared with each other."""

    def __init__(self, situation: Situation, group: SharingGroup, outlook: Outlook) -> None:
        self._settings, self._group, self._outlook = situation.settings, group, outlook
        self._isolated = outlook.isolated(group.members)
        self._place = {query: i for i, query in enumerate(group.members)}
        self._others = [
            (one.name, outlook.isolated(one.members))
            for one in situation.grouping.groups
            if one.name in outlook.shares and one.name != group.name and not one.apart
        ]
        self._content = outlook.content([(group.name, self._isolated), *self._others])

    def value(self, parting: Parting, margin: float) -> tuple[float, ...] | None:
        """Larger is better; None if it does not help by a margin."""
        before, after = self._outlook, self._outlook.parted(self._group, parting)
        least, more, name = 1 - self._settings.tolerance, 1 - margin, self._group.name
        leaves = np.zeros(len(self._isolated), dtype=bool)
        leaves[[self._place[query] for query in parting.leaving]] = True
        parts = [(GONE, self._isolated[leaves]), (name, self._isolated[~leaves])]
        if after.content([*parts, *self._others]) < self._content:
            return None
        was, worst = before.worst(name, self._isolated), min(after.worst(*part) for part in parts)
        mean = sum(len(part) * after.shares[home] for home, part in parts) / len(leaves)
        # who comes to have what he has isolated may have lacked less than the margin
        nearer = worst * more > was or (worst >= least and worst >= was + RESTORES * margin)
        more_for_all = (
            mean * more > before.shares[name]
            and worst >= least * min(least, was)
            and all(after.shares[home] >= (1 - TINY) * before.shares[home] for home, _ in self._others)
        )
        hurt = any(after.hurts(before, least, *other) for other in self._others)
        return (
            (round(worst, 2), round(mean, 2), -len(parting.leaving))
            if (nearer or more_for_all) and not hurt
            else None
        )


class _Ways:
    """The ways to part a group that are looked at, with what both parts need then.

    That is estimated, as a part of what was measured of the whole group. Of work that was measured apart, and that only
    those who leave need, it is known.
    """

    def __init__(self, situation: Situation, group: SharingGroup) -> None:
        self._situation, self._group = situation, group
        self._health = situation.health[group.name]
        self._work = _work(situation, group.members)
        whole = self._work.load(group.members)
        self._scale = self._health.load / whole if whole > 0 else 0.0

    def by_piece(self) -> Iterator[Parting]:
        """The users of one function, or of one operator, leave."""
        health = self._health
        for function, seconds, users in _pieces(self._situation, self._group, health):
            measured = seconds * health.load / health.busy if health.busy > 0 else 0.0
            operators = self._only_theirs(users)
            if function is not None:
                why = why_pressed(len(users), (function,), health.share)
            elif operators:
                why = why_foreign(len(users), operators[0], health.share)
            else:
                why = why_part(len(users), health.share)
            yield from self._part(users, SplitCause.BACK_PRESSURE, why, measured)

    def _only_theirs(self, users: Iterable[QueryId]) -> list[OperatorId]:
        """The operators of these queries that no other member of the group has."""
        some, queries = set(users), self._situation.queries
        theirs = {queries[query].operator for query in some}
        others = {queries[query].operator for query in self._group.members if query not in some}
        return sorted(operator for operator in theirs - others if operator is not None)

    def by_need(self) -> Iterator[Parting]:
        """The queries leave that would need most alone: one, two, four and so on, or all but as many."""
        members = self._group.members
        needs = {query: load.total for query in members if (load := isolated_load(self._situation, query))}
        heaviest = sorted(needs, key=lambda query: (-needs[query], query))
        few = [1 << bit for bit in range(len(heaviest).bit_length())]
        for size in sorted({*few, *(len(heaviest) - n for n in few)}):
            leaving = heaviest[:size]
            why = why_heavy(len(leaving), self._health.share)
            yield from self._part(leaving, SplitCause.PENALTY, why, 0.0)

    def _part(
        self, leaving: Iterable[QueryId], cause: SplitCause, why: str, measured: float
    ) -> Iterator[Parting]:
        gone = tuple(sorted(leaving))
        out = set(gone)
        rest = tuple(query for query in self._group.members if query not in out)
        if gone and rest:
            needs = self._scale * self._work.load(gone), self._scale * self._work.load(rest)
            if measured:
                needs = max(needs[0], measured), min(needs[1], max(0.0, self._health.load - measured))
            if needs[0] > 0:
                yield Parting(gone, cause, why, *needs)


def _pieces(
    situation: Situation, group: SharingGroup, health: GroupHealth
) -> Iterator[tuple[FunctionName | None, float, list[QueryId]]]:
    """The work that only some members need: CPU seconds per second that were measured, and who needs it. A function has
    a name.
    """
    users: dict[tuple[bool, str], list[QueryId]] = {}
    for query in group.members:
        facts = situation.queries[query]
        for name in {one for one in (facts.operator, *facts.parts) if one is not None}:
            users.setdefault((False, name), []).append(query)
        if facts.function is not None:
            users.setdefault((True, facts.function), []).append(query)
    spent = {(True, str(name)): seconds for name, seconds in health.functions.items()}
    spent |= {(False, str(name)): seconds for name, seconds in health.operators.items()}
    for key in sorted(users, key=lambda key: (-spent.get(key, 0.0), key)):
        if spent.get(key, 0.0) > DEAR * health.busy:
            yield FunctionName(key[1]) if key[0] else None, spent[key], users[key]


def _work(situation: Situation, members: Iterable[QueryId]) -> Work:
    facts = {query: situation.queries[query] for query in members}
    return estimate_work(facts, situation.statistics, situation.costs)
