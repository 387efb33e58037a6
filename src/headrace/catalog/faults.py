"""Scripted death: a process can be told to kill itself at a named point, so that recovery can be tested.

`HEADRACE_KILL_AT=<point>` or `<point>:<nth>` (1-based) arms it. Unarmed, a point costs one dictionary look-
up.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

VARIABLE = "HEADRACE_KILL_AT"

_reached: Counter[str] = Counter()
_lock = threading.Lock()


def reach(point: str) -> None:
    """Die by SIGKILL when this is the armed point and the armed time it is reached; else do nothing."""
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
