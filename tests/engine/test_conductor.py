"""The conductor against an engine that is played: groups with capacities and cursors, on a clock that is set."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.catalog.events import EVENTS, EventBook
from headrace.engine.conductor import conductor as conducting
from headrace.engine.conductor.conductor import Conductor
from headrace.engine.conductor.facts import LiveQuery, operator_of
from headrace.engine.conductor.measured import Measured
from headrace.engine.conductor.needs import Course, unmet
from headrace.engine.conductor.promises import Promises
from headrace.engine.conductor.reading import EpochReader, part_of
from headrace.engine.conductor.room import idle_cores
from headrace.engine.conductor.sampling import (
    StreamSample,
    _matches,
    columns_of,
    region_tables,
    samples_alike,
)
from headrace.engine.conductor.stage import Standing
from headrace.engine.conductor.statistics import NOTHING, Knowledge
from headrace.engine.conductor.telling import Violated, note_violations
from headrace.engine.conductor.watching import Books, group_epochs, while_lagging
from headrace.engine.records import Metrics
from headrace.model.errors import StorageError
from headrace.model.events import EventKind
from headrace.model.grouping import MAIN, auto_group, auto_number
from headrace.model.metrics import FunctionMetrics, OperatorMetrics, QueryCounts
from headrace.model.predicate import TRUE, Compare, Op, Operand, Predicate
from headrace.model.query import (
    NO_NEEDS,
    Fallback,
    Hub,
    Join,
    JoinedRows,
    JoinSide,
    Needs,
    Projection,
    QueryId,
    QueryPlan,
    StreamName,
)
from headrace.model.types import BIGINT
from headrace.model.window import Window
from headrace.optimizer.grouping.monitor import GroupHealth, watch_group
from headrace.optimizer.grouping.policies import Policy
from headrace.optimizer.grouping.regions import query_samples
from headrace.optimizer.grouping.settings import Settings
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import RegionTable
from headrace.optimizer.grouping.throughput import Violation, fair_part
from headrace.optimizer.grouping.values import FunctionName, Grouping, GroupName, OperatorId, SharingGroup
from headrace.storage.warehouse import Warehouse

VALUE = Operand("v", BIGINT)
DOMAIN = 1_000


def above(limit: int) -> Predicate:
    return Compare(VALUE, Op.GE, limit)


def plan_of(where: Predicate = TRUE, streams: Sequence[str] = ("s",), *, plain: bool = False) -> QueryPlan:
    body = Fallback("no operator covers it", None) if plain else Projection(where, (VALUE,))
    return QueryPlan("SELECT", tuple(StreamName(name) for name in streams), body, (), "", "")


@dataclass
class PlayedQuery:
    """A query, the tuples it takes, and what each of them costs in seconds of CPU; `called` is that of a function.

    `part` is its operator in the plan, if that is another one than others of its streams have.
    """

    plan: QueryPlan
    group: str
    share: float
    seconds: float
    needs: Needs = NO_NEEDS
    moving: bool = False
    apart: bool = False
    called: float = 0.0
    function: str | None = None
    part: str | None = None


@dataclass
class Engine:
    """A played engine: every group runs one epoch per second. All share the cores, and fall behind when that is too
    little: each gets what it can use up to the same part.
    """

    rate: int = 10_000
    cores: int = 2
    scan_s: float = 1e-6
    now: float = 1_000.0
    played: dict[int, PlayedQuery] = field(default_factory=dict)
    lag: dict[str, float] = field(default_factory=dict)
    came: int = 0
    epoch: int = 0
    wishes: list[tuple[QueryId, str]] = field(default_factory=list)
    resized: list[tuple[str, int]] = field(default_factory=list)
    broken: bool = False
    silent: set[str] = field(default_factory=set)
    width: dict[str, int] = field(default_factory=dict)
    said: dict[str, float] = field(default_factory=dict)

    def create(self, id_: int, limit: int, group: str = MAIN, seconds: float = 1e-6, **more: object) -> None:
        streams = more.pop("streams", ("s",))
        plain = bool(more.pop("plain", False))
        plan = plan_of(above(limit), streams, plain=plain)  # type: ignore[arg-type]
        share = 1 - limit / DOMAIN
        self.played[id_] = PlayedQuery(plan, group, share, seconds, **more)  # type: ignore[arg-type]

    # the stage

    def queries(self) -> list[LiveQuery]:
        return [
            LiveQuery(QueryId(i), f"q{i}", q.plan, q.group, q.needs, q.moving, q.apart)
            for i, q in sorted(self.played.items())
        ]

    def tasks(self, groups: Iterable[str]) -> dict[str, int]:
        return {name: self.width.get(name, self.cores) for name in groups}

    def next_number(self) -> int:
        numbers = [n for q in self.played.values() if (n := auto_number(q.group)) is not None]
        return 1 + max(numbers, default=-1)

    def arrived(self) -> dict[str, int]:
        return {"s": self.came, "t": self.came}

    def sample(self, stream: str, columns: Sequence[str], tuples: int) -> StreamSample | None:
        if self.broken:
            raise RuntimeError("the log is on fire")
        values = np.linspace(0, DOMAIN - 1, tuples).astype(np.int64)
        found = {name: pa.chunked_array([pa.array(values)]) for name in columns}
        return StreamSample(stream, tuples, found) if self.came else None

    def standings(self, groups: Iterable[str]) -> dict[str, Standing]:
        """Epochs are sealed each second. What waits was sealed when as much had come in as the group has behind it."""
        waits = {name: self.lag.get(name, 0.0) for name in groups}
        return {
            name: Standing(
                dict.fromkeys(self.arrived(), round(self.came - lag)),
                lag / self.rate,
                frozenset(self.arrived()) if lag else frozenset(),
            )
            for name, lag in waits.items()
        }

    def function_costs(self) -> dict[FunctionName, float]:
        return {FunctionName(name): cost for name, cost in self.said.items()}

    def move(self, moves: Sequence[tuple[QueryId, str]]) -> None:
        self.wishes += moves

    def resize(self, group: str, tasks: int) -> None:
        self.resized.append((group, tasks))
        self.width[group] = tasks

    # playing

    def groups(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for id_, query in sorted(self.played.items()):
            found.setdefault(query.group, []).append(id_)
        return found

    def step(self, conductor: Conductor) -> None:
        """A second passes: tuples come in, groups run, wishes of the second before are fulfilled."""
        for query, group in self.wishes:
            self.played[int(query)].group = group
        self.wishes, self.now = [], self.now + 1
        self.came += self.rate
        self.epoch += 1
        groups = self.groups()
        costs = {name: self._costs(members) for name, members in groups.items() if name not in self.silent}
        room = 0.8 * self.cores
        per_tuple = {name: sum(map(sum, found.values())) for name, found in costs.items()}
        wanted = {
            name: min(room, each * (self.lag.get(name, 0.0) + self.rate)) for name, each in per_tuple.items()
        }
        part = fair_part(wanted.values(), room)
        for name, members in groups.items():
            if name in costs:
                self._run(conductor, name, members, costs[name], min(part, wanted[name]) / per_tuple[name])
            else:  # it is in a long epoch
                self.lag[name] = self.lag.get(name, 0.0) + self.rate
        conductor.look()

    def _by_operator(self, members: list[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for id_ in members:
            played = self.played[id_]
            found.setdefault(played.part or str(operator_of(played.plan)), []).append(id_)
        return found

    def _costs(self, members: list[int]) -> dict[str, tuple[float, float]]:
        """Seconds per tuple to read and filter, and to do the rest, for each operator of the plan of a group."""
        return {
            operator: (
                self.scan_s,
                # tuples that several queries take are worked on once; the dearest one says what they cost
                max(self.played[i].share for i in ids) * max(self.played[i].seconds for i in ids)
                + sum(self.played[i].called for i in ids),
            )
            for operator, ids in self._by_operator(members).items()
        }

    def _run(
        self,
        conductor: Conductor,
        name: str,
        members: list[int],
        cost: dict[str, tuple[float, float]],
        capacity: float,
    ) -> None:
        by_operator = self._by_operator(members)
        per_tuple = sum(scan + work for scan, work in cost.values())
        waiting = self.lag.get(name, 0.0) + self.rate
        done = min(waiting, capacity)
        self.lag[name] = waiting - done
        processed = round(self.came - self.lag[name])
        spent = {
            operator: OperatorMetrics(
                map_seconds=scan * done,
                reduce_seconds=work * done,
                tuples=round(done),
                matched=QueryCounts.of_mapping(
                    {i: round(self.played[i].share * done) for i in by_operator[operator]}
                ),
                functions=self._calls(by_operator[operator], done),
            )
            for operator, (scan, work) in cost.items()
        }
        rows = sum(one.matched.total for one in spent.values())
        conductor.measured(
            Measured(
                name,
                self.epoch,
                self.now,
                self.cores,
                frozenset(QueryId(i) for i in members),
                Metrics(
                    seconds=1.0 if self.lag[name] else 0.2 + per_tuple * done / self.cores,
                    map_cpu=sum(one.map_seconds for one in spent.values()),
                    reduce_cpu=sum(one.reduce_seconds for one in spent.values()),
                    finish_cpu=1e-8 * rows,
                ),
                spent,
                {operator: tuple(QueryId(i) for i in ids) for operator, ids in by_operator.items()},
                self.arrived(),
                dict.fromkeys(self.arrived(), processed),
            )
        )

    def _calls(self, members: list[int], done: float) -> dict[str, FunctionMetrics]:
        found: dict[str, FunctionMetrics] = {}
        for i in members:
            if self.played[i].called:
                name = self.played[i].function or f"similar{i}"
                spent = FunctionMetrics(
                    seconds=self.played[i].called * done, wanted=QueryCounts.of((i,), (1,))
                )
                found[name] = found.get(name, FunctionMetrics()) + spent
        return found


@pytest.fixture
def book(tmp_path: Path) -> EventBook:
    return EventBook(Warehouse(tmp_path / "house"))


def conductor_of(engine: Engine, book: EventBook, policy: Policy | None = Policy.FUNCTIONAL) -> Conductor:
    return Conductor(engine, book, policy, clock=lambda: engine.now)


def play(engine: Engine, conductor: Conductor, seconds: int) -> None:
    for _ in range(seconds):
        engine.step(conductor)


def kinds(book: EventBook) -> list[EventKind]:
    return [event.kind for event in book.all()]


def test_a_stable_stream_settles_within_two_merge_steps_and_stays(book: EventBook) -> None:
    engine = Engine()
    for i in range(6):
        engine.create(i, 100 * i, MAIN if i == 0 else auto_group(i))
    conductor = conductor_of(engine, book)
    play(engine, conductor, 125)
    settled = engine.groups()
    assert len(settled) == 1, "light queries over one stream are one group"
    assert MAIN in settled
    told = len(book.all())
    play(engine, conductor, 300)
    assert engine.groups() == settled
    assert len(book.all()) == told, "nothing more to tell"
    [merge] = [event for event in book.all() if event.kind is EventKind.MERGED]
    assert "merged with 5 queries: cost" in merge.reason
    assert merge.figures is not None
    assert merge.figures["cost"] < 1
    assert merge.delay_s is not None
    assert merge.delay_s <= 2
    # five of six queries read the stream again if each has a group of its own, and select what another one does, too
    alone = sum((1e-6 + 1e-6 * (1 - i / 10) + 1e-8 * (1 - i / 10)) * engine.rate for i in range(6))
    together = (1e-6 + 1e-6 + 1e-8 * 4.5) * engine.rate
    assert conductor.info().saves == {MAIN: pytest.approx(alone - together, rel=0.1)}
    error = conductor.info().median_error
    assert error is not None
    assert error < 0.2


@pytest.mark.parametrize("light", [4, 20, 300])
@pytest.mark.parametrize("seconds", [3e-4, 3e-3])
def test_a_query_that_is_dear_by_itself_leaves_though_it_reads_and_filters_as_others_do(
    book: EventBook, light: int, seconds: float
) -> None:
    """Say, by keys of its own. Nobody registered a function that could be blamed."""
    engine = Engine()
    for i in range(light):
        engine.create(i, 900 * i // light)
    conductor = conductor_of(engine, book)
    play(engine, conductor, 30)
    engine.create(5000, 0, seconds=seconds, part="by other keys")
    play(engine, conductor, 40)
    homes = engine.groups()
    assert [5000] in homes.values()
    assert homes[MAIN] == list(range(light))
    assert engine.lag[MAIN] < engine.rate, "light queries have caught up"
    assert next(event.reason for event in book.all() if event.kind is EventKind.SPLIT).startswith(
        "split off 1 query: work that no other query needs held the group at "
    )


def test_an_operator_that_others_do_not_use_leaves_when_it_holds_them_up(book: EventBook) -> None:
    engine = Engine()
    for i in range(8):
        engine.create(i, 100 * i)
    conductor = conductor_of(engine, book)
    play(engine, conductor, 30)
    assert kinds(book) == []
    engine.create(8, 0, seconds=3e-4, streams=("s", "t"))
    play(engine, conductor, 22)
    homes = engine.groups()
    assert [8] in homes.values(), "the slow query is alone"
    assert homes[MAIN] == list(range(8))
    assert EventKind.SPLIT in kinds(book)
    [split] = [event for event in book.all() if event.kind is EventKind.SPLIT]
    assert "work on s and t held the group at" in split.reason
    behind = engine.lag[MAIN]
    play(engine, conductor, 120)
    assert engine.lag[MAIN] <= behind, "the others keep their pace"
    assert engine.groups() == homes, "and are not merged with it again"


def test_a_split_comes_within_two_epochs_of_back_pressure(book: EventBook) -> None:
    """The next look would be up to ten seconds away; lag of more than two intervals is not waited with."""
    for quiet in range(21, 31):
        engine = Engine()
        for i in range(8):
            engine.create(i, 100 * i)
        told = len(book.all())
        conductor = conductor_of(engine, book)
        play(engine, conductor, quiet)
        engine.create(8, 0, seconds=3e-4, streams=("s", "t"))
        play(engine, conductor, 5)
        assert engine.lag[MAIN] > 2 * engine.rate or [8] in engine.groups().values()
        play(engine, conductor, 2)
        new = [event.kind for event in book.all()[told:]]
        assert EventKind.SPLIT in new, f"{quiet} quiet seconds before"


def test_an_early_look_is_made_only_for_a_group_that_begins_to_lag(book: EventBook) -> None:
    engine = Engine()
    for i in range(8):
        engine.create(i, 100 * i)
    conductor = conductor_of(engine, book)
    play(engine, conductor, 9)
    engine.now += 60
    assert conductor.look(early=True) is None, "a look is due, but nobody lags"
    assert conductor.look() is not None
    engine.create(8, 0, seconds=3e-4, streams=("s", "t"))
    looks = conductor.info().looks
    for _ in range(8):
        engine.step(conductor)
        conductor.look(early=True)
    assert conductor.info().looks > looks
    assert EventKind.SPLIT in kinds(book)


def test_whoever_would_be_faster_alone_leaves_a_slow_query_of_the_same_stream(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0, seconds=3e-4)
    for i in range(1, 4):
        engine.create(i, 900 + 20 * i)
    conductor = conductor_of(engine, book)
    play(engine, conductor, 40)
    homes = engine.groups()
    assert all(engine.played[i].group != engine.played[0].group for i in range(1, 4)), homes
    assert EventKind.VIOLATION in kinds(book), "somebody was slower than alone for a while"


def test_a_query_whose_function_holds_the_others_up_leaves(book: EventBook) -> None:
    engine = Engine()
    for i in range(5):
        engine.create(i, 900)
    conductor = conductor_of(engine, book)
    play(engine, conductor, 15)
    engine.create(5, 900, called=4e-4)
    play(engine, conductor, 30)
    assert engine.groups()[MAIN] == list(range(5))
    [split] = [event for event in book.all() if event.kind is EventKind.SPLIT]
    [alone] = set(engine.groups()) - {MAIN}
    assert engine.tasks([alone]) == {alone: engine.cores}, "the others leave the cores idle"
    assert "`similar5` after the shared part held the group at" in split.reason
    assert split.queries == ("q5",)


def test_of_queries_with_functions_the_dear_one_leaves_those_that_would_keep_up_alone(
    book: EventBook,
) -> None:
    """All members call something after the shared part, so all hold the group up. That is no reason to do nothing."""
    engine = Engine()
    for i in range(3):
        engine.create(i, 970, called=1e-5, function="similar")
    conductor = conductor_of(engine, book)
    play(engine, conductor, 15)
    engine.create(3, 0, called=4e-4, function="similar")
    play(engine, conductor, 40)
    homes = {frozenset(members) for members in engine.groups().values()}
    assert frozenset([3]) in homes, homes
    behind = {i: engine.lag[engine.played[i].group] for i in range(3)}
    play(engine, conductor, 20)
    assert all(engine.lag[engine.played[i].group] <= max(behind[i], engine.rate) for i in range(3))


def test_more_input_than_all_tasks_can_process_splits_nobody(book: EventBook) -> None:
    engine = Engine()
    for i in range(10):
        engine.create(i, 50 * i, seconds=1e-4)
    conductor = conductor_of(engine, book)
    play(engine, conductor, 30)
    engine.rate *= 4
    play(engine, conductor, 60)
    assert engine.lag[MAIN] > engine.rate, "it falls behind"
    assert engine.groups() == {MAIN: list(range(10))}, "twice the work would not be done in less time"
    told = [event.reason for event in book.all() if event.kind is EventKind.VIOLATION]
    assert any("all cores are too few for all queries" in reason for reason in told), told


def test_a_group_that_is_far_behind_is_merged_when_it_has_caught_up(book: EventBook) -> None:
    """On its way to a group that is ahead, a query would be nowhere for as long as it takes to catch up."""
    engine = Engine()
    for i in range(4):
        engine.create(i, 200 * i, MAIN if i < 2 else auto_group(0))
    engine.lag[auto_group(0)] = 2_000_000.0
    conductor = conductor_of(engine, book)
    while len(engine.groups()) > 1:
        behind = engine.lag[auto_group(0)]
        play(engine, conductor, 1)
        assert engine.now < 2_000, "they are merged some time"
    assert behind <= 2 * engine.rate
    assert EventKind.MERGED in kinds(book)


def test_a_group_of_which_nothing_is_measured_yet_is_left_alone(book: EventBook) -> None:
    engine = Engine()
    for i in range(4):
        engine.create(i, 200 * i, MAIN if i < 2 else auto_group(0))
    engine.silent.add(auto_group(0))
    conductor = conductor_of(engine, book)
    play(engine, conductor, 130)
    assert len(engine.groups()) == 2, "it may be far behind"
    engine.silent.clear()
    play(engine, conductor, 70)
    assert len(engine.groups()) == 1


def test_a_new_main_group_that_ran_without_members_has_no_place_for_their_work_yet() -> None:
    """All queries of the main group wait apart. It runs epochs nevertheless, and then others are moved into it."""
    group, main, first, second = GroupName(auto_group(0)), GroupName(MAIN), QueryId(1), QueryId(2)
    health = {
        group: GroupHealth(9.0, 9.0, 0.0, 0.0, 1.5, 1.5),
        main: GroupHealth(9.0, 9.0, 0.0, 0.0, 0.5, 0.5),
    }
    before = Grouping((SharingGroup(group, (first, second), 2),), 1)
    after = Grouping((SharingGroup(group, (first,), 1), SharingGroup(main, (second,), 1)), 1)
    situation = Situation(before, {}, NOTHING, health, settings=Settings(cores=4))
    assert idle_cores(situation, before) == {group: 4.0}
    assert idle_cores(situation, after) == {group: 4.0, main: 4.0}


def test_what_people_named_and_what_plain_spark_runs_is_left_alone(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0)
    engine.create(1, 0, "alerts")
    engine.create(2, 0, "plain-2", plain=True, apart=True)
    engine.create(3, 0, MAIN, moving=True, apart=True)
    conductor = conductor_of(engine, book, Policy.FULL)
    play(engine, conductor, 130)
    assert {i: q.group for i, q in engine.played.items()} == {0: MAIN, 1: "alerts", 2: "plain-2", 3: MAIN}
    assert kinds(book) == []


@pytest.mark.parametrize(
    ("policy", "groups"), [(Policy.FULL, 1), (Policy.ISOLATED, 4), (Policy.SELECTIVITY, 2)]
)
def test_the_policy_decides(policy: Policy, groups: int, book: EventBook) -> None:
    engine = Engine()
    for i, limit in enumerate((0, 100, 970, 980)):
        engine.create(i, limit)
    play(engine, conductor_of(engine, book, policy), 70)
    assert len(engine.groups()) == groups


def test_groups_that_differ_in_what_the_model_does_not_know_are_predicted_each_by_itself(
    book: EventBook,
) -> None:
    engine = Engine()
    engine.create(0, 0, "left", seconds=4e-6)
    engine.create(1, 0, "right", seconds=4e-5)  # the same tuples of the same stream, and ten times the work
    conductor = conductor_of(engine, book)
    play(engine, conductor, 125)
    error = conductor.info().median_error
    assert error is not None
    assert error < 0.1


def test_without_a_policy_nobody_is_moved(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0, seconds=3e-4)
    engine.create(1, 900)
    conductor = conductor_of(engine, book, None)
    play(engine, conductor, 130)
    assert engine.groups() == {MAIN: [0, 1]}
    assert conductor.place([(plan_of(), NO_NEEDS)]) == [None]
    assert conductor._books == Books() and not conductor._fresh, "nothing piles up that nobody reads"


def test_new_queries_start_where_they_slow_nobody(book: EventBook) -> None:
    engine = Engine()
    conductor = conductor_of(engine, book)
    first = conductor.place([(plan_of(above(i)), NO_NEEDS) for i in range(1_000)])
    assert set(first) == {None}, "nobody can be slowed before anything runs"
    engine.create(0, 0, seconds=5e-5)
    play(engine, conductor, 25)
    assert conductor.place([(plan_of(above(990)), NO_NEEDS)]) == [MAIN]
    assert conductor.place([(plan_of(plain=True), NO_NEEDS)]) == [None]
    engine.played[0].seconds = 1.4e-4
    play(engine, conductor, 80)
    [alone] = conductor.place([(plan_of(above(0), ("s", "t")), NO_NEEDS)])
    assert alone is not None
    assert auto_number(alone) is not None, "the tasks of the main group are busy, and nothing is known of it"


def test_a_new_query_brings_what_its_dearest_function_costs(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0)
    engine.create(1, 900, called=1e-6, function="light")
    conductor = conductor_of(engine, book)
    play(engine, conductor, 25)
    calling = replace(plan_of(above(900)), functions=("light",))  # a tenth of 10,000 tuples per second
    assert conductor.place([(calling, NO_NEEDS)]) == [MAIN], "what was measured counts"
    engine.said = {"light": 1.0, "heavy": 0.01}
    assert conductor.place([(calling, NO_NEEDS)]) == [MAIN], "and not what somebody said before"
    both = replace(plan_of(above(900)), functions=("light", "heavy"))
    [alone] = conductor.place([(both, NO_NEEDS)])
    assert alone is not None
    assert auto_number(alone) is not None, "it would keep ten tasks busy"
    engine.said["heavy"] = 1e-6
    assert conductor.place([(both, NO_NEEDS)]) == [MAIN]


def test_many_queries_at_once_never_mean_as_many_groups(book: EventBook) -> None:
    for policy in (Policy.FUNCTIONAL, Policy.ISOLATED):
        engine = Engine()
        engine.create(0, 0, seconds=1.4e-4)
        conductor = conductor_of(engine, book, policy)
        play(engine, conductor, 25)
        places = conductor.place([(plan_of(above(i % DOMAIN)), NO_NEEDS) for i in range(300)])
        assert len(set(places)) <= Settings().max_groups, policy


def test_a_query_that_does_not_get_what_was_asked_for_is_told_of_once(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0, seconds=3e-4, needs=Needs(min_rate=9_000, max_latency_s=5.0))
    conductor = conductor_of(engine, book)
    play(engine, conductor, 60)
    told = sorted(event.reason for event in book.all() if "asked for" in event.reason)
    assert len(told) == 2
    assert "tuples per second, and 9000 are asked for" in told[0]
    assert "s behind its input, and 5.0 s are asked for" in told[1]


ASKED = Needs(min_rate=9_000, max_latency_s=5.0)


def told_of_needs(book: EventBook) -> list[tuple[str, tuple[str, ...], str]]:
    """(group, names, what was asked for) of each violation of that."""
    told = [event for event in book.all() if "asked for" in event.reason]
    return [(event.group, event.queries, event.reason.split(", and ")[1]) for event in told]


def test_without_a_policy_it_is_told_what_queries_do_not_get(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0, seconds=3e-4, needs=ASKED)
    conductor = conductor_of(engine, book, None)
    assert not conductor.due
    play(engine, conductor, 60)
    assert sorted(told_of_needs(book)) == [
        (MAIN, ("q0",), "5.0 s are asked for"),
        (MAIN, ("q0",), "9000 are asked for"),
    ]


def test_a_plain_query_and_one_that_catches_up_are_told_of_where_they_live(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0, needs=ASKED)
    engine.create(1, 0, "plain-1", seconds=3e-4, plain=True, apart=True, needs=ASKED)
    engine.create(2, 0, "backfill-2", apart=True, needs=ASKED)
    engine.silent.add("backfill-2")  # its epoch takes for ever
    engine.lag["backfill-2"] = 360_000.0
    play(engine, conductor_of(engine, book), 60)
    told = told_of_needs(book)
    assert sorted({(group, names) for group, names, _ in told}) == [
        ("backfill-2", ("q2",)),
        ("plain-1", ("q1",)),
    ], "and nothing of the one that keeps up"
    assert len(told) == 4, told


def test_who_keeps_up_gets_what_was_asked_for_however_little_comes(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0, needs=Needs(min_rate=1e6, max_latency_s=3.0))
    conductor = conductor_of(engine, book)
    for second in range(90):  # nothing for a while, and then much at once
        engine.rate = 30_000 if second % 15 == 0 else 1
        engine.step(conductor)
    assert told_of_needs(book) == []


def test_tuples_that_no_epoch_has_taken_in_wait_too() -> None:
    course = Course()
    for at, came in ((0.0, 100), (10.0, 200), (20.0, 300), (30.0, 400)):
        course.note(at, {"s": came}, {"main": Standing({"s": 150})})
    assert course.behind_s("main", ["s"]) == 20.0, "at 10 s, more had come in than was ever processed"
    assert course.behind_s("main", ["t"]) == 0.0
    course.note(40.0, {"s": 500}, {"main": Standing({"s": 500})})
    assert course.behind_s("main", ["s"]) == 0.0


def test_what_comes_and_goes_with_every_look_is_told_once(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0, needs=ASKED)
    queries = {query.id: query for query in engine.queries()}
    late = [Violation(QueryId(0), "is late", "max_latency")]
    violated: Violated = {}
    for look in range(12):
        violated = note_violations(book, late if look % 2 else [], violated, queries, 10.0 * look)
    assert len(book.all()) == 1
    violated = note_violations(book, [], violated, queries, 180.0)
    violated = note_violations(book, late, violated, queries, 190.0)
    assert len(book.all()) == 2, "it was over for a minute"


def test_an_epoch_that_waits_holds_up_only_those_whose_tuples_it_has() -> None:
    course = Course()
    waiting = Standing({"s": 100, "t": 100}, 19.0, frozenset({"s"}))
    course.note(0.0, {"s": 300, "t": 100}, {"main": waiting})
    course.note(1.0, {"s": 300, "t": 101}, {"main": waiting})
    assert course.behind_s("main", ["s"]) == course.behind_s("main", ["s", "t"]) == 19.0
    assert course.behind_s("main", ["t"]) == 0.0, "its first tuple came a moment ago"


def course_of(looks: Iterable[tuple[float, int, int]]) -> Course:
    """A group at some looks: (when, the tuples that had come in, those that it had behind it)."""
    course = Course()
    for at, came, done in looks:
        course.note(at, {"s": came}, {"main": Standing({"s": done}, 2.5, frozenset({"s"}))})
    return course


def test_an_epoch_under_way_at_a_look_takes_nothing_from_anybody() -> None:
    """Ten tuples come in per second."""
    asking = [LiveQuery(QueryId(0), "q", plan_of(), MAIN, Needs(min_rate=1000))]
    keeps_up = [(10.0 * i, 100 * i, 100 * i) for i in range(5)]
    assert list(unmet(asking, course_of([*keeps_up, (50.0, 500, 475)]), 1.0)) == []
    assert list(unmet(asking, course_of([*keeps_up, (50.0, 500, 400)]), 1.0)) == []
    slow = [(10.0 * i, 100 * i, 60 * i) for i in range(6)]
    [told] = unmet(asking, course_of(slow), 1.0)
    assert told.what == "gets 6 of the 10 tuples per second that come in, and 1000 are asked for"
    assert course_of(slow).shortfall(MAIN, ["s"], 6.0) is None, "more comes in than was asked for"


def test_long_epochs_are_no_slow_ones() -> None:
    """Epochs of 40 seconds, and looks in the middle of them."""
    looks = [(10.0 * i, 100 * i, 400 * (i // 4)) for i in range(30)]
    for seen in range(13, 30):  # two of them have ended
        assert course_of(looks[:seen]).shortfall(MAIN, ["s"], 1000) is None, seen


def test_a_rate_is_told_after_two_epochs_or_none() -> None:
    one = [(0.0, 100, 0), (10.0, 200, 0), (20.0, 300, 10)]
    assert course_of(one).shortfall(MAIN, ["s"], 1000) is None, (
        "the first epoch may have taken most of the time"
    )
    shortfall = course_of([*one, (30.0, 400, 20)]).shortfall(MAIN, ["s"], 1000)
    assert shortfall is not None
    assert (shortfall.got, shortfall.came) == (1.0, 10.0)
    hangs = course_of([(10.0 * i, 100 * i, 0) for i in range(3)])
    assert hangs.shortfall(MAIN, ["s"], 1000) is not None, "it has run nothing"


def test_what_was_decided_is_done_though_nobody_can_be_told_of_needs(
    book: EventBook, caplog: pytest.LogCaptureFixture
) -> None:
    class Torn(Engine):
        def standings(self, groups: Iterable[str]) -> dict[str, Standing]:
            raise StorageError("TORN", "the log is torn")

    engine = Torn()
    for i in range(6):
        engine.create(i, 100 * i, MAIN if i == 0 else auto_group(i), needs=ASKED)
    play(engine, conductor_of(engine, book), 125)
    assert len(engine.groups()) == 1, "they were merged"
    assert "the log is torn" in caplog.text
    unwatched = conductor_of(engine, book, None)
    play(engine, unwatched, 12)


def test_of_groups_that_are_gone_nothing_is_told(book: EventBook) -> None:
    engine = Engine()
    for i in range(6):
        engine.create(i, 100 * i, MAIN if i == 0 else auto_group(i))
    conductor = conductor_of(engine, book)
    play(engine, conductor, 150)
    assert len(engine.groups()) == 1
    everything = {error.group for error in conductor._state.calibration.errors}
    assert len(everything) > 1, "there was something to hide"
    info = conductor.info()
    assert {error.group for error in info.errors} == {MAIN}
    assert info.median_error == pytest.approx(np.median([error.relative for error in info.errors]))


def test_a_look_that_fails_says_so_and_the_next_one_goes_on(book: EventBook) -> None:
    engine = Engine()
    engine.create(0, 0)
    conductor = conductor_of(engine, book)
    play(engine, conductor, 5)
    engine.broken = True
    with pytest.raises(RuntimeError, match="on fire"):
        play(engine, conductor, 10)
    engine.broken = False
    play(engine, conductor, 10)
    assert conductor.info().looks > 0


def test_queries_that_come_and_go_do_not_blind_the_conductor(book: EventBook) -> None:
    engine = Engine()
    for i in range(20):
        engine.create(i, 40 * i)
    conductor = conductor_of(engine, book)
    for i in range(20, 60):
        engine.create(i, 500)
        del engine.played[i - 10]
        engine.step(conductor)
    assert MAIN in conductor._state.health


def test_events_last_and_are_bounded(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "house")
    book = EventBook(warehouse, kept=3)
    numbers = [
        book.add(float(i), EventKind.MERGED, MAIN, f"reason {i}", [f"q{j}" for j in range(i * 6)]).number
        for i in range(5)
    ]
    book.delayed(numbers[-1:], 0.25)
    again = EventBook(warehouse, kept=3).all()
    assert again == book.all()
    assert [event.reason for event in again] == ["reason 2", "reason 3", "reason 4"]
    assert (len(again[-1].queries), again[-1].count, again[-1].delay_s) == (10, 24, 0.25)
    assert EventBook(warehouse).add(9.0, EventKind.TASKS, MAIN, "more").number == 5


def test_a_torn_book_of_events_keeps_nobody_from_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = Warehouse(tmp_path / "house")
    EventBook(warehouse).add(1.0, EventKind.TASKS, MAIN, "more")
    warehouse.path(EVENTS).write_bytes(b"{")
    book = EventBook(warehouse)
    assert book.all() == () and EVENTS in caplog.text
    book.add(2.0, EventKind.TASKS, MAIN, "fewer")
    assert [event.reason for event in EventBook(warehouse).all()] == ["fewer"]


def test_moves_that_no_epoch_has_taken_in_are_not_decided_again(book: EventBook) -> None:
    engine = Engine()
    for i in range(3):
        engine.create(i, 100 * i, MAIN if i == 0 else auto_group(i))
    conductor = conductor_of(engine, book)
    play(engine, conductor, 60)
    asked = list(engine.wishes)
    assert asked
    engine.now += 30
    conductor.look()
    assert engine.wishes == asked


def test_a_short_epoch_between_long_ones_is_no_rest() -> None:
    """A small stream's chunk may be an epoch of its own. The moment that it takes to begin it is longer than it is."""
    kept, books = (
        [(0.0, 1.0, 0), (3.0, 2.9, 2_000), (3.3, 0.1, 2_100), (6.3, 2.9, 4_000), (6.6, 0.1, 4_100)],
        Books(),
    )
    for number, (at, seconds, processed) in enumerate(kept):
        members, arrived = frozenset({QueryId(1)}), {"s": round(2_000 * at)}
        metrics = Metrics(seconds=seconds, reduce_cpu=seconds)
        books.add(
            Measured(MAIN, number, at, 2, members, metrics, {}, {}, arrived, {"s": processed}),
        )
    assert books.lagging(1.0) == {MAIN}
    operators = {QueryId(1): OperatorId("s")}
    epochs = group_epochs(tuple(books.epochs[MAIN]), EpochReader(operators, {}, ()), 1.0)
    health = watch_group(while_lagging(tuple(books.epochs[MAIN]), epochs, 1.0))
    assert health.lags
    assert health.share < 0.4


