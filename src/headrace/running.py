"""Running epochs, on demand or in the background, one at a time; and what they have added up to."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from headrace.catalog.catalog import Catalog
from headrace.engine.errors import spark_reason
from headrace.engine.group import Group
from headrace.engine.records import Commit, Metrics
from headrace.engine.spark import active
from headrace.health import RunState
from headrace.log.arrivals import Arrivals
from headrace.log.folder import FolderIngest
from headrace.log.ingest import Ingest
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.errors import EngineError, HeadraceError
from headrace.planner.joins import is_joined
from headrace.progress import progress_of


@dataclass(frozen=True, slots=True)
class EpochInfo:
    """One epoch as `hr.recent_epochs()` tells it. `newest_end_us` is the end of the last window it delivered."""

    epoch: int
    committed_at: float
    newest_end_us: int | None
    changes: int
    cost: Metrics


@dataclass(slots=True)
class Totals:
    """What the epochs since opening added up to. Latencies are seconds; the event-time one is the last epoch's."""

    input_rows: int = 0
    result_rows: int = 0
    late_rows: int = 0
    query_changes: int = 0
    event_time_latency: float | None = None
    deployments: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    recent: deque[EpochInfo] = field(default_factory=lambda: deque(maxlen=1000))

    def add(self, epoch: Epoch, commit: Commit) -> None:
        self.input_rows += commit.metrics.input_rows
        self.result_rows += commit.metrics.result_rows
        self.late_rows += commit.metrics.late_rows
        self.query_changes += len(epoch.changes)
        for change in epoch.changes:
            self.deployments.append(max(0.0, commit.committed_at - change.requested_at))
        new = [file for file in commit.results if file.first_epoch == file.last_epoch == commit.epoch]
        seen = epoch.watermark_us(
            [part.stream for part in epoch.streams]
        )  # joined rows are stored before they show
        ends = [
            min(file.max_us, seen) if is_joined(file.signature) else file.max_us
            for file in new
            if file.max_us and file.max_us not in (NEVER_US, FOREVER_US)
        ]
        ends = [end for end in ends if end not in (NEVER_US, FOREVER_US)]
        self.event_time_latency = commit.committed_at - max(ends) / 1e6 if ends else None
        newest = max(ends, default=None)
        self.recent.append(
            EpochInfo(commit.epoch, commit.committed_at, newest, len(epoch.changes), commit.metrics)
        )


