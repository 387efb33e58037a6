"""Retries: something that failed is tried again, later each time, and says so meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.engine.errors import spark_reason
from headrace.model.errors import EngineError, HeadraceError

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0


class Retry:
    """The failures in a row of one thing. One thread acts by it; any thread may look at it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._failures = 0
        self.error: HeadraceError | None = None
        self.since = self.retry_at = 0.0

    @property
    def due(self) -> bool:
        """Whether it should be tried now."""
        now = self._clock()
        # a clock that was set back must not hold anybody up
        return self.error is None or not now < self.retry_at <= now + LONGEST_SECONDS

    def failed(self, error: Exception) -> HeadraceError:
        """It did not work, for the reason that is given back; the next try is later than the last was."""
        now = self._clock()
        self.since = now if self.error is None else self.since
        ours = self.error = in_our_words(error)
        self.retry_at = now + min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(self._failures, 16))
        self._failures += 1
        return ours

    def passed(self) -> None:
        """It works."""
        self.error, self._failures = None, 0


def in_our_words(error: Exception) -> HeadraceError:
    """An error of ours that says the same in one line, without pages of Java."""
    if isinstance(error, HeadraceError):
        return error
    ours = EngineError("RUN_FAILED", "the run met an error", detail=spark_reason(error))
    ours.__cause__ = error
    return ours