def test_samples_tell_who_wants_what() -> None:

    rng = np.random.default_rng(5)
    values = rng.integers(0, DOMAIN, 400)
    limits = [int(limit) for limit in rng.integers(0, DOMAIN, 12)]
    queries = [LiveQuery(QueryId(i), f"q{i}", plan_of(above(limit)), MAIN) for i, limit in enumerate(limits)]
    sample = StreamSample("s", len(values), {"v": pa.chunked_array([pa.array(values)])})
    [table] = region_tables(queries, {"s": sample}, {"s": 100.0}, {}).values()
    for _ in range(20):
        some = rng.choice(12, rng.integers(1, 12), replace=False)
        wanted = table.wanted[:, some].any(axis=1)
        share = float(table.tuples @ wanted) / table.sampled
        assert share == pytest.approx(np.mean(values >= min(limits[i] for i in some))), f"queries {some}"


@pytest.mark.parametrize("limits", [(3,), (5, DOMAIN + 1, 0), ()])
def test_samples_of_newcomers_are_those_of_their_regions(limits: tuple[int, ...]) -> None:
    values = np.random.default_rng(6).integers(0, DOMAIN, 333)
    queries = [LiveQuery(QueryId(i), f"q{i}", plan_of(above(limit)), MAIN) for i, limit in enumerate(limits)]
    sample = StreamSample("s", len(values), {"v": pa.chunked_array([pa.array(values)])})
    tables = region_tables(queries, {"s": sample}, {"s": 7.0}, {query.id: 2.5 for query in queries})
    expected = {id_: told for table in tables.values() for id_, told in query_samples(table).items()}
    found = samples_alike(queries, sample, 2.5) if queries else {}
    assert found.keys() == expected.keys()
    for id_, told in expected.items():
        assert found[id_].selectivity == pytest.approx(told.selectivity)
        assert found[id_].matches == pytest.approx(told.matches)


