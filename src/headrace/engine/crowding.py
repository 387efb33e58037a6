"""Whose Spark jobs are under way in a warehouse: they may hold every core, and a task is never interrupted."""

from __future__ import annotations

import threading


class JobsUnderWay:
    """The groups that run a Spark job now, or have begun an epoch that may need one. Thread-safe.

    >>> jobs = JobsUnderWay()
    >>> jobs.begins("heavy")
    >>> jobs.has_others("heavy"), jobs.has_others("light")
    (False, True)
    >>> jobs.ends("heavy")
    >>> jobs.has_others("light")
    False
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[str] = set()

    def begins(self, group: str) -> None:
        with self._lock:
            self._groups.add(group)

    def ends(self, group: str) -> None:
        """A group's job is over, or it needs none."""
        with self._lock:
            self._groups.discard(group)

    def has_others(self, group: str) -> bool:
        """Whether a group other than this one runs a job."""
        with self._lock:
            return bool(self._groups - {group})
