"""start() and stop(): trouble surfaces, cancelled jobs are run again, and many threads may ask for things at once."""

from __future__ import annotations

import dataclasses
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attached import run_attached
from scenario import BUSY, FAST, QUERIES, batch, play

from headrace.catalog.queries import QueryState
from headrace.health import RunState
from headrace.model.errors import CatalogError, HeadraceError
from headrace.sources import files
from headrace.storage import faults
from waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.spark]

SCHEMA = "id BIGINT, userID BIGINT, gemPackID BIGINT, name STRING, price DOUBLE, ts TIMESTAMP"


def test_start_twice_is_refused(open_session: Any) -> None:
    hr = open_session()
    hr.stop()
    hr.start("50 milliseconds")
    with pytest.raises(HeadraceError, match="ALREADY_RUNNING"):
        hr.start()
    hr.stop()
    hr.stop()
    hr.start("50 milliseconds")
    hr.close()
    with pytest.raises(HeadraceError, match="SESSION_CLOSED"):
        hr.start()


def test_trouble_is_told_and_mends_itself(open_session: Any) -> None:
    """A chunk that is gone: the run tries again, nothing raises, and when the chunk is back everything goes on."""
    hr = open_session()
    play(hr, ("spend",), steps=1)
    hr.append("purchases", batch(1))
    chunk = hr._warehouse.path(hr._arrivals.pending()[0].chunks[0].path)
    kept = chunk.read_bytes()
    chunk.unlink()
    hr.start("50 milliseconds")
    until(lambda: hr.health().run is RunState.RETRYING)
    assert str(chunk) in str(hr.health())
    assert hr.metrics().epoch == 0
    hr.stop()
    hr.start("50 milliseconds")
    until(lambda: hr.health().run is RunState.RETRYING)
    chunk.write_bytes(kept)
    until(lambda: hr.metrics().epoch == 1)
    until(lambda: hr.health().run is RunState.RUNNING and hr.health().ok)
    hr.stop()
    assert hr.query("spend").audit().ok
    hr.append("purchases", batch(2))
    hr._warehouse.path(hr._arrivals.pending()[0].chunks[0].path).unlink()
    hr.start("50 milliseconds")
    until(lambda: hr.health().run is RunState.RETRYING)
    hr.close()


def test_cancelled_jobs_are_run_again(open_session: Any) -> None:
    """As when somebody presses Ctrl-C in a notebook: PySpark then cancels every job there is."""
    hr = open_session(upkeep=BUSY)
    play(hr, steps=2)
    context, cancelled, before = hr.spark.sparkContext, 0, hr.metrics().input_rows
    hr.start("20 milliseconds")
    for step in range(2, 6):

        def taken(rows: int = before + 30 * (step - 1)) -> bool:
            return bool(hr.metrics().input_rows >= rows)

        hr.append("purchases", batch(step))
        until(lambda taken=taken: context.statusTracker().getActiveJobsIds() or taken())
        if step < 5 and not taken():
            cancelled += 1
            context.cancelAllJobs()
        until(taken)
    hr.stop()
    assert cancelled
    hr.run_available()
    assert all(info.error is None for info in hr.queries())
    for name in ("spend", "odd", "uniq"):
        report = hr.query(name).audit()
        assert report.ok and report.actual_rows, report