def test_a_stream_is_not_asked_for_the_columns_of_another() -> None:
    """Nothing was decided any more once two streams with different columns had queries with predicates."""
    one, other = plan_of(above(5)), plan_of(Compare(Operand("w", BIGINT), Op.GE, 5), ("r",))
    assert columns_of([one, other], "s") == {"v"}
    assert columns_of([one, other], "r") == {"w"}
    queries = [LiveQuery(QueryId(i), f"q{i}", plan, MAIN) for i, plan in enumerate((one, other))]
    samples = {name: StreamSample(name, 1, {name_: pa.chunked_array([[7]])}) for name, name_ in ("sv", "rw")}
    tables = region_tables(queries, samples, {"s": 1.0, "r": 1.0}, {})
    assert sorted(tables) == ["r", "s"]


def test_the_work_of_all_functions_is_counted_once() -> None:
    """The dearest function of a query stands by itself; the others are part of what its operator costs."""
    operator = operator_of(plan_of())
    assert operator is not None

    def epoch(number: int) -> Measured:
        called = {
            "embed": FunctionMetrics(seconds=0.3, wanted=QueryCounts.of((1,), (5,))),
            "score": FunctionMetrics(seconds=0.1, wanted=QueryCounts.of((1,), (5,))),
        }
        spent = {"a": OperatorMetrics(map_seconds=0.2, reduce_seconds=0.6, functions=called)}
        metrics = Metrics(seconds=0.5, map_cpu=0.2, reduce_cpu=0.6)
        users, tuples = {"a": (QueryId(1),)}, {"s": 100 * number}
        return Measured(
            MAIN, number, float(number), 2, frozenset({QueryId(1)}), metrics, spent, users, tuples, tuples
        )

    books = Books()
    for number in range(3):
        books.add(epoch(number))
    assert set(books.functions.values()) == {"embed"}
    found = group_epochs(
        tuple(books.epochs[MAIN]),
        EpochReader({QueryId(1): operator}, {}, set(books.functions.values())),
        1.0,
    )
    assert [part.function for part in found[-1].functions] == ["embed"]
    assert found[-1].cpu_s == pytest.approx(0.8)


