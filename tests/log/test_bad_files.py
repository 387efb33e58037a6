"""Files that cannot be read: set aside with a reason, durably, and everything else goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import sources
from headrace.log import books, folder
from headrace.log.arrivals import Batch
from headrace.log.books import FolderBooks
from headrace.log.chunks import write_chunk
from headrace.log.convert import to_table
from headrace.log.folder import FolderIngest
from headrace.log.reading import FileReader
from headrace.log.unattended import Unattended
from headrace.model.epoch import Chunk
from headrace.model.errors import LogError
from headrace.model.query import Stream, StreamName
from headrace.model.types import Column, SqlType
from headrace.storage import faults
from log_samples import PURCHASES, FakeClock, Opened, open_log, rows_at, run_script


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path / "w")
    opened.catalog.create_stream(PURCHASES, None)
    return opened


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    return directory


def put(directory: Path, name: str, *times: int, written_at: float = 10.0) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(to_table(rows_at(*times), PURCHASES), path)
    os.utime(path, (written_at, written_at))
    return path


def put_bad(directory: Path, name: str, text: bytes = b"PAR1 not really", written_at: float = 10.0) -> Path:
    path = directory / name
    path.write_bytes(text)
    os.utime(path, (written_at, written_at))
    return path


def ingest_of(log: Opened, landing: Path, clock: FakeClock | None = None, **options: Any) -> FolderIngest:
    no_spark: Any = None
    source = sources.files(landing, **options)
    return FolderIngest(no_spark, log.warehouse, log.arrivals, PURCHASES, source, clock=clock)


def arrived(log: Opened) -> list[str]:
    return [Path(c.path).name for a in log.arrivals.pending() for c in a.chunks]


def asides(ingest: FolderIngest) -> list[str]:
    return [Path(file.path).name for file in ingest.report().aside]


def test_a_bad_file_is_set_aside_and_the_others_are_taken(log: Opened, landing: Path) -> None:
    put(landing, "a.parquet", 1)
    put_bad(landing, "b.parquet")
    put_bad(landing, "readme.txt", b"how to use this folder")
    put(landing, "c.parquet", 2)
    ingest = ingest_of(log, landing)
    ingest.run_available()
    assert arrived(log) == ["a.parquet", "c.parquet"]
    report = ingest.report()
    assert (report.files_taken, report.files_waiting, len(report.aside)) == (2, 0, 2)
    assert "the file is torn or not Parquet" in report.aside[0].reason
    assert "\n" not in report.aside[0].reason


def test_what_was_set_aside_is_known_after_reopening_and_not_tried_again(log: Opened, landing: Path) -> None:
    put(landing, "a.parquet", 1)
    put_bad(landing, "b.parquet")
    ingest_of(log, landing).run_available()
    log.close()
    again = open_log(log.warehouse.root)
    ingest = ingest_of(again, landing)
    before = ingest.report().aside
    ingest.run_available()
    assert ingest.report().aside == before and asides(ingest) == ["b.parquet"]
    assert ingest.report().files_taken == 1
    reader = Unattended(again.warehouse, again.arrivals, PURCHASES, sources.files(landing))
    assert reader.report() == ingest.report()


def test_a_file_that_is_replaced_is_read_and_no_longer_aside(log: Opened, landing: Path) -> None:
    put_bad(landing, "b.parquet")
    ingest = ingest_of(log, landing)
    ingest.run_available()
    assert asides(ingest) == ["b.parquet"]
    put(landing, "b.parquet", 5)
    ingest.run_available()
    assert (arrived(log), asides(ingest)) == (["b.parquet"], [])


def test_a_file_that_is_being_written_is_tried_again_before_it_is_set_aside(
    log: Opened, landing: Path
) -> None:
    clock = FakeClock(1000.0)
    ingest = ingest_of(log, landing, clock)
    ingest.start()
    whole = put(landing, "a.parquet", 1, 2).read_bytes()
    put_bad(landing, "a.parquet", whole[: len(whole) // 2], written_at=999.0)
    put(landing, "other.parquet", 3)
    ingest.tick()
    assert (arrived(log), asides(ingest)) == (["other.parquet"], [])
    assert ingest.report().files_waiting == 1
    put_bad(landing, "a.parquet", whole, written_at=1000.0)
    ingest.tick()
    assert arrived(log) == ["other.parquet", "a.parquet"]
    put_bad(landing, "never.parquet", b"half", written_at=1000.0)
    clock.time = 1000.0 + folder.SETTLE_SECONDS - 1
    ingest.tick()
    assert asides(ingest) == []
    clock.time += 1
    ingest.tick()
    assert (asides(ingest), ingest.report().files_waiting) == (["never.parquet"], 0)


class FakeReader(FileReader):
    """Stands in for Spark: reads texts that say how many rows they have, and fails as the text says."""

    def __init__(self, log: Opened, ingest: FolderIngest) -> None:
        here: Any = self
        super().__init__(here, log.warehouse, log.arrivals, PURCHASES, ingest._source)
        self.log, self.alive, self.taken = log, True, list[str]()
        ingest._reader = self

    def range(self, n: int) -> FakeReader:
        return self

    def count(self) -> int:
        if not self.alive:
            raise ConnectionRefusedError
        return 1

    def _written(self, paths: Sequence[str]) -> list[Chunk]:
        texts = [Path(path).read_text() for path in paths]
        for text in texts:
            if not text.isdigit():
                error = LogError("SPARK_FAILED", "the source failed", detail=text)
                error.__cause__ = RuntimeError(text)
                raise error
        self.taken += [Path(path).name for path in paths]
        directory = self.log.warehouse.stream_dir("purchases")
        table = to_table(rows_at(*range(sum(map(int, texts)))), PURCHASES)
        return [write_chunk(self.log.warehouse.root, directory, table, "ts", self.log.arrivals.next_number)]


def json_ingest(
    log: Opened, landing: Path, clock: FakeClock, **texts: str
) -> tuple[FolderIngest, FakeReader]:
    for name, text in texts.items():
        put_bad(landing, f"{name}.json", text.encode())
    ingest = ingest_of(log, landing, clock, format="json")
    ingest.start()
    return ingest, FakeReader(log, ingest)


def test_files_are_blamed_for_what_spark_says_of_them(log: Opened, landing: Path) -> None:
    failure = "Job aborted: [FAILED_READ_FILE.NO_HINT] Encountered error"
    ingest, spark = json_ingest(log, landing, FakeClock(), a="1", b="2", c=failure, d="3", e="4")
    ingest.tick()
    assert sorted(spark.taken) == ["a.json", "b.json", "d.json", "e.json"]
    assert asides(ingest) == ["c.json"]
    assert sum(chunk.rows for a in log.arrivals.pending() for chunk in a.chunks) == 10
    assert len(list(log.warehouse.path("log/purchases").glob("*.parquet"))) == len(arrived(log))


def test_a_parquet_file_that_spark_has_no_words_for_is_set_aside_at_once(log: Opened, landing: Path) -> None:
    """Dictionaries of UINT64 make Spark's reader raise an exception of Java's; the reason is the column's type."""
    put(landing, "a.parquet", 1)
    table = to_table(rows_at(1), PURCHASES)
    unsigned = pa.array([1], pa.uint64())
    pq.write_table(table.set_column(0, table.schema.names[0], unsigned), landing / "b.parquet")
    ingest = ingest_of(log, landing)

    class Reader(FakeReader):
        def _written(self, paths: Sequence[str]) -> list[Chunk]:
            failure = "Lost task 0.3: java.lang.UnsupportedOperationException: org.apache.parquet.PlainLongDictionary"
            raise LogError("SPARK_FAILED", "the source failed", detail=failure)

    Reader(log, ingest)
    ingest.run_available()
    assert (arrived(log), asides(ingest)) == (["a.parquet"], ["b.parquet"])
    assert "is uint64, not " in ingest.report().aside[0].reason


