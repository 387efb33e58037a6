"""Whose Spark jobs are under way in a warehouse: they may hold every core, and a task is never interrupted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

JUST_S = 1.0
"""A group whose job ended so lately counts as one that runs a job: its next epoch may begin at any moment."""


class JobsUnderWay:
    """The groups that run a Spark job now, have just run one, or have begun an epoch that may need one. Thread-safe.

    >>> now = [0.0]
    >>> jobs = JobsUnderWay(lambda: now[0])
    >>> jobs.begins("heavy")
    >>> jobs.has_others("heavy"), jobs.has_others("light")
    (False, True)
    >>> jobs.ends("heavy")
    >>> jobs.has_others("light")
    True
    >>> now[0] = 2.0
    >>> jobs.has_others("light")
    False
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock, self._clock = threading.Lock(), clock
        self._groups: set[str] = set()
        self._ended: dict[str, float] = {}

    def begins(self, group: str) -> None:
        with self._lock:
            self._groups.add(group)

    def needs_none(self, group: str) -> None:
        """The epoch that a group has begun runs without a job."""
        with self._lock:
            self._groups.discard(group)

    def ends(self, group: str) -> None:
        """A group's epoch is over."""
        with self._lock:
            now = self._clock()
            self._ended = {name: at for name, at in self._ended.items() if now - at < JUST_S}
            if group in self._groups:
                self._groups.discard(group)
                self._ended[group] = now

    def has_others(self, group: str) -> bool:
        """Whether a group other than this one runs a job, or has just run one."""
        with self._lock:
            lately = {name for name, at in self._ended.items() if self._clock() - at < JUST_S}
            return bool((self._groups | lately) - {group})
