"""The crew: runs the epochs of all groups and splits side by side, on a bounded number of threads.

Every group and every split runs its own epochs in order, and waits for nobody. Between two rounds of handing out
epochs, queries change groups: then it is certain that no group begins an epoch meanwhile. Who begins one is decided by
`optimizer/turns.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from headrace.engine.errors import spark_gone
from headrace.engine.group import Group
from headrace.engine.groups import Groups
from headrace.engine.records import Commit
from headrace.engine.spark import active, is_gone
from headrace.engine.splits.house import Splits
from headrace.engine.splits.runner import SPLIT_PREFIX, SplitRunner
from headrace.model.errors import EngineError, HeadraceError
from headrace.model.grouping import MAIN
from headrace.optimizer.turns import SIDE_BY_SIDE, Contender, Pace, choose_next, plain_room
from headrace.running.retries import Retry, in_our_words

Committed = Callable[[Group, Commit], None]

REMEMBERED = 1000
"""The turns of so many groups are remembered; then those that have nothing to run are forgotten."""


class Crew:
    """Hands out epochs to threads. One thread at a time calls `dispatch`; any may look at `troubles`."""

    def __init__(
        self,
        groups: Groups,
        committed: Committed,
        threads: int = SIDE_BY_SIDE,
        splits: Splits | None = None,
    ) -> None:
        self._groups, self._committed, self._threads = groups, committed, threads
        self._splits = splits
        self._pace = Pace()
        self._pool = ThreadPoolExecutor(threads + 1, "headrace-group")  # one more, for a light group
        self._changed = threading.Condition()
        self._running: dict[str, Contender] = {}
        self._turns: dict[str, int] = {}
        self._turn = 0
        self._retries: dict[str, Retry] = {}
        self._errors: dict[str, HeadraceError] = {}
        self._fatal: BaseException | None = None

    @property
    def troubles(self) -> dict[str, Retry]:
        """The groups and splits whose last try of an epoch failed, with what is known about it.

        Not those that nobody wants to run any more: all queries have left the group, or somebody dropped the split.
        """
        with self._changed:
            failing = {name: retry for name, retry in self._retries.items() if retry.error is not None}
        wanted = set(self.due()) if failing else set()
        return {name: retry for name, retry in failing.items() if name in wanted}

    @property
    def busy(self) -> bool:
        """Whether an epoch is under way."""
        with self._changed:
            return bool(self._running)

    def forgive(self) -> None:
        """Whatever failed is tried again at once, and nobody rests."""
        with self._changed:
            self._retries.clear()
            self._pace = Pace()

    def caught_up(self) -> bool:
        """Whether a group that has members, or a split, has run all sealed epochs; or there are none of these."""
        with self._changed:
            running = set(self._running)
        waiting = {*self.due(), *running}
        splits = [] if self._splits is None else self._splits.running()
        lived_in = [*self._groups.lived_in(), *splits] or [MAIN]
        return any(name not in waiting for name in lived_in)

    def due(self) -> list[str]:
        """The groups and splits that have a sealed epoch to run."""
        return [*self._groups.due(), *(() if self._splits is None else self._splits.due())]

    def _get(self, name: str) -> Group | SplitRunner | None:
        """What runs epochs under a name; None for a split that somebody has dropped meanwhile."""
        if self._splits is None or not name.startswith(SPLIT_PREFIX):
            return self._groups.get(name)
        try:
            return self._splits.get(name)
        except KeyError:
            return None

    def dispatch(self, leave: Collection[str] = (), *, at_once: bool = False) -> None:
        """Let queries change groups, then start the groups that have an epoch to run, but for those to `leave` alone.

        A group that failed is tried again when its time has come, or `at_once`.
        """
        with self._changed:
            if self._fatal is not None:
                raise self._fatal
            failing = {name for name, retry in self._retries.items() if retry.error is not None}
            resting = {*self._running, *leave, *self._groups.settle(self._running, failing)}
            due_now = self.due()
            self._forget({*due_now, *self._running})
            names = [
                name
                for name in due_now
                if name not in resting and (at_once or self._retries.setdefault(name, Retry()).due)
            ]
            running = list(self._running.values())
            contended = len(names) > self._threads - len(running)
            due = {name: self._contender(name, ranked=contended) for name in names}
            plain = self._plain_now([*running, *due.values()], at_once=at_once)
            for name in choose_next(due.values(), running, self._threads, self._turn, plain):
                group = self._get(name)
                if group is None:
                    continue
                self._turn += 1
                self._turns[name] = self._turn
                self._running[name] = due[name]
                self._pool.submit(self._run, group, self._retries.setdefault(name, Retry()))

    def _forget(self, wanted: Collection[str]) -> None:
        """Know no more of ever more groups: most were on their way for a moment."""
        if len(self._turns) > REMEMBERED:
            self._turns = {name: turn for name, turn in self._turns.items() if name in wanted}
            self._retries = {name: retry for name, retry in self._retries.items() if name in wanted}

    def _contender(self, name: str, *, ranked: bool) -> Contender:
        """Someone with an epoch to run. Priorities count only where not all can run."""
        turn, groups = self._turns.get(name, -1), self._groups
        if name.startswith(SPLIT_PREFIX):
            return Contender(name, turn=turn)
        priority = groups.priority(name) if ranked else 0
        return Contender(name, groups.is_plain(name), priority, turn, groups.is_light(name))

    def _plain_now(self, there: Collection[Contender], *, at_once: bool) -> int:
        """How many plain groups may run now. Nobody else is slowed by them when all are run to the end anyway."""
        now = time.monotonic()
        self._pace = self._pace.seen(now, busy=not all(one.plain for one in there))
        others = self._groups.shares() or (self._splits is not None and self._splits.running())
        if at_once or not others:
            return self._threads
        return plain_room(self._groups.cores, self._threads).groups if self._pace.lets_plain(now) else 0

    def _run(self, group: Group | SplitRunner, retry: Retry) -> None:
        started = time.monotonic()
        try:
            with active(group.spark):
                if isinstance(group, SplitRunner):
                    group.run_next()
                elif (commit := group.run_next()) is not None:
                    self._committed(group, commit)
            retry.passed()
        except Exception as error:
            cancelled = isinstance(error, EngineError) and error.code == "EPOCH_CANCELLED"
            told = in_our_words(spark_gone() if is_gone(group.spark) else error)
            if not cancelled:  # else somebody wanted it, and the epoch is simply run again
                retry.failed(told)
            with self._changed:
                self._errors[group.name] = told
        except BaseException as error:  # the process is to end
            self._fatal = error
        finally:
            with self._changed:
                if self._running.pop(group.name).plain:
                    now = time.monotonic()
                    self._pace = self._pace.ended(now, now - started)
                self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until an epoch has ended, so long at most."""
        with self._changed:
            self._changed.wait(seconds)

    def wake(self) -> None:
        """Let a waiting caller look again."""
        with self._changed:
            self._changed.notify_all()

    def run_to_end(self, stop: Callable[[], bool]) -> None:
        """Run all groups until none has a sealed epoch left, or somebody wants to stop.

        A group that fails keeps no other one from being run; the first error is raised after that.
        """
        failed: BaseException | None = None
        with self._changed:
            self._errors.clear()
            while True:
                if not stop() and failed is None and self._fatal is None:
                    try:
                        self.dispatch(self._errors, at_once=True)
                    except BaseException as error:  # the epochs under way come to their end first
                        failed = error
                if not self._running:
                    break
                self._changed.wait(0.5)
            for known in (self._fatal, failed, *self._errors.values()):
                if known is not None:
                    raise known

    def close(self) -> None:
        self._pool.shutdown()
