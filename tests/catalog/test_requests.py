"""A creation or deletion that was acknowledged is on disk: kills, a full disk, and damage of the file of requests."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import requests
from headrace.catalog.catalog import Catalog
from headrace.catalog.requests import REQUESTS
from headrace.catalog.waiting import Batching
from headrace.model.errors import CatalogError, StorageError
from headrace.storage.warehouse import Warehouse
from log_samples import PLAN, PURCHASES, Opened, open_log

CREATOR = """
import sys
from headrace.catalog.waiting import Batching
from log_samples import PLAN, PURCHASES, open_log
log = open_log(sys.argv[1], batching=Batching(7))
if not log.catalog.streams():
    log.catalog.create_stream(PURCHASES, None)
for number in range(100_000):
    name = log.catalog.request_create(None, PLAN).name
    print("+", name, flush=True)
    if number % 3 == 0:
        log.catalog.request_drop(name)
        print("-", name, flush=True)
    if number % 40 == 39:
        log.catalog.flush()
        log.sealer.seal()
        log.catalog.checkpoint()
"""


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path, batching=Batching(1000))
    opened.catalog.create_stream(PURCHASES, None)
    return opened


def live(catalog: Catalog) -> list[str]:
    return [entry.query.name for entry in catalog.entries() if entry.live]


def reopened(log: Opened) -> Catalog:
    """As after a kill: nothing is flushed."""
    log.close()
    return open_log(log.warehouse.root).catalog


@pytest.mark.crash
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    """The parent reads acknowledgements and kills in the middle of them, again and again on one warehouse."""
    created: set[str] = set()
    dropped: set[str] = set()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for stop_after in (1, 60, 130):
        child = subprocess.Popen(
            [sys.executable, "-c", CREATOR, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(stop_after):
            sign, name = child.stdout.readline().split()
            (created if sign == "+" else dropped).add(name)
        child.send_signal(signal.SIGKILL)
        for line in child.stdout:  # acknowledged before the kill, read after it
            if line.endswith("\n"):
                (created if line[0] == "+" else dropped).add(line.split()[1])
        child.wait()
        catalog = Catalog(Warehouse(tmp_path, read_only=True))
        known = {entry.query.name: entry for entry in catalog.entries()}
        assert created <= known.keys()
        assert not any(known[name].live for name in dropped)
        # the request under way may be there, or not
        assert len(known.keys() - created) <= 1
        assert len({name for name, entry in known.items() if not entry.live} - dropped) <= 1
        created, dropped = set(known), {name for name, entry in known.items() if not entry.live}
    log = open_log(tmp_path)
    log.catalog.flush()
    log.sealer.seal()
    assert set(live(log.catalog)) == created - dropped


def test_requests_outlive_their_process_without_a_flush(log: Opened) -> None:
    for name in ("a", "b", "c"):
        log.catalog.request_create(name, PLAN)
    log.catalog.request_drop("b")
    again = reopened(log)
    assert live(again) == ["a", "c"]
    assert again.request_create("d", PLAN).id == 4
    assert again.flush() == 0
    assert len(again.unsealed()[0].changes) == 5


@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite", "fsync", "pwritev"])
def test_a_full_disk_refuses(log: Opened, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The query is not there, nor after reopening; when there is space again, it can be created."""
    log.catalog.request_create("before", PLAN)
    if call != "pwritev":
        log.catalog._waiting.close()  # the next request starts the file anew

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(requests.os, call, full)
        for ask in (
            lambda: log.catalog.request_create("a", PLAN),
            lambda: log.catalog.request_drop("before"),
        ):
            with pytest.raises(StorageError, match="No space left") as raised:
                ask()
            assert raised.value.code == "REQUEST_REFUSED"
            assert raised.value.hint
    assert live(log.catalog) == ["before"]
    log.catalog.request_create("a", PLAN)
    log.catalog.request_create("b", PLAN)
    assert live(reopened(log)) == ["before", "a", "b"]


