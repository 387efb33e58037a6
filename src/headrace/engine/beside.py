"""Processes beside the driver: how one is started, how it is asked, and what it does until its driver is gone.

A question is any value that can be pickled, and so is an answer. Both travel through pipes with their length in front.
"""

from __future__ import annotations

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
from collections.abc import Callable
from typing import IO, Any

VARIABLE = "HEADRACE_OWN_WORKER"
"""`HEADRACE_OWN_WORKER=off`: no process beside the driver, every epoch is a Spark job."""

ORPHAN_SECONDS = 0.5
"""How often such a process looks whether its driver is still there, also while it works."""

KEEP_MEMORY = {
    "MIMALLOC_PURGE_DELAY": "10000",  # milliseconds; Arrow's allocator
    "MALLOC_MMAP_MAX_": "0",  # the largest arrays too come from memory that was used before
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
}
"""Such a process, and a Python worker of our own Spark session, needs the same memory every epoch. Where allocators
give it back at once, and ask for it again, the system fetches and clears pages for longer than the work itself takes.
So a process stays about as large as it was at its largest: of what is free, only what lies above all that is used goes
back to the system. What somebody has set already counts. Allocators of other systems than glibc's ignore it.
"""

LENGTH = struct.Struct("<Q")


def start(program: str) -> subprocess.Popen[bytes]:
    """Start a process that runs a Python program, which is to call `serve`. It says `r` when it can be asked."""
    # its threads would only take cores from the others' tasks
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=KEEP_MEMORY | os.environ | alone | {"PYTHONPATH": paths},
    )
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and close the pipes to it."""
    process.kill()
    process.wait()
    # not until they are at their end: a process that this one has started may hold them open
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def serve(answer: Callable[..., object]) -> None:
    """What the process does until its driver is gone: answer what comes.

    A question is a number and arguments. An answer has the number of its question, and what `answer` gives for the
    arguments, or None and what went wrong.
    """
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the driver
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # whoever reads or prints must not spoil a question or an answer
    os.dup2(2, 1)
    import pyarrow as pa

    pa.set_cpu_count(1)
    answers.write(b"r")
    answers.flush()
    while True:
        try:
            number, *arguments = _receive(questions)
        except EOFError:
            return
        try:
            given: object = (number, answer(*arguments), None)
        except Exception:
            given = (number, None, traceback.format_exc())
        try:
            answers.write(packed(given))
            answers.flush()
        except BrokenPipeError:
            return


def _end_with(driver: int) -> None:
    """End this process when its driver is gone: it may hang in an epoch, and would never look into the pipe again."""
    while os.getppid() == driver:
        time.sleep(ORPHAN_SECONDS)
    os._exit(1)


def packed(value: object) -> bytes:
    """A value as it goes through a pipe."""
    data = pickle.dumps(value)
    return LENGTH.pack(len(data)) + data


def _receive(pipe: IO[bytes]) -> Any:
    (length,) = LENGTH.unpack(_read(pipe, LENGTH.size))
    return pickle.loads(_read(pipe, length))


def _read(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError("the pipe was closed")
    return data


def wait(pipe: IO[bytes], event: int, deadline: float | None) -> bool:
    """Whether a pipe can be read or written, or is broken, by a time of the monotonic clock. None waits for ever."""
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000))


def write_by(pipe: IO[bytes], data: bytes, deadline: float | None) -> None:
    """Write to a pipe that does not block; TimeoutError when nobody reads it by then."""
    left = memoryview(data)
    while left:
        if not wait(pipe, select.POLLOUT, deadline):
            raise TimeoutError("the question was not taken in time")
        left = left[os.write(pipe.fileno(), left) :]


def read_by(pipe: IO[bytes], size: int, deadline: float | None) -> bytes:
    """So many bytes of a pipe; TimeoutError when they are not there by then."""
    found = bytearray()
    while len(found) < size:
        if not wait(pipe, select.POLLIN, deadline):
            raise TimeoutError("no answer in time")
        data = os.read(pipe.fileno(), min(size - len(found), 1 << 20))
        if not data:
            raise EOFError("the pipe was closed")
        found += data
    return bytes(found)
