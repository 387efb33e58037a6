"""What the groups of a warehouse have delivered: their last commits, and the log that it came from.

A query's rows are in the result files of all groups that it has lived in. Readers ask here, and need not know of
groups.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.heirs import absorbed_by
from headrace.engine.logview import LogIndex
from headrace.engine.records import Commit, ResultFile, no_commit
from headrace.log.seal import Sealer
from headrace.model.epoch import NEVER_US
from headrace.model.grouping import MAIN, GroupKind, GroupState, kind_of
from headrace.model.query import EpochId, Join, JoinedRows, QueryId
from headrace.planner.shared import query_signature


@dataclass(frozen=True, slots=True)
class QueryView:
    """All that readers of one query need, taken at one moment: nothing of it changes under their hands.

    `cursor` is the last epoch whose rows are in `files`. Results of epochs up to `expired` may be gone. The query's
    windows have closed up to `until_us`; those that end by `after_us` may lack rows (None for most queries).
    """

    files: tuple[ResultFile, ...]
    cursor: int
    expired: int
    until_us: int
    after_us: int | None
    stored_rows: int


class Delivered:
    """The last commits of all groups. Thread-safe: commits are replaced, never changed."""

    def __init__(self, catalog: Catalog, sealer: Sealer, commits: Mapping[str, Commit]) -> None:
        self._catalog, self._sealer = catalog, sealer
        self._now = (dict(commits), absorbed_by(commits.values()))
        """The last commits and the groups that others have inherited from: replaced together, for all who read."""
        self._lock = threading.Lock()
        self.index = LogIndex(sealer)
        for commit in commits.values():
            for id_, end in commit.quarantined.items():
                catalog.quarantine(QueryId(int(id_)), EpochId(end.epoch), end.error, end.ended_us)
            catalog.settle_quarantines(QueryId(int(id_)) for id_ in commit.quarantined)

    # groups

    @property
    def commits(self) -> dict[str, Commit]:
        """The last commit of every group that has one."""
        return dict(self._now[0])

    @property
    def absorbed(self) -> frozenset[str]:
        """The groups whose results another group has inherited."""
        return self._now[1]

    def _put(self, commits: dict[str, Commit]) -> None:
        self._now = (commits, absorbed_by(commits.values()))

    def replace(self, commit: Commit) -> None:
        """From now on this is the last commit of its group."""
        with self._lock:  # groups commit side by side
            self._put({**self._now[0], commit.group: commit})

    def swap(self, before: Commit, after: Commit) -> bool:
        """As `replace`, unless the group has another commit by now."""
        with self._lock:
            if self._now[0].get(before.group) is not before:
                return False
            self._put({**self._now[0], before.group: after})
            return True

    def forget(self, group: str) -> None:
        """Nothing is left of a group."""
        with self._lock:
            self._put({name: commit for name, commit in self._now[0].items() if name != group})

    def commit_of(self, group: str) -> Commit:
        return self._now[0].get(group) or no_commit(group)

    @property
    def main(self) -> Commit:
        """The last commit of the group that runs every epoch."""
        return self.commit_of(MAIN)

    @property
    def sealed(self) -> int:
        """The newest sealed epoch; -1 before any."""
        latest = self._sealer.latest
        return -1 if latest is None else int(latest.id)

    @property
    def first_epoch(self) -> int:
        """The oldest epoch that the log still has."""
        return self._sealer.first

    def totals(self, epoch: int) -> dict[str, tuple[int, int]]:
        """Tuples and late tuples of every stream up to and with a sealed epoch; of none before the first."""
        return {} if epoch < self._sealer.first else self._sealer.head(epoch).totals()

    def next_epoch(self, group: str) -> int:
        """The next epoch that a group has to run; it may not be sealed yet."""
        done = self.commit_of(group).epoch
        if group == MAIN:
            return done + 1
        found = self._catalog.homes.next_epoch(group, done)
        return max(done, self.sealed) + 1 if found is None else found

    def cursor(self, group: str) -> int:
        """The last epoch that a group need not run any more: it did, or it has no part in it."""
        return min(self.next_epoch(group) - 1, max(self.sealed, self.commit_of(group).epoch))

    def behind(self, group: str) -> int:
        """How many sealed epochs lie between a group and the newest one."""
        return max(0, self.sealed - self.cursor(group))

    def state_of(self, group: str) -> GroupState:
        """What a group does now."""
        commit, following = self.commit_of(group), self.next_epoch(group)
        if group != MAIN and not self._catalog.active_entries(following, group):
            return GroupState.EMPTY if commit.epoch >= 0 else GroupState.FORMING
        if self.behind(group) > 1 or kind_of(group) is GroupKind.TRANSIT:
            return GroupState.CATCHING_UP
        return GroupState.RUNNING if commit.epoch >= 0 else GroupState.FORMING

    def active(self, group: str) -> int:
        """How many queries a group ran in its last epoch, if it still runs any."""
        commit = self.commit_of(group)
        alive = group == MAIN or self._catalog.homes.next_epoch(group, commit.epoch) is not None
        return commit.metrics.active_queries if alive else 0

    @property
    def slowest(self) -> int:
        """The last epoch that every group has behind it."""
        return min(self.cursor(group) for group in self._catalog.homes.groups())

    @property
    def behind_most(self) -> int:
        """How many sealed epochs the slowest group has not run."""
        return max(0, self.sealed - self.slowest)

    # queries

    def _commits_of(self, entry: QueryEntry) -> list[Commit]:
        """The commits that name rows of a query, as of one moment: those of the groups that it has lived in, in order
        of time, each once, but for those that another one of them has inherited.
        """
        commits, absorbed = self._now
        groups = dict.fromkeys(stay.group for stay in entry.stays if stay.group not in absorbed)
        return [commits.get(group) or no_commit(group) for group in groups]

    def cursor_of(self, entry: QueryEntry) -> int:
        """The last epoch whose rows a reader of a query gets."""
        if not entry.stays:
            return self.main.epoch
        for stay, following in pairwise(entry.stays):
            if (cursor := self.cursor(stay.group)) < following.epoch - 1:
                return max(
                    cursor, stay.epoch - 1
                )  # a reader may know of a move and not of the epochs before it
        last = entry.stays[-1]
        return max(self.cursor(last.group), last.epoch - 1)

    def watermark_us(self, entry: QueryEntry) -> int:
        """The watermark of a query after the last epoch that it was run for."""
        return self.watermark_at(entry.query.plan.streams, self.cursor_of(entry))

    def watermark_at(self, streams: Iterable[str], epoch: int) -> int:
        """The watermark of a query over these streams after an epoch."""
        return NEVER_US if epoch < 0 else self._sealer.head(epoch).watermark_us(streams)

    def view(self, entry: QueryEntry) -> QueryView:
        """What readers of a query need. An epoch that is committed meanwhile is in all of it, or in none."""
        while True:
            before = self._commits_of(entry)
            entry = self._catalog.entry_of(entry.query.id)
            cursor = self.cursor_of(entry)
            found = QueryView(
                tuple(file for commit in before for file in files_of(commit.results, entry)),
                cursor,
                max((commit.expired for commit in before), default=-1),
                self._closed_until(entry, cursor),
                self._whole_after(entry, before),
                self.stored_rows(entry),
            )
            if before == self._commits_of(entry):
                return found

    def _closed_until(self, entry: QueryEntry, cursor: int) -> int:
        ended = entry.ended_us
        if ended is not None and entry.last_epoch is not None and cursor >= entry.last_epoch - 1:
            return ended
        return self.watermark_at(entry.query.plan.streams, cursor)

    def closed_until(self, entry: QueryEntry) -> int:
        """The watermark up to which the windows of a query have closed."""
        return self._closed_until(entry, self.cursor_of(entry))

    def stored_rows(self, entry: QueryEntry) -> int:
        """How many rows epochs have stored for a query. Readers may get fewer, or of joined rows more."""
        archived = self._catalog.archived_rows(entry.query.id)
        if archived is not None:
            return archived
        return sum(commit.rows.get(entry.query.id) for commit in self._commits_of(entry))

    def results(self, entry: QueryEntry) -> list[ResultFile]:
        """The files that may hold rows of a query."""
        return [file for commit in self._commits_of(entry) for file in files_of(commit.results, entry)]

    def expired(self, entry: QueryEntry) -> int:
        """Results of a query from epochs up to this one may be gone."""
        return max((commit.expired for commit in self._commits_of(entry)), default=-1)

    def whole_after(self, entry: QueryEntry) -> int | None:
        """The end of the last window of a query whose groups may be made of a part of their rows; None for most."""
        return self._whole_after(entry, self._commits_of(entry))

    def _whole_after(self, entry: QueryEntry, commits: Iterable[Commit]) -> int | None:
        match entry.query.plan.body:
            case Join(then=JoinedRows(groups=groups)) if groups is not None:
                signature, first = query_signature(entry.query), entry.first_epoch or 0
                lost = [pair for commit in commits for pair in commit.lost.get(signature, ())]
                return max((end_us for epoch, end_us in lost if epoch >= first), default=None)
        return None

    def files(self) -> set[str]:
        """Every file that a commit of any group names, or a regrouping that a group has yet to take in."""
        named = {path for commit in self._now[0].values() for path in commit.files()}
        return named | self._catalog.homes.regrouping_files()


def files_of(files: Iterable[ResultFile], entry: QueryEntry) -> list[ResultFile]:
    """The files that may hold rows of a query."""
    signature = query_signature(entry.query)
    return [file for file in files if file.signature == signature and _covers(file, entry)]


def _covers(file: ResultFile, entry: QueryEntry) -> bool:
    """Whether the query is between those of a file, and lived when its rows were made."""
    first, last = entry.first_epoch, entry.last_epoch
    if first is None or file.last_epoch < first or (last is not None and file.first_epoch >= last):
        return False
    return file.min_query <= entry.query.id <= file.max_query
