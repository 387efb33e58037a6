"""Creations that several threads ask for at the same moment wait for one sync together, and fail one by one."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.catalog import requests
from headrace.catalog.catalog import Catalog
from headrace.catalog.waiting import Batching
from headrace.model.errors import CatalogError, StorageError
from headrace.model.query import Query
from log_samples import PLAN, PURCHASES, Opened, open_log
from waiting import until

THREADS = 8


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path, batching=Batching(1000))
    opened.catalog.create_stream(PURCHASES, None)
    opened.catalog.request_create("first", PLAN)
    return opened


class Gate:
    """A write that waits, the first time, until all others wait for their turn."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self._write, self.calls = catalog, requests.write_durably, 0

    def __call__(self, handle: int, data: bytes, at: int) -> None:
        self.calls += 1
        if self.calls == 1:
            until(lambda: len(self._catalog._creations._waiting) == THREADS - 1)
        self._write(handle, data, at)


def ask_at_once(log: Opened, names: list[str | None], monkeypatch: pytest.MonkeyPatch) -> list[Future[Query]]:
    gate = Gate(log.catalog)
    monkeypatch.setattr(requests, "write_durably", gate)
    with ThreadPoolExecutor(THREADS) as threads:
        found = [threads.submit(log.catalog.request_create, name, PLAN) for name in names]
    assert gate.calls <= 3
    return found


def test_many_threads_wait_for_few_syncs(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"a{number}" if number % 2 else None for number in range(THREADS)]
    made = [one.result() for one in ask_at_once(log, names, monkeypatch)]
    assert len({query.id for query in made}) == len({query.name for query in made}) == THREADS
    assert [query.name for query in made][1::2] == names[1::2]
    log.close()
    kept = open_log(log.warehouse.root).catalog.entries()
    assert {entry.query.name for entry in kept} == {"first", *(query.name for query in made)}


def test_who_asks_for_a_taken_name_fails_alone(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ask_at_once(log, ["a", "b", "a", "first", "c", "A", "d", "e"], monkeypatch)
    failed = [one.exception() for one in asked if one.exception() is not None]
    assert [type(error) for error in failed] == [CatalogError] * 3
    live = [entry.query.name for entry in log.catalog.entries() if entry.live]
    assert sorted(name.lower() for name in live) == ["a", "b", "c", "d", "e", "first"]


def test_a_full_disk_refuses_everybody(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: bytes, at: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(requests, "write_durably", full)
        with ThreadPoolExecutor(THREADS) as threads:
            asked = [threads.submit(log.catalog.request_create, f"a{n}", PLAN) for n in range(THREADS)]
        errors = [one.exception() for one in asked]
    assert {type(error) for error in errors} == {StorageError}
    assert len(set(map(id, errors))) == THREADS, "each thread has an exception of its own"
    assert [entry.query.name for entry in log.catalog.entries()] == ["first"]
    assert log.catalog.request_create("a0", PLAN).name == "a0"