def test_what_may_pass_blames_no_file_until_it_has_failed_often(log: Opened, landing: Path) -> None:
    """An error of no known cause is retried; if Spark works and only one file fails again and again, it is the file."""
    ingest, spark = json_ingest(log, landing, FakeClock(), a="1", b="java.lang.Exception: something")
    for _ in range(folder.SUSPICIOUS_AFTER):
        with pytest.raises(LogError, match="something"):
            ingest.tick()
    assert (arrived(log), asides(ingest)) == ([], [])
    spark.alive = False
    with pytest.raises(LogError, match="something"):
        ingest.tick()
    spark.alive = True
    ingest.tick()
    assert (spark.taken, asides(ingest)) == (["a.json"], ["b.json"])
    for text in ("java.io.IOException: No space left on device", "[SPARK_JOB_CANCELLED] Job 3 cancelled"):
        put_bad(landing, "c.json", text.encode())
        for _ in range(folder.SUSPICIOUS_AFTER + 2):
            with suppress(LogError):
                ingest.tick()
        assert asides(ingest) == ["b.json"]


def test_texts_are_left_alone_while_somebody_writes_them(log: Opened, landing: Path) -> None:
    clock = FakeClock(1000.0)
    ingest, spark = json_ingest(log, landing, clock, a="1")
    put_bad(landing, "b.json", b"2", written_at=999.5)
    ingest.tick()
    assert (spark.taken, ingest.report().files_waiting) == (["a.json"], 1)
    clock.time = 1000.6
    ingest.tick()
    assert spark.taken == ["a.json", "b.json"]
    put_bad(landing, "c.json", b"2", written_at=1000.5)
    ingest.run_available()
    assert spark.taken[-1] == "c.json", "who asks for everything gets it"


