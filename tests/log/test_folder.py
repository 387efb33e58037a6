"""Folder ingest: files are taken once, whatever dies in between, and without Spark where they fit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace import sources
from headrace.log import books
from headrace.log.convert import to_table
from headrace.log.folder import FolderIngest, watches
from headrace.model.errors import LogError, StorageError
from headrace.storage import faults
from log_samples import PURCHASES, Opened, open_log, rows_at, run_script


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path / "w")
    opened.catalog.create_stream(PURCHASES, None)
    return opened


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    directory = tmp_path / "land ing%20"
    directory.mkdir()
    return directory


def put(directory: Path, name: str, *times: int) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(to_table(rows_at(*times), PURCHASES), path)


def ingest_of(log: Opened, landing: Path, **options: Any) -> FolderIngest:
    no_spark: Any = None
    source = sources.files(landing, **options)
    return FolderIngest(no_spark, log.warehouse, log.arrivals, PURCHASES, source)


def arrived(log: Opened) -> list[str]:
    return [Path(c.path).name for a in log.arrivals.pending() for c in a.chunks]


def test_files_are_taken_once_and_oldest_first(log: Opened, landing: Path) -> None:
    put(landing, "b.parquet", 1)
    put(landing, "nested/deeper/a.parquet", 2)
    for name in ("_temporary.parquet", ".hidden.parquet", "x.parquet._COPYING_"):
        put(landing, name, 9)
    os.utime(landing / "b.parquet", ns=(0, 0))
    ingest = ingest_of(log, landing)
    ingest.run_available()
    ingest.run_available()
    assert arrived(log) == ["b.parquet", "a.parquet"]
    put(landing, "c.parquet", 3)
    ingest.run_available()
    assert arrived(log) == ["b.parquet", "a.parquet", "c.parquet"]


def test_a_tick_takes_nothing_before_the_start_or_after_the_stop(log: Opened, landing: Path) -> None:
    put(landing, "a.parquet", 1)
    ingest = ingest_of(log, landing)
    ingest.tick()
    assert arrived(log) == []
    ingest.start()
    ingest.tick()
    assert arrived(log) == ["a.parquet"]
    ingest.stop()
    put(landing, "b.parquet", 1)
    ingest.tick()
    assert arrived(log) == ["a.parquet"]


@pytest.mark.parametrize("merge", [1, 2, 64])
def test_what_was_taken_is_known_after_reopening(
    log: Opened, landing: Path, merge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "MERGE_RECORDS", merge)
    ingest = ingest_of(log, landing)
    for i in range(5):
        put(landing, f"{i}.parquet", i)
        ingest.run_available()
        ingest.run_available()
        log.sealer.seal()
    assert len(log.warehouse.records("log/purchases/files")) <= (5 if merge == 64 else merge)
    log.close()
    again = open_log(log.warehouse.root)
    put(landing, "late.parquet", 9)
    (landing / "0.parquet").unlink()
    ingest_of(again, landing).run_available()
    assert arrived(again) == ["late.parquet"]


def test_a_missing_directory_is_named(log: Opened, landing: Path) -> None:
    landing.rmdir()
    with pytest.raises(LogError, match=r"SOURCE_MISSING.*land ing%20"):
        ingest_of(log, landing).run_available()


def test_a_directory_that_may_not_be_read_is_named(
    log: Opened, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(LogError, match="SOURCE_UNREADABLE"):
        ingest_of(log, landing).run_available()


def test_links_are_followed_once(log: Opened, landing: Path, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "a.parquet", 1)
    (landing / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "round").symlink_to(landing)
    ingest_of(log, landing).run_available()
    assert arrived(log) == ["a.parquet"]


def test_a_closed_stream_takes_nothing_and_fails_nothing(log: Opened, landing: Path) -> None:
    put(landing, "a.parquet", 1)
    ingest = ingest_of(log, landing)
    ingest.start()
    log.arrivals.close(PURCHASES.name)
    ingest.tick()
    assert arrived(log) == []


def test_an_arrival_that_was_written_counts_whatever_fails_after_it(
    log: Opened, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(landing, "a.parquet", 1)
    ingest = ingest_of(log, landing)

    def fail(point: str) -> None:
        if point == "arrival.after":
            raise OSError("the disk is gone")

    with faults.hooked(fail), pytest.raises(OSError):
        ingest.run_available()
    log.close()
    again = open_log(log.warehouse.root)
    put(landing, "b.parquet", 2)
    ingest_of(again, landing).run_available()
    assert arrived(again) == ["a.parquet", "b.parquet"]


def test_what_is_watched(landing: Path) -> None:
    assert watches(sources.files(landing))
    assert watches(sources.files(landing, "json"))
    assert watches(sources.files(landing, "csv", header=True))
    assert not watches(sources.files(landing, "csv", MaxFilesPerTrigger=1))
    assert not watches(sources.files(landing, mergeSchema=True))
    assert not watches(sources.files("/data/*/in"))
    assert not watches(sources.files("s3a://bucket/in"))


KILLED = """
import sys
from log_samples import PURCHASES, open_log
from headrace import sources
from headrace.log.folder import FolderIngest
log = open_log(sys.argv[1])
FolderIngest(None, log.warehouse, log.arrivals, PURCHASES, sources.files(sys.argv[2])).run_available()
"""


@pytest.mark.parametrize(
    "point", ["ingest.before", "ingest.written", "arrival.before", "arrival.after", "ingest.after"]
)
def test_a_killed_ingest_goes_on(log: Opened, landing: Path, point: str) -> None:
    put(landing, "a.parquet", 5, 6)
    log.close()
    died = run_script(KILLED, log.warehouse.root, landing, kill_at=point)
    assert died.returncode == -signal.SIGKILL, died.output
    again = open_log(log.warehouse.root)
    put(landing, "b.parquet", 7)
    ingest_of(again, landing).run_available()
    assert sorted(arrived(again)) == ["a.parquet", "b.parquet"]
    again.close()


def test_a_second_look_at_the_books_takes_nothing_from_the_first(log: Opened, landing: Path) -> None:
    """Somebody opens the books while a batch has its record and not yet its arrival."""
    put(landing, "a.parquet", 1)

    def look(point: str) -> None:
        if point == "ingest.written":
            books.FolderBooks(log.warehouse, log.arrivals, PURCHASES)

    with faults.hooked(look):
        ingest_of(log, landing).run_available()
    again = ingest_of(log, landing)
    again.run_available()
    assert arrived(log) == ["a.parquet"] and again.report().files_taken == 1


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_record_of_a_batch_is_named(log: Opened, landing: Path, number: int) -> None:
    """Without it, the files of that batch would be taken again."""
    ingest = ingest_of(log, landing)
    for name in ("a.parquet", "b.parquet", "c.parquet"):
        put(landing, name, 1)
        ingest.run_available()
    record = log.warehouse.path(f"log/purchases/files/{number:012d}.json")
    record.unlink()
    with pytest.raises(StorageError) as raised:
        ingest_of(log, landing)
    assert str(record) in raised.value.message
