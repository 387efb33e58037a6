"""Scripted death: a process can be told to die at a named point, so that recovery can be tested.

`HEADRACE_KILL_AT=<point>` or `<point>:<nth>` (1-based) arms a real SIGKILL. Tests that stay inside one process pass a
hook instead, which may raise `Crash`. Worker processes die once per marker: `HEADRACE_TASK_FAULTS` names a directory,
and the task that finds (and takes away) the file named like its point kills itself. Unarmed, a point costs a look-up.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "HEADRACE_KILL_AT"
TASK_VARIABLE = "HEADRACE_TASK_FAULTS"

_reached: Counter[str] = Counter()
_lock = threading.Lock()
_hook: Callable[[str], None] | None = None


class Crash(BaseException):
    """A death that stays inside the test process. Whoever raised it abandons the session as it is."""


def reach(point: str) -> None:
    """Die here when it was asked for; else do nothing."""
    if _hook is not None:
        _hook(point)
    armed = os.environ.get(VARIABLE)
    if not armed:
        return
    name, _, nth = armed.partition(":")
    if name != point:
        return
    with _lock:
        _reached[point] += 1
        if _reached[point] == int(nth or 1):
            os.kill(os.getpid(), signal.SIGKILL)


def reach_task(point: str) -> None:
    """In a worker: die by SIGKILL when the marker of this point is there; the retried task finds none."""
    directory = os.environ.get(TASK_VARIABLE)
    if not directory:
        return
    try:
        Path(directory, point).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def hooked(hook: Callable[[str], None]) -> Iterator[None]:
    """Call `hook` with the name of every point that is reached inside the block, in any thread."""
    global _hook
    before, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = before