def test_a_source_may_stop_instead(log: Opened, landing: Path) -> None:
    put(landing, "a.parquet", 1)
    bad = put_bad(landing, "b.parquet")
    ingest = ingest_of(log, landing, on_bad_file="stop")
    for _ in range(2):
        with pytest.raises(LogError, match=r"(?s)SOURCE_STOPPED.*b\.parquet.*torn"):
            ingest.run_available()
    assert (arrived(log), asides(ingest)) == ([], [])
    assert [Path(path).name for path in ingest.unread()] == ["a.parquet", "b.parquet"]
    bad.unlink()
    ingest.run_available()
    assert arrived(log) == ["a.parquet"]
    with pytest.raises(LogError, match=r"on_bad_file cannot be `ignore`"):
        sources.files(landing, on_bad_file="ignore")


def test_a_file_put_again_under_a_taken_name_is_reported_and_not_read(log: Opened, landing: Path) -> None:
    put(landing, "a.parquet", 1)
    put(landing, "b.parquet", 2)
    ingest = ingest_of(log, landing)
    ingest.run_available()
    assert ingest.report().changed == ()
    put(landing, "a.parquet", 7, 8, 9)
    ingest.run_available()
    ((path, _),) = ingest.report().changed
    assert (Path(path).name, arrived(log)) == ("a.parquet", ["a.parquet", "b.parquet"])
    log.close()
    again = ingest_of(open_log(log.warehouse.root), landing)
    assert [path for path, _ in again.report().changed] == [path]
    os.utime(landing / "b.parquet", (77.0, 77.0))
    assert len(again.report().changed) == 2


@pytest.mark.parametrize("name", ["a{1}", "b[x]", "c*", "{d,e}", "f?"])
def test_a_directory_is_that_directory_whatever_its_name(log: Opened, tmp_path: Path, name: str) -> None:
    put(tmp_path / name, "a.parquet", 1)
    source = sources.files(tmp_path / name)
    assert not source.pattern and sources.files(tmp_path / "nothing" / name).pattern
    ingest_of(log, tmp_path / name).run_available()
    assert arrived(log) == ["a.parquet"]
    described = sources.files(tmp_path / name, "json").describe()
    assert folder.watches(sources.files(tmp_path / name, "json")) and described["exact"]


