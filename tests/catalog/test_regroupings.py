"""Where queries live is a durable list: it says the same after every crash, and needs no groups to be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.model.errors import StorageError
from headrace.model.grouping import MAIN, GroupSpec, Regrouping, Relocation, backfill_group
from headrace.model.partitioning import even_partitioning
from headrace.model.query import QueryId
from headrace.storage import faults
from log_samples import PLAN, PURCHASES, Opened, open_log


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path / "warehouse")
    opened.catalog.create_stream(PURCHASES, None)
    return opened


def reopened(log: Opened, *, crashed: bool = False) -> Opened:
    if crashed:
        log.warehouse._lock._forget()
    else:
        log.close()
    return open_log(log.warehouse.root)


def seal(log: Opened) -> int:
    log.catalog.flush()
    epoch = log.sealer.seal() or log.sealer._seal(100, even_empty=True)
    assert epoch is not None
    return int(epoch.id)


def move(log: Opened, query: int, target: str, epoch: int, settled: int = -1) -> None:
    homes = log.catalog.homes
    source = log.catalog.entry_of(QueryId(query)).group
    record = Regrouping(
        homes.last_regrouping + 1, epoch, (Relocation(QueryId(query), source, target, settled),)
    )
    homes.regroup(record)


def homes_of(log: Opened, query: int, epochs: int) -> list[str | None]:
    entry = log.catalog.entry_of(QueryId(query))
    return [entry.group_at(epoch) for epoch in range(epochs)]


@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "killed"])
def test_members_of_an_epoch_are_the_same_after_every_opening(log: Opened, crashed: bool) -> None:
    log.catalog.request_create("a", PLAN)
    log.catalog.request_create("b", PLAN, group="alerts")
    for _ in range(3):
        seal(log)
    move(log, 1, "alerts", 2)
    move(log, 1, MAIN, 3)
    for _ in range(2):
        expected = ["main", "main", "alerts", "main"]
        assert homes_of(log, 1, 4) == expected and homes_of(log, 2, 2) == ["alerts", "alerts"]
        assert [e.query.name for e in log.catalog.active_entries(2, "alerts")] == ["a", "b"]
        assert [e.query.name for e in log.catalog.active_entries(3, MAIN)] == ["a"]
        assert log.catalog.homes.groups() == ("alerts", "main")
        log = reopened(log, crashed=crashed)
    log.close()


@pytest.mark.parametrize("point", ["regroup.before", "regroup.after"])
def test_a_regrouping_has_happened_when_its_record_is_there(log: Opened, point: str) -> None:
    log.catalog.request_create("a", PLAN)
    seal(log)

    def dies(reached: str) -> None:
        if reached == point:
            raise faults.Crash(reached)

    with faults.hooked(dies), pytest.raises(faults.Crash):
        move(log, 1, "alerts", 1)
    log = reopened(log, crashed=True)
    assert homes_of(log, 1, 2) == ["main", "alerts" if point == "regroup.after" else "main"]
    log.close()


def test_a_wish_outlives_a_crash_until_a_regrouping_settles_it(log: Opened) -> None:
    log.catalog.request_create("a", PLAN)
    seal(log)
    move(log, 1, "alerts", 1)
    log.catalog.request_move("a", MAIN)
    asked = seal(log)
    log = reopened(log, crashed=True)
    assert log.catalog.entry("a").moving_to == MAIN, "though it began there"
    move(log, 1, MAIN, asked + 1, settled=asked)
    assert log.catalog.entry("a").moving_to is None
    log = reopened(log, crashed=True)
    assert log.catalog.entry("a").moving_to is None and log.catalog.entry("a").group == MAIN
    log.close()


def test_who_left_for_a_while_is_wanted_back(log: Opened) -> None:
    log.catalog.request_create("a", PLAN, group="alerts")
    log.catalog.request_create("b", PLAN, group="alerts")
    first = seal(log)
    log.catalog.request_move("b", MAIN)
    seal(log)
    homes = log.catalog.homes
    moves = tuple(Relocation(QueryId(query), "alerts", "auto-0", returns=True) for query in (1, 2))
    homes.regroup(Regrouping(homes.last_regrouping + 1, first, moves))
    for _ in range(2):
        entries = [log.catalog.entry(name) for name in ("a", "b")]
        assert [(entry.group, entry.moving_to) for entry in entries] == [
            ("auto-0", "alerts"),
            ("auto-0", MAIN),
        ], "a person had wanted the second one elsewhere"
        log = reopened(log, crashed=True)
    log.close()


def test_who_starts_in_the_past_gets_a_slot_that_nobody_held_since(log: Opened) -> None:
    log.catalog.request_create("old", PLAN)
    log.catalog.request_create("other", PLAN)
    first = seal(log)
    log.catalog.request_drop("old")
    dropped = seal(log)
    log.catalog.request_create("back", PLAN, start=first)
    log.catalog.request_create("now", PLAN)
    seal(log)
    for _ in range(2):
        back, now = log.catalog.entry("back"), log.catalog.entry("now")
        assert back.slot == 2, "slot 0 had rows of another query in epochs that it reads"
        assert now.slot == 0 and now.first_epoch == dropped + 1
        assert back.first_epoch == first and back.group == backfill_group(3) and back.moving_to == MAIN
        log = reopened(log, crashed=True)
    log.close()


def test_the_log_is_kept_for_a_start_that_no_epoch_has_taken_in(log: Opened) -> None:
    seal(log)
    assert log.catalog.earliest_start() is None
    log.catalog.request_create("back", PLAN, start=0)
    assert log.catalog.earliest_start() == 0
    log = reopened(log, crashed=True)
    assert log.catalog.earliest_start() == 0
    seal(log)
    assert log.catalog.earliest_start() is None, "from now on its group's cursor keeps the log"
    assert log.catalog.homes.next_epoch(backfill_group(1), -1) == 0
    log.close()


def test_a_spec_is_in_force_from_its_epoch_on_and_records_go_when_a_snapshot_has_them(log: Opened) -> None:
    homes = log.catalog.homes
    wide, narrow = (GroupSpec(MAIN, n, even_partitioning(n)) for n in (4, 2))
    homes.regroup(Regrouping(0, 0, specs=(wide,)))
    homes.regroup(Regrouping(1, 5, specs=(narrow,)))
    for _ in range(2):
        homes = log.catalog.homes
        assert [homes.spec(MAIN, epoch) for epoch in (0, 4, 5, 9)] == [wide, wide, narrow, narrow]
        found = homes.spec("alerts", 4)
        assert found is not None and found.partitioning == wide.partitioning, "as the main group"
        log.catalog.checkpoint()
        homes.forget_regroupings(1)
        assert log.warehouse.records("catalog/regroupings") == []
        log = reopened(log, crashed=True)
    log.close()


def test_specs_are_kept_while_a_group_may_run_with_them(log: Opened) -> None:
    """However often groups are resized, and however many have been, a snapshot holds what is in force and to come."""
    homes = log.catalog.homes
    log.catalog.request_create("a", PLAN, group="alerts")
    seal(log)
    sizes = {
        name: [GroupSpec(name, n, even_partitioning(n)) for n in (1, 2, 3)] for name in ("alerts", "gone")
    }
    for number, specs in enumerate(zip(*sizes.values(), strict=True)):
        homes.regroup(Regrouping(number, 10 * number, specs=specs))
    homes.forget_specs(8)
    assert [homes.spec("alerts", epoch) for epoch in (9, 10, 20)] == sizes["alerts"]
    homes.forget_specs(9)
    for _ in range(2):
        assert [homes.spec("alerts", epoch) for epoch in (9, 10, 20)] == [
            sizes["alerts"][i] for i in (1, 1, 2)
        ]
        assert [since for since, spec in homes.specs if spec.name == "gone"] == [10, 20], (
            "it may be on its way"
        )
        log.catalog.checkpoint()
        log = reopened(log, crashed=True)
        homes = log.catalog.homes
    homes.forget_specs(20)
    assert homes.sized() == {"alerts"} and len(homes.specs) == 1
    log.close()


@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "killed"])
def test_a_query_that_leaves_in_its_first_epoch_never_lived_where_it_was_created(
    log: Opened, crashed: bool
) -> None:
    log.catalog.request_create("a", PLAN)
    log.catalog.request_create("b", PLAN, group="alerts")
    assert seal(log) == 0
    move(log, 1, "auto-0", 0)
    move(log, 2, "auto-1", 0)
    for _ in range(2):
        assert homes_of(log, 1, 2) == ["auto-0", "auto-0"]
        assert not log.catalog.active_entries(0, MAIN) and not log.catalog.active_entries(0, "alerts")
        assert log.catalog.homes.groups() == ("auto-0", "auto-1", "main")
        assert log.catalog.homes.living_in(MAIN) == ()
        log = reopened(log, crashed=crashed)
    move(log, 1, MAIN, 0)
    assert homes_of(log, 1, 2) == ["main", "main"], "it has not run anywhere yet"
    log.close()


def test_a_regrouping_that_vanished_is_missed_though_a_snapshot_has_it(log: Opened) -> None:
    """A group may still have to take it in, with the state that it names."""
    for number in range(2):
        log.catalog.homes.regroup(Regrouping(number, number))
    log.catalog.checkpoint()
    log.close()
    record = log.warehouse.path("catalog/regroupings/000000000001.json")
    record.unlink()
    with pytest.raises(StorageError) as caught:
        open_log(log.warehouse.root)
    assert str(record) in caught.value.message
