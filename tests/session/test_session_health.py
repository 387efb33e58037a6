"""Nothing gets lost without a word: closing drains, bad files are set aside, and every front door says so."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from session_samples import eventually, rows, stream_info

from headrace import sources
from headrace.health import RunState, SourceState
from headrace.model.errors import HeadraceWarning, LogError, StorageError
from headrace.storage import faults

pytestmark = pytest.mark.spark

Open = Callable[..., Any]

SCHEMA = "id BIGINT, ts TIMESTAMP"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def times(first: int, count: int) -> list[datetime]:
    return [NOW + timedelta(seconds=i) for i in range(first, first + count)]


def put(folder: Path, name: str, first: int, count: int = 100) -> None:
    """A whole file of rows whose ids and seconds count on from `first`."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    stamps = times(first, count)
    if name.endswith(".json"):
        lines = [json.dumps({"id": first + i, "ts": t.isoformat()}) for i, t in enumerate(stamps)]
        hidden.write_text("\n".join(lines) + "\n")
    else:
        ids, ts = list(range(first, first + count)), pa.array(stamps, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "ts": ts}), hidden)
    hidden.rename(folder / name)


def put_nanoseconds(folder: Path, name: str, first: int, count: int) -> None:
    frame = pd.DataFrame({"id": range(first, first + count), "ts": times(first, count)})
    frame["ts"] = frame["ts"].astype("datetime64[ns, UTC]") + pd.Timedelta(1, "ns")
    frame.to_parquet(folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


@pytest.mark.parametrize("form", ["parquet", "json", "streaming json"])
def test_closing_drains_the_source(form: str, open_session: Open, tmp_path: Path) -> None:
    """One file taken, two more put, then close: 300 of 300 rows; and the audit tells what was taken in."""
    format_, options = form.split()[-1], {"maxFilesPerTrigger": "1"} if " " in form else {}
    folder = tmp_path / "in"
    put(folder, f"a.{format_}", 0)
    hr = open_session()
    source = sources.files(folder, format_, **options)
    hr.create_stream("s", SCHEMA, event_time="ts", source=source)
    query = hr.create_query("SELECT COUNT(*) AS n FROM s GROUP BY window(ts, '10 seconds')", name="q")
    hr.run_available()
    put(folder, f"b.{format_}", 100)
    put(folder, f"c.{format_}", 200)
    if not options:
        assert "100 rows and 1 file taken, 2 files waiting, 0 files set aside" in str(query.audit())
    hr.close_stream("s")
    hr.run_available()
    assert sum(n for (n,) in rows(query)) == 300
    report = query.audit()
    assert report.ok and report.inputs[0].rows_taken == 300
    assert report.inputs[0].state is SourceState.CLOSED
    if not options:
        put(folder, f"late.{format_}", 300)
        assert "300 rows and 3 files taken, 1 file waiting, 0 files set aside" in str(query.audit())


def test_a_source_that_cannot_be_read_to_the_end_is_not_closed(open_session: Open, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(folder, "a.parquet", 0)
    (folder / "bad.parquet").write_bytes(b"PAR1 no")
    hr = open_session()
    hr.create_stream("s", SCHEMA, event_time="ts", source=sources.files(folder, on_bad_file="stop"))
    hr.create_stream("other", SCHEMA, event_time="ts")
    query = hr.create_query("SELECT id FROM other", name="q")
    hr.append("other", [{"id": 7, "ts": NOW}])
    with pytest.raises(LogError, match="SOURCE_STOPPED"):
        hr.run_available()
    assert rows(query) == [(7,)], "everything else was run"
    assert hr.health().source("s").state is SourceState.STOPPED
    with pytest.raises(LogError, match=r"(?s)STREAM_NOT_DRAINED.*unread: .*a\.parquet, .*bad\.parquet"):
        hr.close_stream("s")
    assert not stream_info(hr, "s").closed
    hr.close_stream("s", drain=False)
    hr.run_available()
    assert (stream_info(hr, "s").closed, stream_info(hr, "s").rows) == (True, 0)
    assert hr.health().source("s").files_waiting == 2


def test_a_bad_file_is_set_aside_and_told_everywhere(open_session: Open, tmp_path: Path) -> None:
    folder = tmp_path / "in{1}[x]"
    put(folder, "a.parquet", 0, 3)
    put_nanoseconds(folder, "nanos.parquet", 3, 3)
    (folder / "readme.txt").write_text("put files here")
    hr = open_session()
    hr.create_stream("s", SCHEMA, event_time="ts", source=sources.files(folder))
    query = hr.create_query("SELECT id FROM s", name="q")
    hr.create_stream("fed", SCHEMA, event_time="ts")
    fed = hr.create_query("SELECT id FROM fed", name="f")
    with pytest.warns(HeadraceWarning, match=r"1 file set aside that could not be read: .*readme\.txt"):
        hr.run_available()
    with pytest.warns(HeadraceWarning, match=r"rows of query `q` may be missing.*readme\.txt"):
        assert rows(query) == [(i,) for i in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", HeadraceWarning)
        assert rows(fed) == [], "it is another stream"
        assert hr.run_available() == 0, "a file is warned of once"

    health = hr.health()
    assert (health.ok, health.run, health.error) == (False, RunState.IDLE, None)
    assert [Path(file.path).name for file in health.aside] == ["readme.txt"]
    source = health.source("s")
    assert (source.files_taken, source.files_aside, source.rows_taken) == (2, 1, 6)
    assert stream_info(hr, "s").source == source
    troubles = {info.name: info.trouble for info in hr.queries()}
    assert "readme.txt" in troubles["q"] and troubles["f"] is None
    assert hr.execute("SHOW STREAMS").select(["stream", "source", "problem"]).to_pylist() == [
        {"stream": "s", "source": "reading", "problem": "1 file set aside"},
        {"stream": "fed", "source": "fed by append", "problem": None},
    ]
    assert "readme.txt" in hr.execute("SHOW QUERIES").to_pylist()[0]["trouble"]
    report = query.audit()
    assert report.ok and "6 rows and 2 files taken, 0 files waiting, 1 file set aside" in str(report)
    hr.close()

    again = open_session()
    assert len(again.health().aside) == 1, "it is kept"
    put(folder, "a.parquet", 50, 9)
    again.run_available()
    assert stream_info(again, "s").rows == 6
    (changed,) = (p for p in again.health().problems if "changed" in p.message)
    assert "a.parquet" in changed.message and changed.hint
    (folder / "readme.txt").unlink()
    assert [problem.message for problem in again.health().problems] == [changed.message]
    again.close()
    reader = open_session(read_only=True)
    assert reader.health().source("s").files_aside == 1
    assert reader.health().source("s").state is SourceState.UNATTENDED
    assert reader.health().run is RunState.STOPPED


def test_odd_records_are_counted_and_told(open_session: Open, tmp_path: Path) -> None:
    """Corrupt JSON, NULL event times and a tuple of 2099, which does not make the others late."""
    folder = tmp_path / "in"
    put(folder, "a.json", 0, 30)
    future = json.dumps({"id": 1000, "ts": "2099-01-01T00:00:00Z"})
    (folder / "odd.json").write_text(f'{{"id": 77, \n{{"id": 88}}\n{future}\n')
    hr = open_session()
    hr.create_stream("s", SCHEMA, event_time="ts", source=sources.files(folder, "json"))
    per_window = "SELECT window.start AS w, COUNT(*) AS n FROM s GROUP BY window(ts, '10 seconds')"
    counts = hr.create_query(per_window, name="counts")
    unshared = hr.create_query(
        per_window.replace("COUNT(*)", "size(collect_list(DISTINCT id % 7))"), name="unshared"
    )
    ids = hr.create_query("SELECT id FROM s WHERE id > 70 OR id IS NULL", name="ids")
    with pytest.warns(HeadraceWarning) as caught:
        hr.run_available()
    text = "\n".join(str(warning.message) for warning in caught)
    assert "1 record could not be read as the stream's columns" in text
    assert "2 tuples without event time: `ts` is NULL" in text
    assert "1 tuple dated more than 1:00:00 ahead of the clock (up to 2099-01-01" in text
    put(folder, "b.json", 30, 30)
    hr.run_available()
    assert [n for _, n in rows(counts)] == [10] * 5, "nothing was late"
    assert stream_info(hr, "s").late_rows == 0
    source = hr.health().source("s")
    assert (source.null_times, source.corrupt_records, source.ahead_rows) == (2, 1, 1)
    assert not hr.health().ok
    assert rows(ids) == [(1000,), (88,), (None,)]
    assert all(query.audit().ok for query in (counts, unshared, ids))
    hr.close()
    again = open_session()
    assert again.health().ok, "old oddities are counted and no news"
    again.close_stream("s")
    again.run_available()
    found = again.query("counts")
    assert len(rows(found)) == 7 and found.audit().ok and again.query("unshared").audit().ok

    again.create_stream("free", SCHEMA, event_time="ts", source=sources.files(folder, "json"), max_ahead=None)
    again.create_stream("fed", SCHEMA, event_time="ts")
    assert [s.max_ahead_us for s in again._catalog.streams()] == [3_600_000_000, None, None]
    statement = (
        "CREATE STREAM {} (id BIGINT, ts TIMESTAMP) EVENT TIME ts WITH (path = '{}', max_ahead = '{}')"
    )
    again.execute(statement.format("h", folder, "2 minutes"))
    again.execute(statement.format("i", folder, "none"))
    assert [s.max_ahead_us for s in again._catalog.streams()][3:] == [120_000_000, None]


def test_trouble_in_the_background_stops_nobody_else(open_session: Open, tmp_path: Path) -> None:
    """A half-written file, a stray one, a folder that goes away and a full disk: all else goes on, and it mends."""
    folder, other = tmp_path / "in", tmp_path / "other"
    put(folder, "a.parquet", 0, 1)
    put(other, "a.parquet", 0, 1)
    hr = open_session(changelog_delay="10 milliseconds")
    hr.create_stream("s", SCHEMA, event_time="ts", source=sources.files(folder))
    hr.create_stream("o", SCHEMA, event_time="ts", source=sources.files(other))
    query, fellow = (hr.create_query(f"SELECT id FROM {name}", name=f"q{name}") for name in ("s", "o"))
    hr.start("20 milliseconds")
    eventually(lambda: rows(query) == rows(fellow) == [(0,)])
    whole = (folder / "a.parquet").read_bytes()
    (folder / "half.parquet").write_bytes(whole[:200])
    (folder / "readme.txt").write_text("an old note")
    stale = time.time() - 3600
    os.utime(folder / "readme.txt", (stale, stale))
    put(other, "b.parquet", 1, 1)
    eventually(lambda: rows(fellow) == [(0,), (1,)])
    eventually(lambda: [Path(f.path).name for f in hr.health().aside] == ["readme.txt"])
    assert hr.health().run is RunState.RUNNING
    put(folder, "half.parquet", 1, 1)
    with pytest.warns(HeadraceWarning, match="readme"):
        eventually(lambda: rows(query) == [(0,), (1,)])

    folder.rename(tmp_path / "away")
    eventually(lambda: hr.health().source("s").state is SourceState.RETRYING)
    assert "SOURCE_MISSING" in hr.health().source("s").error
    assert hr.health().source("s").retry_at > time.time() - 60
    put(other, "c.parquet", 2, 1)
    eventually(lambda: len(rows(fellow)) == 3)
    (tmp_path / "away").rename(folder)
    eventually(lambda: hr.health().source("s").state is SourceState.READING)

    full = True

    def no_space(point: str) -> None:
        if full and point in ("seal.before", "commit.before", "arrival.before"):
            raise StorageError("FILE_UNWRITABLE", "cannot write", detail="[Errno 28] No space left on device")

    with faults.hooked(no_space):
        hr.metrics()
        put(other, "d.parquet", 3, 1)
        eventually(lambda: "No space left" in str(hr.health()))
        hr.create_query("SELECT id FROM o WHERE id > 2", name="late")
        eventually(lambda: hr.health().run is RunState.RETRYING)
        assert hr.health().error is not None
        with pytest.warns(HeadraceWarning, match="No space left"):
            rows(fellow)
        full = False
        eventually(lambda: len(rows(fellow)) == 4)
        eventually(lambda: hr.health().run is RunState.RUNNING)
    hr.stop()
    assert hr.health().run is RunState.IDLE
    hr.run_available()
    assert [query.audit().ok for query in (query, fellow)] == [True, True]
    assert hr.health().source("o").rows_taken == 4


def test_failures_print_no_java_and_no_traceback(
    open_session: Open, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(3):
        pq.write_table(pa.table({"id": ["text"], "ts": pa.array([i], pa.int64())}), folder / f"{i}.parquet")
    (folder / "broken.json").write_text("x")
    hr = open_session()
    hr.create_stream("s", SCHEMA, event_time="ts", source=sources.files(folder))
    failfast = sources.files(folder, "json", mode="FAILFAST")
    hr.create_stream("j", SCHEMA, event_time="ts", source=failfast)
    with pytest.warns(HeadraceWarning):
        hr.run_available()
    assert len(hr.health().aside) == 8
    shown = str(hr.health()) + "".join(file.reason for file in hr.health().aside)
    assert "\tat " not in shown and "Traceback" not in shown and "py4j" not in shown.lower()
    time.sleep(0.5)  # a worker that finds its pipe closed takes a moment to die of it
    output = "".join(capfd.readouterr())
    assert "Traceback" not in output and "BrokenPipe" not in output and "\tat org" not in output


def test_files_of_a_pattern_in_the_background(open_session: Open, tmp_path: Path) -> None:
    """Structured Streaming tells the names: a bad file is set aside, odd records are counted, and it goes on."""
    for shop in ("oslo", "rome"):
        put(tmp_path / f"in-{shop}", "a.json", 0, 30)
    folder = tmp_path / "in-oslo"
    (folder / "odd.json").write_text('{"id": 77, \n{"id": 88}\n')
    (folder / "bad.json.gz").write_bytes(b"this is no gzip")
    old = time.time() - 60
    for path in folder.iterdir():
        os.utime(path, (old, old))  # nobody is still writing them
    hr = open_session()
    hr.create_stream("s", SCHEMA, event_time="ts", source=sources.files(f"{tmp_path}/in-*/*.json*", "json"))
    ids = hr.create_query("SELECT id FROM s", name="ids")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeadraceWarning)
        hr.start(interval="100 milliseconds")
        eventually(lambda: len(rows(ids)) == 62, 120)
        put(tmp_path / "in-rome", "b.json", 30, 10)
        eventually(lambda: len(rows(ids)) == 72, 60)
        hr.stop()
        report = ids.audit()
    source = stream_info(hr, "s").source
    assert hr.health().source("s") == source
    assert (source.files_taken, source.files_waiting, source.files_aside) == (4, None, 1)
    assert (source.rows_taken, source.null_times, source.corrupt_records) == (72, 2, 1)
    assert source.error is None and source.problem == "1 file set aside"
    assert report.ok
    line = "72 rows and 4 files taken, unknown how many files are waiting, 1 file set aside, "
    assert f"{line}2 rows without event time, 1 corrupt record" in str(report)
    (aside,) = hr.health().aside
    assert aside.path.endswith("bad.json.gz") and "gzip" in aside.reason.lower(), aside
    (told, *_) = hr.health().problems
    assert told.hint is not None and "under another name" in told.hint
