"""The policies that decide who shares with whom, behind one protocol.

Functional isolation is the one that promises something. The others are there to compare with: they are the rules of
earlier systems, and each of them slows some queries in some situation.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, assert_never

import numpy as np

from headrace.model.query import QueryId
from headrace.optimizer.grouping.arrival import decide_places
from headrace.optimizer.grouping.merging import decide_merges
from headrace.optimizer.grouping.provisioning import tasks_for
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.splitting import decide_splits
from headrace.optimizer.grouping.values import (
    Change,
    Decision,
    GroupName,
    Merged,
    OperatorId,
    Placed,
    Resized,
    SharingGroup,
    SplitCause,
    SplitOff,
)
from headrace.optimizer.grouping.wording import count_queries, why_parted, why_together
from headrace.optimizer.grouping.work import Work, estimate_work


class Policy(Enum):
    """Who shares with whom."""

    ISOLATED = "isolated"
    FULL = "full sharing"
    OVERLAP = "overlap sharing"
    SELECTIVITY = "selectivity sharing"
    FUNCTIONAL = "functional isolation"


class Grouper(Protocol):
    """Decides at three occasions. Each decision is a pure function of the situation."""

    def place(self, situation: Situation, newcomers: Iterable[QueryId]) -> Decision:
        """Where new queries start."""

    def merge(self, situation: Situation) -> Decision:
        """What to share more, every minute."""

    def help(self, situation: Situation) -> Decision:
        """What to do for queries that are slower than alone, every ten seconds."""


def grouper_of(policy: Policy) -> Grouper:
    match policy:
        case Policy.ISOLATED:
            return RuleGrouper(policy, isolate)
        case Policy.FULL:
            return RuleGrouper(policy, share_all)
        case Policy.OVERLAP:
            return RuleGrouper(policy, share_overlaps)
        case Policy.SELECTIVITY:
            return RuleGrouper(policy, share_classes)
        case Policy.FUNCTIONAL:
            return FunctionalIsolation()
        case _:
            assert_never(policy)


@dataclass(frozen=True, slots=True)
class FunctionalIsolation:
    """Problem 1: the fewest tasks with which every query is at least as fast as alone (FunShare)."""

    def place(self, situation: Situation, newcomers: Iterable[QueryId]) -> Decision:
        return decide_places(situation, newcomers)

    def merge(self, situation: Situation) -> Decision:
        return decide_merges(situation)

    def help(self, situation: Situation) -> Decision:
        return decide_splits(situation)


class Rule(Protocol):
    """Which sets of queries share a plan, whatever that does to anybody."""

    def __call__(self, situation: Situation, queries: Sequence[QueryId]) -> list[tuple[QueryId, ...]]: ...


@dataclass(frozen=True, slots=True)
class RuleGrouper:
    """A rule says which sets of queries share; tasks follow the load. Nobody is helped who is slowed."""

    policy: Policy
    rule: Rule

    def place(self, situation: Situation, newcomers: Iterable[QueryId]) -> Decision:
        """New queries start alone; a rule that needs no statistics puts them where they belong at once."""
        fresh = sorted(set(newcomers))
        grouping, made = situation.grouping.named(((q,), situation.queries[q].tasks) for q in fresh)
        grouping = grouping.replaced([], made)
        decision = self.merge(replace(situation, grouping=grouping))
        homes = decision.grouping.by_query()
        placed = (Placed(q, homes[q].name, f"placed by {self.policy.value}") for q in fresh)
        kept = (change for change in decision.changes if isinstance(change, Resized))
        return Decision(decision.grouping, (*placed, *kept))

    def merge(self, situation: Situation) -> Decision:
        groups = {group.name: group for group in situation.grouping.groups if not group.apart}
        queries = sorted(query for group in groups.values() for query in group.members)
        sets = ruled = self.rule(situation, queries)
        if situation.settings.bounded:
            sets = _bound(situation, sets)
        work = estimate_work(
            {q: situation.queries[q] for q in queries}, situation.statistics, situation.costs
        )
        taken: set[GroupName] = set()
        made: list[SharingGroup] = []
        unnamed: list[tuple[tuple[QueryId, ...], int]] = []
        home = situation.grouping.by_query()
        for members in sorted(sets, key=lambda s: (-len(s), s)):
            same = home[members[0]]
            tasks = self._tasks(situation, work, members, same.tasks if same.members == members else None)
            names = [home[q].name for q in members if home[q].name not in taken]
            if names:
                made.append(SharingGroup(max(names, key=lambda n: (names.count(n), n)), members, tasks))
                taken.add(made[-1].name)
            else:
                unnamed.append((members, tasks))
        grouping, new = situation.grouping.named(unnamed)
        made += new
        return Decision(grouping.replaced(groups, made), _changes(self.policy, groups, made, set(ruled)))

    def help(self, situation: Situation) -> Decision:
        """More tasks where the rule still allows them; never another grouping."""
        return self.merge(situation) if self.policy is not Policy.ISOLATED else Decision(situation.grouping)

    def _tasks(self, situation: Situation, work: Work, members: tuple[QueryId, ...], now: int | None) -> int:
        """The tasks of a group; those that it has `now`, if they would do for a load a little lower or higher."""
        isolated, settings = situation.isolated_tasks(members), situation.settings
        if len(members) == 1:
            return isolated
        most = isolated if settings.within_isolated else 100 * isolated
        columns = work.columns(members)
        if not work.known[columns].all():
            return isolated
        load, slack = work.load(members), settings.hysteresis
        wanted = tasks_for(load, most, settings)
        if now is None or now > most:
            return wanted
        lowest, highest = (tasks_for(load * part, most, settings) for part in (1 - slack, 1 + slack))
        return now if lowest <= now <= highest or abs(now - wanted) <= 0.1 * now else wanted


LEFT = 0.75
"""Groups stay as they are packed as long as they are this part of those that the driver can run, or more."""


def _bound(situation: Situation, sets: list[tuple[QueryId, ...]]) -> list[tuple[QueryId, ...]]:
    """No more sets than the driver can run. Who is in one group stays together as far as that can be.

    How many groups the driver can run changes with what epochs are seen to cost. So when it becomes one less, two
    groups are merged, and when it becomes a little more, nobody moves.
    """
    apart = sum(group.apart for group in situation.grouping.groups)
    room = max(1, situation.settings.max_groups - apart)
    if len(sets) <= room:
        return sets
    homes, packs = situation.grouping.by_query(), dict[GroupName, list[QueryId]]()
    for members in sets:
        found = Counter(homes[query].name for query in members)
        packs.setdefault(max(found, key=lambda name: (found[name], name)), []).extend(members)
    if len(packs) < LEFT * room:
        return _pack(situation, sets, room)
    return _pack(situation, packs.values(), room)


def _pack(situation: Situation, sets: Iterable[Sequence[QueryId]], room: int) -> list[tuple[QueryId, ...]]:
    """The smallest ones go together until there is room for all; those of one operator first."""
    heaps: dict[str, list[tuple[int, tuple[QueryId, ...]]]] = {}
    for members in sets:
        operator = situation.queries[members[0]].operator or ""
        heapq.heappush(heaps.setdefault(operator, []), (len(members), tuple(sorted(members))))
    for _ in range(sum(map(len, heaps.values())) - room):
        smallest = min(heaps, key=lambda operator: heaps[operator][0])
        _, left = heapq.heappop(heaps[smallest])
        if not heaps[smallest]:
            del heaps[smallest]
            smallest = min(heaps, key=lambda operator: heaps[operator][0])
        _, right = heapq.heappop(heaps[smallest])
        both = tuple(sorted((*left, *right)))
        heapq.heappush(heaps[smallest], (len(both), both))
    return [members for heap in heaps.values() for _, members in heap]


def _changes(
    policy: Policy,
    before: Mapping[GroupName, SharingGroup],
    made: Sequence[SharingGroup],
    ruled: Collection[tuple[QueryId, ...]],
) -> tuple[Change, ...]:
    """Who leaves whom, who comes together, and which groups get other tasks. Sets that the rule `ruled` are its own;
    others are larger because the driver cannot run more groups.
    """
    after = {query: group.name for group in made for query in group.members}
    splits = (_split(policy, group, after) for group in before.values())
    changes: list[Change] = [split for split in splits if split is not None]
    homes = {query: group.name for group in before.values() for query in group.members}
    for group in made:
        old = before.get(group.name)
        came = Counter(homes[query] for query in group.members)
        if old is not None and old.members == group.members:
            if old.tasks != group.tasks:
                why = f"from {old.tasks} to {group.tasks} tasks: the load of {count_queries(len(group.members))}"
                changes.append(Resized(group.name, old.tasks, group.tasks, why))
        elif len(came) > 1:
            whole = all(count == len(before[name].members) for name, count in came.items())
            saved = max(0, sum(before[name].tasks for name in came) - group.tasks) if whole else 0
            others = len(group.members) - (came[group.name] or max(came.values()))
            why = why_together(others, policy.value, saved, group.members not in ruled)
            changes.append(Merged(group.name, tuple(sorted(came)), None, None, saved, why))
    return tuple(changes)


def _split(policy: Policy, group: SharingGroup, after: Mapping[QueryId, GroupName]) -> SplitOff | None:
    """The members of a group that are not with the rest of it in the end; None if all of them stay together.

    The rest is who keeps the name of the group. If nobody does, it is the largest part.
    """
    parts = Counter(after[query] for query in group.members)
    if len(parts) == 1:
        return None
    rest = group.name if group.name in parts else max(parts, key=lambda name: (parts[name], name))
    gone: tuple[QueryId, ...] = tuple(query for query in group.members if after[query] != rest)
    into = tuple(sorted(parts.keys() - {rest}))
    return SplitOff(group.name, gone, into, SplitCause.RULE, why_parted(len(gone), policy.value))


def isolate(situation: Situation, queries: Sequence[QueryId]) -> list[tuple[QueryId, ...]]:
    """Everybody alone."""
    return [(query,) for query in queries]


def share_all(situation: Situation, queries: Sequence[QueryId]) -> list[tuple[QueryId, ...]]:
    """Everybody together who has an operator in common."""
    return [members for classes in _by_operator(situation, queries) for members in classes]


def share_classes(situation: Situation, queries: Sequence[QueryId]) -> list[tuple[QueryId, ...]]:
    """SWO's rule: queries of low selectivity together, and those of high selectivity together."""
    sets: list[tuple[QueryId, ...]] = []
    for classes in _by_operator(situation, queries):
        for members in classes:
            low = tuple(q for q in members if _selects_little(situation, q))
            high = tuple(q for q in members if not _selects_little(situation, q))
            sets += [side for side in (low, high) if side]
    return sets


