"""Upkeep: what a long run must forget. Merges small result files, expires old ones, removes what no commit names.

A file that a commit stopped naming is removed only after a grace, so that a reader who listed it a moment ago can
finish. Compaction and expiry change the list of result files, so they take effect with a commit; files are merged in a
thread beside the next epoch's job, for its commit. Retention is counted in wall-clock time since an epoch was
delivered: old events read today stay as long as new ones.
"""

from __future__ import annotations

import dataclasses
import logging
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.handover import clear_handover
from headrace.engine.logview import LogIndex
from headrace.engine.paths import MAIN, handover_dir
from headrace.engine.records import COMMITS, PLANS, RESULTS, SEGMENTS, Commit, ResultFile
from headrace.engine.result_files import write_results
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.errors import HeadraceError
from headrace.model.query import Fallback
from headrace.model.window import SessionWindow, Window
from headrace.planner.joins import is_joined
from headrace.planner.shared import query_signature
from headrace.storage import faults
from headrace.storage.checksums import amiss, written
from headrace.storage.warehouse import Warehouse, record_name

_LOGGER = logging.getLogger(__name__)

SMALL_BYTES = 16 << 20
SMALL_ROWS = 1 << 18
"""Result files below both limits are merged; merging must fit into the driver's memory."""


@dataclass(frozen=True, slots=True)
class UpkeepOptions:
    """How long things stay (None: for ever) and how often upkeep looks. The defaults suit epochs of a second or so.

    `every` is the number of epochs between the slower steps, `pack` how many epoch records are left single.
    """

    retention_us: int | None = None
    log_retention_us: int | None = None
    grace_seconds: float = 60.0
    keep_commits: int = 8
    every: int = 32
    fan_in: int = 8
    pack: int = 256


