"""The driver's own worker: a process beside the driver that runs the tasks of tiny epochs, without a Spark job.

It is one process for all sessions of a driver, started when an epoch could use it first; that epoch is a Spark job
still. It runs the same functions as Spark's Python workers do and keeps the same plans ready. Whatever goes wrong in
it, be it an exception, its death or its silence, costs nothing but time: the epoch is run as a Spark job then, which
knows how to find a culprit.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import select
import subprocess
import threading
import time
from collections.abc import Sequence

from headrace.engine import beside
from headrace.engine.chain import run_chain

_LOGGER = logging.getLogger(__name__)

SECONDS = 10.0
"""A tiny epoch that takes longer is none; it is run as a job, and the worker is ended."""

FAILURES = 3
"""When it has failed so many times in a row, it is left alone for the life of the driver."""

PATIENCE_SECONDS = 0.25
"""How long an epoch waits for another one that the worker runs: about what a Spark job would cost more."""

_PROGRAM = "from headrace.engine.own_worker import serve; serve()"


class OwnWorker:
    """The process and the pipes to it. Any thread may ask; one is served at a time, and nobody waits for long."""

    def __init__(self, seconds: float = SECONDS, failures: int = FAILURES) -> None:
        self._lock = threading.Lock()
        self._seconds, self._most_failures = seconds, failures
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._failures = self._asked = 0

    def run(self, loads: Sequence[bytes], partitions: int, stages: int) -> list[bytes] | None:
        """The reports of a job's tasks; None when the worker is not there yet, stays busy, is off, or failed."""
        if os.environ.get(beside.VARIABLE) == "off" or not self._lock.acquire(timeout=PATIENCE_SECONDS):
            return None
        try:
            if not self._started():
                return None
            return self._ask(list(loads), partitions, stages)
        finally:
            self._lock.release()

    def wait_until_ready(self, seconds: float) -> bool:
        """Start the worker if need be and wait until it can be asked; whether it can."""
        deadline = time.monotonic() + seconds
        while True:
            with self._lock:
                if self._started():
                    return True
                process, left = self._process, deadline - time.monotonic()
                if left <= 0 or process is None or process.stdout is None:
                    return False
                beside.wait(process.stdout, select.POLLIN, deadline)

    @property
    def pid(self) -> int | None:
        """The process, if there is one."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _started(self) -> bool:
        """Whether the worker can be asked; starts it when there is none."""
        if self._process is not None and self._process.poll() is not None:
            self._failed("the driver's own worker ended by itself")
            self._end()
        if self._failures >= self._most_failures:
            return False
        if self._process is None:
            try:
                self._process = beside.start(_PROGRAM)
            except OSError as error:  # no memory for another process, say
                self._failed(f"the driver's own worker could not be started ({error})")
                return False
        assert self._process.stdout is not None
        if not self._ready and beside.wait(self._process.stdout, select.POLLIN, 0.0):
            self._ready = self._process.stdout.read(1) == b"r"
            if not self._ready:
                self._failed("the driver's own worker did not start")
                self._end()
        return self._ready

    def _ask(self, *question: object) -> list[bytes] | None:
        """The answer to a question. Whatever happens, no answer is left in the pipe for the next one who asks."""
        process, deadline = self._process, time.monotonic() + self._seconds
        assert process is not None and process.stdin is not None and process.stdout is not None
        self._asked += 1
        try:
            beside.write_by(process.stdin, beside.packed((self._asked, *question)), deadline)
            (length,) = beside.LENGTH.unpack(beside.read_by(process.stdout, beside.LENGTH.size, deadline))
            answered, reports, trouble = pickle.loads(beside.read_by(process.stdout, length, deadline))
            if answered != self._asked:
                raise ValueError(f"it answered question {answered} instead of {self._asked}")
        except Exception as error:
            self._failed(f"the driver's own worker ended ({error!r})")
            self._end()
            return None
        except BaseException:  # Ctrl-C
            self._end()
            raise
        if trouble is not None:
            self._failed(f"an epoch failed in the driver's own worker\n{trouble}")
            return None
        self._failures = 0
        found: list[bytes] = reports
        return found

    def _failed(self, what: str) -> None:
        self._failures += 1
        alone = self._failures >= self._most_failures
        then = "small epochs are Spark jobs from now on" if alone else "the epoch is run as a Spark job"
        _LOGGER.warning("%s; %s", what, then)

    def _end(self) -> None:
        process, self._process, self._ready = self._process, None, False
        if process is not None:
            beside.end(process)


def serve() -> None:
    """What the process does until its driver is gone: run what comes, and answer with the reports."""
    beside.serve(lambda loads, partitions, stages: run_chain(loads, partitions, stages))


OWN_WORKER = OwnWorker()
"""The one of this process."""

atexit.register(OWN_WORKER.close)