def test_stream_with_a_source_created_while_running(open_session: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    hr = open_session()
    hr.start("50 milliseconds")
    hr.create_stream("t", "k BIGINT, ts TIMESTAMP", event_time="ts", source=files(folder, "json"))
    hr.create_query("SELECT k FROM t WHERE k > 1", name="q")
    until(lambda: hr.query("q").state is QueryState.ACTIVE)
    lines = [json.dumps({"k": k, "ts": f"2026-01-01T00:00:0{k}Z"}) for k in range(5)]
    (tmp_path / "rows.json").write_text("\n".join(lines))
    (tmp_path / "rows.json").rename(folder / "rows.json")
    until(lambda: hr.query("q").metrics().rows == 3)

    (tmp_path / "more.json").write_text("\n".join(lines))
    (tmp_path / "more.json").rename(folder / "more.json")
    cancelled = 0

    def taken() -> bool:
        """The source's jobs are hit as well; the source starts again where it was."""
        nonlocal cancelled
        if cancelled < 40:
            cancelled += 1
            hr.spark.sparkContext.cancelAllJobs()
        return hr.metrics().input_rows == 10

    until(taken)
    hr.stop()
    hr.run_available()
    assert hr.query("q").metrics().rows == 6
    assert hr.query("q").audit().ok


@pytest.mark.parametrize("point", ["job.before", "commit.before"])
def test_close_while_another_thread_runs(open_session: Any, point: str) -> None:
    """Closing waits for the epoch under way, or cancels it; the warehouse is let go after that, not before."""
    hr = open_session()
    play(hr, ("spend",), steps=2)
    hr.append("purchases", batch(2))
    reached, closed, ended = threading.Event(), threading.Event(), []

    def slow(here: str) -> None:
        if here == point:
            reached.set()
            until(lambda: hr._closed)
            assert not closed.wait(0.3) and hr._warehouse.held

    def run() -> None:
        try:
            hr.run_available()
        except HeadraceError as error:
            ended.append(error.code)

    with faults.hooked(slow):
        thread = threading.Thread(target=run)
        thread.start()
        reached.wait()
        hr.close()
        closed.set()
        thread.join()
    assert ended in ([], ["EPOCH_CANCELLED"])
    again = open_session()
    again.run_available()
    assert again.metrics().epoch == 2
    assert again.query("spend").audit().ok


class Beat:
    """Counts the points that any thread reaches, so that others can act at all moments of an epoch."""

    def __init__(self) -> None:
        self._changed, self._count = threading.Condition(), 0

    def __call__(self, point: str) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def pause(self, points: int) -> None:
        """Until so many more are reached. When nothing goes on, it is not waited for."""
        with self._changed:
            end = self._count + points
            self._changed.wait_for(lambda: self._count >= end, timeout=0.5)


def test_stress(open_session: Any) -> None:
    """Threads append, create, drop and read while epochs run; then every query equals plain Spark."""
    upkeep = dataclasses.replace(BUSY, grace_seconds=10.0)  # there are readers here
    hr = open_session(upkeep=upkeep, changelog_delay="50 milliseconds", changelog_count=5, max_epoch_rows=200)
    hr.create_stream("purchases", SCHEMA, event_time="ts", watermark="4 seconds")
    beat, taking = Beat(), threading.Lock()
    trouble: list[BaseException] = []
    appended: list[int] = []
    asked: list[str] = []

    def appends(chance: random.Random) -> None:
        with taking:
            step = len(appended)
            appended.append(step)
        hr.append("purchases", batch(step))
        beat.pause(chance.randrange(12))

    def asks(chance: random.Random) -> None:
        name = f"{chance.choice(FAST)}{chance.randrange(4)}"
        try:
            if chance.random() < 0.6:
                hr.create_query(QUERIES[name[:-1]], name=name)
            else:
                hr.drop_query(name)
            asked.append(name)
        except CatalogError as error:
            assert error.code in ("QUERY_EXISTS", "QUERY_NOT_FOUND", "QUERY_DROPPED")
        beat.pause(chance.randrange(8))

    def looks(chance: random.Random) -> None:
        infos = hr.queries()
        hr.metrics()
        if infos:
            hr.query(chance.choice(infos).name).to_pandas()
        beat.pause(chance.randrange(20))

    def enough() -> bool:
        return bool(trouble) or ((hr.metrics().epoch or 0) >= 20 and len(asked) >= 40)

    def guarded(work: Callable[[random.Random], None], seed: int) -> threading.Thread:
        def run() -> None:
            chance = random.Random(seed)
            try:
                while not enough():
                    work(chance)
            except BaseException as error:
                trouble.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    with faults.hooked(beat):
        hr.start("20 milliseconds")
        threads = [guarded(work, seed) for seed, work in enumerate((appends, appends, asks, asks, looks))]
        for thread in threads:
            thread.join()
        hr.stop()
    assert not trouble, trouble
    hr.run_available()
    assert sum(info.rows for info in hr.streams()) == 30 * len(appended)
    infos = hr.queries()
    assert len(infos) > 10
    assert all(info.error is None for info in infos)
    newest = {info.name: info for info in infos}
    for info in random.Random(7).sample(sorted(newest.values(), key=lambda i: i.name), 8):
        report = hr.query(info.name).audit()
        assert report.ok, report


INTERRUPTED = """
import os, signal, sys, threading
sys.path[:0] = [{here!r}, {tests!r}]
import attached, scenario
import headrace
from headrace.storage import faults
from waiting import until


class CtrlC:
    '''Interrupts the main thread once: when the background run reaches a point while the main thread waits for it, or
    else when the epoch is over.

    Nobody is held up for it: whoever reaches a point may hold locks.
    '''

    def __init__(self, point):
        self.point, self.ready, self.over, self.lock = point, threading.Event(), threading.Event(), threading.Lock()
        self.pressed = False

    def __call__(self, point):
        if point == self.point and self.ready.is_set():
            self.press()
        if point == "commit.after":
            self.over.set()

    def press(self):
        with self.lock:
            pressed, self.pressed = self.pressed, True
        if not pressed:
            os.kill(os.getpid(), signal.SIGINT)


def append_and_wait(step, point):
    until(lambda: hr.metrics().input_rows == 30 * step)  # no epoch of before is under way
    interrupt = CtrlC(point)
    with faults.hooked(interrupt):
        hr.append("purchases", scenario.batch(step))
        interrupt.ready.set()
        interrupt.over.wait(60)
        interrupt.press()
        threading.Event().wait(60)
        raise AssertionError("nobody came")


caught = 0
try:
    with headrace.open({warehouse!r}, spark=attached.attach(), upkeep=scenario.BUSY, progress=False) as hr:
        scenario.play(hr, steps=2)
        hr.start("20 milliseconds")
        for step, point in enumerate(("seal.after", "job.before", "job.after", "commit.before"), 2):
            try:
                append_and_wait(step, point)
            except KeyboardInterrupt:
                caught += 1
        append_and_wait(6, "job.before")
except KeyboardInterrupt:
    caught += 1
print("caught", caught, flush=True)
"""


def test_interrupted_while_running_in_the_background(spark: Any, open_session: Any, tmp_path: Path) -> None:
    """Ctrl-C ends what the main thread waits for; the background run survives it, and closing is clean."""
    here, warehouse = Path(__file__).parent, tmp_path / "warehouse"
    script = INTERRUPTED.format(here=str(here), tests=str(here.parent), warehouse=str(warehouse))
    done = run_attached(spark, script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "caught 5\n"
    hr = open_session()
    hr.run_available()
    assert sum(part.rows for epoch in hr._sealer.epochs() for part in epoch.streams) == 30 * 7
    assert all(info.error is None for info in hr.queries())
    for name in ("spend", "high", "odd", "uniq"):
        report = hr.query(name).audit()
        assert report.ok and report.actual_rows, report
