"""Dropped queries are put away: listed and found as before, and in nothing that is written often."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import archive
from headrace.catalog.archive import ARCHIVE
from headrace.catalog.queries import QueryEntry, QueryState, QueryTable
from headrace.catalog.snapshot import SNAPSHOT
from headrace.model.errors import CatalogError, StorageError
from headrace.model.query import Query, QueryId
from headrace.storage import faults
from log_samples import PLAN, PURCHASES, Opened, open_log


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "BATCH", 5)


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path)
    opened.catalog.create_stream(PURCHASES, None)
    return opened


def come_and_go(log: Opened, count: int) -> None:
    """So many queries, one epoch each, dropped in the next, as upkeep sees them after each commit."""
    for _ in range(count):
        name = log.catalog.request_create(None, PLAN).name
        log.catalog.flush()
        epoch = log.sealer.seal()
        assert epoch is not None
        log.catalog.request_drop(name)
        log.catalog.flush()
        epoch = log.sealer.seal()
        assert epoch is not None
        query = str(log.catalog.entry(name).query.id)
        log.catalog.archive(int(epoch.id), {query: 10 * int(query)})
        log.catalog.checkpoint()


def reopened(log: Opened) -> Opened:
    log.close()
    return open_log(log.warehouse.root)


def test_the_snapshot_does_not_grow_with_queries_that_are_gone(log: Opened) -> None:
    log.catalog.request_create("stays", PLAN)
    come_and_go(log, 3)
    size = log.warehouse.path(SNAPSHOT).stat().st_size
    come_and_go(log, 12)
    assert log.warehouse.path(SNAPSHOT).stat().st_size < size + 50
    assert [entry.query.name for entry in log.catalog.current()] == ["stays"]
    assert len(log.catalog.entries()) == 16
    assert len(log.warehouse.records(ARCHIVE)) == 3


def test_archived_queries_are_listed_and_found_as_before(log: Opened) -> None:
    come_and_go(log, 7)
    for opened in (log, reopened(log)):
        catalog = opened.catalog
        assert [entry.query.id for entry in catalog.entries()] == list(range(1, 8))
        assert {entry.state for entry in catalog.entries()} == {QueryState.DROPPED}
        entry = catalog.entry("Q3")
        assert (entry.query.id, entry.first_epoch, entry.last_epoch) == (3, 4, 5)
        assert catalog.entry_of(entry.query.id) == entry
        found = catalog.archived(entry.query.id)
        assert found is not None and found.rows == 30 and found.entry.ended_us is not None
        with pytest.raises(CatalogError, match="already dropped"):
            catalog.request_drop("q3")


def test_a_name_is_of_its_youngest_query(log: Opened) -> None:
    for _ in range(2):
        log.catalog.request_create("same", PLAN)
        log.catalog.flush()
        log.sealer.seal()
        log.catalog.request_drop("same")
        log.catalog.flush()
        epoch = log.sealer.seal()
        assert epoch is not None
        log.catalog.archive(int(epoch.id), {})
    assert log.catalog.entry("same").query.id == 2
    assert log.catalog.request_create("same", PLAN).id == 3
    assert log.catalog.entry("same").query.id == 3


def test_what_is_forgotten_leaves_no_file(log: Opened) -> None:
    come_and_go(log, 12)
    log.catalog.forget({1, 2, 3, 4, 5, 7})
    assert [entry.query.id for entry in log.catalog.entries()] == [6, 8, 9, 10, 11, 12]
    log.catalog.checkpoint()
    assert log.warehouse.records(ARCHIVE) == [1, 2]
    again = reopened(log).catalog
    assert [entry.query.id for entry in again.entries()] == [6, 8, 9, 10, 11, 12]
    with pytest.raises(CatalogError, match="no query `q7`"):
        again.entry("q7")
    assert again.request_create(None, PLAN).id == 13
    with pytest.raises(CatalogError):
        again.forget({13})


@pytest.mark.parametrize("point", ["snapshot.before", "snapshot.after"])
def test_a_crash_while_archiving_loses_and_doubles_nothing(log: Opened, point: str) -> None:
    """The archive is written before the snapshot: until then, epochs and the older snapshot have the queries."""
    come_and_go(log, 7)
    log.catalog.request_create("last", PLAN)
    log.catalog.flush()
    log.sealer.seal()

    def die(reached: str) -> None:
        if reached == point:
            raise faults.Crash

    with pytest.raises(faults.Crash), faults.hooked(die):
        come_and_go(log, 1)
    again = reopened(log)
    assert [entry.query.id for entry in again.catalog.entries()] == list(range(1, 10))
    assert [entry.state for entry in again.catalog.entries()].count(QueryState.DROPPED) == 8
    come_and_go(again, 1)
    assert [entry.query.id for entry in again.catalog.entries()] == list(range(1, 11))
    assert [entry.query.id for entry in again.catalog.current()] == [8]
    assert [entry.slot for entry in again.catalog.current()] == [0]


def test_a_missing_or_damaged_batch_is_named(log: Opened) -> None:
    come_and_go(log, 7)
    log.close()
    path = log.warehouse.path(f"{ARCHIVE}/000000000000.json")
    kept = path.read_bytes()
    for change in (kept.replace(b"q3", b"q4", 1), None):
        path.unlink()
        if change is not None:
            path.write_bytes(change)
        with pytest.raises(StorageError) as raised:
            open_log(log.warehouse.root)
        assert str(path) in raised.value.message


def test_a_listing_holds_up_nobody(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Archived queries are unpacked while other threads go on; one of them forgets a batch meanwhile."""
    come_and_go(log, 12)
    unpack, asked = archive.Archive.read, list[int]()

    def read(self: archive.Archive, number: int) -> Any:
        if not asked:
            asking = threading.Thread(target=lambda: asked.append(len(log.catalog.current())))
            asking.start()
            asking.join(10)
            log.catalog.forget(range(6, 11))
            log.catalog.checkpoint()
        return unpack(self, number)

    monkeypatch.setattr(archive.Archive, "read", read)
    assert [entry.query.id for entry in log.catalog.entries()] == [1, 2, 3, 4, 5, 11, 12]
    assert asked == [0]


def test_a_batch_that_is_missing_is_named_by_a_listing(log: Opened) -> None:
    come_and_go(log, 6)
    path = log.warehouse.path(f"{ARCHIVE}/{0:012d}.json")
    path.unlink()
    with pytest.raises(StorageError, match="missing") as caught:
        log.catalog.entries()
    assert str(path) in str(caught.value)


def test_rows_are_known_without_unpacking(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    come_and_go(log, 7)
    again = reopened(log)
    monkeypatch.setattr(archive.Archive, "read", None)
    assert [again.catalog.archived_rows(QueryId(i)) for i in (1, 7, 8)] == [10, 70, None]


def test_a_thousand_names_are_dropped_in_linear_time() -> None:
    class Counted(dict[QueryId, QueryEntry]):
        """Entries that count how often all of them are looked at."""

        walks = 0

        def values(self) -> Any:
            self.walks += 1
            return super().values()

    entries = [QueryEntry(Query(QueryId(i), f"q{i % 900}", PLAN)) for i in range(1000)]
    table = QueryTable(entries)
    table._entries = counted = Counted(table._entries)
    for entry in entries:
        newest = table.newest(entry.query.name)
        assert newest is not None and newest.query.id % 900 == entry.query.id % 900
        table.remove(entry.query.id)
    assert table.newest("q3") is None and counted.walks == 0