def test_costs_are_learnt_from_what_an_epoch_matched_and_not_from_what_is_usual() -> None:
    """A busy key comes and goes. The sample says what queries have in common, the epoch how much there was of it."""
    wanted = np.array([[True, False], [True, True]])
    table = RegionTable(
        OperatorId("s"),
        (QueryId(1), QueryId(2)),
        wanted,
        np.array([10.0, 30.0]),
        np.array([20.0, 60.0]),
        100.0,
    )

    def epoch(number: int, times: int) -> Measured:
        called = {"embed": FunctionMetrics(seconds=0.3, wanted=QueryCounts.of((2,), (60 * times,)))}
        matched = QueryCounts.of((1, 2), (40 * times, 30 * times))
        # nothing is left of the other's rows when its function has been asked
        joined = QueryCounts.of((1,), (80 * times,))
        spent = {"a": OperatorMetrics(reduce_seconds=0.6, matched=matched, joined=joined, functions=called)}
        users, tuples = {"a": (QueryId(1), QueryId(2))}, {"s": 100 * number}
        members = frozenset({QueryId(1), QueryId(2)})
        metrics = Metrics(seconds=0.5, reduce_cpu=0.6)
        return Measured(
            MAIN, number, float(number), 2, members, metrics, spent, users, tuples, tuples, members
        )

    operators = dict.fromkeys((QueryId(1), QueryId(2)), OperatorId("s"))
    kept = (epoch(0, 1), epoch(1, 1), epoch(2, 2))
    usual, busy = group_epochs(kept, EpochReader(operators, {OperatorId("s"): table}, {"embed"}), 1.0)
    parts = [next(one for one in e.operators if one.operator == part_of("a")) for e in (usual, busy)]
    assert [(part.selected, part.matches) for part in parts] == [(40, 80), (80, 160)]
    assert [e.functions[0].rows for e in (usual, busy)] == [60, 120]


