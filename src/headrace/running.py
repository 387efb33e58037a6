"""Running epochs, on demand or in the background, one at a time; and what they have added up to."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from headrace.catalog.catalog import Catalog
from headrace.engine.errors import spark_gone
from headrace.engine.group import Group
from headrace.engine.records import Commit, Metrics
from headrace.engine.spark import active, is_gone
from headrace.feeding import Feed, Feeds
from headrace.health import RunState
from headrace.log.arrivals import Arrivals
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.errors import EngineError, HeadraceError, LogError
from headrace.model.query import Stream
from headrace.planner.joins import is_joined
from headrace.progress import progress_of
from headrace.retries import Retry
from headrace.showing import show_seconds, show_time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EpochInfo:
    """One epoch as `hr.recent_epochs()` tells it. `newest_end_us` is the end of the last window it delivered."""

    epoch: int
    committed_at: float
    newest_end_us: int | None
    changes: int
    cost: Metrics

    HEADERS: ClassVar = (
        "epoch",
        "committed",
        "took",
        "tuples",
        "late",
        "rows",
        "queries",
        "changes",
        "newest end",
    )

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS; times are in UTC."""
        committed, cost = show_time(int(self.committed_at) * 1_000_000), self.cost
        end = None if self.newest_end_us is None else show_time(self.newest_end_us)
        counts = (cost.input_rows, cost.late_rows, cost.result_rows, cost.active_queries, self.changes)
        return (self.epoch, committed, show_seconds(cost.seconds), *counts, end)


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

    Trouble stops neither the background run nor anything else for good: an epoch that fails is run again, later each
    time, and sources go on meanwhile. `state` and `retry` tell.
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
        self.group, self.feeds, self.retry = group, Feeds(), Retry()
        self.totals = Totals()
        self._catalog, self._arrivals, self._sealer = catalog, arrivals, sealer
        self._max_epoch_rows, self._progress = max_epoch_rows, progress
        self._lock = threading.Lock()
        self._loop: threading.Thread | None = None
        self._stopping = threading.Event()
        self._closed = False

    # on demand

    def run_available(self) -> int:
        """Read all sources, flush query changes, seal everything pending and run it; how many epochs that took.

        A source that cannot be read keeps nothing else from being run; its error is raised after that.
        """
        return self._apart(self._run_available)

    def _apart(self, work: Callable[[threading.Event], T]) -> T:
        """Do work in a thread of its own, where no Ctrl-C can tear a call to Spark."""
        interrupted = threading.Event()
        if threading.current_thread() is not threading.main_thread():
            return work(interrupted)
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work(interrupted))
            except BaseException as error:
                done.set_exception(error)

        worker = threading.Thread(target=run, name="headrace-run", daemon=True)
        worker.start()
        try:
            return done.result()
        except KeyboardInterrupt:
            interrupted.set()
            if self._loop is None:
                self.feeds.stop()
            while worker.is_alive():
                self._cancel()
                worker.join(0.5)
            raise

    def _run_available(self, interrupted: threading.Event) -> int:
        with self._lock, active(self.group.spark):
            if self._closed:
                raise session_closed()
            errors = self.feeds.run_available(interrupted)
            self._catalog.flush()
            done = self._seal_and_run(interrupted)
            self.retry.passed()
            for error in errors:
                raise error
            return done

    def drain(self, stream: Stream) -> None:
        """Take everything that a stream's source has now; LogError naming what could not be read."""
        feed = self.feeds.get(stream.name)
        if feed is None:
            return

        def read(interrupted: threading.Event) -> HeadraceError | None:
            with active(self.group.spark):
                return feed.attempt(feed.ingest.drain)

        if (error := self._apart(read)) is not None:
            raise not_drained(stream, feed, error)

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
        self.retry.passed()
        with active(self.group.spark):
            self.feeds.start(seconds)
        self._loop = threading.Thread(target=self._run_loop, args=(seconds,), name="headrace", daemon=True)
        self._loop.start()

    def _run_loop(self, seconds: float) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            self._step()
            due = max(due + seconds, time.monotonic())
            self._stopping.wait(max(0.0, due - time.monotonic()))

    def _step(self) -> None:
        """Read the sources, then seal and run; whatever fails is tried again in a later step."""
        try:
            with active(self.group.spark):
                self.feeds.tick()
            if self.retry.due:
                with self._lock, active(self.group.spark):
                    self._run_sealed()
                self.retry.passed()
        except Exception as error:
            self.retry.failed(spark_gone() if is_gone(self.group.spark) else error)

    def _seal_next(self) -> bool:
        """Seal what waits, query changes too: input that never pauses must not keep them waiting."""
        self._catalog.tick()
        return self._sealer.seal(self._max_epoch_rows) is not None

    def _run_sealed(self) -> None:
        """Seal and run until nothing is pending or somebody wants to stop.

        Ctrl-C anywhere in the process cancels all Spark jobs; an epoch it hit is simply run again.
        """
        while not self._closed and (self.group.behind or self._seal_next()):
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
        self._loop = None
        self.feeds.stop()

    @property
    def state(self) -> RunState:
        """What the run does, as `hr.health()` tells it."""
        if self._closed:
            return RunState.STOPPED
        if self._loop is None:
            return RunState.IDLE
        if not self._loop.is_alive():
            return RunState.STOPPED
        return RunState.RUNNING if self.retry.error is None else RunState.RETRYING

    # closing

    def close(self) -> None:
        """Stop; whatever another thread is still running is cancelled and waited for."""
        self._closed = True
        try:
            self.stop()
        finally:
            self._stopping.set()
            self.feeds.stop()
            while not self._lock.acquire(timeout=0.5):
                self._cancel()
            self._lock.release()
            self.group.close()

    def _cancel(self) -> None:
        with suppress(Exception):
            self.group.cancel()


def session_closed() -> EngineError:
    return EngineError("SESSION_CLOSED", "this session is closed", hint="open the warehouse again")


def not_drained(stream: Stream, feed: Feed, error: HeadraceError) -> LogError:
    unread: list[str] = []
    with suppress(HeadraceError):
        unread = feed.ingest.unread()
    names = ", ".join(unread[:5]) + (f" and {len(unread) - 5} more" if len(unread) > 5 else "")
    detail = f"{error.message}; {error.detail}" if error.detail else error.message
    return LogError(
        "STREAM_NOT_DRAINED",
        f"stream `{stream.name}` was not closed: its source could not be read to the end",
        detail=f"{detail}; unread: {names}" if names else detail,
        hint="mend the source and close again; drain=False closes without what is unread",
    )