class Running:
    """The group's epochs as people ask for them: `run_available` until all input is processed, `start` and `stop`.

    `ingests` holds the sources by stream: folders are read between epochs, Structured Streaming reads beside them.
    """

    def __init__(
        self,
        group: Group,
        catalog: Catalog,
        arrivals: Arrivals,
        sealer: Sealer,
        max_epoch_rows: int,
        progress: bool | None,
    ) -> None:
        self.group, self.ingests = group, dict[str, Ingest | FolderIngest]()
        self.totals = Totals()
        self._catalog, self._arrivals, self._sealer = catalog, arrivals, sealer
        self._max_epoch_rows, self._progress = max_epoch_rows, progress
        self._lock = threading.Lock()
        self._loop: threading.Thread | None = None
        self._stopping = threading.Event()
        self._interval: float | None = None
        self._trouble: HeadraceError | None = None
        self._closed = False

    def add_ingest(self, stream: str, ingest: Ingest | FolderIngest) -> None:
        self.ingests[stream] = ingest
        if self._interval is not None:
            ingest.start(self._interval)

    # on demand

    def run_available(self) -> int:
        """Flush query changes, seal everything pending and run it; how many epochs that took."""
        interrupted = threading.Event()
        if threading.current_thread() is not threading.main_thread():
            return self._run_available(interrupted)
        done: Future[int] = Future()

        def run() -> None:
            try:
                done.set_result(self._run_available(interrupted))
            except BaseException as error:
                done.set_exception(error)

        # In a thread of its own, where no Ctrl-C can tear a call to Spark.
        worker = threading.Thread(target=run, name="headrace-run", daemon=True)
        worker.start()
        try:
            return done.result()
        except KeyboardInterrupt:
            interrupted.set()
            if self._interval is None:
                self._stop_ingests()
            while worker.is_alive():
                self._cancel()
                worker.join(0.5)
            raise

    def _run_available(self, interrupted: threading.Event) -> int:
        with self._lock, active(self.group.spark):
            if self._closed:
                raise session_closed()
            for ingest in list(self.ingests.values()):
                if not interrupted.is_set():
                    ingest.run_available()
            self._catalog.flush()
            return self._seal_and_run(interrupted)

    def _seal_and_run(self, interrupted: threading.Event) -> int:
        done = 0
        with progress_of(self._progress) as show:
            while not (interrupted.is_set() or self._closed):
                waiting = sum(c.rows for a in self._arrivals.pending() for c in a.chunks)
                if self.group.behind == 0 and self._sealer.seal(self._max_epoch_rows) is None:
                    break
                for commit in self.group.run_pending():
                    self.totals.add(self._sealer.epoch(commit.epoch), commit)
                    done += 1
                    show(commit, waiting)
        return done

    def warm_up(self) -> None:
        with active(self.group.spark):
            self.group.warm_up()

    # in the background

    def start(self, seconds: float) -> None:
        """Every so many seconds, whatever has arrived becomes an epoch."""
        if self._loop is not None:
            raise EngineError("ALREADY_RUNNING", "the session is running already", hint="call stop() first")
        if seconds <= 0:
            raise EngineError("BAD_OPTION", "the interval must be longer than nothing", hint="say '1 second'")
        self._stopping.clear()
        with active(self.group.spark):
            self._start_ingests(seconds)
        self._trouble, self._interval = None, seconds
        self._loop = threading.Thread(target=self._run_loop, args=(seconds,), name="headrace", daemon=True)
        self._loop.start()

    def _start_ingests(self, seconds: float) -> None:
        """All of them, or none when one cannot."""
        try:
            for ingest in list(self.ingests.values()):
                ingest.start(seconds)
        except HeadraceError:
            for ingest in list(self.ingests.values()):
                ingest.stop()
            raise

    def _run_loop(self, seconds: float) -> None:
        due = time.monotonic()
        try:
            while not self._stopping.is_set():
                with active(self.group.spark):
                    for ingest in list(self.ingests.values()):
                        ingest.tick()
                self._catalog.tick()
                with self._lock, active(self.group.spark):
                    self._run_sealed()
                due = max(due + seconds, time.monotonic())
                self._stopping.wait(max(0.0, due - time.monotonic()))
        except HeadraceError as error:
            self._trouble = error
        except Exception as error:
            self._trouble = EngineError(
                "LOOP_FAILED", "the background run stopped", detail=spark_reason(error)
            )
            self._trouble.__cause__ = error

    def _run_sealed(self) -> None:
        """Seal and run until nothing is pending or somebody wants to stop.

        Ctrl-C anywhere in the process cancels all Spark jobs; an epoch it hit is simply run again.
        """
        while not self._closed and (self.group.behind or self._sealer.seal(self._max_epoch_rows)):
            try:
                for commit in self.group.run_pending():
                    self.totals.add(self._sealer.epoch(commit.epoch), commit)
            except EngineError as error:
                if error.code != "EPOCH_CANCELLED":
                    raise
            if self._stopping.is_set():
                return

    def stop(self) -> None:
        """Stop running in the background; the epoch under way is finished first."""
        if self._loop is None:
            return
        self._stopping.set()
        self._loop.join()
        self._loop = self._interval = None
        for ingest in list(self.ingests.values()):
            ingest.stop()
        self._raise_trouble()

    @property
    def state(self) -> RunState:
        """What the run does, as `hr.health()` tells it."""
        if self._closed:
            return RunState.STOPPED
        if self._loop is None:
            return RunState.IDLE
        return RunState.RUNNING if self._loop.is_alive() else RunState.STOPPED

    @property
    def trouble(self) -> HeadraceError | None:
        """What stopped the background run, or what it waits to try again."""
        return self._trouble

    def check(self) -> None:
        """Raise what stopped a background run."""
        if self._loop is not None and not self._loop.is_alive():
            self._raise_trouble()

    def _raise_trouble(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    # closing

    def close(self) -> None:
        """Stop; whatever another thread is still running is cancelled and waited for."""
        self._closed = True
        try:
            self.stop()
        finally:
            self._stopping.set()
            self._stop_ingests()
            while not self._lock.acquire(timeout=0.5):
                self._cancel()
            self._lock.release()
            self.group.close()

    def _stop_ingests(self) -> None:
        for ingest in list(self.ingests.values()):
            with suppress(Exception):
                ingest.stop()

    def _cancel(self) -> None:
        with suppress(Exception):
            self.group.cancel()


def session_closed() -> EngineError:
    return EngineError("SESSION_CLOSED", "this session is closed", hint="open the warehouse again")
