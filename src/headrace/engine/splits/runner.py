"""A split at work: a cursor of its own over the sealed epochs, two steps and one commit for each.

The commit of an epoch names the rows of that epoch. Only then do they arrive in the log of the output streams, as a
batch that has the epoch's number: an arrival that was made already is not made again. So a kill between the two loses
nothing and doubles nothing.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from headrace.catalog.catalog import Catalog
from headrace.engine.errors import epoch_cancelled
from headrace.engine.spark import jobs_of
from headrace.engine.splits.code import Packed
from headrace.engine.splits.commits import (
    forget_commits,
    last_split_commit,
    next_commit,
    put_split_commit,
    sweep,
    sweep_files,
)
from headrace.engine.splits.failures import explained
from headrace.engine.splits.faults import is_fault
from headrace.engine.splits.job import SparkJobs
from headrace.engine.splits.losses import Losses, LostIn
from headrace.engine.splits.messages import SplitEpoch
from headrace.engine.splits.paths import commits_dir, home_of, trouble_path
from headrace.engine.splits.placing import Placed, Site, known_load, placed
from headrace.engine.splits.spans import Span, next_span
from headrace.engine.splits.steps import Ran, run_steps
from headrace.engine.splits.workers import SPLIT_WORKERS
from headrace.log.arrivals import Arrivals, Batch
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US, Chunk
from headrace.model.errors import EngineError, HeadraceError
from headrace.model.query import Stream
from headrace.model.splits import Split, SplitCommit, SplitTrouble, no_split_commit
from headrace.optimizer.splitting.adapting import Adapting, Seen, SplitPlan
from headrace.storage import faults
from headrace.storage.interrupts import uninterrupted
from headrace.storage.warehouse import Warehouse

SPLIT_PREFIX = "split:"
IDLE_EPOCHS = 64
"""A split that has nothing to do says so in a commit after so many epochs, since the log is kept for it."""

CANCEL_SECONDS = 0.2
"""Whoever waits for an epoch to be cancelled says so again after so many seconds."""


@dataclass(frozen=True, slots=True)
class SplitHouse:
    """What all splits of an open warehouse have in common."""

    warehouse: Warehouse
    catalog: Catalog
    arrivals: Arrivals
    sealer: Sealer
    clock: Callable[[], float] = time.time


class SplitRunner:
    """Runs the epochs of one split in order. Opening it is recovery: it goes on after its last commit."""

    def __init__(self, split: Split, spark: SparkSession, house: SplitHouse) -> None:
        self.split, self.spark, self._house = split, spark, house
        self.name = runner_name(split.name)
        self._lock = threading.Lock()
        self._job_group = f"headrace-split-{uuid.uuid4().hex[:8]}"
        self._jobs: SparkJobs | None = None
        self._code: Packed | None = None
        self.dropped = False
        self._adapting = Adapting()
        self._sealed_at: float | None = None
        self._spent: dict[int, float] = {}
        """How many seconds each sub-stream took in the last epoch."""
        self.trouble: SplitTrouble | None = None
        self._recover()

    def _recover(self) -> None:
        """Go on after the last commit on disk. One that cannot be read is trouble of this split, and of nobody else."""
        warehouse, split, path = self._house.warehouse, self.split, trouble_path(self.split)
        self.commit, self.recovered = no_split_commit(split), False
        self._settled = False
        """Whether it is certain that the last commit on disk is this one, and that its rows have arrived."""
        try:
            self.commit = last_split_commit(warehouse, split)
            self._check_log()
            sweep(warehouse, split, self.commit)
            self.trouble = warehouse.read_value(path, "split-trouble") if warehouse.exists(path) else None
            self.recovered = True
        except HeadraceError as error:
            self.trouble = self._trouble(self.commit.epoch + 1, error)
        self._cursor = self.commit.epoch
        self._arrive(self.commit)
        self._settled = True

    def _check_log(self) -> None:
        if self.commit.epoch + 1 < self._house.sealer.first:
            raise EngineError(
                "COMMIT_MISSING",
                f"split `{self.split.name}` goes on after epoch {self.commit.epoch}, but the log begins later",
                hint=f"restore {commits_dir(self.split)} from a copy of the warehouse, and call restart_split",
            )

    # the code

    @property
    def attached(self) -> bool:
        """Whether somebody has given the operator since the warehouse was opened."""
        return self._code is not None

    @property
    def code(self) -> Packed | None:
        """The code that it runs, once somebody has given it."""
        return self._code

    def attach(self, code: Packed) -> None:
        """Use this code from the next epoch on."""
        with self._lock:
            self._attach(code)

    def _attach(self, code: Packed) -> None:
        if self._code is None or self._code.key != code.key:
            before = self._jobs
            self._code, self._jobs = code, SparkJobs(self.spark, self.spark.sparkContext.broadcast(code))
            if before is not None:
                before.code.destroy()

    def alter(self, split: Split, code: Packed) -> None:
        """Go on as this split from the next epoch on; an epoch under way comes to its end first."""
        with self._lock:
            self.split, self._spent = split, {}
            self._attach(code)

    # where it stands

    @property
    def needs(self) -> int:
        """The first epoch that the log must keep for it."""
        return self.commit.epoch + 1

    @property
    def behind(self) -> int:
        """How many sealed epochs it has not run."""
        latest = self._house.sealer.latest
        return 0 if latest is None else max(0, int(latest.id) - self._cursor)

    def lag_seconds(self, now: float) -> float:
        """How long the oldest sealed epoch that it has not run has waited."""
        if not self.behind:
            return 0.0
        first = max(self._cursor + 1, self._house.sealer.first)
        return max(0.0, now - self._house.sealer.epoch(first).sealed_at)

    @property
    def runs(self) -> bool:
        """Whether it can run: it has its code, and is neither quarantined nor dropped."""
        return self.attached and self.trouble is None and not self.dropped

    @property
    def due(self) -> bool:
        """Whether an epoch is sealed that it has to run, or rows of the last one have still to arrive."""
        return self.runs and (self.behind > 0 or not self._settled)

    @property
    def stream(self) -> Stream:
        return self._house.catalog.stream(self.split.stream)

    # running

    def run_next(self) -> SplitCommit | None:
        """Run the next sealed epoch that has something for it, if there is one. EngineError when it is to be tried
        again; what the split's own code is to blame for quarantines it.
        """
        with self._lock:
            if self.runs and not self._settled:
                self._recover()
            span = self._next_span() if self.due else None
            if span is None:
                return None
            try:
                with self._jobs_of(f"headrace epoch {span.epoch} of split {self.split.name}"):
                    return self._run_until_known(span)
            except HeadraceError as error:
                if self.dropped and error.code == "EPOCH_CANCELLED":
                    return None
                if not is_fault(error):
                    raise
                self._quarantine(span.epoch, error)
                return None

    def _next_span(self) -> Span | None:
        """The next epochs that have something for it."""
        sealer = self._house.sealer
        latest = sealer.latest
        epochs = sealer.epochs(self._cursor + 1, -1 if latest is None else int(latest.id) + 1)
        span, last = next_span(epochs, self.stream.name)
        if span is None:
            self._cursor = max(self._cursor, last)
            if self._cursor - self.commit.epoch >= IDLE_EPOCHS:
                self._put(replace(self.commit, epoch=self._cursor, outputs={}, ticked=False))
        return span

    def _run_until_known(self, span: Span) -> SplitCommit:
        """Run epochs. When a worker is lost in a call of the split's code, run it again to see whether that call is
        to blame, and with which tuple.
        """
        losses = Losses(self.split.name)
        while True:
            try:
                return self._run(span, losses)
            except LostIn as lost:
                losses = losses.after(lost.call)

    def _run(self, span: Span, losses: Losses) -> SplitCommit:
        started = time.perf_counter()
        attempt = uuid.uuid4().hex[:8]
        told, plan = self._epoch(span, attempt), self.plan
        try:
            ran = self._jobs_run(told, span.chunks, plan.splitters, losses)
        except HeadraceError:
            sweep_files(self._house.warehouse, self.split, self.commit)
            raise
        except Exception as error:
            sweep_files(self._house.warehouse, self.split, self.commit)
            folder = self._house.warehouse.path(told.folder)
            raise explained(self.split, self.spark, span.epoch, error, folder) from error
        finally:
            shutil.rmtree(self._house.warehouse.path(told.folder), ignore_errors=True)
        if ran.processed:
            self._spent = {
                int(at): cost.seconds for report in ran.processed for at, cost in report.costs.items()
            }
        # an epoch in which no time passed leaves the state, and the instances that have it, as they are
        version = told.version if ran.processed else ran.base.version
        commit = next_commit(ran.base, span.epoch, version, span.watermark_us, ran.routed, ran.processed)
        cost = replace(
            commit.cost,
            window_rows=told.window_rows,
            seconds=time.perf_counter() - started,
            split_wall=ran.split_wall,
            process_wall=ran.process_wall,
            own_workers=ran.own_workers,
            desired_rate=plan.desired,
            predicted_rate=plan.predicted,
        )
        commit = replace(commit, cost=cost, committed_at=self._house.clock())
        self._put(commit, ran.base.files())
        self._learn(span, commit)
        return commit

    def _epoch(self, span: Span, attempt: str) -> SplitEpoch:
        home = home_of(self.split)
        return SplitEpoch(
            root=str(self._house.warehouse.root),
            split=self.split,
            stream=self.stream,
            epoch=span.epoch,
            attempt=attempt,
            closed_us=max(span.closed_us, self.commit.watermark_us),
            watermark_us=span.watermark_us,
            late_us=span.late_us,
            folder=f"{home}/work/{attempt}",
            home=home,
            window_rows=self.plan.window_rows,
        )

    @property
    def plan(self) -> SplitPlan:
        """With what the next epoch runs."""
        return self._adapting.plan(self.spark.sparkContext.defaultParallelism)

    def _learn(self, span: Span, commit: SplitCommit) -> None:
        """Let later epochs run with what this one measured."""
        counts, before = commit.cost.counts, self._sealed_at
        self._sealed_at = span.sealed_at
        every = 0.0 if before is None else span.sealed_at - before
        self._adapting = self._adapting.after(Seen(counts.read, commit.cost.split_seconds, every))

    def _jobs_run(self, told: SplitEpoch, chunks: Sequence[Chunk], splitters: int, losses: Losses) -> Ran:
        """Run the tasks of an epoch wherever it is to run."""
        with self._placed(losses) as place:
            wanted = partial(self._check_wanted, told.epoch)
            return run_steps(place, told, self.commit, chunks, splitters, losses.cuts, wanted)

    def _placed(self, losses: Losses) -> AbstractContextManager[Placed]:
        """Where the next epoch runs."""
        assert self._jobs is not None and self._code is not None
        site = Site(self._own_home, self.split.sub_streams, self._code, self._jobs, self._spent)
        load = known_load(self.spark.sparkContext, self.commit.cost)
        return placed(site, load, alone=losses.alone)

    @property
    def _own_home(self) -> str:
        """Whose the own workers are that run this split."""
        return f"{self._house.warehouse.root}/{home_of(self.split)}"

    def _check_wanted(self, epoch: int) -> None:
        """Begin no job for a split that was dropped: whoever drops it can cancel only jobs that have begun."""
        if self.dropped:
            raise epoch_cancelled(epoch)

    def _put(self, commit: SplitCommit, made: Collection[str] = ()) -> None:
        """Let a commit count, and then its rows. What fails here is looked at again before the next epoch.

        Files of the last commit, and those that were `made` on the way, go when it does not name them.
        """
        before = self.commit.files().union(made)
        warehouse = self._house.warehouse
        self._settled = False
        with uninterrupted():
            faults.reach("split.commit.before")
            put_split_commit(warehouse, self.split, commit)
            faults.reach("split.commit.after")
            self.commit, self._cursor = commit, commit.epoch
        self._arrive(commit)
        for path in before - commit.files():
            warehouse.delete(path)
        forget_commits(warehouse, self.split)
        self._settled = True

    def _arrive(self, commit: SplitCommit) -> None:
        """Let the rows of a commit arrive in the log of the output streams, with the watermark; once."""
        for kind, output in self.split.outputs.items():
            chunks = commit.outputs.get(kind, ())
            if not chunks and not commit.ticked:
                continue
            closes = commit.watermark_us == FOREVER_US
            mark_us = commit.watermark_us
            if not closes and mark_us != NEVER_US:
                mark_us -= output.watermark_us
            batch = Batch(batch_source(self.split), commit.epoch)
            faults.reach("split.arrival")
            self._house.arrivals.add(output.name, chunks, batch=batch, close=closes, mark_us=mark_us)

    def _jobs_of(self, description: str) -> AbstractContextManager[None]:
        return jobs_of(self.spark.sparkContext, self._job_group, description, self.name)

    def cancel(self) -> None:
        """Let the job under way, if any, fail with EPOCH_CANCELLED; nothing is lost. From any thread."""
        self.spark.sparkContext.cancelJobGroup(self._job_group)
        SPLIT_WORKERS.cancel(self._own_home)

    # trouble

    def _quarantine(self, epoch: int, error: HeadraceError) -> None:
        trouble = self._trouble(epoch, error)
        self._house.warehouse.replace_value(trouble_path(self.split), "split-trouble", trouble)
        self.trouble = trouble

    def _trouble(self, epoch: int, error: HeadraceError) -> SplitTrouble:
        return SplitTrouble(epoch, error.code, error.message, error.detail, error.hint, self._house.clock())

    def restart(self) -> None:
        """Leave the quarantine: the epoch that failed is run again, from the last commit on."""
        with self._lock:
            self._house.warehouse.delete(trouble_path(self.split))
            self._recover()

    def drop(self) -> None:
        """End: cancel what runs, begin no other epoch, and let the rows of the last commit arrive."""
        self.dropped = True
        self.cancel()
        while not self._lock.acquire(timeout=CANCEL_SECONDS):
            self.cancel()  # the job may have begun only now
        try:
            if not self._settled:
                self._recover()
        finally:
            self._lock.release()


def runner_name(split: str) -> str:
    """The name of a split among everything that runs epochs; no group has such a name."""
    return f"{SPLIT_PREFIX}{split}"


def batch_source(split: Split) -> str:
    """Who delivers the rows of a split to the log."""
    return f"split-{split.id}"