def test_rows_of_a_join_count_on_the_side_that_queries_select() -> None:
    """Bids are wanted whole by all, and auctions by two queries apart. Their joined rows are not the same rows."""
    auctions = np.zeros((10, 3), dtype=bool)
    auctions[:2, 0] = auctions[2:4, 1] = auctions[:4, 2] = True
    bids = np.ones((10, 3), dtype=bool)
    rates = np.array([10.0, 90.0])
    accepted = auctions.mean(axis=0) * rates[0] + rates[1]
    joined = np.array([18.0, 18.0, 36.0])
    found = _matches([auctions, bids], rates, joined / accepted)
    assert found[10:].tolist() == [0.0] * 10
    per_auction = found[:10] * rates[0] / 10
    assert [per_auction[auctions[:, q]].sum() for q in range(3)] == pytest.approx(joined)
    assert per_auction.sum() == pytest.approx(36.0), "the union of the first two is the third"


def join_of(limit: int) -> QueryPlan:
    """A join of two streams on their value, for tuples of the first one from some value on."""
    sides = tuple(
        JoinSide(StreamName(name), Window(10, 5), above(limit) if name == "s" else TRUE) for name in "st"
    )
    body = Join(sides, (Hub((0, 1), ((VALUE,), (VALUE,))),), (), (), JoinedRows(()))
    return QueryPlan("SELECT", (StreamName("s"), StreamName("t")), body, (), "", "")


