"""Time for commands that go on until somebody stops them, and what Ctrl-C and SIGTERM mean to them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    @property
    def stopped(self) -> threading.Event: ...

    def now(self) -> float:
        """Seconds since 1970; event time is what it says."""
        ...

    def pause(self, seconds: float) -> bool:
        """Wait; True when somebody asked to stop meanwhile."""
        ...


@dataclass(slots=True)
class WallClock:
    stopped: threading.Event = field(default_factory=threading.Event)

    def now(self) -> float:
        return time.time()

    def pause(self, seconds: float) -> bool:
        return self.stopped.wait(max(0.0, seconds))


@contextmanager
def stop_signals(event: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set `event`; a second one interrupts. (Spark's own handler would cancel the epoch.)"""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: object) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
