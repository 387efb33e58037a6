"""Waiting for something to happen: tests never guess how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Ask until the condition holds; what it said then. It may fail by itself, when it sees that it never will."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"it did not happen within {seconds} seconds"
        time.sleep(0.01)
    return found
