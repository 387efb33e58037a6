"""A policy that is chance, for tests of what must hold whatever is decided about groups."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headrace.engine.balancing import Balance
from headrace.model.partitioning import Partitioning
from headrace.model.query import QueryId
from headrace.optimizer.balance import Balanced
from headrace.optimizer.grouping.arrival import decide_places
from headrace.optimizer.grouping.policies import Grouper
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.timetable import Timetable
from headrace.optimizer.grouping.values import Decision, Merged, Resized, SplitCause, SplitOff


@dataclass(frozen=True)
class ChanceGrouper:
    """At every look it merges two groups, splits one, gives one other tasks, or does nothing."""

    rng: random.Random

    def place(self, situation: Situation, newcomers: Iterable[QueryId]) -> Decision:
        return decide_places(situation, newcomers)

    def merge(self, situation: Situation) -> Decision:
        return Decision(situation.grouping)

    def help(self, situation: Situation) -> Decision:
        groups = [group for group in situation.grouping.groups if not group.apart]
        what = self.rng.choice(["merge", "merge", "split", "split", "tasks", "nothing"])
        if what == "merge" and len(groups) > 1:
            into, other = self.rng.sample(groups, 2)
            both = replace(into, members=tuple(sorted((*into.members, *other.members))))
            change = Merged(into.name, (into.name, other.name), 0.5, 1.0, other.tasks, "chance merged them")
            grouping = situation.grouping.replaced([into.name, other.name], [both])
            return Decision(grouping, (change,))
        large = [group for group in groups if len(group.members) > 1]
        if what == "split" and large:
            group = self.rng.choice(large)
            some = tuple(sorted(self.rng.sample(group.members, self.rng.randrange(1, len(group.members)))))
            rest = tuple(query for query in group.members if query not in some)
            grouping, made = situation.grouping.named([(some, group.tasks)])
            grouping = grouping.replaced([group.name], [replace(group, members=rest), *made])
            names = tuple(new.name for new in made)
            return Decision(
                grouping, (SplitOff(group.name, some, names, SplitCause.PENALTY, "chance split it"),)
            )
        if what == "tasks" and groups:
            group = self.rng.choice(groups)
            tasks = self.rng.choice([1, 2, 3])
            grouping = situation.grouping.replaced([group.name], [replace(group, tasks=tasks)])
            return Decision(grouping, (Resized(group.name, group.tasks, tasks, "chance gave it tasks"),))
        return Decision(situation.grouping)


def let_decide(hr: Any, grouper: Grouper) -> None:
    """Let a grouper decide about a session at every look, which comes before every epoch."""
    conductor = hr._running.conducting._conductor
    conductor._grouper = grouper
    conductor._settings = replace(conductor._settings, watch_every_s=1e-9)
    conductor._state.timetable = Timetable(0.0, 0.0)


def let_balance(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """After some epochs, let a group's key groups be owned by tasks as chance has it, as wide as before."""

    def decide(self: Balance, now: Partitioning) -> Balanced | None:
        if rng.random() < 0.4:
            return None
        owners = list(now.table)
        rng.shuffle(owners)
        return Balanced(Partitioning(tuple(owners)), 1.0, 0.5, 1.0)

    monkeypatch.setattr(Balance, "decide", decide)
