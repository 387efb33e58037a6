"""Streams, queries and changelogs: what is refused, what is durable, what takes effect when."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryState
from headrace.catalog.snapshot import CHANGELOG, SNAPSHOT
from headrace.catalog.waiting import Batching
from headrace.model.epoch import Create, Drop
from headrace.model.errors import CatalogError, StorageError
from headrace.model.query import EpochId, Needs, StreamName
from headrace.model.types import BIGINT, Column, SqlType
from headrace.storage.envelope import lines_envelope
from headrace.storage.warehouse import Warehouse
from log_samples import PLAN, PURCHASES, FakeClock, Opened, active, open_log


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path)
    opened.catalog.create_stream(PURCHASES, None)
    return opened


def step(log: Opened) -> None:
    log.catalog.flush()
    log.sealer.seal()


def reopened(log: Opened) -> Opened:
    log.close()
    return open_log(log.warehouse.root)


# streams


def test_streams_are_durable_with_their_source(log: Opened) -> None:
    other = dataclasses.replace(PURCHASES, name=StreamName("ads"))
    log.catalog.create_stream(other, {"kind": "files", "path": "/in", "options": {}})
    again = reopened(log).catalog
    assert again.streams() == (PURCHASES, other)
    assert again.source("ads") == {"kind": "files", "path": "/in", "options": {}}
    assert again.source("purchases") is None


def test_stream_names_ignore_case(log: Opened) -> None:
    assert log.catalog.stream("PURCHASES") == PURCHASES
    with pytest.raises(CatalogError, match="already a stream `purchases`"):
        log.catalog.create_stream(dataclasses.replace(PURCHASES, name=StreamName("Purchases")), None)


def test_names_that_are_no_text_are_refused(log: Opened) -> None:
    wrong: list[Any] = [None, 5, b"purchases"]
    for name in wrong:
        with pytest.raises(CatalogError, match="is not text"):
            log.catalog.stream(name)
        with pytest.raises(CatalogError, match="is not text"):
            log.catalog.query(name)


def test_an_unknown_stream_is_suggested(log: Opened) -> None:
    with pytest.raises(CatalogError) as caught:
        log.catalog.stream("purchase")
    assert caught.value.hint == "did you mean `purchases`?"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"event_time": "tss"}, "event time `tss` is no column"),
        ({"event_time": "userID"}, "event time `userID` is bigint"),
        ({"watermark_us": -1}, "delay is negative"),
        ({"columns": (*PURCHASES.columns, Column("TS", BIGINT))}, "`ts` and `TS` are the same"),
        (
            {"columns": (*PURCHASES.columns, Column("v", SqlType("variant")))},
            "variant, which the log cannot hold",
        ),
        ({"columns": (*PURCHASES.columns, Column("v", SqlType("varchar(5)")))}, "texts of limited length"),
        ({"columns": (*PURCHASES.columns, Column("v", SqlType("void")))}, "void, which the log cannot hold"),
        ({"columns": (*PURCHASES.columns, Column("v", SqlType("array<interval month>")))}, "cannot hold"),
    ],
)
def test_bad_streams_are_refused_and_leave_nothing(tmp_path: Path, change: dict, message: str) -> None:
    catalog = Catalog(Warehouse(tmp_path))
    with pytest.raises(CatalogError, match=message):
        catalog.create_stream(dataclasses.replace(PURCHASES, **change), None)
    assert catalog.streams() == ()
    assert Catalog(Warehouse(tmp_path)).streams() == ()


# batching


def test_requests_wait_for_the_delay(tmp_path: Path) -> None:
    clock = FakeClock()
    catalog = open_log(tmp_path, clock).catalog
    catalog.create_stream(PURCHASES, None)
    assert not catalog.due()
    catalog.request_create("a", PLAN)
    clock.time += 0.5
    catalog.request_create("b", PLAN)
    assert catalog.tick() is None
    clock.time += 0.5
    assert catalog.due()
    assert catalog.tick() == 0
    assert [change.query.name for change in catalog.unsealed()[0].changes if isinstance(change, Create)] == [
        "a",
        "b",
    ]
    assert [change.requested_at for change in catalog.unsealed()[0].changes] == [1000.0, 1000.5]
    assert catalog.tick() is None


def test_requests_flush_by_count(tmp_path: Path) -> None:
    catalog = open_log(tmp_path, FakeClock(), batching=Batching(3)).catalog
    catalog.create_stream(PURCHASES, None)
    for _ in range(7):
        catalog.request_create(None, PLAN)
    assert [len(log.changes) for log in catalog.unsealed()] == [3, 3]
    assert catalog.flush() == 2
    assert catalog.flush() is None


def test_many_threads_get_different_ids(log: Opened) -> None:
    def create() -> None:
        for _ in range(50):
            log.catalog.request_create(None, PLAN)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    step(log)
    ids = [entry.query.id for entry in log.catalog.entries()]
    assert ids == list(range(1, 201))
    assert len({entry.query.name for entry in log.catalog.entries()}) == 200
    assert {entry.slot for entry in log.catalog.entries()} == set(range(200))


# names


def test_a_snapshot_of_an_older_version_is_read_and_written_anew(log: Opened) -> None:
    log.catalog.request_create("a", PLAN)
    log.catalog.flush()
    log.sealer.seal()
    log.catalog.checkpoint()
    written = log.catalog._snapshot
    log.close()
    log.warehouse.acquire()
    log.warehouse.replace_value(SNAPSHOT, "catalog-snapshot", written)
    log.warehouse.release()
    again = open_log(log.warehouse.root)
    assert again.catalog._snapshot == written and again.catalog.has_live("a")
    again.catalog.request_create("b", PLAN)
    again.catalog.flush()
    again.sealer.seal()
    again.catalog.checkpoint()
    again.close()
    assert b"\n" in log.warehouse.read(SNAPSHOT)
    assert open_log(log.warehouse.root).catalog.has_live("b")


def test_a_snapshot_of_a_newer_version_is_named(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.acquire()
    warehouse.replace(SNAPSHOT, lines_envelope("catalog-snapshot", b'{"$":"Snapshot","newer":1}'))
    with pytest.raises(StorageError, match=r"snapshot\.json does not hold a catalog-snapshot"):
        Catalog(warehouse)
    warehouse.release()


def test_names_are_unique_among_live_queries(log: Opened) -> None:
    first = log.catalog.request_create("spend", PLAN)
    with pytest.raises(CatalogError, match="already a query `spend`"):
        log.catalog.request_create("SPEND", PLAN)
    step(log)
    with pytest.raises(CatalogError, match="already a query"):
        log.catalog.request_create("spend", PLAN)
    log.catalog.request_drop("spend")
    second = log.catalog.request_create("spend", PLAN)
    assert second.id != first.id
    assert log.catalog.query("spend") == second
    step(log)
    assert [entry.state for entry in log.catalog.entries()] == [QueryState.DROPPED, QueryState.ACTIVE]


def test_a_generated_name_avoids_given_ones(log: Opened) -> None:
    log.catalog.request_create("q2", PLAN)
    assert log.catalog.request_create(None, PLAN).name == "q3"


def test_dropping_twice_or_nobody_is_refused(log: Opened) -> None:
    log.catalog.request_create("spend", PLAN)
    log.catalog.request_drop("spend")
    with pytest.raises(CatalogError, match="already dropped"):
        log.catalog.request_drop("spend")
    with pytest.raises(CatalogError) as caught:
        log.catalog.request_drop("spent")
    assert caught.value.hint == "did you mean `spend`?"


def test_a_query_of_an_unknown_stream_is_refused(log: Opened) -> None:
    with pytest.raises(CatalogError, match="no stream `nowhere`"):
        log.catalog.request_create("a", dataclasses.replace(PLAN, streams=(StreamName("nowhere"),)))
    assert log.catalog.entries() == ()


# lifetimes


def test_a_query_lives_from_the_epoch_that_takes_it_in(log: Opened) -> None:
    log.append(1)
    log.sealer.seal()
    query = log.catalog.request_create("a", PLAN)
    assert log.catalog.entry("a").state is QueryState.PENDING
    assert active(log, 1) == ()
    step(log)
    log.catalog.request_drop("a")
    step(log)
    entry = log.catalog.entry("a")
    assert (entry.first_epoch, entry.last_epoch, entry.state) == (1, 2, QueryState.DROPPED)
    assert [active(log, epoch) for epoch in range(4)] == [(), (query,), (), ()]
    assert entry.active_at is not None


def test_dropped_while_pending_it_never_sees_a_row(log: Opened) -> None:
    log.catalog.request_create("a", PLAN)
    log.catalog.flush()
    log.catalog.request_drop("a")
    step(log)
    entry = log.catalog.entry("a")
    assert (entry.state, entry.slot) == (QueryState.DROPPED, None)
    assert entry.first_epoch == entry.last_epoch == 0
    assert active(log, 0) == ()


def test_slots_are_reused_lowest_first(log: Opened) -> None:
    for name in "abcd":
        log.catalog.request_create(name, PLAN)
    step(log)
    log.catalog.request_drop("c")
    log.catalog.request_drop("a")
    for name in "efg":
        log.catalog.request_create(name, PLAN)
    step(log)
    assert {entry.query.name: entry.slot for entry in log.catalog.active_entries(1)} == {
        "b": 1, "d": 3, "e": 0, "f": 2, "g": 4,
    }  # fmt: skip


def test_quarantine_ends_a_query_and_keeps_its_slot_until_it_is_dropped(log: Opened) -> None:
    query = log.catalog.request_create("a", PLAN)
    step(log)
    log.append(1)
    log.sealer.seal()
    log.catalog.quarantine(query.id, EpochId(1), "overflow")
    entry = log.catalog.entry("a")
    assert (entry.state, entry.last_epoch, entry.error) == (QueryState.QUARANTINED, 1, "overflow")
    assert active(log, 0) == (query,)
    assert active(log, 1) == ()
    log.catalog.quarantine(query.id, EpochId(3), "again")
    assert log.catalog.entry("a") == entry
    log.catalog.request_create("b", PLAN)
    step(log)
    assert log.catalog.entry("b").slot == 1
    log.catalog.request_drop("a")
    log.catalog.request_create("c", PLAN)
    step(log)
    assert log.catalog.entry("c").slot == 0
    dropped = log.catalog.entry("a")
    assert (dropped.state, dropped.last_epoch, dropped.error) == (QueryState.DROPPED, 1, "overflow")


def test_quarantine_can_be_said_again_after_recovery(log: Opened) -> None:
    query = log.catalog.request_create("a", PLAN)
    step(log)
    log.catalog.quarantine(query.id, EpochId(0), "cast")
    log.catalog.request_drop("a")
    step(log)
    before = log.catalog.entries()
    again = reopened(log)
    again.catalog.quarantine(query.id, EpochId(0), "cast")
    assert again.catalog.entries() == before


@pytest.mark.parametrize("dropped", [False, True])
def test_a_quarantine_is_not_durable_before_its_commit(log: Opened, dropped: bool) -> None:
    """A snapshot between a quarantine and the commit of its epoch: if we die there, the epoch is run anew."""
    query = log.catalog.request_create("a", PLAN)
    step(log)
    if dropped:  # a group that lags meets the failure after the drop was sealed
        log.catalog.request_drop("a")
        step(log)
    before = log.catalog.entry("a")
    log.catalog.quarantine(query.id, EpochId(0), "cast", 5)
    assert log.catalog.entry("a").error == "cast" and active(log, 0) == ()
    log.catalog.checkpoint()
    again = reopened(log)
    assert again.catalog.entry("a") == before and active(again, 0) == (query,)
    again.catalog.quarantine(query.id, EpochId(0), "cast", 5)
    again.catalog.settle_quarantines([query.id])
    again.catalog.checkpoint()
    after = again.catalog.entry("a")
    assert reopened(again).catalog.entry("a") == after != before


def test_a_drop_after_a_quarantine_without_commit_is_durable(log: Opened) -> None:
    query = log.catalog.request_create("a", PLAN)
    step(log)
    log.catalog.quarantine(query.id, EpochId(0), "cast", 5)
    log.catalog.request_drop("a")
    step(log)
    entry = log.catalog.entry("a")
    assert (entry.state, entry.last_epoch, entry.ended_us) == (QueryState.DROPPED, 0, 5)
    log.catalog.checkpoint()
    entry = reopened(log).catalog.entry("a")
    assert (entry.state, entry.last_epoch, entry.error) == (QueryState.DROPPED, 1, None)


def test_epochs_apply_once_and_in_order(log: Opened) -> None:
    log.catalog.request_create("a", PLAN)
    log.catalog.flush()
    epoch = log.sealer.seal()
    assert epoch is not None
    before = log.catalog.entries()
    log.catalog.apply(epoch)
    assert log.catalog.entries() == before
    with pytest.raises(StorageError, match=r"epoch 1 of .* is missing"):
        log.catalog.apply(dataclasses.replace(epoch, id=EpochId(2)))


# recovery


def test_everything_flushed_survives(log: Opened) -> None:
    log.catalog.request_create("a", PLAN)
    log.catalog.request_create("b", PLAN)
    step(log)
    log.catalog.request_drop("a")
    log.catalog.request_create("c", PLAN)
    log.catalog.flush()
    before = log.catalog.entries()
    again = reopened(log)
    assert again.catalog.entries() == before
    assert [type(change) for change in again.catalog.unsealed()[0].changes] == [Drop, Create]
    assert again.catalog.request_create(None, PLAN).id == 4


@pytest.mark.parametrize("sealed", [True, False])
def test_a_checkpoint_replaces_changelogs(log: Opened, sealed: bool) -> None:
    for name in "abc":
        log.catalog.request_create(name, PLAN)
        step(log)
    log.catalog.request_drop("b")
    log.catalog.request_create("d", PLAN)
    log.catalog.flush()
    if sealed:
        log.sealer.seal()
    before = log.catalog.entries()
    log.catalog.checkpoint()
    assert log.warehouse.records(CHANGELOG) == ([] if sealed else [3])
    again = reopened(log)
    assert again.catalog.entries() == before
    assert again.catalog.request_create(None, PLAN).id == 5
    assert again.catalog.flush() == 4
    again.sealer.seal()
    assert again.catalog.entry("d").slot == 1


def test_ids_are_never_reused_even_when_all_is_forgotten(log: Opened) -> None:
    query = log.catalog.request_create("a", PLAN)
    step(log)
    with pytest.raises(CatalogError, match="is not archived"):
        log.catalog.forget([query.id])
    log.catalog.request_drop("a")
    step(log)
    log.catalog.archive(log.catalog.applied_epoch, {})
    log.catalog.forget([query.id])
    log.catalog.checkpoint()
    again = reopened(log).catalog
    assert again.entries() == ()
    with pytest.raises(CatalogError):
        again.query("a")
    assert again.request_create("a", PLAN).id == 2


def test_a_torn_changelog_is_named(log: Opened) -> None:
    log.catalog.request_create("a", PLAN)
    log.catalog.flush()
    log.warehouse.replace("catalog/changelog/000000000000.json", b'{"format"')
    with pytest.raises(StorageError, match=r"catalog/changelog/000000000000\.json is torn"):
        Catalog(log.warehouse)


def test_a_failed_flush_keeps_the_requests(log: Opened) -> None:
    log.catalog.request_create("a", PLAN)
    log.warehouse.replace("catalog/changelog/000000000000.json", b"{}")
    with pytest.raises(StorageError, match="written by somebody else"):
        log.catalog.flush()
    log.warehouse.delete("catalog/changelog/000000000000.json")
    assert log.catalog.flush() == 0


def test_what_is_asked_for_a_query_changes_with_an_epoch_and_is_durable(log: Opened) -> None:
    log.catalog.request_create("q", PLAN, needs=Needs(priority=1))
    step(log)
    log.catalog.request_needs("q", lambda before: dataclasses.replace(before, min_rate=5.0))
    log.catalog.request_needs("Q", lambda before: dataclasses.replace(before, max_latency_s=2.0))
    assert log.catalog.query("q").needs == Needs(priority=1)
    log = reopened(log)
    step(log)
    assert log.catalog.query("q").needs == Needs(5.0, 2.0, 1)
    log.catalog.request_needs("q", lambda _: Needs())
    step(log)
    log.catalog.request_needs("q", lambda _: Needs(7.0))
    log.catalog.request_drop("q")
    step(log)
    assert reopened(log).catalog.query("q").needs == Needs()
    with pytest.raises(CatalogError, match="already dropped"):
        log.catalog.request_needs("q", lambda before: before)
