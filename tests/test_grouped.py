"""Groups as people see them: lines, lag, and which trouble is whose; without Spark."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_fakes import group_line
from headrace.engine.conductor.conductor import ConductorInfo
from headrace.engine.delivered import Delivered
from headrace.engine.records import no_commit
from headrace.health import Health, RunState
from headrace.looking.checkup import LAG_SECONDS, Checkup
from headrace.looking.facts import FactFinder
from headrace.looking.grouped import group_infos, lag_seconds
from headrace.looking.infos import query_infos, query_metrics
from headrace.looking.predictions import group_predictions
from headrace.looking.showing import Listing
from headrace.looking.status import why_empty
from headrace.model.errors import EngineError
from headrace.model.events import Event, EventKind
from headrace.model.grouping import GroupSpec, GroupState, Regrouping
from headrace.model.partitioning import even_partitioning
from headrace.optimizer.grouping.calibration import PredictionError
from headrace.optimizer.grouping.values import GroupName
from headrace.running.retries import Retry
from log_samples import PLAN, PURCHASES, FakeClock, Opened, open_log


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(time.time() - 1000)


@pytest.fixture
def log(tmp_path: Path, clock: FakeClock) -> Opened:
    opened = open_log(tmp_path, clock)
    opened.sealer.create_stream(PURCHASES)
    return opened


def seal(log: Opened, clock: FakeClock, epochs: int = 1) -> None:
    for _ in range(epochs):
        clock.time += 10
        log.append(int(clock.time * 1e6))
        log.catalog.flush()
        log.sealer.seal()


class Commits:
    """Commits of groups that need no Spark: `run` says how far each is."""

    def __init__(self, log: Opened) -> None:
        self.delivered = Delivered(log.catalog, log.sealer, {})

    def run(self, **epochs: int) -> None:
        for name, epoch in epochs.items():
            found = no_commit(name)
            fields = {field: getattr(found, field) for field in found.__dataclass_fields__}
            self.delivered.replace(type(found)(**{**fields, "epoch": epoch}))


def checkup_of(
    log: Opened, commits: Commits, state: RunState = RunState.RUNNING, **errors: EngineError
) -> Checkup:
    troubles = {}
    for group, error in errors.items():
        troubles[group.replace("sealing", "")] = retry = Retry()
        retry.failed(error)
    feeds = SimpleNamespace(get=lambda name: None, all=dict)
    splits, conducting = SimpleNamespace(runners=list), SimpleNamespace(trouble=Retry())
    running: Any = SimpleNamespace(
        troubles=troubles, state=state, feeds=feeds, splits=splits, conducting=conducting
    )
    return Checkup(log.warehouse, log.catalog, log.arrivals, log.sealer, commits.delivered, running)


def test_groups_say_who_lives_in_them_and_how_far_they_are(log: Opened, clock: FakeClock) -> None:
    log.catalog.request_create("spend", PLAN)
    log.catalog.request_create("loud", PLAN, group="alerts")
    seal(log, clock, 4)
    log.catalog.request_create("again", PLAN, start=1)
    log.catalog.request_create("coming", PLAN, group="reports")
    commits = Commits(log)
    commits.run(main=3, alerts=1)

    def listed() -> dict[str, Any]:
        return {
            i.name: i
            for i in group_infos(log.catalog, commits.delivered, log.sealer, [], {"alerts": "disk full"})
        }

    found = listed()
    assert list(found) == ["main", "alerts", "reports"], "a group is there as soon as somebody wants it"
    assert (found["reports"].state, found["reports"].lag_epochs) == (GroupState.FORMING, 0)
    assert (found["main"].members, found["main"].cursor, found["main"].lag_epochs) == (
        ("spend", "again"),
        3,
        0,
    )
    alerts = found["alerts"]
    assert (alerts.members, alerts.cursor, alerts.lag_epochs, alerts.error) == (("loud",), 1, 2, "disk full")
    assert alerts.lag_seconds == pytest.approx(1000 - 30, abs=5), "since epoch 2 was sealed"
    assert alerts.doing == "catching up: epoch 1 of 3 (50 %)"

    seal(log, clock)
    commits.run(main=4, **{"backfill-3": 2})
    backfill = listed()["backfill-3"]
    assert (backfill.members, backfill.target, backfill.since) == (("again",), "main", 1)
    assert backfill.doing == "catching up: epoch 2 of 4 (50 %), then to main"
    log.catalog.request_drop("loud")
    assert "alerts" not in listed(), "nobody lives there any more"


def test_a_group_that_has_run_everything_has_no_lag_however_silent_streams_are(
    log: Opened, clock: FakeClock
) -> None:
    assert lag_seconds(log.sealer, -1, clock.time) == 0.0
    seal(log, clock)
    clock.time += 3600
    assert lag_seconds(log.sealer, 0, clock.time) == 0.0
    seal(log, clock)
    assert lag_seconds(log.sealer, 0, clock.time + 2) == pytest.approx(2), "an hour of silence is no lag"


def test_a_listing_of_groups_is_a_table() -> None:
    lines = Listing([group_line(), group_line("alerts", members=tuple("abcdefg"))])
    assert repr(lines).splitlines()[0].split()[:3] == ["group", "state", "queries"]
    assert "a, b, c, d, e and 2 more" in repr(lines)
    assert "<td>alerts</td>" in lines._repr_html_()


def test_trouble_of_a_group_is_told_to_its_own_readers(log: Opened, clock: FakeClock) -> None:
    for name, group in (("spend", None), ("loud", "alerts"), ("quiet", "alerts")):
        log.catalog.request_create(name, PLAN, group=group)
    seal(log, clock)
    commits = Commits(log)
    commits.run(main=0)
    checkup = checkup_of(
        log, commits, RunState.RETRYING, alerts=EngineError("EPOCH_FAILED", "it burns", hint="water")
    )
    (problem,) = checkup.health().problems
    assert (problem.about, problem.hint) == ("group `alerts`", "water")
    assert problem.message == "EPOCH_FAILED: it burns; its queries: loud, quiet"
    assert checkup.trouble(log.catalog.entry("spend")) == []
    assert checkup.trouble(log.catalog.entry("loud")) == [problem]
    with pytest.warns(match="rows of query `loud` may be missing: group `alerts`: EPOCH_FAILED"):
        checkup.warn_reader(log.catalog.entry("loud"))
    entries = log.catalog.entries()
    infos = query_infos(entries, {int(e.query.id): 0 for e in entries}, log.catalog, checkup)
    assert [i.group for i in infos] == ["main", "alerts", "alerts"]
    assert [bool(i.trouble) for i in infos] == [False, True, True]

    sealing = checkup_of(log, commits, RunState.RETRYING, sealing=EngineError("DISK_FULL", "no room"))
    assert [p.about for p in sealing.trouble(log.catalog.entry("spend"))] == ["the run"], "it is everybody's"


def test_a_run_with_one_group_speaks_of_the_run(log: Opened, clock: FakeClock) -> None:
    log.catalog.request_create("spend", PLAN)
    checkup = checkup_of(log, Commits(log), RunState.RETRYING, main=EngineError("EPOCH_FAILED", "it burns"))
    assert [(p.about, p.message) for p in checkup.health().problems] == [
        ("the run", "EPOCH_FAILED: it burns")
    ]


def test_a_group_far_behind_is_a_problem_and_a_backfill_is_not(log: Opened, clock: FakeClock) -> None:
    log.catalog.request_create("spend", PLAN)
    log.catalog.request_create("loud", PLAN, group="alerts")
    seal(log, clock, 3)
    log.catalog.request_create("again", PLAN, start=0)
    seal(log, clock)
    commits = Commits(log)
    commits.run(main=3, alerts=0)
    (problem,) = checkup_of(log, commits).health().problems
    assert problem.about == "group `alerts`"
    assert problem.message == "it is more than 30 seconds behind; its queries: loud"
    assert problem.since == pytest.approx(time.time() - 980, abs=5), "since epoch 1 was sealed"
    assert checkup_of(log, commits, RunState.IDLE).health().ok, "nobody runs it, so that nothing is late"
    commits.run(alerts=2)
    assert checkup_of(log, commits).health().ok, "an epoch under way is no lag"
    clock.time = time.time() - LAG_SECONDS / 2
    commits.run(alerts=3)
    seal(log, clock, 2)
    commits.run(main=5)
    assert checkup_of(log, commits).health().ok, "it is only some seconds behind"


def test_facts_of_a_query_tell_its_groups_way(log: Opened, clock: FakeClock) -> None:
    log.catalog.request_create("spend", PLAN)
    seal(log, clock, 4)
    log.catalog.request_create("again", PLAN, start=1)
    log.catalog.request_create("late", PLAN)
    seal(log, clock)
    commits = Commits(log)
    commits.run(main=4, **{"backfill-2": 2})
    health = Health(False, RunState.RETRYING, None, (), (), ())
    finder = FactFinder(
        log.catalog, log.arrivals, log.sealer, commits.delivered, health, {"backfill-2": "it burns"}
    )
    again = finder.query(log.catalog.entry("again"))
    assert why_empty(again)[:2] == (
        "epoch 3 of its group backfill-2 is tried again: it burns",
        "catching up: epoch 2 of 4 (50 %), then it joins group main",
    )
    assert again.run is RunState.RETRYING
    spend = finder.query(log.catalog.entry("spend"))
    assert (spend.run, spend.group.behind, spend.group.error) == (RunState.RUNNING, 0, None)
    (late,) = finder.query(log.catalog.entry("late")).streams
    assert (late.kept, late.since) == (4, 1), "the log has four tuples from before it was created"


def test_metrics_of_a_query_tell_its_group_and_lag(log: Opened, clock: FakeClock) -> None:
    log.catalog.request_create("loud", PLAN, group="alerts")
    seal(log, clock, 3)
    commits = Commits(log)
    commits.run(main=2, alerts=0)
    found = query_metrics(log.catalog.entry("loud"), 7, commits.delivered, {})
    assert (found.rows, found.stored_rows, found.group, found.lag_epochs, found.cost) == (
        7,
        0,
        "alerts",
        2,
        None,
    )
    assert "epochs behind" in repr(found) and "CPU" not in repr(found)


def test_a_group_says_why_it_was_merged_whatever_happened_to_its_tasks_since_then(log: Opened) -> None:
    merged = "merged with 41 queries: cost 0.31, saves 3 tasks"
    kinds = (EventKind.MERGED, EventKind.TASKS, EventKind.BALANCED, EventKind.PLACED, EventKind.VIOLATION)
    told = [
        Event(i, float(i), kind, "main", merged if i == 0 else kind.value) for i, kind in enumerate(kinds)
    ]
    errors = tuple(PredictionError(GroupName("main"), i, took, 1.0) for i, took in enumerate((1.1, 1.2, 0.7)))
    info = ConductorInfo("functional isolation", 1, 0.1, 0.2, None, errors, (), {"main": 0.41})

    def listed(events: list[Event]) -> Any:
        delivered = Delivered(log.catalog, log.sealer, {})
        return group_infos(log.catalog, delivered, log.sealer, [], {}, events, info=info)[0]

    found = listed(told)
    assert (found.reason, found.saves, found.prediction_error) == (merged, 0.41, pytest.approx(0.2))
    assert found.saving == "0.41 cores"
    assert found.saving in found.cells()
    assert listed(told[1:]).reason == "placed", "without a merge or split, what else was decided"
    [lines] = group_predictions(errors)
    assert lines.cells() == ("main", 3, "20%", "1.1 s and 1.0 s, 1.2 s and 1.0 s, 700 ms and 1.0 s")


def test_a_query_that_catches_up_is_shown_with_the_tasks_that_it_may_take(
    log: Opened, clock: FakeClock
) -> None:
    log.catalog.homes.regroup(Regrouping(0, 0, specs=(GroupSpec("main", 4, even_partitioning(4)),)))
    seal(log, clock)
    log.catalog.request_create("early", PLAN, start=0)
    seal(log, clock)
    infos = group_infos(
        log.catalog, Delivered(log.catalog, log.sealer, {}), log.sealer, [], {}, backfill_tasks=1
    )
    assert {i.name: (i.tasks, i.partitions) for i in infos} == {"main": (4, 4), "backfill-1": (1, 1)}