def test_a_join_alone_finds_what_it_was_measured_to_find_and_not_what_others_find_with_it() -> None:
    """Both want the newest half of a stream. A condition across the streams leaves one of them a tenth of the pairs."""
    engine = Engine(came=10_000)
    knowledge, books = Knowledge(engine), Books()
    knowledge.count(0.0, 10.0)
    engine.came += 10_000
    books.accepted = {QueryId(0): 1_000.0, QueryId(1): 1_000.0}
    books.joined = {QueryId(0): 20_000.0, QueryId(1): 2_000.0}
    queries = [LiveQuery(QueryId(i), f"q{i}", join_of(500), MAIN) for i in range(3)]
    knowledge.look(queries, books, 10.0, 10.0)
    found = knowledge.statistics.samples
    assert [found[QueryId(i)].matches for i in range(2)] == [20.0, 2.0]
    assert 2.0 < found[QueryId(2)].matches < 20.0, "of the third, nothing is known but where it looks"


def test_a_look_that_reads_other_columns_meanwhile_takes_nothing_from_a_new_query() -> None:
    """A look replaces the samples, without the column of a new query, just when that column has been read."""
    engine = Engine(came=10_000)
    engine.create(0, 100)
    knowledge, books = Knowledge(engine), Books()
    knowledge.look(engine.queries(), books, 1.0, 10.0)
    sample = engine.sample

    def overtaken(stream: str, columns: Sequence[str], tuples: int) -> StreamSample | None:
        found = sample(stream, columns, tuples)
        if stream == "t":  # the last one that is read for the new query
            engine.sample = sample  # type: ignore[method-assign]
            knowledge.look(engine.queries(), books, 2.0, 10.0)
        return found

    engine.sample = overtaken  # type: ignore[method-assign]
    plan = plan_of(Compare(Operand("w", BIGINT), Op.GE, 500), ("s", "t"))
    guest = LiveQuery(QueryId(7), "new", plan, MAIN)
    found = knowledge.samples_of([guest], {})
    assert found[QueryId(7)].selectivity == pytest.approx(0.5, abs=0.01)


