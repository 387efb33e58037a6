"""A sharing group: its members as one shared plan, a cursor over the sealed epochs, one job and one commit for each."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from headrace.catalog.queries import QueryEntry, QueryState
from headrace.engine.attempt import EpochRunner
from headrace.engine.balancing import Balance
from headrace.engine.catching_up import CatchingUp
from headrace.engine.choosing import Chooser
from headrace.engine.committing import Ran, make_commit
from headrace.engine.costs import QueryCost, divide_costs
from headrace.engine.errors import spark_gone
from headrace.engine.expected import after_epoch
from headrace.engine.failure import EpochTrouble
from headrace.engine.files import SEGMENT_DAMAGED
from headrace.engine.heirs import inherit, still_inherited
from headrace.engine.house import House
from headrace.engine.inquiry import Inquiry
from headrace.engine.job import JobResult, warm_up
from headrace.engine.paths import commits_dir
from headrace.engine.rebuild import Beginning, Ground, rebuild_commit
from headrace.engine.records import Commit
from headrace.engine.spark import is_gone, jobs_of
from headrace.engine.together import gather, last_together
from headrace.model.epoch import Epoch
from headrace.model.errors import EngineError, HeadraceError, StorageError
from headrace.model.grouping import GroupSpec, pool_of
from headrace.model.plan import SharedPlan
from headrace.model.query import QueryId
from headrace.model.state import SegmentFile
from headrace.model.strategy import Choice, Strategies
from headrace.model.ways import FamilyWay
from headrace.optimizer.place import EpochWork, Place, decide_place
from headrace.storage import faults
from headrace.storage.interrupts import uninterrupted

_LOGGER = logging.getLogger(__name__)


class Group:
    """Runs epochs in order, one at a time. Opening it is recovery: it goes on after its last commit."""

    def __init__(self, name: str, spark: SparkSession, house: House) -> None:
        self.name, self.spark, self._house = name, spark, house
        self._lock = threading.Lock()
        self._job_group = f"headrace-{uuid.uuid4().hex[:8]}"
        self._planned: tuple[tuple[object, ...], SharedPlan] | None = None
        self._ran: SharedPlan | None = None
        self._before: Commit | None = None
        self._catching_up = CatchingUp(name, house.warehouse)
        self._chooser = Chooser(self.commit.statistics)
        self.balance = Balance()
        self._runner = EpochRunner(
            self,
            house.warehouse,
            house.catalog,
            house.delivered,
            self._job_group,
            house.options.query_seconds,
        )
        self._inquiry = Inquiry(
            name,
            self._runner,
            house.warehouse,
            house.catalog,
            house.options.epoch_seconds,
            house.options.function_seconds,
        )

    @property
    def commit(self) -> Commit:
        """The last commit."""
        return self._house.delivered.commit_of(self.name)

    @property
    def due(self) -> bool:
        """Whether an epoch is sealed that it has to run."""
        delivered = self._house.delivered
        return delivered.next_epoch(self.name) <= delivered.sealed

    def spec(self, epoch: int) -> GroupSpec:
        """With what it runs an epoch."""
        spec = self._house.catalog.homes.spec(self.name, epoch)
        assert spec is not None, "the main group has a spec from the first opening on"
        return spec.catching_up(self._house.options.backfill_tasks)

    def plan_for(self, epoch: int) -> SharedPlan:
        """The plan of the queries that are active in an epoch; the last one is kept."""
        return self._plan_of(epoch, self._house.catalog.active_entries(epoch, self.name))

    def plan_now(self) -> SharedPlan:
        """The plan that the next epoch runs with, as far as that is known: of members, and of queries yet to begin."""
        following, catalog = self._house.delivered.next_epoch(self.name), self._house.catalog
        coming = [e for e in catalog.current() if e.state is QueryState.PENDING and e.group == self.name]
        entries = (*catalog.active_entries(following, self.name), *coming)
        planned = self._planned
        if planned is not None and planned[0] == self._key(following, entries):
            return planned[1]
        return self._runner.plan(following, entries)  # not kept: the epoch under way has a plan of its own

    def ways(self) -> tuple[FamilyWay, ...]:
        """How the tuples of the last epochs found their queries, as the tasks did it; nothing after a restart."""
        return self._chooser.ways(operator.id for operator in self.plan_now().operators)

    def _plan_of(self, epoch: int, entries: Sequence[QueryEntry]) -> SharedPlan:
        planned, key = self._planned, self._key(epoch, entries)
        if planned is None or key != planned[0]:
            planned = self._planned = (key, self._runner.plan(epoch, entries))
        return planned[1]

    def _key(self, epoch: int, entries: Sequence[QueryEntry]) -> tuple[object, ...]:
        """What a plan follows from, but for statistics."""
        return (self.strategies(epoch), *((entry.query.id, entry.slot) for entry in entries))

    def users(self) -> dict[str, tuple[QueryId, ...]]:
        """The queries of each operator and product of the plan that was run last, by its id."""
        if self._ran is None:
            return {}
        found = {operator.id: operator.queries for operator in self._ran.operators}
        for product in self._ran.products:
            found[product.id] = tuple(query for output in product.outputs for query in output.queries)
        return found

    def costs(self, commit: Commit) -> dict[int, QueryCost]:
        """What each query cost in an epoch that was just committed."""
        found = {} if self._ran is None else divide_costs(commit.operators, self._ran)
        alone = [] if self._ran is None else [int(fallback.query) for fallback in self._ran.fallbacks]
        for query in alone:
            share = commit.metrics.fallback_seconds / len(alone)
            rows = commit.metrics.result_rows if len(alone) == commit.metrics.active_queries == 1 else 0
            found[query] = QueryCost(share, commit.metrics.input_rows, rows=rows)
        return found

    def run_next(self) -> Commit | None:
        """Run the next sealed epoch, if there is one. EngineError only for what no query is to blame for."""
        with self._lock:
            if not self.due:
                return None
            epoch = self._house.sealer.epoch(self._house.delivered.next_epoch(self.name))
            try:
                with self._jobs(f"headrace epoch {epoch.id} of {self.name}"):
                    return self._run(epoch)
            except HeadraceError:
                raise
            except Exception as error:
                if is_gone(self.spark):
                    raise spark_gone() from error
                raise

    def warm_up(self) -> None:
        """Start the workers before the first epoch needs them."""
        warm_up(self.spark, self.spec(self.commit.epoch + 1).partitioning.partitions)

    def cancel(self) -> None:
        """Let the job under way, if any, fail with EPOCH_CANCELLED; nothing is lost. From any thread."""
        self.spark.sparkContext.cancelJobGroup(self._job_group)

    def rebuild(self) -> None:
        """Derive the state anew from the log, and let it count in place of the segments of the last commit."""
        with (
            self._lock,
            self._jobs(f"headrace rebuilds the state of {self.name} after epoch {self.commit.epoch}"),
        ):
            self._rebuild()

    def change_strategies(self, changed: Mapping[QueryId, Choice]) -> None:
        """Let running queries go on with other strategies from the next epoch on.

        The state of the operators that they come to is made from the log. One write lets it count, together with the
        strategies. EngineError with REBUILD_LOG_EXPIRED when the log no longer has it; then nothing has changed.
        """
        with self._lock, self._jobs(f"headrace changes strategies of {self.name} after {self.commit.epoch}"):
            self._rebuild(changed)

    def _rebuild(self, changed: Mapping[QueryId, Choice] | None = None) -> None:
        house, before = self._house, self.commit
        following = house.delivered.next_epoch(self.name)
        held, spec = self.held(following), self.spec(following)
        if before.epoch < 0 and not held:
            return
        strategies, moved = self.strategies(following), None if changed is None else frozenset(changed)
        commit = rebuild_commit(
            Ground(self.spark, house.warehouse, house.catalog, house.sealer),
            before,
            Beginning(following, held, spec, strategies.with_changes(changed or {})),
            moved,
        )
        house.delivered.replace(commit)
        kept = set(commit.files())
        house.upkeep.discard(path for path in before.files() if path not in kept)

    def _mend(self, error: EngineError) -> None:
        """After damaged state was found: the log has what it was made of. Says so where warnings are shown."""
        _LOGGER.warning("%s; the state is rebuilt from the log", error.message)
        self._rebuild()

    def _jobs(self, description: str) -> AbstractContextManager[None]:
        return jobs_of(self.spark.sparkContext, self._job_group, description, pool_of(self.name))

    def held(self, epoch: int) -> tuple[SegmentFile, ...]:
        """The state before an epoch: that of the last commit, without the queries that left, with what came along."""
        commit = self.commit
        held = list(commit.segments)
        for record in self._house.catalog.homes.regroupings(self.name, commit.regrouping, epoch):
            leaving = record.leaving(self.name)
            if leaving:
                held = [left for file in held if (left := file.but(leaving)) is not None]
            held += record.brought(self.name)
        return tuple(held)

    def strategies(self, epoch: int) -> Strategies:
        """The strategies in force before an epoch: those of the last commit, and those of the queries that came."""
        commit = self.commit
        found = commit.strategies
        for record in self._house.catalog.homes.regroupings(self.name, commit.regrouping, epoch):
            found = found.with_changes(record.arriving(self.name).by_query())
        return found.with_changes(self._chooser.started(epoch))

    def _run(self, epoch: Epoch) -> Commit:
        started = time.perf_counter()
        house, attempt = self._house, uuid.uuid4().hex[:8]
        house.upkeep.begins(attempt)
        house.jobs.begins(self.name)  # until it is known that it needs none
        left: list[Commit] = []
        try:
            if _idle(epoch):  # queries came or went, and there is nothing to do for them yet
                held = list(self.held(int(epoch.id)))
                result, version, plan_seconds = JobResult(held), self.commit.plan, 0.0
            elif (caught_up := self._run_together(epoch, attempt)) is not None:
                epoch, result, version = caught_up
                plan_seconds = 0.0
            else:
                self._choose(int(epoch.id))
                result, version, plan_seconds = self._deliver(epoch, attempt)
                self._chooser.measured(epoch, result.keys, result.joins)
                self.balance.ran(result.key_seconds, self.spec(int(epoch.id)).partitioning)
                self._chooser.found(
                    result.ways, (operator.id for operator in self.plan_for(int(epoch.id)).operators)
                )
            spent = time.perf_counter() - started
            ran = Ran(epoch, version, result, spent, plan_seconds)
            made = replace(
                make_commit(house.catalog, self.commit, ran, house.clock()),
                strategies=self.strategies(int(epoch.id)).only(
                    entry.query.id for entry in house.catalog.active_entries(epoch.id, self.name)
                ),
                statistics=self._chooser.known,
                inherited=still_inherited(self.commit, house.delivered.commits),
            )
            left = house.upkeep.claim_legacies(self.commit)
            commit = house.upkeep.compaction(self.name).rewrite(inherit(made, left))
            before = self._put(commit)
            if commit.metrics.input_rows:
                self._before = commit
        finally:
            house.jobs.ends(self.name)
            house.upkeep.ends(attempt)
            house.upkeep.release(left)
        self._inquiry.settled()
        house.upkeep.after(before, commit)
        faults.reach("upkeep.after")
        return commit

    def _run_together(self, epoch: Epoch, attempt: str) -> tuple[Epoch, JobResult, str] | None:
        """Run an epoch and those after it at once, for queries that plain Spark runs: (all of them as one, what they
        produced, the plan's version). None when that is not to be done, or fails: then the epoch is run by itself.
        """
        several = self._several(epoch)
        if several is None:
            return None
        self._catching_up.begins(int(epoch.id), int(several.id))
        faults.reach("together.before")
        plan, result = self.plan_for(int(several.id)), JobResult()
        try:
            failed = bool(self._runner.run_fallbacks(several, plan, result, attempt, first=int(epoch.id)))
        except EpochTrouble:
            failed = True
        if failed:
            self._runner.discard(result, ())
            self._catching_up.failed()
            return None
        self._ran = plan
        return several, result, plan.version

    def _several(self, epoch: Epoch) -> Epoch | None:
        """The sealed epochs that can be run together with this one, as one; None when there is none."""
        house, first = self._house, int(epoch.id)
        if not self._catching_up.may_try(first) or not self._inquiry.untroubled(epoch) or self.held(first):
            return None
        last = last_together(
            first, house.delivered.sealed, lambda number: house.catalog.active_entries(number, self.name)
        )
        epochs = (house.sealer.epoch(number) for number in range(first, last + 1))
        several = gather(epochs, house.options.max_epoch_rows)
        return None if several.id == epoch.id else several

    def _choose(self, epoch: int) -> None:
        """Decide how queries run from an epoch on, by what was measured so far."""
        entries = self._house.catalog.active_entries(epoch, self.name)
        changed = self._chooser.decide(epoch, entries, self.strategies(epoch))
        if not changed:
            return
        try:
            self._rebuild(changed)
        except EngineError as error:
            if error.code != "REBUILD_LOG_EXPIRED":
                raise
            self._chooser.keep(changed)

    def _put(self, commit: Commit) -> Commit:
        """Let a commit count; the one before it."""
        house = self._house
        with uninterrupted():
            faults.reach("commit.before")
            if not house.warehouse.put_record(commits_dir(self.name), commit.epoch, commit, kind="commit"):
                raise StorageError(
                    "COMMIT_EXISTS",
                    f"epoch {commit.epoch} of {house.warehouse.root} was committed by somebody else",
                    hint="make sure that one process writes to a warehouse",
                )
            faults.reach("commit.after")
            before = self.commit
            house.delivered.replace(commit)
            house.catalog.settle_quarantines(QueryId(int(id_)) for id_ in commit.quarantined)
        return before

    def _deliver(self, epoch: Epoch, attempt: str) -> tuple[JobResult, str, float]:
        """(what the epoch produced, the plan's version, how long planning took); queries that fail are quarantined.

        State that turns out to be damaged is made anew from the log, once.
        """
        catalog = self._house.catalog
        given_up = catalog.functions.given_up(catalog.active_entries(epoch.id, self.name), int(epoch.id))
        self._quarantine(self._inquiry.known(epoch) | given_up, epoch)
        rebuilt = False
        while True:
            planned = time.perf_counter()
            try:
                self._inquiry.check(epoch)
                plan = self.plan_for(epoch.id)
                plan_seconds = time.perf_counter() - planned
                result, broken = self._attempt(epoch, plan, attempt)
            except EngineError as error:
                if error.code != SEGMENT_DAMAGED or rebuilt:
                    raise
                self._mend(error)
                rebuilt = True
                continue
            except EpochTrouble as trouble:
                held = self.held(int(epoch.id))
                self._quarantine(self._inquiry.find(epoch, held, trouble), epoch)
                continue
            if not broken:
                self._ran = plan
                return result, plan.version, plan_seconds
            self._quarantine(broken, epoch)

    def _attempt(self, epoch: Epoch, plan: SharedPlan, attempt: str) -> tuple[JobResult, dict[int, str]]:
        """(what the epoch produced, the queries that failed in it)."""
        entries = self._house.catalog.active_entries(epoch.id, self.name)
        held, seconds = self.held(int(epoch.id)), self._inquiry.seconds(epoch)
        started = time.perf_counter()
        result, broken = self._runner.run_shared(
            epoch, plan, entries, held, attempt, seconds, partial(self._place, epoch)
        )
        if broken:
            return result, broken
        self._inquiry.ran(epoch, entries, time.perf_counter() - started)
        broken = self._runner.run_fallbacks(epoch, plan, result, attempt, self._inquiry.fallback_begins)
        if broken:
            self._inquiry.keep(epoch, broken)
        return result, broken

    def _place(self, epoch: Epoch, work: EpochWork) -> Place:
        """Where the epoch runs. One that failed before is Spark's: there its culprit can be found."""
        place, jobs = Place.SPARK, self._house.jobs
        if self._inquiry.untroubled(epoch):
            work = replace(work, crowded=jobs.has_others(self.name))
            living = self._house.catalog.active_entries(epoch.id, self.name)
            place = decide_place(after_epoch(work, self._before, {int(e.query.id) for e in living}))
        if place is Place.SPARK:
            jobs.begins(self.name)
        else:
            jobs.needs_none(self.name)
        return place

    def _quarantine(self, broken: dict[int, str], epoch: Epoch) -> None:
        catalog = self._house.catalog
        for id_, error in broken.items():
            ended_us = epoch.closed_us(catalog.entry_of(QueryId(id_)).query.plan.streams)
            catalog.quarantine(QueryId(id_), epoch.id, error, ended_us)


def _idle(epoch: Epoch) -> bool:
    """Whether an epoch has no tuples and no time passed in it."""
    return not any(inflow.chunks or inflow.watermark_us > inflow.closed_us for inflow in epoch.streams)
