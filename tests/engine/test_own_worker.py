"""The driver's own worker as a process: it answers, and whatever happens to it, its driver goes on."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from headrace.engine import beside, own_worker
from headrace.engine.chain import run_chain
from headrace.engine.expected import after_epoch
from headrace.engine.messages import Check, decode_report, encode_work
from headrace.engine.own_worker import OwnWorker
from headrace.engine.records import Metrics, no_commit
from headrace.model.epoch import Chunk
from headrace.model.metrics import FunctionMetrics, OperatorMetrics, QueryCounts
from headrace.optimizer.place import EpochWork, Place, decide_place
from waiting import until

LONG = 60.0

READY = "import os, pickle, struct, time; os.write(1, b'r');"
"""How the program of a played worker begins."""

ECHO = f"""{READY}
while length := os.read(0, 8):
    number, loads, *_ = pickle.loads(os.read(0, *struct.unpack("<Q", length)))
    answer = pickle.dumps((number + OFF, loads, None))
    os.write(1, struct.pack("<Q", len(answer)) + answer)
"""
"""A played worker that answers with the loads; OFF is to be replaced."""


@pytest.fixture
def worker() -> Iterator[OwnWorker]:
    found = OwnWorker(LONG)
    yield found
    found.close()


def a_missing_chunk(folder: Path) -> bytes:
    """Work with a report: that a chunk is missing."""
    return encode_work([Check(str(folder), Chunk("gone.parquet", 1, 1, None, None))])


def test_it_reports_what_the_same_tasks_report_here_and_survives_its_own_death(
    tmp_path: Path, worker: OwnWorker, caplog: pytest.LogCaptureFixture
) -> None:
    load = a_missing_chunk(tmp_path)
    assert worker.run([load], 1, 1) is None  # it is started now, and nobody waits for it
    assert worker.wait_until_ready(LONG)
    answered = worker.run([load], 1, 1)
    assert answered == run_chain([load], 1, 1)
    assert answered is not None and [decode_report(one).error is not None for one in answered] == [True]
    first = worker.pid
    assert first is not None
    os.kill(first, signal.SIGINT)  # Ctrl-C is for the driver
    assert worker.run([load], 1, 1) == answered
    with caplog.at_level(logging.WARNING):
        assert worker.run([b"no work"], 1, 1) is None
    assert "JSONDecodeError" in caplog.text and "from now on" not in caplog.text
    assert worker.run([load], 1, 1) == answered and worker.pid == first
    os.kill(first, signal.SIGKILL)
    with caplog.at_level(logging.WARNING):
        assert worker.run([load], 1, 1) is None
    assert worker.wait_until_ready(LONG) and worker.run([load], 1, 1) == answered
    assert worker.pid != first and not psutil.pid_exists(first)


@pytest.mark.usefixtures("forked_workers")
def test_one_that_does_not_answer_is_ended_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    worker = OwnWorker(0.0, failures=1)
    try:
        assert worker.wait_until_ready(LONG)
        pid = worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        with caplog.at_level(logging.WARNING):
            assert worker.run([encode_work([])], 1, 1) is None
        assert "no answer" in caplog.text and "from now on" in caplog.text
        assert worker.run([encode_work([])], 1, 1) is None
        assert worker.pid is None and not psutil.pid_exists(pid)
    finally:
        worker.close()


def test_one_that_cannot_start_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(own_worker, "_PROGRAM", "raise SystemExit(1)")
    worker = OwnWorker(LONG, failures=2)
    assert not any(worker.wait_until_ready(10) for _ in range(4))
    assert worker.pid is None and worker.run([b""], 1, 1) is None
    assert len(caplog.records) == 2 and "from now on" in caplog.text
    caplog.clear()

    def none_left(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", none_left)
    worker = OwnWorker(LONG, failures=2)
    assert [worker.run([b""], 1, 1) for _ in range(3)] == [None] * 3
    assert len(caplog.records) == 2 and "Cannot allocate memory" in caplog.text


@pytest.mark.parametrize(
    ("program", "bytes_asked"),
    [
        ("time.sleep(20)", 1 << 20),  # more than the pipe holds
        ("os.read(0, 1); os.write(1, b'abc'); time.sleep(20)", 1),
        ("os.fork(); time.sleep(20)", 1),  # the pipes stay open when the worker itself is ended
    ],
)
def test_nothing_of_a_question_takes_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, program: str, bytes_asked: int
) -> None:
    monkeypatch.setattr(own_worker, "_PROGRAM", READY + program)
    worker = OwnWorker(0.3)
    assert worker.wait_until_ready(LONG)
    children, began = psutil.Process(worker.pid).children(), time.monotonic()
    try:
        assert worker.run([b"x" * bytes_asked], 1, 1) is None
        assert time.monotonic() - began < 10 and "in time" in caplog.text and worker.pid is None
    finally:
        worker.close()
        for child in children:
            child.kill()


def test_nobody_gets_the_answer_to_another_question(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(own_worker, "_PROGRAM", ECHO.replace("OFF", "0"))
    worker = OwnWorker(LONG)

    def ask(load: bytes) -> list[bytes] | None:
        assert worker.wait_until_ready(LONG)
        return worker.run([load], 1, 1)

    def refuse(error: BaseException) -> None:
        def loads(_: bytes) -> None:
            raise error

        patched.setattr(own_worker.pickle, "loads", loads)

    try:
        with monkeypatch.context() as patched:
            refuse(MemoryError())
            assert ask(b"first") is None and "MemoryError" in caplog.text
            refuse(KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                ask(b"second")
        assert worker.pid is None and ask(b"third") == [b"third"]
        worker.close()
        monkeypatch.setattr(own_worker, "_PROGRAM", ECHO.replace("OFF", "1"))
        assert ask(b"fourth") is None and "instead of 4" in caplog.text and worker.pid is None
    finally:
        worker.close()


def runs(process: psutil.Process) -> bool:
    """Whether a process is alive; one that nobody has buried yet is not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_one_that_hangs_ends_with_its_driver() -> None:
    hanging = (
        "import os, time; from headrace.engine import own_worker as o;"
        "o.run_chain = lambda *_: (print(os.getpid(), flush=True), time.sleep(60)); o.serve()"
    )
    driver = (
        "import subprocess, sys;"
        f"p = subprocess.Popen([sys.executable, '-c', {hanging!r}], bufsize=0, stdin=-1, stdout=-1);"
        f"p.stdin.write({beside.packed((1, [], 1, 1))!r}); p.wait()"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": paths}
    with subprocess.Popen([sys.executable, "-c", driver], stderr=subprocess.PIPE, env=environment) as process:
        assert process.stderr is not None
        worker = psutil.Process(int(process.stderr.readline()))  # what it prints goes there, and it hangs now
        process.kill()
        try:
            until(lambda: not runs(worker), 10)
        finally:
            if runs(worker):
                worker.kill()


def test_epochs_that_wait_for_others_are_jobs() -> None:
    work, spent = EpochWork(100, 0, catalyst=False), {"o": OperatorMetrics(map_seconds=0.1)}
    assert decide_place(after_epoch(work, None, ())) is Place.OWN_WORKER
    for seconds, place in ((0.5, Place.OWN_WORKER), (8.0, Place.SPARK)):
        metrics = Metrics(input_rows=100, map_seconds=seconds, reduce_seconds=0.1)
        before = replace(no_commit("g"), metrics=metrics, operators=spent)
        assert decide_place(after_epoch(work, before, ())) is place


def test_a_function_that_left_is_no_longer_expected() -> None:
    called = FunctionMetrics(rows=9, seconds=3.0, wanted=QueryCounts.of((4,), (9,)))
    operator = OperatorMetrics(map_seconds=0.1, reduce_seconds=3.11, functions={"dear": called})
    spent = {"o": replace(operator, matched=QueryCounts.of((3, 4), (100, 200)))}
    metrics = Metrics(input_rows=20_000, map_seconds=0.2, reduce_seconds=6.0)
    before = replace(no_commit("g"), metrics=metrics, operators=spent)
    work = EpochWork(20_000, 0, catalyst=False, crowded=True)
    assert decide_place(after_epoch(work, before, {3, 4})) is Place.SPARK
    light = after_epoch(work, before, {3})
    assert light.before == (pytest.approx(0.07), 20_000)
    assert decide_place(light) is Place.OWN_WORKER
