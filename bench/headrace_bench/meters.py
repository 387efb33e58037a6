"""CPU seconds and peak memory of a process and its children, sampled in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import psutil

INTERVAL_S = 0.2


class Meter:
    """Watches this process and everything below it while it is entered.

    CPU seconds include children that have ended, as far as they were seen. Peaks are the largest resident size of any
    one process of a kind, in MB: shared pages count in each.
    """

    def __init__(self) -> None:
        self.peak_mb: dict[str, float] = {}
        self._before: dict[int, float] = {}
        self._latest: dict[int, float] = {}
        self._aside = 0.0
        self._stop = threading.Event()
        self._sampling = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="meter", daemon=True)

    @property
    def cpu_s(self) -> float:
        """CPU seconds up to now, without those that were spent `aside`."""
        with self.aside():
            self._sample()
        with self._sampling:
            seen = sum(s - self._before.get(pid, 0.0) for pid, s in self._latest.items())
        return seen - self._aside

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What the calling thread does meanwhile belongs to the measurement, not to what is measured."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._aside += time.thread_time() - began

    def __enter__(self) -> Meter:
        self._sample()
        self._before = dict(self._latest)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            with self.aside():
                self._sample()

    def _sample(self) -> None:
        with self._sampling:
            self._look()

    def _look(self) -> None:
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    kind = _kind(process, me)
                    size = process.memory_info().rss / 2**20
            except psutil.Error:
                continue
            self._latest[process.pid] = times.user + times.system
            self.peak_mb[kind] = max(self.peak_mb.get(kind, 0.0), size)


def _kind(process: psutil.Process, me: psutil.Process) -> str:
    if process.pid == me.pid:
        return "driver"
    return "jvm" if "java" in process.name() else "worker"
