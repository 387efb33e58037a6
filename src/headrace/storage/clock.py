"""The one way to ask for the time, so that tests can say what time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970 (UTC)."""
        ...


class SystemClock:
    def now(self) -> float:
        return time.time()
