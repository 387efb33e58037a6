"""Opening again, opening twice, reading beside a writer, and Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attached import run_attached
from scenario import BUSY, QUERIES, batch, delivered, lifetimes, play

import headrace
from headrace.catalog.queries import QueryState
from headrace.model.errors import HeadraceError

pytestmark = [pytest.mark.crash, pytest.mark.spark]


@pytest.fixture
def warehouse(spark: Any, tmp_path: Path) -> Path:
    with headrace.open(tmp_path / "warehouse", spark=spark, progress=False) as hr:
        play(hr, ("spend", "high", "users"), steps=3)
    return tmp_path / "warehouse"


# closed and opened again


def test_pending_changes_and_arrivals_survive_a_close(spark: Any, warehouse: Path) -> None:
    with headrace.open(warehouse, spark=spark, progress=False) as hr:
        hr.create_query(QUERIES["late"], name="late")
        hr.drop_query("users")
        hr.append("purchases", batch(3))
    with headrace.open(warehouse, spark=spark, progress=False) as hr:
        states = {info.name: info.state for info in hr.queries()}
        assert states["late"] is QueryState.PENDING
        assert len(hr._arrivals.pending()) == 1
        assert hr.run_available() == 1
        states = {info.name: info.state for info in hr.queries()}
        assert states["late"] is QueryState.ACTIVE
        assert states["users"] is QueryState.DROPPED
        assert hr.query("late").metrics().first_epoch == 3
        for name in ("spend", "users", "late"):
            assert hr.query(name).audit().ok


def test_what_was_acknowledged_outlives_the_process(spark: Any, warehouse: Path) -> None:
    """Requests are on disk when `create_query` and `drop_query` return, though no changelog holds them yet."""
    hr = headrace.open(warehouse, spark=spark, progress=False)
    hr.create_query(QUERIES["late"], name="late")
    hr.drop_query("users")
    hr._warehouse._lock._forget()
    with headrace.open(warehouse, spark=spark, progress=False) as hr:
        assert [info.name for info in hr.queries()] == ["spend", "high", "users", "late"]
        hr.append("purchases", batch(3))
        hr.run_available()
        assert hr.query("users").state is QueryState.DROPPED
        assert hr.query("late").audit().ok


def test_second_writer_is_told_who_holds_it(spark: Any, warehouse: Path) -> None:
    with headrace.open(warehouse, spark=spark):
        script = f"import headrace; headrace.open({str(warehouse)!r})"
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert "WAREHOUSE_HELD" in other.stderr
        assert f"process {os.getpid()}" in other.stderr


# reading beside a writer


def test_read_only_beside_a_writer(spark: Any, warehouse: Path) -> None:
    with headrace.open(warehouse, spark=spark, progress=False) as hr:
        with headrace.open(warehouse, spark=spark, read_only=True) as reader:
            assert lifetimes(reader) == lifetimes(hr)
            assert delivered(reader) == delivered(hr)
            assert reader.query("spend").audit().ok
            assert "spend" in reader.query("spend").explain()
            assert len(reader.query("users").to_pandas()) == len(hr.query("users").to_pandas())
            hr.append("purchases", batch(3))
            hr.run_available()
            assert reader.query("spend").audit().ok
            assert reader.metrics().epoch == 2 and hr.metrics().epoch == 3
        for change in (
            lambda s: s.create_query(QUERIES["late"]),
            lambda s: s.drop_query("spend"),
            lambda s: s.append("purchases", batch(4)),
            lambda s: s.run_available(),
            lambda s: s.start(),
            lambda s: s.close_stream("purchases"),
            lambda s: s.create_stream("t", "ts TIMESTAMP", event_time="ts"),
        ):
            with (
                headrace.open(warehouse, spark=spark, read_only=True) as reader,
                pytest.raises(HeadraceError, match="READ_ONLY"),
            ):
                change(reader)
    files = sorted(warehouse.rglob("*"))
    with headrace.open(warehouse, spark=spark, read_only=True) as reader:
        assert reader.query("high").audit().ok
    assert sorted(warehouse.rglob("*")) == files


def test_read_only_needs_a_warehouse_and_no_spark(warehouse: Path, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="NO_WAREHOUSE"):
        headrace.open(tmp_path / "nothing", read_only=True)
    with headrace.open(warehouse, read_only=True) as reader:
        assert len(reader.queries()) == 3
        assert "purchases" in reader.explain()
        assert "spark" not in vars(reader)


def test_command_line_reads_a_held_warehouse(spark: Any, warehouse: Path) -> None:
    with headrace.open(warehouse, spark=spark):
        command = [sys.executable, "-m", "headrace.cli.main", "queries", "--warehouse", str(warehouse)]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert listed.returncode == 0, listed.stderr
        assert "spend" in listed.stdout


# Ctrl-C

INTERRUPTED = """
import os, signal, sys, threading
sys.path.insert(0, {here!r})
import attached, scenario
import headrace
from headrace.storage import faults

waiting, again, timers = {points!r}, {{"job.before": 0.2}}, []

def interrupt(point):
    if point in waiting:
        timers.append(threading.Timer(waiting.pop(point), os.kill, (os.getpid(), signal.SIGINT)))
        timers[-1].start()

hr = headrace.open({warehouse!r}, spark=attached.attach(), upkeep=scenario.BUSY, progress=False)
caught = 0
with faults.hooked(interrupt):
    while True:
        try:
            scenario.play(hr)
            for timer in timers:
                timer.join()
            break
        except KeyboardInterrupt:
            caught += 1
            if not waiting:
                waiting, again = again, {{}}
print("caught", caught, flush=True)
hr.close()
print("closed", flush=True)
"""


@pytest.fixture(scope="module")
def undisturbed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with headrace.open(
        tmp_path_factory.mktemp("undisturbed"), spark=spark, upkeep=BUSY, progress=False
    ) as hr:
        play(hr)
        yield hr


@pytest.mark.parametrize(
    "points",
    [
        {
            "arrival.before": 0.0,
            "changelog.after": 0.0,
            "seal.after": 0.0,
            "commit.after": 0.0,
            "snapshot.after": 0.0,
        },
    ],
    ids=["durable steps"],
)
def test_interrupted_again_and_again(
    spark: Any, tmp_path: Path, undisturbed: Any, points: dict[str, float]
) -> None:
    """SIGINT at any step, also while Spark works, leaves a session that goes on as if nothing had happened."""
    here = str(Path(__file__).parent)
    done = run_attached(spark, INTERRUPTED.format(here=here, warehouse=str(tmp_path / "w"), points=points))
    assert done.returncode == 0, done.stderr
    # a signal that comes when another is being dealt with is one with it
    assert int(done.stdout.split()[1]) >= len(points) - 1, done.stdout
    assert done.stdout.endswith("closed\n")
    with headrace.open(tmp_path / "w", spark=spark, upkeep=BUSY) as hr:
        assert delivered(hr) == delivered(undisturbed)
        assert lifetimes(hr) == lifetimes(undisturbed)