@pytest.mark.parametrize("known", [True, False])
def test_without_a_call_that_writes_durably_a_write_is_synced(
    log: Opened, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Python may not know the flag, and a file system may refuse it."""
    log.catalog.request_create("a", PLAN)
    syncs, sync = list[int](), os.fdatasync

    def refuse(*_: Any) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(requests.os, "pwritev", refuse)
    monkeypatch.setattr(requests.os, "fdatasync", lambda handle: (syncs.append(handle), sync(handle))[1])
    if not known:
        monkeypatch.setattr(requests, "_DURABLY", None)
    log.catalog.request_create("b", PLAN)
    assert len(syncs) == 1
    assert live(reopened(log)) == ["a", "b"]


def test_a_changelog_that_cannot_be_written_refuses_nobody(
    log: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.catalog._waiting._batching = Batching(2)
    with monkeypatch.context() as patch:
        patch.setattr("headrace.storage.warehouse.os.link", _broken)
        log.catalog.request_create("a", PLAN)
        log.catalog.request_create("b", PLAN)
        with pytest.raises(StorageError):
            log.catalog.flush()
    assert log.catalog.unsealed() == ()
    assert live(reopened(log)) == ["a", "b"]


def _broken(*_: Any) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_a_last_line_that_is_half_there_was_never_acknowledged(log: Opened) -> None:
    log.catalog.request_create("a", PLAN)
    path = log.warehouse.path(REQUESTS)
    whole = path.read_bytes().rstrip(b"\0")
    log.catalog.request_create("b", PLAN)
    both = path.read_bytes().rstrip(b"\0")
    halves = [both[: (len(whole) + len(both)) // 2], whole + bytes(20) + both[len(whole) + 20 :]]
    for half in halves:
        path.write_bytes(half + bytes(1000))
        again = reopened(log)
        assert live(again) == ["a"]
        again._warehouse.release()


def test_any_flipped_bit_is_noticed(log: Opened) -> None:
    for name in ("a", "b", "c"):
        log.catalog.request_create(name, PLAN)
    log.close()
    path = log.warehouse.path(REQUESTS)
    whole = path.read_bytes().rstrip(b"\0")
    chance = random.Random(1)
    places = [*range(12), len(whole) - 1, len(whole) - 2, *(chance.randrange(len(whole)) for _ in range(150))]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(changed) + bytes(100))
        with pytest.raises(StorageError) as raised:
            Catalog(Warehouse(log.warehouse.root, read_only=True))
        assert str(path) in raised.value.message, place
    path.write_bytes(whole)
    assert live(Catalog(Warehouse(log.warehouse.root, read_only=True))) == ["a", "b", "c"]


def test_the_file_starts_over_when_it_has_grown(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "RESERVE_BYTES", 1 << 12)
    path = log.warehouse.path(REQUESTS)
    for _ in range(100):
        log.catalog.request_create(None, PLAN)
        log.catalog.flush()
        assert path.stat().st_size <= 2 << 12
    for _ in range(50):
        log.catalog.request_create(None, PLAN)
    assert len(live(reopened(log))) == 150


def test_a_changelog_before_requests_is_missed(log: Opened) -> None:
    log.catalog.request_create("a", PLAN)
    log.catalog.flush()
    log.catalog.request_create("b", PLAN)
    log.close()
    record = log.warehouse.path("catalog/changelog/000000000000.json")
    record.unlink()
    for read_only in (True, False):
        warehouse = Warehouse(log.warehouse.root, read_only=read_only)
        if not read_only:
            warehouse.acquire()
        with pytest.raises(StorageError, match="is missing") as raised:
            Catalog(warehouse)
        assert str(record) in str(raised.value)
        warehouse.release()


def test_many_at_once_cost_one_sync_and_are_there_after_a_kill(
    log: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, write = list[int](), requests.write_durably
    log.catalog.request_create("q2", PLAN)
    monkeypatch.setattr(requests, "write_durably", lambda *what: (syncs.append(what[0]), write(*what))[1])
    made = log.catalog.request_creations([(None, PLAN), ("named", PLAN), (None, PLAN)] + [(None, PLAN)] * 50)
    assert len(syncs) == 1
    assert [query.name for query in made[:3]] == ["q3", "named", "q4"]
    names = [query.name for query in made]
    assert len(set(names)) == 53 and [int(query.id) for query in made] == list(range(2, 55))
    log.catalog.request_drop("named")
    assert live(reopened(log)) == ["q2", *(name for name in names if name != "named")]


@pytest.mark.parametrize("names", [["a", "A"], ["b", "taken"], ["c", "purchases"]])
def test_many_at_once_are_all_or_none(log: Opened, names: list[str]) -> None:
    log.catalog.request_create("taken", PLAN)
    with pytest.raises(CatalogError) as caught:
        log.catalog.request_creations([(name, PLAN) for name in names])
    assert caught.value.code in ("QUERY_EXISTS", "NAME_TAKEN")
    assert live(log.catalog) == ["taken"]
    made = log.catalog.request_creations([("taken", PLAN), ("new", PLAN)], replace=True)
    assert [int(query.id) for query in made] == [2, 3]
    assert live(reopened(log)) == ["taken", "new"]


def test_many_that_were_half_written_are_none(log: Opened) -> None:
    """A crash in the middle of the one line that holds them all."""
    log.catalog.request_create("before", PLAN)
    log.catalog.request_creations([(f"m{i}", PLAN) for i in range(40)])
    path = log.warehouse.path(REQUESTS)
    data = path.read_bytes()
    start = data.index(b"\n") + 1
    middle = (start + len(data.rstrip(b"\0"))) // 2 // 512 * 512
    log.close()
    path.write_bytes(data[:middle] + bytes(len(data) - middle))
    assert live(open_log(log.warehouse.root).catalog) == ["before"]


@pytest.mark.parametrize("damage", ["gone", "empty"])
def test_requests_that_vanished_are_missed_until_a_changelog_has_them(log: Opened, damage: str) -> None:
    path = log.warehouse.path(REQUESTS)
    log.catalog.request_create("a", PLAN)
    kept = path.read_bytes()
    log.close()
    path.unlink() if damage == "gone" else path.write_bytes(bytes(len(kept)))
    with pytest.raises(StorageError) as caught:
        open_log(log.warehouse.root)
    assert str(path) in caught.value.message and caught.value.hint
    path.write_bytes(kept)
    again = open_log(log.warehouse.root)
    assert again.catalog.flush() is not None
    again.close()
    path.unlink()
    assert live(open_log(log.warehouse.root).catalog) == ["a"]