def test_of_a_stream_whose_columns_cannot_be_read_any_more_nothing_is_told() -> None:
    engine = Engine(came=10_000)
    engine.create(0, 100)
    knowledge, books = Knowledge(engine), Books()
    knowledge.look(engine.queries(), books, 1.0, 10.0)
    engine.came = 0  # the log has no tuples
    guest = LiveQuery(QueryId(7), "new", plan_of(Compare(Operand("w", BIGINT), Op.GE, 500)), MAIN)
    assert knowledge.samples_of([guest], {}) == {}


def test_what_was_decided_is_remembered_though_its_event_cannot_be_kept(
    book: EventBook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full, and no epoch takes the wish in."""

    def full(*_: object, **__: object) -> None:
        raise StorageError("WRITE_FAILED", "the disk is full")

    engine = Engine()
    for i in range(3):
        engine.create(i, 100 * i, MAIN if i == 0 else auto_group(i))
    conductor = conductor_of(engine, book)
    play(engine, conductor, 58)
    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "replace_value", full)
        play(engine, conductor, 2)
        asked = list(engine.wishes)
        assert asked, "the look went on"
        assert "the disk is full" in caplog.text
        for _ in range(5):
            engine.now += 10
            conductor.look()
        assert engine.wishes == asked, "it is not decided again"
        engine.step(conductor)
        assert len(conductor.info().delays_s) == 1
        engine.step(conductor)
    assert len(conductor.info().delays_s) == 1, "it is in force once"


def busy_house(book: EventBook) -> tuple[Engine, Conductor]:
    """A main group that has no room for queries of which nothing is known."""
    engine = Engine()
    engine.create(0, 0, seconds=1.4e-4)
    conductor = conductor_of(engine, book)
    play(engine, conductor, 25)
    return engine, conductor


def test_queries_that_should_begin_alone_do_though_the_catalog_has_none_of_them_yet(book: EventBook) -> None:
    engine, conductor = busy_house(book)
    [first] = conductor.place([(plan_of(above(0), ("t",)), NO_NEEDS)])
    [second] = conductor.place([(plan_of(above(0), ("s", "t")), NO_NEEDS)])
    assert first is not None and second is not None
    assert {auto_number(first), auto_number(second)} == {0, 1}
    assert engine.next_number() == 0, "nothing tells of them yet"


def test_a_query_that_was_given_a_place_counts_there_until_it_is_there_itself() -> None:
    promises = Promises()
    guests = [LiveQuery(promises.number(), f"new {i}", plan_of(), MAIN) for i in range(3)]
    there = [LiveQuery(QueryId(i), f"q{i}", plan_of(), MAIN) for i in range(5)]
    promises.add(0.0, dict.fromkeys(guests, "auto-0"), QueryId(1))
    assert [query.group for query in promises.left(1.0, there[:2])] == ["auto-0"] * 3, "the others are older"
    assert [query.name for query in promises.left(1.0, there[:4])] == ["new 2"]
    assert [query.name for query in promises.left(1.0, there[:4])] == ["new 2"]
    other = replace(there[4], plan=replace(plan_of(), text="something else"))
    assert len(promises.left(1.0, [*there[:4], other])) == 1, "another query is none of them"
    assert promises.left(31.0, there[:4]) == [], "it was not created"


def test_isolated_queries_stay_where_they_are_while_what_an_epoch_costs_goes_up_and_down(
    book: EventBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    monkeypatch.setattr(Books, "overhead_s", lambda self: 0.2 * rng.uniform(0.8, 1.25))
    engine = Engine(rate=1_000)
    for i in range(60):
        engine.create(i, 16 * i)
    conductor = conductor_of(engine, book, Policy.ISOLATED)
    play(engine, conductor, 200)
    told = [event for event in book.all() if event.kind in (EventKind.MERGED, EventKind.SPLIT)]
    homes = engine.groups()
    assert 12 <= len(homes) <= 25
    play(engine, conductor, 300)
    assert engine.groups() == homes
    after = [event for event in book.all() if event.kind in (EventKind.MERGED, EventKind.SPLIT)]
    assert after == told
    assert len(told) <= 5, "60 queries left the main group, and little else"


def test_epochs_that_seem_to_cost_nothing_are_no_reason_for_a_thousand_groups(
    book: EventBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Books, "overhead_s", lambda self: 0.0)
    engine = Engine(rate=1_000)
    for i in range(600):
        engine.create(i, i)
    conductor = conductor_of(engine, book, Policy.ISOLATED)
    play(engine, conductor, 62)
    assert len(engine.groups()) == 200


def told_violations(book: EventBook) -> list[tuple[float, str, int]]:
    """(when, why, of how many queries) of each violation."""
    return [(e.at, e.reason, e.count) for e in book.all() if e.kind is EventKind.VIOLATION]


def test_a_query_that_falls_behind_alone_is_told_of_though_the_cores_should_be_enough(
    book: EventBook,
) -> None:
    engine = Engine()
    engine.create(0, 0)
    engine.create(1, 0, auto_group(1))
    conductor = conductor_of(engine, book)
    play(engine, conductor, 20)
    engine.played[1].seconds = 1.7e-4  # 0.8 of two cores do 9,400 tuples per second, and 10,000 come in
    play(engine, conductor, 80)
    [(_, why, count)] = told_violations(book)
    assert why.endswith("% of its input, though the cores should be enough")
    assert count == 1


def test_why_a_group_falls_behind_is_told_once_for_all_its_queries(book: EventBook) -> None:
    engine = Engine()
    for i in range(3):
        engine.create(i, 100 * i)
    queries = {query.id: query for query in engine.queries()}
    violated: Violated = {}

    def look(now: float, kind: str, whats: Sequence[str]) -> None:
        nonlocal violated
        found = [Violation(QueryId(i), what, kind) for i, what in enumerate(whats)]
        violated = note_violations(book, found, violated, queries, now)

    look(0.0, "isolation", ["53% alone", "54% alone", "54% alone"])
    assert told_violations(book) == [(0.0, "54% alone, or about as much", 3)]
    for at in (10.0, 20.0, 30.0):
        look(at, "cores" if at == 20 else "isolation", ["something else"] * 3)
    assert len(told_violations(book)) == 1, "it looks different at every look"
    for at in (40.0, 50.0, 60.0, 70.0):
        look(at, "cores", ["all cores are too few"] * 3)
    assert told_violations(book)[1:] == [(60.0, "all cores are too few", 3)], "it has been so for a while"


def test_of_groups_and_costs_that_are_gone_nothing_is_kept_for_ever(
    book: EventBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conducting, "COSTS_KEPT", 4)
    engine = Engine()
    conductor = conductor_of(engine, book)
    engine.create(0, 0)
    for i in range(1, 12):
        engine.create(i, 900, auto_group(i), called=1e-6, streams=("s", f"t{i}"))
        play(engine, conductor, 12)
        state = conductor._state
        assert state.seen.keys() <= {MAIN, auto_group(i)}
        assert len(state.calibration.scans) == len(state.calibration.joins) <= 6
        assert len(state.calibration.functions) <= 6
        assert f"s+t{i}" in state.calibration.scans
        del engine.played[i]
    assert "s" in state.calibration.scans, "a query reads it still"
    assert part_of("s") in state.calibration.scans, "and it has this part of the plan"


def test_polls_that_find_nothing_to_do_are_counted_as_time_of_looks(
    book: EventBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(1_000))
    monkeypatch.setattr(time, "thread_time", lambda: float(next(ticks)))
    engine = Engine()
    engine.create(0, 0)
    conductor = conductor_of(engine, book)
    for _ in range(5):
        assert conductor.look() is None
    assert (conductor.info().looks, conductor.info().looked_s) == (0, 5.0)
