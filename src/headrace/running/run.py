"""Running epochs, on demand or in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from headrace.catalog.catalog import Catalog
from headrace.engine.errors import spark_gone
from headrace.engine.group import Group
from headrace.engine.groups import Groups
from headrace.engine.records import Commit
from headrace.engine.spark import active, is_gone
from headrace.engine.splits.house import Splits
from headrace.health import RunState
from headrace.log.arrivals import Arrivals
from headrace.log.seal import Sealer
from headrace.model.errors import EngineError, HeadraceError, LogError
from headrace.model.grouping import MAIN
from headrace.model.query import QueryId, Stream
from headrace.options import Options
from headrace.running.conducting import Conducting
from headrace.running.costs import CostBook
from headrace.running.crew import Crew
from headrace.running.feeding import Feed, Feeds
from headrace.running.pace import EpochSizes
from headrace.running.progress import progress_of
from headrace.running.retries import Retry
from headrace.running.totals import Totals

T = TypeVar("T")

POLL_SECONDS = 0.1
"""How often the background run looks for work at least."""

CLOSING_SECONDS = 5.0
"""Whoever closes waits so long for epochs under way; then they are cancelled."""


class Running:
    """The epochs of all groups as people ask for them: `run_available` until all input is processed, `start`, `stop`.

    Trouble stops neither the background run nor anything else for good: an epoch that fails is run again, later each
    time, and sources and other groups go on meanwhile. `state` and `troubles` tell.
    """

    def __init__(
        self,
        groups: Groups,
        catalog: Catalog,
        arrivals: Arrivals,
        sealer: Sealer,
        options: Options,
        splits: Splits,
        conducting: Conducting,
        costs: CostBook,
    ) -> None:
        self.groups, self.splits, self.feeds, self.conducting = groups, splits, Feeds(), conducting
        self.costs = costs
        self._sealing, self._moving = Retry(), Retry()
        self.totals = Totals()
        self._catalog, self._arrivals, self._sealer = catalog, arrivals, sealer
        self._max_epoch_rows, self._progress = options.max_epoch_rows, options.progress
        self._crew = Crew(groups, self._committed, splits=splits)
        self._show: Callable[[Commit], None] = _show_nothing
        self._lock, self._adding = threading.Lock(), threading.Lock()
        self._loop: threading.Thread | None = None
        self._stopping = threading.Event()
        self._closed = False
        self._sizes = EpochSizes()

    def _committed(self, group: Group, commit: Commit) -> None:
        """An epoch of a group counts now. Called by the threads of the crew."""
        epoch = self._sealer.epoch(commit.epoch)

        def home(query: int) -> str | None:
            return self._catalog.entry_of(QueryId(query)).group_at(commit.epoch)

        self.costs.add(group.costs(commit))
        spent = commit.metrics
        tasks_s = spent.cpu_seconds / max(1, group.spec(commit.epoch).tasks)
        self._sizes.ran(group.name, epoch.rows, spent.seconds, tasks_s)
        self.conducting.committed(group, commit)
        self.conducting.balance(group)
        with self._adding:
            self.totals.add(epoch, commit, home)
            self._show(commit)

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
                self.groups.cancel()
                self.splits.cancel()
                worker.join(0.5)
            raise

    def _run_available(self, interrupted: threading.Event) -> int:
        with self._lock, active(self.groups.spark):
            if self._closed:
                raise session_closed()
            errors = self.feeds.run_available(interrupted)
            self._catalog.flush()
            done = self._seal_and_run(interrupted)
            self._sealing.passed()
            for error in errors:
                raise error
            return done

    def drain(self, stream: Stream) -> None:
        """Take everything that a stream's source has now; LogError naming what could not be read."""
        feed = self.feeds.get(stream.name)
        if feed is None:
            return

        def read(interrupted: threading.Event) -> HeadraceError | None:
            with active(self.groups.spark):
                return feed.attempt(feed.ingest.drain)

        if (error := self._apart(read)) is not None:
            raise not_drained(stream, feed, error)

    def _seal_and_run(self, interrupted: threading.Event) -> int:
        """Seal and run until nothing is pending and every group has run everything; epochs of the main group."""
        done = 0
        with progress_of(self._progress) as show:

            def told(commit: Commit) -> None:
                nonlocal done
                done += commit.group == MAIN
                show(commit, sum(c.rows for a in self._arrivals.pending() for c in a.chunks))

            self._show = told
            try:
                while not self._stops(interrupted):
                    self.conducting.look()
                    sealed = not self._crew.due() and self._sealer.seal(self._max_epoch_rows) is not None
                    if not sealed and not self._crew.due():
                        break
                    self._crew.run_to_end(lambda: self._stops(interrupted))
            finally:
                self._show = _show_nothing
        return done

    def _stops(self, interrupted: threading.Event) -> bool:
        return interrupted.is_set() or self._closed

    def warm_up(self) -> None:
        with active(self.groups.spark):
            self.groups.main.warm_up()

    # in the background

    def start(self, seconds: float) -> None:
        """Every so many seconds, whatever has arrived becomes an epoch."""
        if self._loop is not None:
            raise EngineError("ALREADY_RUNNING", "the session is running already", hint="call stop() first")
        if seconds <= 0:
            raise EngineError("BAD_OPTION", "the interval must be longer than nothing", hint="say '1 second'")
        self._stopping.clear()
        self._sealing.passed()
        self._crew.forgive()
        with active(self.groups.spark):
            self.feeds.start(seconds)
        self._loop = threading.Thread(target=self._run_loop, args=(seconds,), name="headrace", daemon=True)
        self._loop.start()
        self.conducting.start(seconds)

    def _run_loop(self, seconds: float) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            if time.monotonic() >= due:
                due = max(due + seconds, time.monotonic())
                self._tick()
            with self._lock:
                self._seal_next()
                self._hand_out()
            self._crew.wait(min(POLL_SECONDS, max(0.0, due - time.monotonic())))
        while self._crew.busy:
            self._crew.wait(POLL_SECONDS)

    def _tick(self) -> None:
        """Read the sources; whatever fails is tried again in a later step."""
        try:
            with active(self.groups.spark):
                self.feeds.tick()
            self._sizes.came(time.monotonic(), sum(self.conducting.stage.arrived().values()))
        except Exception as error:
            self._sealing.failed(spark_gone() if is_gone(self.groups.spark) else error)

    def _seal_next(self) -> None:
        """Seal what waits, query changes too, as soon as some group has run all that is sealed.

        So sealing waits for no slow group, and moves that were decided on wait for nobody. When all groups are behind,
        what arrives meanwhile becomes one large epoch: that is cheaper to run than many small ones. It is not so large
        that nobody could act for long.
        """
        if not self._sealing.due:
            return
        try:
            moved = self.conducting.stage.moved
            if not moved.is_set() and not self._crew.caught_up():
                return
            moved.clear()
            self._catalog.tick()
            sharing, now = self.groups.sharing(), time.monotonic()
            bound = self._sizes.bound(sharing, self._max_epoch_rows)
            waits = sum(chunk.rows for arrival in self._arrivals.pending() for chunk in arrival.chunks)
            if waits < bound and self._sizes.rests(sharing, now) and not self._catalog.unsealed():
                return
            epoch = self._sealer.seal(bound)
            if epoch is not None:
                self._sizes.sealed(epoch.rows, now)
            self._sealing.passed()
        except Exception as error:
            self._sealing.failed(error)

    def _hand_out(self) -> None:
        """Let queries change groups and groups run; what fails here, say a full disk, is tried again."""
        if not self._moving.due:
            return
        try:
            self._crew.dispatch()
            self._moving.passed()
        except Exception as error:
            self._moving.failed(error)

    def stop(self) -> None:
        """Stop running in the background; the epochs under way are finished first."""
        if self._loop is None:
            return
        self.conducting.stop()
        self._stopping.set()
        self._crew.wake()
        self._loop.join(CLOSING_SECONDS if self._closed else None)
        while self._loop.is_alive():  # a job may hang; what is cancelled is run again after opening
            self.groups.cancel()
            self.splits.cancel()
            self._loop.join(0.5)
        self._loop = None
        self.feeds.stop()

    @property
    def troubles(self) -> dict[str, Retry]:
        """What keeps the run, by the group that it keeps; the empty name stands for sealing, which is for all."""
        for_all = [retry for retry in (self._sealing, self._moving) if retry.error is not None]
        return ({"": for_all[0]} if for_all else {}) | self._crew.troubles

    @property
    def state(self) -> RunState:
        """What the run does, as `hr.health()` tells it."""
        if self._closed:
            return RunState.STOPPED
        if self._loop is None:
            return RunState.IDLE
        if not self._loop.is_alive():
            return RunState.STOPPED
        return RunState.RETRYING if self.troubles else RunState.RUNNING

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
                self.groups.cancel()
                self.splits.cancel()
            self._lock.release()
            self._crew.close()
            self.groups.close()
            self.splits.close()
            self.costs.save()
            self.conducting.keep()


def _show_nothing(commit: Commit) -> None:
    """What is shown of a commit when nobody watches."""


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
