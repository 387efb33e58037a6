"""Compaction: what a group's list of result files forgets. Small files are merged, old ones expire.

Both change the list, so they take effect with a commit. Files are merged in a thread beside the next epoch's job, for
its commit. Retention is counted in wall-clock time since an epoch was delivered: old events read today stay as long as
new ones.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.catalog.catalog import Catalog
from headrace.engine.options import UpkeepOptions
from headrace.engine.paths import RESULTS
from headrace.engine.records import Commit, ResultFile
from headrace.engine.result_files import write_results
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, Epoch
from headrace.planner.joins import is_joined
from headrace.planner.shared import query_signature
from headrace.storage import faults
from headrace.storage.checksums import amiss, written

_LOGGER = logging.getLogger(__name__)

SMALL_BYTES = 16 << 20
SMALL_ROWS = 1 << 18
"""Result files below both limits are merged; merging must fit into the driver's memory."""


class Compaction:
    """The result files of one group. `beside` runs the merges, `discard` takes files that are not needed after all."""

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        sealer: Sealer,
        options: UpkeepOptions,
        beside: Executor,
        discard: Callable[[Iterable[str]], None],
        clock: Callable[[], float],
    ) -> None:
        self._root, self._catalog, self._sealer, self._options = root, catalog, sealer, options
        self._beside, self._discard, self._clock = beside, discard, clock
        self._unmergeable: set[str] = set()
        self._merging: list[tuple[list[ResultFile], str, Future[ResultFile | None]]] = []
        self._placed: list[str] = []

    def rewrite(self, commit: Commit) -> Commit:
        """The commit with old results expired and small ones merged; the files are already written."""
        faults.reach("compact.before")
        commit = self.expire(commit)
        self._placed = []  # those of the commit before are named by it
        results = self._put_merged(commit.results)
        faults.reach("compact.after")
        self._start_merging(results)
        return dataclasses.replace(commit, results=results)

    def expire(self, commit: Commit, *, ended: bool = False) -> Commit:
        """The commit without the results that are older than the retention.

        Those of its own epoch stay, unless the group has `ended`, so that no later commit will look at them.
        """
        if self._options.retention_us is None:
            return commit
        results, expired, lost = commit.results, commit.expired, dict(commit.lost)
        now = self._clock()
        latest = self._sealer.latest
        # the log may have forgotten the last epoch of a group that nobody lives in
        sealed = latest if ended or latest is None else self._sealer.epoch(commit.epoch)
        results = results if sealed is None else self._younger(commit.group, results, sealed, now)
        limit = now - self._options.retention_us / 1e6
        old = [r for r in results if r.written_at < limit and r.last_epoch < commit.epoch + ended]
        if old:
            gone = {r.path for r in old}
            results = tuple(r for r in results if r.path not in gone)
            expired = max(expired, *(r.last_epoch for r in old))
            for file in old:
                if is_joined(file.signature) and file.max_us is not None:
                    lost[file.signature] = add_lost(
                        lost.get(file.signature, ()), file.last_epoch, file.max_us
                    )
        return dataclasses.replace(commit, results=results, expired=expired, lost=lost)

    def finish(self, results: tuple[ResultFile, ...]) -> tuple[ResultFile, ...]:
        """The result files of a group that commits no more, with what was merged for a commit that never came.

        Nothing changes while a merge is still under way.
        """
        if not all(future.done() for *_, future in self._merging):
            return results
        return self._put_merged(results)

    def under_way(self) -> Iterator[str]:
        """The files that are being written, and those that a commit is about to name."""
        return iter([*self._placed, *(path for _, path, _ in self._merging)])

    def _younger(
        self, group: str, results: tuple[ResultFile, ...], sealed: Epoch, now: float
    ) -> tuple[ResultFile, ...]:
        """Joined rows are stored before their windows close: their age counts from the epoch that closes them.

        That holds for queries that have moved to another group, too.
        """
        if not any(is_joined(file.signature) for file in results):
            return results
        marks: dict[str, int] = {}
        for entry in self._catalog.homes.living_in(group):
            if entry.ended_us is not None and not entry.active_in(sealed.id):
                continue
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
        self._placed = [path for _, path, _ in self._merging]
        merging, self._merging = self._merging, []
        for chosen, _, future in merging:
            one = future.result()
            if one is not None and there.keys() >= {file.path for file in chosen}:
                # joined rows may have become younger meanwhile
                written_at = max(there[file.path] for file in chosen)
                merged |= {f.path: None for f in chosen[1:]}
                merged[chosen[0].path] = dataclasses.replace(one, written_at=written_at)
            elif one is not None:  # a part expired meanwhile
                self._discard([one.path])
        kept = (merged.get(file.path, file) for file in results)
        return tuple(file for file in kept if file is not None)

    def _merge(self, files: list[ResultFile], path: str) -> ResultFile | None:
        tables = []
        for file in files:
            try:
                tables.append(read_result(self._root, file))
            except (OSError, pa.ArrowException):
                self._unmergeable.add(file.path)
        if len(tables) < len(files):
            return None
        try:
            return merge_results(self._root, path, files, tables)
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
