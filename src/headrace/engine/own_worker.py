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

ORPHAN_SECONDS = 0.5
"""How often the worker looks whether its driver is still there, also while it runs an epoch."""

_PROGRAM = "from headrace.engine.own_worker import serve; serve()"

_LENGTH = struct.Struct("<Q")


class OwnWorker:
    """The process and the pipes to it. Any thread may ask; one is served at a time, and nobody waits."""

    def __init__(self, seconds: float = SECONDS, failures: int = FAILURES) -> None:
        self._lock = threading.Lock()
        self._seconds, self._most_failures = seconds, failures
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._failures = self._asked = 0

    def run(self, loads: Sequence[bytes], partitions: int, stages: int) -> list[bytes] | None:
        """The reports of a job's tasks; None when the worker is not there yet, is busy, is off, or failed."""
        if os.environ.get(VARIABLE) == "off" or not self._lock.acquire(blocking=False):
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
                _wait(process.stdout, select.POLLIN, deadline)

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
                self._process = _start()
            except OSError as error:  # no memory for another process, say
                self._failed(f"the driver's own worker could not be started ({error})")
                return False
        assert self._process.stdout is not None
        if not self._ready and _wait(self._process.stdout, select.POLLIN, 0.0):
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
            _write_by(process.stdin, _packed((self._asked, *question)), deadline)
            (length,) = _LENGTH.unpack(_read_by(process.stdout, _LENGTH.size, deadline))
            answered, reports, trouble = pickle.loads(_read_by(process.stdout, length, deadline))
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
            process.kill()
            process.wait()
            # not until they are at their end: a process that the worker has started may hold them open
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _start() -> subprocess.Popen[bytes]:
    # its threads would only take cores from the others' tasks
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | alone | {"PYTHONPATH": paths},
    )
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    return process


def serve() -> None:
    """What the process does until its driver is gone: run what comes. An answer has the number of its question, and
    the reports, or None and what went wrong.
    """
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the driver
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whoever prints must not spoil an answer
    import pyarrow as pa

    pa.set_cpu_count(1)
    answers.write(b"r")
    answers.flush()
    while True:
        try:
            number, loads, partitions, stages = _receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: object = (number, run_chain(loads, partitions, stages), None)
        except Exception:
            answer = (number, None, traceback.format_exc())
        try:
            answers.write(_packed(answer))
            answers.flush()
        except BrokenPipeError:
            return


def _end_with(driver: int) -> None:
    """End this process when its driver is gone: it may hang in an epoch, and would never look into the pipe again."""
    while os.getppid() == driver:
        time.sleep(ORPHAN_SECONDS)
    os._exit(1)


def _packed(value: object) -> bytes:
    data = pickle.dumps(value)
    return _LENGTH.pack(len(data)) + data


def _receive(pipe: IO[bytes]) -> Any:
    (length,) = _LENGTH.unpack(_read(pipe, _LENGTH.size))
    return pickle.loads(_read(pipe, length))


def _read(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError("the pipe was closed")
    return data


def _wait(pipe: IO[bytes], event: int, deadline: float) -> bool:
    """Whether a pipe can be read or written, or is broken, by a time of the monotonic clock."""
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _write_by(pipe: IO[bytes], data: bytes, deadline: float) -> None:
    """Write to a pipe that does not block; TimeoutError when nobody reads it by then."""
    left = memoryview(data)
    while left:
        if not _wait(pipe, select.POLLOUT, deadline):
            raise TimeoutError("the question was not taken in time")
        left = left[os.write(pipe.fileno(), left) :]


def _read_by(pipe: IO[bytes], size: int, deadline: float) -> bytes:
    """So many bytes of a pipe; TimeoutError when they are not there by then."""
    found = bytearray()
    while len(found) < size:
        if not _wait(pipe, select.POLLIN, deadline):
            raise TimeoutError("no answer in time")
        data = os.read(pipe.fileno(), min(size - len(found), 1 << 20))
        if not data:
            raise EOFError("the pipe was closed")
        found += data
    return bytes(found)


OWN_WORKER = OwnWorker()
"""The one of this process."""

atexit.register(OWN_WORKER.close)
