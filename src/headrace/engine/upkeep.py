"""Upkeep: what a long run must forget. Merges small result files, expires old ones, removes what no commit names.

A file that a commit stopped naming is removed only GRACE_SECONDS later, so that a reader who listed it a moment ago can
finish. Compaction changes the list of result files, so it takes effect with the next commit.
"""

from __future__ import annotations

import dataclasses
import os
import time
import uuid
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryState
from headrace.catalog.warehouse import Warehouse
from headrace.engine.logview import LogIndex
from headrace.engine.records import COMMITS, PLANS, SEGMENTS, Commit, ResultFile
from headrace.engine.tasks import write_results
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.query import Fallback

GRACE_SECONDS = 60.0
KEEP_COMMITS = 8
EVERY = 32
"""Epochs between the slower parts of upkeep."""

FAN_IN = 8
SMALL_ROWS = 1 << 17
LARGE_ROWS = 1 << 19
MANY_FILES = 256
"""Only files of few rows are merged (of more, once there are many files), so a merge fits in memory."""


class Upkeep:
    """Runs after each commit, in the committing thread; each step is bounded."""

    def __init__(
        self,
        warehouse: Warehouse,
        catalog: Catalog,
        sealer: Sealer,
        index: LogIndex,
        retention_us: int | None,
        log_retention_us: int | None,
    ) -> None:
        self._warehouse, self._catalog, self._sealer, self._index = warehouse, catalog, sealer, index
        self._retention_us, self._log_retention_us = retention_us, log_retention_us
        self._garbage: list[tuple[float, str]] = []
        latest = sealer.latest
        self.expired_us = NEVER_US if latest is None else self._limit(latest)

    def _limit(self, epoch: Epoch) -> int:
        """Results of windows that ended before this may go; NEVER_US when all stay."""
        marks = [p.watermark_us for p in epoch.streams if p.watermark_us not in (NEVER_US, FOREVER_US)]
        return NEVER_US if self._retention_us is None or not marks else min(marks) - self._retention_us

    def sweep(self, commit: Commit) -> None:
        """At open: remove segments and result files that no commit names (crashed or retried attempts)."""
        named = {s.path for s in commit.segments} | {r.path for r in commit.results}
        for folder in (SEGMENTS, "results"):
            base = self._warehouse.path(folder)
            for path in [p for p in base.rglob("*") if p.is_file()] if base.exists() else []:
                if path.relative_to(self._warehouse.root).as_posix() not in named:
                    path.unlink(missing_ok=True)

    def after(self, before: Commit, commit: Commit) -> None:
        """What a commit made superfluous goes, after a grace."""
        now = time.monotonic()
        kept = {s.path for s in commit.segments} | {r.path for r in commit.results}
        gone = [p for p in (*(s.path for s in before.segments), *(r.path for r in before.results)) if p not in kept]
        self._garbage += [(now, path) for path in gone]
        while self._garbage and self._garbage[0][0] < now - GRACE_SECONDS:
            self._warehouse.delete(self._garbage.pop(0)[1])
        self._warehouse.delete_record(COMMITS, commit.epoch - KEEP_COMMITS)
        if commit.plan != before.plan and before.plan:
            self._garbage.append((now, f"{PLANS}/{before.plan}.json"))
        if commit.epoch % EVERY == EVERY - 1:
            self._slow(commit)

    def _slow(self, commit: Commit) -> None:
        self._catalog.checkpoint()
        self._sealer.pack(commit.epoch - KEEP_COMMITS)
        latest = self._sealer.epoch(commit.epoch)
        if self._log_retention_us is not None:
            self._expire_log(latest)
        self._forget_queries(commit)

    def rewrite(self, commit: Commit, epoch: Epoch) -> Commit:
        """The commit with old results expired and small ones merged; the files are already written."""
        results = self._unexpired(commit.results, epoch)
        return dataclasses.replace(commit, results=compact_results(self._warehouse.root, results))

    def _unexpired(self, results: tuple[ResultFile, ...], epoch: Epoch) -> tuple[ResultFile, ...]:
        self.expired_us = max(self.expired_us, self._limit(epoch))
        return tuple(r for r in results if r.max_us is None or r.max_us >= self.expired_us)

    def _expire_log(self, latest: Epoch) -> None:
        """Expire epochs all of whose chunks are older than the retention and than any open fallback window."""
        assert self._log_retention_us is not None
        limits: dict[str, int] = {}
        for part in latest.streams:
            if part.watermark_us not in (NEVER_US, FOREVER_US):
                limits[part.stream] = part.watermark_us - self._log_retention_us
        for entry in self._catalog.active_entries(latest.id):
            body = entry.query.plan.body
            if isinstance(body, Fallback) and body.window and entry.query.plan.stream in limits:
                part = latest.of(entry.query.plan.stream)
                assert part is not None
                needed = part.watermark_us - body.window.range_us
                limits[part.stream] = min(limits[part.stream], needed)
        before = self._sealer.first
        for epoch in self._sealer.epochs(self._sealer.first, latest.id):
            old = all(
                chunk.max_us is not None and chunk.max_us < limits.get(part.stream, NEVER_US)
                for part in epoch.streams
                for chunk in part.chunks
            )
            if not old:
                break
            before = epoch.id + 1
        if before > self._sealer.first:
            self._sealer.expire(before)
            self._index.forget(before)

    def _forget_queries(self, commit: Commit) -> None:
        """Dropped queries whose results have all expired are no longer listed."""
        if self._retention_us is None:
            return
        for entry in self._catalog.entries():
            if entry.state is not QueryState.DROPPED or entry.last_epoch is None:
                continue
            first = entry.first_epoch or 0
            if all(r.last_epoch < first or r.first_epoch >= entry.last_epoch for r in commit.results):
                self._catalog.forget(entry.query.id)


def compact_results(root: Path, results: tuple[ResultFile, ...]) -> tuple[ResultFile, ...]:
    """Merge FAN_IN small files of one table and level into one of the next level, sorted by query."""
    groups: dict[tuple[str, int], list[ResultFile]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for file in results:
        counts[file.signature] += 1
        groups[file.signature, file.level].append(file)
    merged: dict[str, ResultFile | None] = {}
    for (signature, _), files in groups.items():
        limit = SMALL_ROWS if counts[signature] < MANY_FILES else LARGE_ROWS
        small = [f for f in files if f.rows < limit]
        while len(small) >= FAN_IN:
            chosen, small = small[:FAN_IN], small[FAN_IN:]
            merged[chosen[0].path] = _merge(root, chosen)
            merged |= {f.path: None for f in chosen[1:]}
    kept = (merged.get(file.path, file) for file in results)
    return tuple(file for file in kept if file is not None)


def _merge(root: Path, files: list[ResultFile]) -> ResultFile:
    tables = [pq.read_table(root / f.path, memory_map=True) for f in files]
    table = pa.concat_tables(tables, promote_options="default")
    if "query" in table.column_names:
        table = table.take(pa.compute.sort_indices(table, [("query", "ascending")]))
    first, last = min(f.first_epoch for f in files), max(f.last_epoch for f in files)
    signature = files[0].signature
    rel = f"results/{signature}/m{first:012d}-{last:012d}-{uuid.uuid4().hex[:8]}.parquet"
    write_results(table, root / rel)
    ends = [f.max_us for f in files]
    return ResultFile(
        signature,
        rel,
        table.num_rows,
        os.path.getsize(root / rel),
        first,
        last,
        min(f.min_query for f in files),
        max(f.max_query for f in files),
        None if any(e is None for e in ends) else max(e for e in ends if e is not None),
        files[0].level + 1,
    )
