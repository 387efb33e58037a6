"""The driver's own workers for splits: processes beside the driver that run the tasks of splits, without a Spark job.

They run the functions that Spark's Python workers run, and keep instances as these do. A split that is at work has its
workers for itself. When it comes again it gets the same ones if they are free, so that its instances are at hand. A
worker that ends, by a kill or by what an operator did, is replaced; whoever asked it is told with `WorkerLost`.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import select
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from headrace.engine import beside
from headrace.engine.splits import tasks
from headrace.engine.splits.code import Packed

_LOGGER = logging.getLogger(__name__)

START_SECONDS = 60.0
"""A worker that cannot be asked after so long is none."""

FAILURES = 3
"""When so many in a row did not start, Spark runs all splits from now on."""

_PROGRAM = "from headrace.engine.splits.workers import serve; serve()"


class WorkerLost(RuntimeError):
    """A worker ended before it had answered."""


class WorkerCancelled(RuntimeError):
    """Somebody wanted the split that the worker was at to stop."""


@dataclass(eq=False, slots=True)
class SplitWorker:
    """One process. `homes` says which sub-streams of which splits it may have instances of, `codes` which code it has.
    `turn` is when it was hired last.
    """

    process: subprocess.Popen[bytes]
    ready: bool = False
    asked: int = 0
    cancelled: bool = False
    pending: bool = False
    """Whether it has not answered yet."""
    turn: int = 0
    homes: dict[str, list[int]] = field(default_factory=dict)
    codes: set[str] = field(default_factory=set)

    def wait_until_ready(self, deadline: float) -> bool:
        """Whether it can be asked by a time of the monotonic clock."""
        assert self.process.stdout is not None
        if not self.ready and beside.wait(self.process.stdout, select.POLLIN, deadline):
            self.ready = self.process.stdout.read(1) == b"r"
        return self.ready

    def ask(self, kind: str, packed: Packed, loads: Sequence[tuple[object, ...]]) -> None:
        """Give it tasks; `answer` waits for what they report."""
        assert self.process.stdin is not None
        self.asked += 1
        self.pending = True
        known = packed.key in self.codes
        question = (self.asked, kind, packed.key, None if known else packed, list(loads))
        try:
            beside.write_by(self.process.stdin, beside.packed(question), None)
        except OSError as error:
            raise self._lost(error) from error
        self.codes.add(packed.key)

    def answer(self) -> list[bytes]:
        """The reports of the tasks that it was given last. There is no time limit: the calls in them have theirs."""
        assert self.process.stdout is not None
        try:
            (length,) = beside.LENGTH.unpack(beside.read_by(self.process.stdout, beside.LENGTH.size, None))
            number, reports, trouble = pickle.loads(beside.read_by(self.process.stdout, length, None))
        except (OSError, EOFError) as error:
            raise self._lost(error) from error
        self.pending = False
        if trouble is not None:
            raise RuntimeError(trouble)
        assert number == self.asked
        found: list[bytes] = reports
        return found

    def _lost(self, error: Exception) -> Exception:
        if self.cancelled:
            return WorkerCancelled()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        return WorkerLost(f"a worker process of the driver ended with {self.process.returncode} ({error})")


def ask_all(
    workers: Sequence[SplitWorker], kind: str, packed: Packed, loads: Sequence[tuple[object, ...]]
) -> list[bytes]:
    """Let workers run tasks side by side, dealt out in turn. Raises only when each one has answered or is gone."""
    busy = [(worker, loads[at :: len(workers)]) for at, worker in enumerate(workers) if at < len(loads)]
    errors: list[Exception] = []
    reports: list[bytes] = []
    asked = []
    for worker, mine in busy:
        try:
            worker.ask(kind, packed, mine)
            asked.append(worker)
        except (WorkerLost, WorkerCancelled) as error:
            errors.append(error)
    for worker in asked:
        try:
            reports += worker.answer()
        except RuntimeError as error:
            errors.append(error)
    if errors:
        raise next((error for error in errors if isinstance(error, WorkerCancelled)), errors[0])
    return reports


def own_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not everywhere
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SplitWorkers:
    """The workers of this process. Any thread may hire some, and has them for itself until it is done."""

    def __init__(self, most: int | None = None) -> None:
        self.cores = own_cores()
        self._most = most or 2 * self.cores
        self._changed = threading.Condition()
        self._idle: list[SplitWorker] = []
        self._hired: dict[SplitWorker, str] = {}
        self._cancelled: Counter[str] = Counter()
        """How often somebody wanted the splits to stop, so that those which wait for a worker know of it."""
        self._starting = self._failures = self._turn = 0

    @property
    def usable(self) -> bool:
        """Whether there can be workers."""
        return os.environ.get(beside.VARIABLE) != "off" and self._failures < FAILURES

    @contextmanager
    def hired(self, home: str, count: int) -> Iterator[list[SplitWorker]]:
        """Workers for a split, at least one and so many at most; none when they cannot be started.

        Waits only while all of them are at work for others. WorkerCancelled when the split is to stop meanwhile.
        """
        hired = self._hire(home, count)
        try:
            yield hired
        finally:
            with self._changed:
                for worker in hired:
                    del self._hired[worker]
                    worker.homes.setdefault(home, [])
                    if worker.pending or worker.cancelled or worker.process.poll() is not None:
                        beside.end(worker.process)
                    else:
                        self._idle.append(worker)
                self._changed.notify_all()

    def _hire(self, home: str, count: int) -> list[SplitWorker]:
        with self._changed:
            before = self._cancelled[home]
            while not (found := self._take_idle(home, count)) and not self._room:
                self._changed.wait()
                if self._cancelled[home] != before:
                    raise WorkerCancelled()
            fresh = max(0, min(count - len(found), self._room))
            self._starting += fresh
        try:
            alive = self._started(fresh)
        except BaseException:  # Ctrl-C: those that were taken are there for others
            with self._changed:
                self._starting -= fresh
                self._idle += found
                self._changed.notify_all()
            raise
        with self._changed:
            self._starting -= fresh
            self._turn += 1
            for worker in (*found, *alive):
                self._hired[worker], worker.turn = home, self._turn
            if alive:
                self._failures = 0
            self._changed.notify_all()
        return [*found, *alive]

    def _started(self, count: int) -> list[SplitWorker]:
        """New workers that can be asked, so many at most."""
        started: list[SplitWorker] = []
        try:
            for _ in range(count):
                if (worker := self._start()) is not None:
                    started.append(worker)
            deadline = time.monotonic() + START_SECONDS
            alive = [worker for worker in started if worker.wait_until_ready(deadline)]
        except BaseException:
            for worker in started:
                beside.end(worker.process)
            raise
        for worker in started:
            if worker not in alive:
                self._failed("did not start")
                beside.end(worker.process)
        return alive

    @property
    def _room(self) -> int:
        """How many workers there may be more."""
        return self._most - len(self._idle) - len(self._hired) - self._starting

    def _take_idle(self, home: str, count: int) -> list[SplitWorker]:
        """Idle workers, first those that have worked for the split, and of these who did so last."""
        for worker in [w for w in self._idle if w.process.poll() is not None]:
            self._idle.remove(worker)
            beside.end(worker.process)
        ordered = sorted(self._idle, key=lambda worker: (home not in worker.homes, -worker.turn))
        # another split's instances would only make room for ours: start a process instead, while there may be more
        fitting = [w for w in ordered if home in w.homes or not w.homes or not self._room]
        for worker in fitting[:count]:
            self._idle.remove(worker)
        return fitting[:count]

    def _start(self) -> SplitWorker | None:
        try:
            return SplitWorker(beside.start(_PROGRAM))
        except OSError as error:  # no memory for another process, say
            self._failed(f"could not be started ({error})")
            return None

    def _failed(self, what: str) -> None:
        self._failures += 1
        _LOGGER.warning("a worker process of the driver for splits %s; Spark runs the epoch", what)

    def cancel(self, home: str) -> None:
        """End the workers that are at work for a split: whoever asked them, or waits for some, gets WorkerCancelled."""
        with self._changed:
            self._cancelled[home] += 1
            self._changed.notify_all()
            for worker in [worker for worker, whose in self._hired.items() if whose == home]:
                worker.cancelled = True
                worker.process.kill()

    def leave(self, root: str) -> None:
        """End the workers that only have instances of a warehouse which is closed."""
        with self._changed:
            for worker in list(self._idle):
                for home in [home for home in worker.homes if home.startswith(f"{root}/")]:
                    del worker.homes[home]
                if not worker.homes:
                    self._idle.remove(worker)
                    beside.end(worker.process)

    @property
    def pids(self) -> list[int]:
        """The processes that there are."""
        with self._changed:
            return [worker.process.pid for worker in (*self._idle, *self._hired)]

    def close(self) -> None:
        """End all processes."""
        with self._changed:
            for worker in (*self._idle, *self._hired):
                worker.cancelled = True
                worker.process.kill()
            for worker in self._idle:
                beside.end(worker.process)
            self._idle.clear()


def serve() -> None:
    """What a worker does until its driver is gone: run tasks of splits, and answer with their reports."""
    codes: dict[str, Packed] = {}

    def run(kind: str, key: str, packed: Packed | None, loads: list[tuple[object, ...]]) -> list[bytes]:
        if packed is not None:
            codes[key] = packed
        known = {"split": tasks.split_task, "process": tasks.process_task, "resize": tasks.resize_task}
        task = known[kind]
        return [report for load in loads for report in task(codes[key], *load)]  # type: ignore[operator]

    beside.serve(run)


SPLIT_WORKERS = SplitWorkers()
"""Those of this process."""

atexit.register(SPLIT_WORKERS.close)
