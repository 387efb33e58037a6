"""Ctrl-C held back while a durable step and its note in memory must both happen."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_inside = False


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Deliver a SIGINT that comes inside the block at its end. Blocks nest; other threads get no signals anyway."""
    global _inside
    handler = signal.getsignal(signal.SIGINT)
    if _inside or not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[tuple[int, FrameType | None]] = []

    def note(number: int, frame: FrameType | None) -> Any:
        caught.append((number, frame))

    signal.signal(signal.SIGINT, note)
    _inside = True
    try:
        yield
    finally:
        _inside = False
        signal.signal(signal.SIGINT, handler)
        if caught:
            handler(*caught[0])