# nanoseconds


def frame(*times: str) -> pd.DataFrame:
    ts = pd.to_datetime(list(times), utc=True).astype("datetime64[ns, UTC]")
    return pd.DataFrame({"USERID": range(len(times)), "price": 1.5, "ts": ts}, index=[f"i{t}" for t in times])


def test_timestamps_in_nanoseconds_are_read(log: Opened, landing: Path) -> None:
    """What pandas writes: nanoseconds, an index, and sometimes names in other letters."""
    frame("1970-01-01T00:00:00.000001999", "1969-12-31T23:59:59.999999001").to_parquet(landing / "a.parquet")
    naive = frame("1970-01-01T00:00:00.000005001").assign(ts=lambda f: f.ts.dt.tz_localize(None))
    (landing / "price=7.5").mkdir()
    naive.drop(columns="price").to_parquet(landing / "price=7.5" / "b.parquet")
    ingest = ingest_of(log, landing)
    ingest.run_available()
    assert asides(ingest) == []
    chunks = [chunk for arrival in log.arrivals.pending() for chunk in arrival.chunks]
    tables = [pq.read_table(log.warehouse.path(chunk.path)) for chunk in chunks]
    rows = [row for table in tables for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
    times = [us for table in tables for us in table["ts"].cast(pa.int64()).to_pylist()]
    assert [row[:2] for row in rows] == [(0, 1.5), (1, 1.5), (0, 7.5)]
    assert times == [1, -1, 5]
    assert [(c.min_us, c.max_us) for c in chunks] == [(-1, 1), (5, 5)]


def test_nested_nanoseconds_are_read(log: Opened, landing: Path) -> None:
    kinds = {"at": "array<timestamp>", "s": "struct<a:timestamp,b:int>", "ts": "timestamp"}
    columns = tuple(Column(name, SqlType(kind)) for name, kind in kinds.items())
    stream = Stream(StreamName("nested"), columns, "ts", 0)
    table = pa.table(
        {
            "at": pa.array([[1999, None]], pa.list_(pa.timestamp("ns", "UTC"))),
            "s": pa.array([{"a": 2001, "b": 3}], pa.struct([("a", pa.timestamp("ns")), ("b", pa.int32())])),
            "ts": pa.array([5000], pa.timestamp("ns")),
        }
    )
    pq.write_table(table, landing / "a.parquet")
    no_spark: Any = None
    ingest = FolderIngest(no_spark, log.warehouse, log.arrivals, stream, sources.files(landing))
    ingest.run_available()
    (chunk,) = (chunk for arrival in log.arrivals.pending() for chunk in arrival.chunks)
    (row,) = pq.read_table(log.warehouse.path(chunk.path)).to_pylist()
    assert [t and t.microsecond for t in row["at"]] == [1, None]
    assert (row["s"]["a"].microsecond, row["s"]["b"], row["ts"].microsecond) == (2, 3, 5)


def test_nanoseconds_with_values_that_do_not_fit_are_set_aside(log: Opened, landing: Path) -> None:
    frame("2026-01-01").assign(USERID="text").to_parquet(landing / "a.parquet")
    ingest = ingest_of(log, landing)
    ingest.run_available()
    ((file,),) = [ingest.report().aside]
    assert "column `userID`" in file.reason and arrived(log) == []
    assert not list(log.warehouse.path("log/purchases").glob("*.parquet"))


# trouble in between


@pytest.mark.parametrize("point", ["ingest.aside", "ingest.written", "arrival.before"])
def test_a_full_disk_loses_nothing_and_doubles_nothing(log: Opened, landing: Path, point: str) -> None:
    put(landing, "a.parquet", 1)
    frame("2026-01-01").to_parquet(landing / "n.parquet")
    put_bad(landing, "b.parquet")
    ingest = ingest_of(log, landing)

    def full(reached: str) -> None:
        if reached == point:
            raise OSError(28, "No space left on device")

    with faults.hooked(full), pytest.raises(OSError):
        ingest.run_available()
    assert arrived(log) == []
    ingest.run_available()
    assert len(arrived(log)) == 2 and arrived(log)[0] == "a.parquet"
    assert asides(ingest) == ["b.parquet"]
    assert ingest.report().files_taken == 2


KILLED = """
import sys
from log_samples import PURCHASES, open_log
from headrace import sources
from headrace.log.folder import FolderIngest
from headrace.log.reading import FileReader
log = open_log(sys.argv[1])
FolderIngest(None, log.warehouse, log.arrivals, PURCHASES, sources.files(sys.argv[2])).run_available()
"""


@pytest.mark.parametrize("point", ["ingest.aside", "ingest.written", "ingest.after"])
def test_killed_while_a_file_is_set_aside(log: Opened, landing: Path, point: str) -> None:
    put(landing, "a.parquet", 5, 6)
    put_bad(landing, "b.parquet")
    log.close()
    died = run_script(KILLED, log.warehouse.root, landing, kill_at=point)
    assert died.returncode == -signal.SIGKILL, died.output
    again = open_log(log.warehouse.root)
    ingest = ingest_of(again, landing)
    ingest.run_available()
    assert (arrived(again), asides(ingest)) == (["a.parquet"], ["b.parquet"])
    again.close()


def test_a_mended_file_is_not_aside_after_a_death_in_between(log: Opened, landing: Path) -> None:
    put_bad(landing, "b.parquet")
    ingest = ingest_of(log, landing)
    ingest.run_available()
    put(landing, "b.parquet", 5)

    def die(point: str) -> None:
        if point == "arrival.after":
            raise faults.Crash

    with faults.hooked(die), pytest.raises(faults.Crash):
        ingest.run_available()
    log.close()
    again = open_log(log.warehouse.root)
    assert (arrived(again), asides(ingest_of(again, landing))) == (["b.parquet"], [])


def test_files_are_taken_in_batches_and_counted_for_good(
    log: Opened, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MAX_FILES", 2)
    monkeypatch.setattr(books, "MERGE_RECORDS", 2)
    for i in range(7):
        put(landing, f"{i}.parquet", i)
    ingest_of(log, landing).run_available()
    assert len(log.arrivals.pending()) == 4
    for i in range(3):
        (landing / f"{i}.parquet").unlink()
    put(landing, "more.parquet", 9)
    ingest = ingest_of(log, landing)
    ingest.run_available()
    assert (ingest.report().files_taken, len(arrived(log))) == (8, 8)
    assert FolderBooks(log.warehouse, log.arrivals, PURCHASES).files_taken == 8


def test_files_set_aside_and_gone_are_forgotten_when_they_are_many(
    log: Opened, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "MAX_GONE", 2)
    ingest = ingest_of(log, landing)
    for i in range(5):
        bad = put_bad(landing, f"{i}.parquet")
        ingest.run_available()
        if i < 4:
            bad.unlink()
    assert asides(ingest) == ["2.parquet", "3.parquet", "4.parquet"]


def test_a_batch_that_is_replayed_counts_its_files_once(log: Opened) -> None:
    count = books.FileCount(log.warehouse, PURCHASES)
    count.add(Batch("a", 0), 3)
    count.add(Batch("a", 1), 2)
    again = books.FileCount(log.warehouse, PURCHASES)
    again.add(Batch("a", 1), 1)  # the driver died before the batch arrived, and a file is gone since
    assert again.taken == 4
    again.add(Batch("b", 1), 5)  # a new checkpoint
    assert books.FileCount(log.warehouse, PURCHASES).taken == 9
