"""When queries change groups: random groups with random paces, played without Spark.

a group's epochs     . . . 4 5 6|           cursor 6
another one's        . . . 4|               cursor 4
a query that moves   leaves one group after some epoch e - 1, and is in the next one from epoch e on
"""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.groups import Groups
from headrace.engine.moves import NOBODY, Standing, Traveller, can_take, holds_back, plan_moves
from headrace.model.grouping import GroupKind, Regrouping, Relocation, Wish, kind_of
from headrace.model.query import QueryId
from headrace.model.strategy import DEFAULTS
from log_samples import PLAN, PURCHASES, Opened, open_log
from thorough import seeds


def test_equal_cursors_move_at_once() -> None:
    standings = {"a": Standing(7, 7, 2), "b": Standing(7, 7, 1)}
    (step,) = plan_moves([Traveller(QueryId(1), "a", Wish("b", 5))], standings)
    assert (step.epoch, step.target, step.moves[0].settled) == (8, "b", 5)


def test_a_group_in_the_middle_of_an_epoch_is_left_alone() -> None:
    running = Standing(7, 7, 2, due=True, running=True)
    assert (
        plan_moves([Traveller(QueryId(1), "a", Wish("b", 5))], {"a": running, "b": Standing(7, 7, 1)}) == []
    )


def test_other_cursors_go_by_a_group_of_their_own() -> None:
    standings = {"a": Standing(7, 7, 2, due=True), "b": Standing(9, 9, 1)}
    (step,) = plan_moves([Traveller(QueryId(1), "a", Wish("b", 5))], standings)
    assert kind_of(step.target) is GroupKind.TRANSIT and step.epoch == 8 and step.moves[0].settled == -1


def test_with_nothing_to_run_a_query_waits_where_it_is() -> None:
    standings = {"a": Standing(9, 9, 2), "b": Standing(8, 8, 1, due=True, running=True)}
    assert plan_moves([Traveller(QueryId(1), "a", Wish("b", 5))], standings) == []


class Level(Groups):
    """Groups that have all committed the same epochs, which are empty: no group has state."""

    def __init__(self, log: Opened) -> None:
        self._lock, self._complaints = threading.RLock(), set()
        sealed = log.catalog.applied_epoch
        delivered: Any = SimpleNamespace(
            sealed=sealed,
            commits={},
            cursor=lambda name: sealed,
            commit_of=lambda name: SimpleNamespace(epoch=sealed),
            next_epoch=lambda name: sealed + 1,
        )
        self._house: Any = SimpleNamespace(catalog=log.catalog, delivered=delivered, clock=lambda: 0.0)

    def get(self, name: str) -> Any:
        return SimpleNamespace(
            strategies=lambda epoch: DEFAULTS,
            held=lambda epoch: (),
            plan_for=lambda epoch: SimpleNamespace(operators=()),
        )


