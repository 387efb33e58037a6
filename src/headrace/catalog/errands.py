"""What several threads ask for at the same moment is done by one of them, so that they wait for one sync together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from headrace.model.errors import HeadraceError

Wanted = TypeVar("Wanted")
Given = TypeVar("Given")


class Errand(Generic[Wanted, Given]):
    """What one thread asks for, and what became of it."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._given: list[Given] = []
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        return bool(self._given) or self._error is not None

    def give(self, given: Given) -> None:
        self._given.append(given)

    def fail(self, error: BaseException) -> None:
        self._error = error

    def result(self) -> Given:
        if self._error is not None:
            raise self._error
        return self._given[0]


class Errands(Generic[Wanted, Given]):
    """Runs errands under a lock, all that wait at once. `work` gives each of them something, or lets it fail.

    It may leave errands undone that cannot be run with the ones before them; these come next.
    """

    def __init__(self, lock: Any, work: Callable[[Sequence[Errand[Wanted, Given]]], None]) -> None:
        self._lock, self._work = lock, work
        self._waiting: deque[Errand[Wanted, Given]] = deque()

    def run(self, wanted: Wanted) -> Given:
        """What becomes of it; raises what it fails with."""
        errand: Errand[Wanted, Given] = Errand(wanted)
        self._waiting.append(errand)
        with self._lock:
            while not errand.done:  # else somebody who had the lock before has done it
                self._run_waiting()
        return errand.result()

    def _run_waiting(self) -> None:
        here = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            self._work(here)
        except BaseException as error:
            for errand in here:
                if not errand.done:  # every thread raises an exception of its own, with its own traceback
                    errand.fail(error.again() if isinstance(error, HeadraceError) else error)
            if not isinstance(error, Exception):
                raise
        self._waiting.extendleft(reversed([errand for errand in here if not errand.done]))
