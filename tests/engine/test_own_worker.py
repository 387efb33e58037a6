"""The driver's own worker as a process: it answers, and whatever happens to it, its driver goes on."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headrace.engine.chain import run_chain
from headrace.engine.messages import Check, decode_report, encode_work
from headrace.engine.own_worker import OwnWorker
from headrace.model.epoch import Chunk

LONG = 60.0


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