def test_who_lacks_a_function_comes_back_when_it_is_registered_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the group that it comes back to would wait. Epochs without tuples ask for no function: all have run them."""
    log = open_log(tmp_path)
    log.catalog.create_stream(PURCHASES, None)
    log.catalog.request_create("waits", replace(PLAN, functions=("odd",)), group="alerts")
    log.catalog.request_create("plain", PLAN, group="alerts")
    log.catalog.flush()
    log.sealer.seal()
    parting = Relocation(QueryId(1), "alerts", "auto-0", returns=True)
    log.catalog.homes.regroup(Regrouping(log.catalog.homes.last_regrouping + 1, 0, (parting,)))
    groups = Level(log)
    groups.settle()
    assert [entry.group for entry in log.catalog.entries()] == ["auto-0", "alerts"]
    monkeypatch.setattr(log.catalog.functions, "is_ready", lambda name: True)
    groups.settle()
    assert [entry.group for entry in log.catalog.entries()] == ["alerts", "alerts"]
    log.close()


def test_who_lacks_a_function_does_not_wait_in_a_group_that_others_are_on_their_way_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.catalog.create_stream(PURCHASES, None)
    log.catalog.request_create("waits", replace(PLAN, functions=("odd",)))
    log.catalog.request_create("leaves", PLAN)
    log.catalog.flush()
    log.sealer.seal()
    log.catalog.request_moves([(QueryId(2), "auto-0")])
    log.catalog.flush()
    log.sealer.seal()
    groups = Level(log)
    groups._house.delivered.cursor = lambda name: 0
    groups._house.delivered.next_epoch = lambda name: 1  # which is sealed, and waits
    monkeypatch.setattr(type(log.catalog.functions), "all_ready", False)
    groups.settle()
    assert log.catalog.entry("waits").group == "auto-1"
    log.close()


def test_a_new_group_takes_queries_from_any_epoch() -> None:
    (step,) = plan_moves([Traveller(QueryId(1), "a", Wish("new", 5))], {"a": Standing(3, 3, 2, due=True)})
    assert (step.epoch, step.target) == (4, "new")
    assert not can_take(Standing(9, 9, 0), 4), "an empty group that has run this epoch already"
    assert can_take(NOBODY, 0)


def test_many_groups_become_one_and_one_becomes_many_with_the_same_epoch() -> None:
    level = {name: Standing(7, 7, 1) for name in ("main", "a", "b", "c")}
    merged = plan_moves([Traveller(QueryId(i), "abc"[i], Wish("main", 5)) for i in range(3)], level)
    assert [(step.source, step.epoch, step.target) for step in merged] == [
        ("a", 8, "main"),
        ("b", 8, "main"),
        ("c", 8, "main"),
    ]
    split = plan_moves([Traveller(QueryId(i), "main", Wish(f"new{i}", 5)) for i in range(3)], level)
    assert [(step.source, step.epoch, step.target) for step in split] == [
        ("main", 8, "new0"),
        ("main", 8, "new1"),
        ("main", 8, "new2"),
    ]
    apart = level | {"b": Standing(6, 6, 1, due=True)}
    into_new = plan_moves([Traveller(QueryId(i), "ab"[i], Wish("new", 5)) for i in range(2)], apart)
    assert [(step.source, step.epoch) for step in into_new] == [("a", 8)], (
        "the other would be an epoch behind"
    )


def test_a_query_catches_up_before_it_goes_to_an_empty_group() -> None:
    traveller = Traveller(QueryId(1), "backfill-1", Wish("new", 9))
    assert plan_moves([traveller], {"backfill-1": Standing(3, 3, 1, due=True)}) == []
    (step,) = plan_moves([traveller], {"backfill-1": Standing(9, 9, 1)})
    assert (step.epoch, step.target) == (10, "new")


def test_a_transit_group_lets_its_target_finish_and_no_longer() -> None:
    near = {"transit-1-8": Standing(8, 8, 1, due=True), "b": Standing(7, 7, 1, due=True, running=True)}
    assert holds_back("transit-1-8", "b", near)
    far = {"transit-1-8": Standing(5, 5, 1, due=True), "b": Standing(9, 9, 1)}
    assert not holds_back("transit-1-8", "b", far)
    stuck = {"transit-1-8": Standing(8, 8, 1, due=True), "b": Standing(8, 8, 1, due=True, failing=True)}
    assert not holds_back("transit-1-8", "b", stuck), "it would wait for ever"
    assert not holds_back("a", "b", near | {"a": Standing(8, 8, 3, due=True)}), "others live there too"


class World:
    """Groups and queries as the engine has them: who ran which epoch with whom."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sealed = -1
        self.committed = {"main": -1}
        self.running: dict[str, int] = {}
        self.stays = {QueryId(i): [(0, "main")] for i in range(4)}
        self.wishes: dict[QueryId, Wish] = {}
        self.seen: dict[tuple[QueryId, int], list[str]] = {}
        self.last_step: dict[str, int] = {}

    def home(self, query: QueryId, epoch: int) -> str:
        return [group for since, group in self.stays[query] if since <= epoch][-1]

    def members(self, group: str, epoch: int) -> list[QueryId]:
        return [query for query in self.stays if self.home(query, epoch) == group]

    def next_epoch(self, group: str) -> int:
        done = self.committed.get(group, -1)
        if group == "main":
            return done + 1
        found = [e for e in range(done + 1, self.sealed + 2) if self.members(group, e)]
        return found[0] if found else max(done, self.sealed) + 1

    def standings(self) -> dict[str, Standing]:
        names = {*self.committed, *(group for stays in self.stays.values() for _, group in stays)}
        found = {}
        for name in names:
            following = self.next_epoch(name)
            cursor = min(following - 1, max(self.sealed, self.committed.get(name, -1)))
            found[name] = Standing(
                cursor,
                self.committed.get(name, -1),
                max(len(self.members(name, following)), name == "main"),
                following <= self.sealed,
                name in self.running,
            )
        return found

    def travellers(self) -> list[Traveller]:
        where = {query: stays[-1] for query, stays in self.stays.items()}
        wishes = [(q, wish, *where[q]) for q, wish in self.wishes.items()]
        return [Traveller(q, group, wish, since) for q, wish, since, group in wishes if wish.group != group]

    def settle(self) -> None:
        for step in plan_moves(self.travellers(), self.standings()):
            for group in (step.source, step.target):
                assert self.running.get(group) != step.epoch, "an epoch that is under way"
                assert self.committed.get(group, -1) < step.epoch, "an epoch that was run already"
                assert self.last_step.get(group, -1) <= step.epoch, (
                    "records of a group are in the order of epochs"
                )
                self.last_step[group] = step.epoch
            assert self.next_epoch(step.source) >= step.epoch
            for move in step.moves:
                assert self.stays[move.query][-1][1] == move.source
                self.stays[move.query].append((step.epoch, step.target))
                if move.query in self.wishes and self.wishes[move.query].epoch <= move.settled:
                    del self.wishes[move.query]

    def round(self) -> None:
        """Something happens: an epoch is sealed, a wish is made, a group begins or ends an epoch."""
        match self.rng.randrange(6):
            case 0:
                self.sealed += 1
            case 1:
                query = self.rng.choice(list(self.stays))
                self.wishes[query] = Wish(self.rng.choice(["main", "a", "b"]), self.sealed)
            case 2 if self.running:
                self.commit(self.rng.choice(sorted(self.running)))
            case _:
                self.begin()

    def begin(self) -> None:
        self.settle()
        standings = self.standings()
        held = {t.group for t in self.travellers() if holds_back(t.group, t.wish.group, standings)}
        ready = [n for n, one in standings.items() if one.due and not one.running and n not in held]
        if ready:
            group = self.rng.choice(sorted(ready))
            self.running[group] = self.next_epoch(group)

    def commit(self, group: str) -> None:
        epoch = self.running.pop(group)
        self.committed[group] = epoch
        for query in self.members(group, epoch):
            self.seen.setdefault((query, epoch), []).append(group)

    def finish(self) -> None:
        """Run everything to the end, as `run_available` does."""
        for _ in range(2000):
            while self.running:
                self.commit(sorted(self.running)[0])
            self.begin()
            if not self.running and not any(one.due for one in self.standings().values()):
                return
        raise AssertionError("it does not come to an end")


@pytest.mark.parametrize("seed", seeds(12))
def test_every_query_is_in_every_epoch_once(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.round()
    world.sealed += 1
    world.finish()
    world.settle()
    assert not world.travellers(), f"seed {seed}: all cursors are equal, and somebody is still on the way"
    for query in world.stays:
        for epoch in range(world.sealed + 1):
            assert world.seen.get((query, epoch)) == [world.home(query, epoch)], f"seed {seed}, epoch {epoch}"
