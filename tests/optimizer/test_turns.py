"""Who runs next: shared groups are first, plain groups take a bounded part of the machine, and nobody starves."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

import pytest

from headrace.optimizer.turns import IDLE_SECONDS, RESTS, Contender, Pace, choose_next, plain_room
from thorough import seeds

THREADS = 4


@dataclass
class Runner:
    """Someone who always has an epoch to run, or one every so many seconds."""

    name: str
    plain: bool
    seconds: float
    every: float = 0.0
    ready_at: float = 0.0
    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)


def play(runners: list[Runner], until: float, cores: int = 2) -> None:
    """Let time pass: epochs end, and whoever may begins the next one. Shared cores make no difference here."""
    room, pace, turn = plain_room(cores, THREADS), Pace(), 0
    turns: dict[str, int] = {}
    running: dict[str, Runner] = {}
    ends: list[tuple[float, str]] = []
    now = 0.0
    while now < until:
        while ends and ends[0][0] <= now:
            at, name = heapq.heappop(ends)
            one = running.pop(name)
            one.ended.append(at)
            one.ready_at = max(at, one.began[-1] + one.every)
            if one.plain:
                pace = pace.ended(at, one.seconds)
        at_work = [Contender(one.name, one.plain) for one in running.values()]
        due = [
            Contender(one.name, one.plain, turn=turns.get(one.name, -1))
            for one in runners
            if one.name not in running and one.ready_at <= now
        ]
        pace = pace.seen(now, busy=any(not one.plain for one in [*at_work, *due]))
        by_name = {one.name: one for one in runners}
        for name in choose_next(due, at_work, THREADS, turn, room.groups if pace.lets_plain(now) else 0):
            turn += 1
            turns[name] = turn
            running[name] = by_name[name]
            by_name[name].began.append(now)
            heapq.heappush(ends, (now + by_name[name].seconds, name))
        assert len(running) <= THREADS
        assert sum(one.plain for one in running.values()) <= room.groups
        now = round(now + 0.05, 6)


def busy_seconds(runners: list[Runner]) -> float:
    return sum(end - began for one in runners for began, end in zip(one.began, one.ended, strict=False))


def test_plain_groups_have_a_third_of_the_time_while_shared_ones_never_rest() -> None:
    main = Runner("main", plain=False, seconds=0.5)
    plain = [Runner(f"plain-{i}", plain=True, seconds=2.0) for i in range(8)]
    play([main, *plain], until=200.0)
    assert 60 <= busy_seconds(plain) <= 70, "about a third"
    assert len(main.ended) >= 390, "it never waited for them"
    assert min(len(one.ended) for one in plain) >= 3, "each has its turns"


def test_plain_groups_use_the_time_that_others_leave() -> None:
    main = Runner("main", plain=False, seconds=0.5, every=10.0)
    plain = [Runner(f"plain-{i}", plain=True, seconds=1.0) for i in range(3)]
    play([main, *plain], until=100.0)
    assert busy_seconds(plain) >= 100 - 10 * (0.5 + IDLE_SECONDS + 0.1)


@pytest.mark.parametrize("seed", seeds(6))
def test_nobody_starves(seed: int) -> None:
    """Whatever there is, everybody runs again and again: even where shared groups could fill all threads for ever."""
    chance = random.Random(seed)
    shared = [Runner(f"g{i}", False, chance.uniform(0.1, 3.0)) for i in range(chance.randint(1, 8))]
    plain = [Runner(f"plain-{i}", True, chance.uniform(0.1, 10.0)) for i in range(chance.randint(1, 8))]
    play([*shared, *plain], until=600.0, cores=chance.choice((1, 2, 4, 16)))
    # a round of all plain groups with their rests, and a thread that gets free each time
    longest = sum((1 + RESTS) * one.seconds + 3.1 for one in plain)
    for one in plain:
        gaps = [after - before for before, after in zip([0.0, *one.began], one.began, strict=False)]
        assert max(gaps) <= longest + 1.0, (seed, one.name)
    assert min(len(one.ended) for one in shared) >= 10


def test_one_core_is_left_to_the_others() -> None:
    for cores in range(1, 65):
        room = plain_room(cores, THREADS)
        assert 1 <= room.groups < THREADS
        assert room.tasks >= 1
        assert room.groups * room.tasks <= max(1, cores - 1)


def test_higher_priority_is_first_among_shared_groups_when_not_all_can_run() -> None:
    due = [Contender("a", turn=1), Contender("b", priority=3, turn=7), Contender("p", plain=True)]
    assert choose_next(due, [], 2, 7, plain=1) == ["p", "b"]
    assert choose_next(due, [], 2, 7, plain=0) == ["a", "b"], "both can run: the one that waited is first"
    assert choose_next(due, [], 1, 7, plain=0) == ["b"]


def test_one_light_group_finds_a_thread_however_many_heavy_ones_wait() -> None:
    heavy = [Contender(f"h{i}", priority=5) for i in range(6)]
    light = [Contender("a", light=True, turn=3), Contender("b", light=True, turn=2)]
    assert choose_next([*heavy, *light], [], 4, 3, plain=0) == ["b", "h0", "h1", "h2", "h3"]
    assert choose_next([*heavy[4:], light[0]], heavy[:4], 4, 3, plain=0) == ["a"]
    assert choose_next([*heavy[4:], light[0]], [*heavy[:4], light[1]], 4, 3, plain=0) == [], (
        "the others are busy"
    )
    assert choose_next([*heavy[3:], light[0]], [*heavy[:3], light[1]], 4, 3, plain=0) == ["h3"]
    assert choose_next([*heavy, *light], [], 1, 3, plain=0) == ["h0"], "one after the other"
