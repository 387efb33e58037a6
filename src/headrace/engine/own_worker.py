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
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import IO, Any

from headrace.engine.chain import run_chain

_LOGGER = logging.getLogger(__name__)

SECONDS = 10.0
"""A tiny epoch that takes longer is none; it is run as a job, and the worker is ended."""

VARIABLE = "HEADRACE_OWN_WORKER"
"""`HEADRACE_OWN_WORKER=off`: no process beside the driver, every epoch is a Spark job."""

FAILURES = 3
"""When it has failed so many times in a row, it is left alone for the life of the driver."""

_LENGTH = struct.Struct("<Q")


class OwnWorker:
    """The process and the pipes to it. Any thread may ask; one is served at a time, and nobody waits."""

    def __init__(self, seconds: float = SECONDS, failures: int = FAILURES) -> None:
        self._lock = threading.Lock()
        self._seconds, self._most_failures = seconds, failures
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._failures = 0

    def run(self, loads: Sequence[bytes], partitions: int, stages: int) -> list[bytes] | None:
        """The reports of a job's tasks; None when the worker is not there yet, is busy, is off, or failed."""
        if os.environ.get(VARIABLE) == "off" or not self._lock.acquire(blocking=False):
            return None
        try:
            if self._failures >= self._most_failures or not self._started():
                return None
            return self._ask((list(loads), partitions, stages))
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
                select.select([process.stdout], [], [], left)

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
            self._end()
        if self._process is None:
            self._process = _start()
            self._ready = False
        assert self._process.stdout is not None
        if not self._ready and select.select([self._process.stdout], [], [], 0)[0]:
            self._ready = self._process.stdout.read(1) == b"r"
            if not self._ready:
                self._failed("the driver's own worker did not start; the epoch is run as a Spark job")
                self._end()
        return self._ready

    def _ask(self, question: object) -> list[bytes] | None:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            _send(process.stdin, question)
            if not select.select([process.stdout], [], [], self._seconds)[0]:
                raise TimeoutError(f"no answer in {self._seconds} s")
            reports, trouble = _receive(process.stdout)
        except (OSError, EOFError) as error:
            self._failed(f"the driver's own worker ended ({error}); the epoch is run as a Spark job")
            self._end()
            return None
        if trouble is not None:
            self._failed(f"an epoch failed in the driver's own worker; it is run as a Spark job\n{trouble}")
            return None
        self._failures = 0
        found: list[bytes] = reports
        return found

    def _failed(self, what: str) -> None:
        self._failures += 1
        left_alone = (
            "; small epochs are Spark jobs from now on" if self._failures >= self._most_failures else ""
        )
        _LOGGER.warning("%s%s", what, left_alone)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _start() -> subprocess.Popen[bytes]:
    # its threads would only take cores from the others' tasks
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", "from headrace.engine.own_worker import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | alone | {"PYTHONPATH": paths},
    )


def serve() -> None:
    """What the process does until its driver is gone: run what comes, answer with (reports, None) or (None, why)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the driver
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whoever prints must not spoil an answer
    import pyarrow as pa

    pa.set_cpu_count(1)
    answers.write(b"r")
    answers.flush()
    while True:
        try:
            loads, partitions, stages = _receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: object = (run_chain(loads, partitions, stages), None)
        except Exception:
            answer = (None, traceback.format_exc())
        try:
            _send(answers, answer)
        except BrokenPipeError:
            return


def _send(pipe: IO[bytes], value: object) -> None:
    data = pickle.dumps(value)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    (length,) = _LENGTH.unpack(_read(pipe, _LENGTH.size))
    return pickle.loads(_read(pipe, length))


def _read(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError("the pipe was closed")
    return data


OWN_WORKER = OwnWorker()
"""The one of this process."""

atexit.register(OWN_WORKER.close)