class Upkeep:
    """Runs beside each commit; each step is bounded. Merging has a thread of its own."""

    def __init__(
        self,
        warehouse: Warehouse,
        catalog: Catalog,
        sealer: Sealer,
        index: LogIndex,
        options: UpkeepOptions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._warehouse, self._catalog, self._sealer, self._index = warehouse, catalog, sealer, index
        self._options, self._clock = options, clock
        self._garbage: deque[tuple[float, str]] = deque()
        self._unmergeable: set[str] = set()
        self._beside = ThreadPoolExecutor(1, "headrace-merge")
        self._merging: list[tuple[list[ResultFile], str, Future[ResultFile | None]]] = []
        self._complaint: str | None = None

    # around a commit

    def rewrite(self, commit: Commit) -> Commit:
        """The commit with old results expired and small ones merged; the files are already written."""
        faults.reach("compact.before")
        results, expired, lost = commit.results, commit.expired, dict(commit.lost)
        if self._options.retention_us is not None:
            now = self._clock()
            results = self._younger(results, commit.epoch, now)
            limit = now - self._options.retention_us / 1e6
            old = [r for r in results if r.written_at < limit and r.last_epoch < commit.epoch]
            if old:
                gone = {r.path for r in old}
                results = tuple(r for r in results if r.path not in gone)
                expired = max(expired, *(r.last_epoch for r in old))
                for file in old:
                    if is_joined(file.signature) and file.max_us is not None:
                        lost[file.signature] = add_lost(
                            lost.get(file.signature, ()), file.last_epoch, file.max_us
                        )
        results = self._put_merged(results)
        faults.reach("compact.after")
        self._start_merging(results)
        return dataclasses.replace(commit, results=results, expired=expired, lost=lost)

    def _younger(self, results: tuple[ResultFile, ...], epoch: int, now: float) -> tuple[ResultFile, ...]:
        """Joined rows are stored before their windows close: their age counts from the epoch that closes them."""
        marks: dict[str, int] = {}
        sealed = self._sealer.epoch(epoch)
        for entry in self._catalog.active_entries(epoch):
            signature = query_signature(entry.query)
            if is_joined(signature):
                mark = sealed.closed_us(entry.query.plan.streams)
                marks[signature] = min(marks.get(signature, FOREVER_US), mark)
        return tuple(
            dataclasses.replace(file, written_at=now)
            if file.max_us is not None and file.max_us > marks.get(file.signature, FOREVER_US)
            else file
            for file in results
        )

    def close(self) -> None:
        """Wait for merges under way; what they wrote is swept away."""
        self._beside.shutdown()

    def after(self, before: Commit, commit: Commit) -> None:
        """What a commit made superfluous goes, after a grace."""
        now = time.monotonic()
        self.discard(before, commit)
        if before.plan and commit.plan != before.plan:
            self._garbage.append((now, plan_path(before.plan)))
        while self._garbage and self._garbage[0][0] <= now - self._options.grace_seconds:
            path = self._garbage.popleft()[1]
            if path != plan_path(commit.plan):
                self._warehouse.delete(path)
        self._warehouse.delete_record(COMMITS, commit.epoch - self._options.keep_commits)
        if commit.epoch % self._options.every == self._options.every - 1:
            try:
                self._slow(commit)
            except HeadraceError as error:  # an old record is damaged: new epochs run all the same
                if str(error) != self._complaint:
                    _LOGGER.warning("upkeep after epoch %d failed: %s", commit.epoch, error)
                self._complaint = str(error)

    def discard(self, before: Commit, commit: Commit) -> None:
        """The files that `before` names and `commit` does not will go."""
        now, kept = time.monotonic(), set(commit.files())
        self._garbage.extend((now, path) for path in before.files() if path not in kept)

    def _slow(self, commit: Commit) -> None:
        # a rebuild may go back to any commit that is kept, and needs the queries of the epochs after it
        self._catalog.archive(commit.epoch - self._options.keep_commits, commit.rows, commit.ended)
        self._forget_queries(commit)
        self._catalog.checkpoint()
        self._sealer.pack(commit.epoch - self._options.keep_commits, self._options.pack)
        if self._options.log_retention_us is not None:
            self._expire_log(commit.epoch, self._options.log_retention_us)
        waiting = {path for _, path in self._garbage} | {path for _, path, _ in self._merging}
        oldest = time.time() - self._options.grace_seconds
        self._remove(
            path for path in self._strays(commit) if path not in waiting and self._older(path, oldest)
        )

    def sweep(self, commit: Commit) -> None:
        """At open: remove the files of crashed and retried attempts, and what a former writer had no time to."""
        self._remove(self._strays(commit))
        clear_handover(self._warehouse.root, handover_dir(MAIN))
        self._warehouse.delete(plan_path(commit.plan))  # written again when needed, so a torn one heals

    # files that no commit names

    def _strays(self, commit: Commit) -> Iterator[str]:
        named = set(commit.files())
        for folder in (SEGMENTS, RESULTS):
            base = self._warehouse.path(folder)
            for path in base.rglob("*") if base.exists() else ():
                relative = path.relative_to(self._warehouse.root).as_posix()
                if relative not in named and path.is_file():
                    yield relative
        for path in self._warehouse.path(PLANS).glob("*.json"):
            if path.stem != commit.plan:  # plans are a cache: one that is needed is written again
                yield path.relative_to(self._warehouse.root).as_posix()
        for number in self._warehouse.records(COMMITS):
            if number <= commit.epoch - self._options.keep_commits:
                yield record_name(COMMITS, number)

    def _older(self, path: str, than: float) -> bool:
        try:
            return self._warehouse.path(path).stat().st_mtime < than
        except FileNotFoundError:
            return False

    def _remove(self, paths: Iterator[str]) -> None:
        for path in list(paths):
            self._warehouse.delete(path)

    # the log and the catalog

    def _expire_log(self, committed: int, retention_us: int) -> None:
        """Expire committed epochs sealed before the retention, unless an open fallback window reads them."""
        limit, needed = self._clock() - retention_us / 1e6, self._needed_us(self._sealer.epoch(committed))
        before = self._sealer.first
        for epoch in self._sealer.epochs(self._sealer.first, min(committed, self._needed_epoch(committed))):
            read_again = any(
                chunk.max_us is not None and chunk.max_us >= needed.get(part.stream, FOREVER_US)
                for part in epoch.streams
                for chunk in part.chunks
            )
            if epoch.sealed_at >= limit or read_again:
                break
            before = epoch.id + 1
        if before > self._sealer.first:
            self._sealer.expire(before)
            self._index.forget(before)

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

    def _forget_queries(self, commit: Commit) -> None:
        """Dropped queries of which nothing is left to see, neither rows nor log, are no longer listed."""
        if self._options.retention_us is None:
            return
        oldest = max(commit.expired, self._sealer.first - 1)
        gone = [
            id_
            for id_, first, last in self._catalog.archived_lifetimes()
            if last <= oldest
            and not any(
                file.min_query <= id_ <= file.max_query
                and file.last_epoch >= first
                and file.first_epoch < last
                for file in commit.results
            )
        ]
        self._catalog.forget(gone)

    # result files

    def _start_merging(self, results: tuple[ResultFile, ...]) -> None:
        """Merge `fan_in` small files of one table and level into one of the next level, sorted by query."""
        groups: dict[tuple[str, int], list[ResultFile]] = defaultdict(list)
        for file in results:
            if file.bytes < SMALL_BYTES and file.rows < SMALL_ROWS and file.path not in self._unmergeable:
                groups[file.signature, file.level].append(file)
        for files in groups.values():
            for at in range(0, len(files) - self._options.fan_in + 1, self._options.fan_in):
                chosen = files[at : at + self._options.fan_in]
                path = merged_path(chosen)
                self._merging.append((chosen, path, self._beside.submit(self._merge, chosen, path)))

    def _put_merged(self, results: tuple[ResultFile, ...]) -> tuple[ResultFile, ...]:
        """The files with those that were merged since the last commit in place of their parts.

        A file that cannot be read is left where it is: whoever reads its rows is told, everybody else goes on.
        """
        merged: dict[str, ResultFile | None] = {}
        there = {file.path: file.written_at for file in results}
        merging, self._merging = self._merging, []
        for chosen, _, future in merging:
            one = future.result()
            if one is not None and there.keys() >= {file.path for file in chosen}:
                # joined rows may have become younger meanwhile
                written_at = max(there[file.path] for file in chosen)
                merged |= {f.path: None for f in chosen[1:]}
                merged[chosen[0].path] = dataclasses.replace(one, written_at=written_at)
            elif one is not None:  # a part expired meanwhile
                self._garbage.append((time.monotonic(), one.path))
        kept = (merged.get(file.path, file) for file in results)
        return tuple(file for file in kept if file is not None)

    def _merge(self, files: list[ResultFile], path: str) -> ResultFile | None:
        tables = []
        for file in files:
            try:
                tables.append(read_result(self._warehouse.root, file))
            except (OSError, pa.ArrowException):
                self._unmergeable.add(file.path)
        if len(tables) < len(files):
            return None
        try:
            return merge_results(self._warehouse.root, path, files, tables)
        except (OSError, pa.ArrowException) as error:  # a full disk, say: small files do for now
            _LOGGER.warning("%d result files could not be merged: %s", len(files), error)
            return None


def add_lost(lost: Iterable[tuple[int, int]], epoch: int, end_us: int) -> tuple[tuple[int, int], ...]:
    """(epoch, end of windows) with one more, and without those that another one says more than; by epoch.

    >>> add_lost([(3, 90), (5, 50)], 7, 60)
    ((3, 90), (7, 60))
    """
    pairs = sorted({*((before, end) for before, end in lost), (epoch, end_us)})
    return tuple(p for i, p in enumerate(pairs) if all(p[1] > later[1] for later in pairs[i + 1 :]))


def read_result(root: Path, file: ResultFile) -> pa.Table:
    """The rows of a result file; OSError or ArrowException when it is missing or damaged."""
    if found := amiss(root / file.path, file.bytes, file.checksum):
        raise OSError(f"{file.path} is {found}")
    return pq.read_table(root / file.path, memory_map=True)


def merged_path(files: list[ResultFile]) -> str:
    """A name for the merger of some result files that no other one has."""
    first, last = min(f.first_epoch for f in files), max(f.last_epoch for f in files)
    return f"{RESULTS}/{files[0].signature}/m{first:012d}-{last:012d}-{uuid.uuid4().hex[:8]}.parquet"


def merge_results(root: Path, path: str, files: list[ResultFile], tables: list[pa.Table]) -> ResultFile:
    """Write the rows of some result files as one; the files themselves stay."""
    table = pa.concat_tables(tables, promote_options="default")
    if "query" in table.column_names:
        table = table.take(pc.sort_indices(table, [("query", "ascending")]))
    write_results(table, root / path)
    ends = [f.max_us for f in files]
    size, crc = written(root / path)
    return ResultFile(
        signature=files[0].signature,
        path=path,
        rows=table.num_rows,
        bytes=size,
        first_epoch=min(f.first_epoch for f in files),
        last_epoch=max(f.last_epoch for f in files),
        min_query=min(f.min_query for f in files),
        max_query=max(f.max_query for f in files),
        max_us=None if any(e is None for e in ends) else max(e for e in ends if e is not None),
        level=files[0].level + 1,
        written_at=max(f.written_at for f in files),
        checksum=crc,
    )


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


def plan_path(version: str) -> str:
    return f"{PLANS}/{version}.json"
