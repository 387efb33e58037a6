"""Upkeep: what a long run must forget, over all groups together.

A file may be named by the commits of several groups, so only what none of them names is garbage. It is removed after a
grace, so that a reader who listed it a moment ago can finish. The log is kept for the slowest group.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from headrace.catalog.catalog import Catalog
from headrace.engine.compaction import Compaction
from headrace.engine.delivered import Delivered
from headrace.engine.heirs import legacies, may_hold
from headrace.engine.options import UpkeepOptions
from headrace.engine.paths import (
    REBUILD,
    RESULTS,
    TRIAL,
    commits_dir,
    group_dir,
    handover_dir,
    plan_path,
    plans_dir,
    segments_dir,
)
from headrace.engine.records import Commit
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.errors import HeadraceError
from headrace.model.grouping import MAIN
from headrace.model.query import Fallback
from headrace.model.window import SessionWindow, Window
from headrace.storage import faults
from headrace.storage.warehouse import Warehouse, record_name

_LOGGER = logging.getLogger(__name__)

ANY_EPOCH = 2**62

COARSE_S = 1.0
"""The times of files may be so much older than the clock says."""


class Upkeep:
    """What is done beside the commits of all groups; each step is bounded. Merging has one thread for all of them."""

    def __init__(
        self,
        warehouse: Warehouse,
        catalog: Catalog,
        sealer: Sealer,
        delivered: Delivered,
        options: UpkeepOptions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._warehouse, self._catalog, self._sealer, self._delivered = warehouse, catalog, sealer, delivered
        self.options, self._clock = options, clock
        self._lock = threading.RLock()
        self._garbage: deque[tuple[float, str]] = deque()
        self._compactions: dict[str, Compaction] = {}
        self._attempts: set[str] = set()
        self._claimed: set[str] = set()
        self._beside = ThreadPoolExecutor(1, "headrace-merge")
        self._complaint: str | None = None
        self.kept_for: list[Callable[[], int | None]] = []
        """Others that need the log: each gives the first epoch that it needs, if there is one."""

    def compaction(self, group: str) -> Compaction:
        """What looks after the result files of a group."""
        with self._lock:
            if group not in self._compactions:
                self._compactions[group] = Compaction(
                    self._warehouse.root,
                    self._catalog,
                    self._sealer,
                    self.options,
                    self._beside,
                    self.discard,
                    self._clock,
                )
            return self._compactions[group]

    def close(self) -> None:
        """Wait for merges under way; what they wrote is swept away."""
        self._beside.shutdown()

    # around an epoch

    def begins(self, attempt: str) -> None:
        """Files with this attempt in their name are being written, and no commit names them yet."""
        with self._lock:
            self._attempts.add(attempt)

    def ends(self, attempt: str) -> None:
        with self._lock:
            self._attempts.discard(attempt)

    def claim_legacies(self, heir: Commit) -> list[Commit]:
        """The last commits of ended groups whose results the next commit of a group inherits.

        Nobody merges or expires their results meanwhile, until they are released.
        """
        if not legacies(heir, self._delivered.commits, self._catalog):  # as good as always; then nobody waits
            return []
        with self._lock:
            commits = self._delivered.commits
            names = legacies(heir, commits, self._catalog)
            found = [commits[name] for name in names if name not in self._claimed]
            self._claimed |= {commit.group for commit in found}
            return found

    def release(self, claimed: Iterable[Commit]) -> None:
        """They are inherited by now, or will be another time."""
        with self._lock:
            self._claimed -= {commit.group for commit in claimed}

    def discard(self, paths: Iterable[str]) -> None:
        """These files go after a grace, unless a group names them then."""
        now = time.monotonic()
        with self._lock:
            self._garbage.extend((now, path) for path in paths)

    def after(self, before: Commit, commit: Commit) -> None:
        """What a commit of a group made superfluous goes, after a grace."""
        kept = set(commit.files())
        self.discard(path for path in before.files() if path not in kept)
        if before.plan and commit.plan != before.plan:
            self.discard([plan_path(before.group, before.plan)])
        self._remove_garbage()
        for number in self._old_commits(commit.group):
            self._warehouse.delete_record(commits_dir(commit.group), number)
        if commit.group == MAIN and commit.epoch % self.options.every == self.options.every - 1:
            try:
                self._slow()
            except HeadraceError as error:  # an old record is damaged: new epochs run all the same
                if str(error) != self._complaint:
                    _LOGGER.warning("upkeep after epoch %d failed: %s", commit.epoch, error)
                self._complaint = str(error)

    def _old_commits(self, group: str) -> list[int]:
        """The commits of a group that are older than those that are kept; epochs that ran together have one."""
        return self._warehouse.records(commits_dir(group))[: -self.options.keep_commits]

    def _remove_garbage(self) -> None:
        with self._lock:
            limit = time.monotonic() - self.options.grace_seconds
            due = []
            while self._garbage and self._garbage[0][0] <= limit:
                due.append(self._garbage.popleft())
            named = self._named() if due else set()
            for since, path in due:
                if path in named:
                    continue
                if self._written_again(path, since):
                    self._garbage.append((time.monotonic(), path))
                else:
                    self._warehouse.delete(path)

    def _written_again(self, path: str, since: float) -> bool:
        """Whether a plan is wanted again since a moment: an epoch is under way with it, and no commit names it yet."""
        age = time.monotonic() - since
        return "/plans/" in path and not self._older(path, time.time() - age - COARSE_S)

    def _named(self) -> set[str]:
        """Every file that counts for some group, its plan included."""
        plans = {plan_path(c.group, c.plan) for c in self._delivered.commits.values() if c.plan}
        return self._delivered.files() | plans

    def _slow(self) -> None:
        with self._lock:
            keep = self.options.keep_commits
            self._archive(self._delivered.slowest - keep)
            self._end_groups()
            self._forget_queries()
            self._hand_over_stays()
            self._catalog.homes.forget_specs(self._delivered.slowest - keep)
            self._catalog.checkpoint()
            self._forget_regroupings()
            self._remove_absorbed()
            self._sealer.pack(self._delivered.main.epoch - keep, self.options.pack)
            if self.options.log_retention_us is not None:
                self._expire_log(self.options.log_retention_us)
            self._remove_strays()

    def _archive(self, epoch: int) -> None:
        """Put away queries that were dropped by an epoch that a rebuild of any group will not go back behind."""
        rows = {str(e.query.id): self._delivered.stored_rows(e) for e in self._catalog.current()}
        self._catalog.archive(epoch, rows)

    def _end_groups(self) -> None:
        """Results of groups that nobody lives in expire too; a group of which nothing is left is removed."""
        absorbed = self._delivered.absorbed | self._claimed
        for group, commit in self._delivered.commits.items():
            if group in absorbed:
                continue
            try:
                self._end_group(group, commit)
            except HeadraceError as error:  # one group's damage keeps no other one from being looked after
                _LOGGER.warning("upkeep of group %s failed: %s", group, error)

    def _end_group(self, group: str, commit: Commit) -> None:
        homes = self._catalog.homes
        # asked before it is certain that nobody lives there: somebody may move in meanwhile
        last = homes.last_regrouping
        if group == MAIN or homes.next_epoch(group, commit.epoch) is not None:
            return
        taken = last if homes.regroupings(group, commit.regrouping, ANY_EPOCH) else commit.regrouping
        compaction = self.compaction(group)
        left = compaction.expire(commit, ended=True)
        left = dataclasses.replace(
            left, results=compaction.finish(left.results), segments=(), regrouping=taken
        )
        if left != commit:
            if not self._delivered.swap(commit, left):
                return
            self._warehouse.replace_value(record_name(commits_dir(group), commit.epoch), "commit", left)
            self.discard(path for path in commit.files() if path not in set(left.files()))
        if not left.results and not self._lends(group):
            homes.unless_lived_in(group, lambda: self._remove_group(group))

    def _lends(self, group: str) -> bool:
        """Whether somebody else needs a file that lies in a group's folder: state that queries took along."""
        others = {name: commit for name, commit in self._delivered.commits.items() if name != group}
        needed = {path for commit in others.values() for path in commit.files()}
        return any(
            path.startswith(f"{group_dir(group)}/")
            for path in needed | self._catalog.homes.regrouping_files()
        )

    def _remove_group(self, group: str) -> None:
        self._warehouse.unmark(commits_dir(group))
        self._delivered.forget(group)
        self._compactions.pop(group, None)
        shutil.rmtree(self._warehouse.path(group_dir(group)), ignore_errors=True)

    def _hand_over_stays(self) -> None:
        """Stays in a group are its heir's, when every commit that the heir could go back to has inherited from it."""
        for heir, commit in self._delivered.commits.items():
            kept = self._commits_to_go_back_to(heir) if commit.inherited else []
            for group, since in commit.inherited.items():
                if kept and kept[0] >= since:
                    self._catalog.homes.hand_over(group, heir)

    def _commits_to_go_back_to(self, group: str) -> list[int]:
        """The commits of a group, without those that the log does not go on from any more: these go.

        A group that nobody lives in makes no new commits, which would let the old ones go.
        """
        kept = self._warehouse.records(commits_dir(group))
        while len(kept) > 1:
            following = self._catalog.homes.next_epoch(group, kept[0])
            if following is None or following >= self._sealer.first:
                break
            self._warehouse.delete_record(commits_dir(group), kept.pop(0))
        return kept

    def _remove_absorbed(self) -> None:
        """Groups that another one has inherited from go, when no stay on disk names them."""
        named = {*self._catalog.homes.groups(), *self._claimed}
        for group in (self._delivered.absorbed & {*self._delivered.commits}) - named:
            if not self._lends(group):
                faults.reach("absorbed.before")
                self._remove_group(group)

    def _forget_regroupings(self) -> None:
        """Records that every group has taken in are in the catalog's snapshot by now."""
        taken = [
            commit.regrouping
            for group, commit in self._delivered.commits.items()
            if group not in self._delivered.absorbed  # it takes in nothing any more
            and self._catalog.homes.regroupings(group, commit.regrouping, ANY_EPOCH)
        ]
        waiting = [g for g in self._catalog.homes.groups() if g not in self._delivered.commits]
        if not waiting:
            self._catalog.homes.forget_regroupings(min(taken, default=self._catalog.homes.last_regrouping))

    # files that no commit names

    def sweep(self) -> None:
        """At open: remove the files of crashed and retried attempts, and what a former writer had no time to."""
        for commit in self._delivered.commits.values():
            # written again when needed, so a torn one heals
            self._warehouse.delete(plan_path(commit.group, commit.plan))
            shutil.rmtree(self._warehouse.path(handover_dir(commit.group)), ignore_errors=True)
        named = self._named()
        for path in [path for path in self._listed() if path not in named]:
            self._warehouse.delete(path)

    def _remove_strays(self) -> None:
        """Remove what failed attempts left. What is being written now is listed before it can be named."""
        listed, oldest = list(self._listed()), time.time() - self.options.grace_seconds
        waiting = {path for _, path in self._garbage}
        waiting |= {path for compaction in self._compactions.values() for path in compaction.under_way()}
        writing, named = tuple(self._attempts), self._named()
        for path in listed:
            if path in named or path in waiting or any(attempt in path for attempt in writing):
                continue
            if any(mark in path for mark in (f"-{TRIAL}", f"-{REBUILD}", "/plans/")):
                continue  # of something under way, perhaps; the next opening sweeps them
            if self._older(path, oldest):
                self._warehouse.delete(path)

    def _listed(self) -> Iterator[str]:
        """Every file that commits name, or could name; and commits that are older than any that is kept."""
        root = self._warehouse.root
        for folder in (RESULTS, *(segments_dir(group) for group in self._known_groups())):
            base = self._warehouse.path(folder)
            for path in base.rglob("*") if base.exists() else ():
                if path.is_file():
                    yield path.relative_to(root).as_posix()
        for group in self._known_groups():
            for path in self._warehouse.path(plans_dir(group)).glob("*.json"):
                yield path.relative_to(root).as_posix()
        for group in self._delivered.commits:
            for number in self._old_commits(group):
                yield record_name(commits_dir(group), number)

    def _known_groups(self) -> list[str]:
        return sorted({*self._catalog.homes.groups(), *self._delivered.commits})

    def _older(self, path: str, than: float) -> bool:
        try:
            return self._warehouse.path(path).stat().st_mtime < than
        except FileNotFoundError:
            return False

    # the log and the catalog

    def _expire_log(self, retention_us: int) -> None:
        with self._sealer.holding():  # nobody asks for a start in the past, and nothing is sealed meanwhile
            self._expire_epochs(retention_us)

    def _expire_epochs(self, retention_us: int) -> None:
        """Expire epochs that all groups have run and that were sealed before the retention, unless an open fallback
        window reads them, or a query that is about to begin.
        """
        committed = self._delivered.slowest
        if committed < 0:
            return
        limit, needed = self._clock() - retention_us / 1e6, self._needed_us(self._sealer.epoch(committed))
        before, start = self._sealer.first, self._catalog.earliest_start()
        others = [first for needs in self.kept_for if (first := needs()) is not None]
        last = min(committed, self._needed_epoch(committed), committed if start is None else start, *others)
        for epoch in self._sealer.epochs(self._sealer.first, last):
            read_again = any(
                chunk.max_us is not None and chunk.max_us >= needed.get(inflow.stream, FOREVER_US)
                for inflow in epoch.streams
                for chunk in inflow.chunks
            )
            if epoch.sealed_at >= limit or read_again:
                break
            before = epoch.id + 1
        if before > self._sealer.first:
            self._sealer.expire(before)
            self._delivered.index.forget(before)

    def _needed_us(self, epoch: Epoch) -> dict[str, int]:
        """Per stream with windowed fallbacks: the oldest event time that their open windows can hold."""
        needed: dict[str, int] = {}
        for entry in self._catalog.active_entries(epoch.id):
            body, streams = entry.query.plan.body, entry.query.plan.streams
            if isinstance(body, Fallback) and isinstance(body.window, Window):
                mark = epoch.watermark_us(streams)
                oldest = mark if mark in (NEVER_US, FOREVER_US) else mark - body.window.range_us
                needed |= {name: min(needed.get(name, FOREVER_US), oldest) for name in streams}
        return needed

    def _needed_epoch(self, committed: int) -> int:
        """The first epoch of any fallback over sessions: these may have started whenever, and are read as a whole."""
        plain = (
            int(entry.first_epoch or 0)
            for entry in self._catalog.active_entries(committed)
            if isinstance(entry.query.plan.body, Fallback)
            and isinstance(entry.query.plan.body.window, SessionWindow)
        )
        return min(plain, default=committed)

    def _forget_queries(self) -> None:
        """Dropped queries of which nothing is left to see, neither rows nor log, are no longer listed."""
        if self.options.retention_us is None:
            return
        commits = self._delivered.commits.values()
        oldest = max(*(commit.expired for commit in commits), self._sealer.first - 1, -1)
        files = [file for commit in commits for file in commit.results]
        gone = [
            id_
            for id_, first, last in self._catalog.archived_lifetimes()
            if last <= oldest and not may_hold(files, id_, first, last)
        ]
        self._catalog.forget(gone)