def share_overlaps(situation: Situation, queries: Sequence[QueryId]) -> list[tuple[QueryId, ...]]:
    """AJoin's rule: share when together is cheaper than apart, which is when filters overlap.

    Merging the overlapping until none are left gives the connected components of the graph of overlaps.
    """
    sets: list[tuple[QueryId, ...]] = []
    for classes in _by_operator(situation, queries):
        for members in classes:
            operator = situation.queries[members[0]].operator
            table = situation.statistics.regions.get(OperatorId(operator or ""))
            wanted = np.zeros((0, len(members)), dtype=bool)
            if table is not None:
                place = {query: i for i, query in enumerate(table.queries)}
                known = [place.get(q) for q in members]
                wanted = np.zeros((len(table.tuples), len(members)), dtype=bool)
                have = [i for i, at in enumerate(known) if at is not None]
                wanted[:, have] = table.wanted[:, [at for at in known if at is not None]]
                wanted = wanted[table.tuples > 0]
            sets += [tuple(members[i] for i in some) for some in _connected(wanted)]
    return sets


def _connected(wanted: np.typing.NDArray[np.bool_]) -> list[list[int]]:
    """Columns that are linked by rows in which both are set, as sets."""
    left = np.ones(wanted.shape[1], dtype=bool)
    components: list[list[int]] = []
    while left.any():
        component = np.zeros(len(left), dtype=bool)
        component[int(left.argmax())] = True
        while True:
            rows = wanted[:, component].any(axis=1)
            grown = component | wanted[rows].any(axis=0)
            if (grown == component).all():
                break
            component = grown
        components.append(np.flatnonzero(component).tolist())
        left &= ~component
    return components


def _selects_little(situation: Situation, query: QueryId) -> bool:
    sample = situation.statistics.samples.get(query)
    return sample is not None and sample.selectivity < situation.settings.low_selectivity


def _by_operator(situation: Situation, queries: Sequence[QueryId]) -> list[list[tuple[QueryId, ...]]]:
    """Queries by operator: one set for those that share one, and a set each for those that share nothing."""
    shared: dict[OperatorId, list[QueryId]] = {}
    alone: list[tuple[QueryId, ...]] = []
    for query in queries:
        operator = situation.queries[query].operator
        if operator is None:
            alone.append((query,))
        else:
            shared.setdefault(operator, []).append(query)
    return [[tuple(members)] for members in shared.values()] + [[one] for one in alone]
