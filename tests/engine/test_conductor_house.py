"""What the conductor sees of a real catalog and log, and what its wishes become there; without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.conductor.house import HouseStage
from headrace.engine.delivered import Delivered
from headrace.engine.records import Metrics, no_commit
from headrace.model.grouping import MAIN
from headrace.model.predicate import Compare, Op, Operand
from headrace.model.query import Fallback, Needs, Projection, QueryId
from headrace.model.types import DOUBLE
from log_samples import PLAN, PURCHASES, Opened, open_log

CHEAP = replace(PLAN, body=Projection(Compare(Operand("price", DOUBLE), Op.LT, 2.0), ()))
PLAIN = replace(PLAN, body=Fallback("nothing covers it", None))


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path / "house")
    opened.sealer.create_stream(PURCHASES)
    return opened


def stage_of(log: Opened) -> tuple[HouseStage, Any]:
    delivered = Delivered(log.catalog, log.sealer, {})
    house: Any = SimpleNamespace(
        warehouse=log.warehouse,
        catalog=log.catalog,
        sealer=log.sealer,
        delivered=delivered,
        clock=lambda: log.sealer.head(0).sealed_at + 360.0,
    )
    groups: Any = SimpleNamespace(cores=2, resized=[], resize=lambda *given: groups.resized.append(given))
    return HouseStage(house, groups, log.arrivals), groups


def seal(log: Opened) -> None:
    log.catalog.flush()
    assert log.sealer.seal() is not None


def test_who_lives_where_and_who_is_left_alone(log: Opened) -> None:
    stage, _ = stage_of(log)
    log.append(1, 2)
    log.catalog.request_create("a", CHEAP, needs=Needs(min_rate=5.0))
    log.catalog.request_create("b", CHEAP, group="alerts")
    log.catalog.request_create("c", PLAIN)
    seal(log)
    log.catalog.request_create("d", CHEAP, start=0)
    log.catalog.request_create("e", CHEAP, group="auto-4")
    log.append(3)
    seal(log)
    found = {query.name: query for query in stage.queries()}
    assert {name: (q.group, q.moving, q.apart) for name, q in found.items()} == {
        "a": (MAIN, False, False),
        "b": ("alerts", False, False),
        "c": ("plain-3", False, True),
        "d": (MAIN, True, True),
        "e": ("auto-4", False, False),
    }
    assert found["a"].needs.min_rate == 5.0
    assert stage.next_number() == 5


def test_a_wish_is_known_with_the_next_epoch_and_ended_queries_have_none(log: Opened) -> None:
    stage, _ = stage_of(log)
    first, second, third = (log.catalog.request_create(name, CHEAP).id for name in "abc")
    log.append(1)
    seal(log)
    log.catalog.request_drop("b")
    assert not stage.moved.is_set()
    stage.move([(first, "auto-0"), (second, "auto-0"), (third, "auto-1"), (QueryId(99), "auto-2")])
    assert stage.moved.is_set(), "so the next epoch is sealed at once"
    log.append(2)
    seal(log)
    assert {query.name: (query.group, query.moving) for query in stage.queries()} == {
        "a": ("auto-0", True),
        "c": ("auto-1", True),
    }
    assert stage.next_number() == 2


def test_a_group_that_a_person_named_a_moment_ago_counts(log: Opened) -> None:
    stage, _ = stage_of(log)
    ids = [log.catalog.request_create(name, CHEAP).id for name in "abcd"]
    log.append(1)
    seal(log)
    log.catalog.request_move("a", "alerts")
    log.catalog.flush()  # in a changelog, and in no epoch
    log.catalog.request_move("b", "alerts")
    log.catalog.request_move("c", "alerts")
    log.catalog.request_move("c", MAIN)  # and so back to whoever decides
    stage.move([(query, "auto-0") for query in ids])
    log.append(2)
    seal(log)
    assert {query.name: query.group for query in stage.queries()} == {
        "a": "alerts",
        "b": "alerts",
        "c": "auto-0",
        "d": "auto-0",
    }
    stage.move([(ids[0], "auto-0")])
    log.append(3)
    seal(log)
    assert stage.queries()[0].group == "auto-0", "only what waits is looked at here"


def test_samples_are_the_newest_tuples_of_the_log(log: Opened) -> None:
    stage, _ = stage_of(log)
    assert stage.sample("purchases", ["price"], 10) is None
    log.append(*range(500))
    log.catalog.request_create("a", CHEAP)
    seal(log)
    log.append(*range(500, 520))
    seal(log)
    sample = stage.sample("purchases", ["userID", "price"], 100)
    assert sample is not None
    assert sample.rows == 100
    assert sample.columns["userID"].to_pylist()[:20] == list(range(20)), "the newest chunk is first"
    assert len(sample.columns["price"]) == 100
    bare = stage.sample("purchases", [], 30)
    assert bare is not None
    assert (bare.rows, dict(bare.columns)) == (30, {})
    assert stage.sample("elsewhere", [], 30) is None


def test_what_waits_has_arrived_and_what_is_sealed_may_be_processed(log: Opened) -> None:
    stage, _ = stage_of(log)
    log.append(1, 2, 3)
    log.catalog.request_create("a", CHEAP)
    seal(log)
    log.append(4, 5)
    assert stage.arrived() == {"purchases": 5}
    assert stage.processed(0) == {"purchases": 3}
    group: Any = SimpleNamespace(
        name=MAIN, spec=lambda epoch: SimpleNamespace(tasks=2), users=lambda: {"op": (QueryId(1),)}
    )
    commit = replace(
        no_commit(MAIN), epoch=0, metrics=Metrics(map_cpu=0.5, finish_cpu=0.25), committed_at=7.0
    )
    measured = stage.measured(group, commit)
    assert (measured.at, measured.tasks, measured.members) == (7.0, 2, frozenset({QueryId(1)}))
    assert (measured.arrived, measured.processed) == ({"purchases": 5}, {"purchases": 3})
    assert measured.metrics.cpu_seconds == 0.75


def test_a_group_stands_where_its_cursor_is_whoever_runs_it(log: Opened) -> None:
    stage, _ = stage_of(log)
    log.catalog.request_create("a", CHEAP, group="alerts")
    log.catalog.request_create("b", PLAIN)
    log.append(1, 2, 3)
    seal(log)
    log.append(4, 5)
    seal(log)
    log.catalog.request_create("c", CHEAP, start=1)
    log.append(6)
    seal(log)
    homes = {query.name: query.home for query in stage.queries()}
    assert homes == {"a": "alerts", "b": "plain-2", "c": "backfill-3"}
    stage._house.delivered.replace(replace(no_commit("alerts"), epoch=2))
    found = stage.standings([*homes.values(), "coming"])
    assert {name: dict(standing.processed) for name, standing in found.items()} == {
        "alerts": {"purchases": 6},
        "plain-2": {"purchases": 0},
        "backfill-3": {"purchases": 3},
        "coming": {"purchases": 6},
    }
    assert (found["plain-2"].waits_s, found["alerts"].waits_s) == (360.0, 0.0)
    assert 0 < found["backfill-3"].waits_s <= 360.0
    assert (found["plain-2"].waiting, found["alerts"].waiting) == ({"purchases"}, frozenset())
    log.catalog.request_create("d", CHEAP)
    seal(log)  # an epoch without tuples
    stage._house.delivered.replace(replace(no_commit("plain-2"), epoch=2))
    silent = stage.standings(["plain-2"])["plain-2"]
    assert silent.waits_s > 0
    assert silent.waiting == frozenset(), "there is nothing in it for anybody"
