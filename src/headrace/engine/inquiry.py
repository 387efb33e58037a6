"""What a group does when an epoch fails and the failure names no query: leave out, try again, search, or give up.

    failure ──▶ try the epoch again, once
            ──▶ a drop was asked for? leave that query out
            ──▶ does it fail without any query? then no query is to blame: raise
            ──▶ search (`culprit`): trials of the epoch with some of the queries, which write nothing that counts
            ──▶ quarantine the culprit, and run the epoch without it

What the search knows is a record in the warehouse, written only when an epoch is in trouble and removed by its commit.
It outlives Spark and this process: whoever opens the warehouse next goes on with it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.attempt import EpochRunner, expressions_of
from headrace.engine.culprit import AT_ONCE, Search, begin, by_suspicion, find_culprit
from headrace.engine.errors import epoch_failed, epoch_unrunnable, spark_gone, spark_stuck
from headrace.engine.failure import EpochTrouble, Failure, FailureKind, spark_died
from headrace.engine.paths import TRIAL, search_path
from headrace.engine.patience import Patience
from headrace.engine.spark import is_gone, is_stopped
from headrace.model.epoch import Epoch
from headrace.model.errors import HeadraceError, StorageError
from headrace.model.query import Aggregation, Fallback, Join, Query, QueryId
from headrace.model.state import SegmentFile
from headrace.storage.warehouse import Warehouse

Broken = dict[int, str]


class Inquiry:
    """The trouble of the epoch that a group is to run next. Costs nothing while there is none."""

    def __init__(
        self,
        group: str,
        runner: EpochRunner,
        warehouse: Warehouse,
        catalog: Catalog,
        epoch_seconds: float | None,
        function_seconds: float | None = None,
    ) -> None:
        self._group, self._runner, self._warehouse, self._catalog = group, runner, warehouse, catalog
        self._path = search_path(group)
        self._epoch_seconds = epoch_seconds
        self._patience = Patience(function_seconds, lambda: catalog.functions.specs())
        self._good_seconds = 0.0
        self._tried_again = self._unlimited = self._ran_in_trial = -1
        self._search: Search | None = None
        if warehouse.exists(self._path):
            try:
                self._search = warehouse.read_value(self._path, "search")
            except StorageError:  # torn, or of another version: what it knew is found out again
                warehouse.delete(self._path)
        self._left_running = None if self._search is None else self._search.fallback

    # before an epoch

    def seconds(self, epoch: Epoch) -> float | None:
        """How long the epoch may take; None when nobody wants a limit, and when it was found to be slow through
        nobody's fault.
        """
        if epoch.id == self._unlimited or self._epoch_seconds is None:
            return None
        return _least(
            self._epoch_seconds, self._calling(epoch, self._catalog.active_entries(epoch.id, self._group))
        )

    def _calling(self, epoch: Epoch, entries: Iterable[QueryEntry]) -> float | None:
        """How long an epoch may take in which these queries call functions; None if none of them does."""
        plans = [entry.query.plan for entry in entries]
        return self._patience.limit(epoch, plans, self._runner.width(epoch))

    def untroubled(self, epoch: Epoch) -> bool:
        """Whether no run of the epoch has failed so far, as far as anybody remembers."""
        return self._search is None and self._tried_again != epoch.id

    def known(self, epoch: Epoch) -> Broken:
        """The culprits that a former process found in this epoch."""
        search = self._of(epoch)
        found = {int(query): reason for query, reason in search.culprits.items()}
        # what this process notes of a fallback says nothing yet: it may have been stopped, or be done
        if search.fallback is not None and search.fallback == self._left_running:
            found[search.fallback] = _verdict(spark_died(), epoch)
        return found

    def check(self, epoch: Epoch) -> None:
        """EpochTrouble when the epoch brought Spark down so often that it is not run as a whole again."""
        search = self._of(epoch)
        if search.trying is not None or search.deaths >= AT_ONCE:
            raise EpochTrouble(search.failure if search.reason else spark_died())

    def fallback_begins(self, query: int) -> None:
        """Note who runs by itself, if there was trouble before."""
        if self._search is not None:
            self._note(replace(self._search, fallback=query))

    # after an epoch

    def ran(self, epoch: Epoch, entries: Iterable[QueryEntry], seconds: float) -> None:
        """What is shared of the epoch was run, and took so long."""
        self._patience.ran(epoch, (entry.query.plan for entry in entries), seconds)

    def settled(self) -> None:
        """The epoch was committed: what was known of it is no longer needed."""
        if self._search is not None:
            self._search = None
            self._warehouse.delete(self._path)

    def keep(self, epoch: Epoch, broken: Broken) -> None:
        """Remember culprits that may have left Spark unable to run the epoch again."""
        search = self._of(epoch)
        named = {str(query): reason for query, reason in broken.items()}
        self._note(replace(search, culprits={**search.culprits, **named}, fallback=None))

    def find(self, epoch: Epoch, held: Sequence[SegmentFile], trouble: EpochTrouble) -> Broken:
        """The queries to go on without; none: try again. HeadraceError when no query is to blame."""
        search, failure = self._of(epoch), trouble.failure
        if not is_gone(self._runner.spark):
            self._runner.take_thread(epoch)
        entries = self._catalog.active_entries(epoch.id, self._group)
        resumed = search.trying is not None or search.deaths >= AT_ONCE
        if failure.kind is FailureKind.SPARK and not resumed:
            if not is_stopped(self._runner.spark):
                self._note(replace(search, deaths=search.deaths + 1))
            raise spark_gone() from trouble
        if failure.kind is FailureKind.MACHINE:
            raise epoch_failed(epoch.id, failure.reason) from trouble
        if not resumed and failure.kind is not FailureKind.TIME and self._tried_again != epoch.id:
            self._tried_again = int(epoch.id)
            return {}
        dropped = [entry for entry in entries if entry.dropping]
        if dropped:
            if resumed:
                self._note(Search(int(epoch.id), culprits=search.culprits))
            return {int(e.query.id): f"dropped before epoch {epoch.id} was run: {failure}" for e in dropped}
        if failure.kind is FailureKind.TIME and not resumed and not self._runner.answers():
            self._note(replace(search, deaths=AT_ONCE, kind=failure.kind.name, reason=failure.reason))
            raise spark_stuck(epoch.id) from trouble
        return self._find(epoch, held, search, failure, entries)

    def _find(
        self,
        epoch: Epoch,
        held: Sequence[SegmentFile],
        search: Search,
        failure: Failure,
        entries: Sequence[QueryEntry],
    ) -> Broken:
        try:
            self._runner.check_without_queries(epoch)
        except EpochTrouble as trouble:
            raise self._nobody(epoch, trouble) from trouble
        shared = [entry for entry in entries if not isinstance(entry.query.plan.body, Fallback)]
        if not shared:
            self._note(replace(search, deaths=0, trying=None))
            return {}
        order, likely = by_suspicion((int(e.query.id), _suspicion(e, epoch)) for e in shared)
        search = begin(search, order, failure)
        try:
            search, guilty = find_culprit(
                search,
                lambda ids: self._fails(epoch, held, ids),
                self._note,
                likely,
                spark_died(),
                self._gave_time(epoch, entries),
            )
        except HeadraceError as error:
            if error.code not in (
                "SPARK_GONE",
                "SPARK_STUCK",
            ):  # stopped by somebody: that says nothing of the trial
                self._note(replace(self._of(epoch), trying=None, alone=False, deaths=AT_ONCE))
            raise
        if guilty:
            culprit = search.order[search.good]
            blamed = self._catalog.entry_of(QueryId(culprit)).query
            found = {**search.culprits, str(culprit): _verdict(search.failure, epoch, blamed)}
            self._note(replace(search, culprits=found, deaths=0, trying=None))
            return {culprit: found[str(culprit)]}
        self._note(Search(int(epoch.id), culprits=search.culprits))
        if search.failure.kind is FailureKind.TIME:
            self._unlimited = int(epoch.id)
            return {}
        if search.good == len(search.order) and self._ran_in_trial != epoch.id:
            self._ran_in_trial = int(epoch.id)
            return {}
        raise epoch_unrunnable(epoch.id, str(search.failure))

    def _fails(self, epoch: Epoch, held: Sequence[SegmentFile], ids: Sequence[int]) -> Failure | None:
        """One trial; queries that it can name do not make it fail, because an epoch goes on without them."""
        entries = [self._catalog.entry_of(QueryId(id_)) for id_ in ids]
        seconds = self._trial_seconds(epoch, entries)
        if seconds is not None:
            seconds += 2 * self._good_seconds
        started = time.monotonic()
        try:
            while entries:
                plan = self._runner.plan(int(epoch.id), entries)
                attempt = f"{TRIAL}{uuid.uuid4().hex[:8]}"
                result, broken = self._runner.run_shared(epoch, plan, entries, held, attempt, seconds)
                self._runner.discard(result, held)
                if not broken:
                    break
                entries = [entry for entry in entries if entry.query.id not in broken]
        except EpochTrouble as trouble:
            if trouble.failure.kind is FailureKind.SPARK:
                raise spark_gone() from trouble
            if trouble.failure.kind is FailureKind.TIME and not self._runner.answers():
                raise spark_stuck(epoch.id) from trouble
            if trouble.failure.kind is FailureKind.MACHINE:
                raise epoch_failed(epoch.id, trouble.failure.reason) from trouble
            self._runner.take_thread(epoch)
            return trouble.failure
        self._good_seconds = time.monotonic() - started
        return None

    def _trial_seconds(self, epoch: Epoch, entries: Sequence[QueryEntry]) -> float | None:
        """How long a trial may take. Those that look for a function that hangs have the limit of functions. The last
        one, of a query by itself, has the time of any query: who is only slow must not be blamed.
        """
        search = self._of(epoch)
        if search.alone:
            return self._alone_seconds(epoch, entries)
        own = self._runner.query_seconds
        return _least(own, self._calling(epoch, entries)) if search.failure.kind is FailureKind.TIME else own

    def _alone_seconds(self, epoch: Epoch, entries: Sequence[QueryEntry]) -> float | None:
        """How long a query may take in a trial by itself. Without a `query_timeout`, one that calls a function has as
        long as an epoch, or the search would never end.
        """
        own, calling = self._runner.query_seconds, self._calling(epoch, entries)
        if calling is None:
            return own
        whole = self._epoch_seconds
        if own is None or whole is None:
            return own if whole is None else whole
        return max(own, min(whole, calling))

    def _gave_time(self, epoch: Epoch, entries: Sequence[QueryEntry]) -> bool:
        """Whether an epoch that was stopped had as long as a query has by itself."""
        given = _least(self._epoch_seconds, self._calling(epoch, entries))
        own = self._alone_seconds(epoch, entries)
        return given is None or own is None or given >= own

    def _nobody(self, epoch: Epoch, trouble: EpochTrouble) -> Exception:
        match trouble.failure.kind:
            case FailureKind.SPARK:
                return spark_gone()
            case FailureKind.TIME:
                return spark_stuck(epoch.id)
            case FailureKind.ERROR | FailureKind.MACHINE | FailureKind.MEMORY | FailureKind.WORKER:
                return epoch_unrunnable(epoch.id, str(trouble.failure))
            case never:
                assert_never(never)

    def _of(self, epoch: Epoch) -> Search:
        if self._search is not None and self._search.epoch == epoch.id:
            return self._search
        return Search(int(epoch.id))

    def _note(self, search: Search) -> None:
        self._search = search
        self._warehouse.replace_value(self._path, "search", search)


def _least(*limits: float | None) -> float | None:
    """The shortest of some limits, of which None is none.

    >>> _least(600.0, 60.0), _least(None, 60.0), _least(None)
    (60.0, 60.0, None)
    """
    return min((limit for limit in limits if limit is not None), default=None)


def _suspicion(entry: QueryEntry, epoch: Epoch) -> int:
    """How likely a query is the culprit: in its first epoch, and with expressions that Spark evaluates for it, or
    functions.
    """
    body = entry.query.plan.body
    risky = any(expressions_of(entry.query, stream) for stream in entry.query.plan.streams)
    risky = risky or bool(entry.query.plan.functions)
    fragile = body.fragile if isinstance(body, Aggregation) else isinstance(body, Join)
    return 2 * (entry.first_epoch == epoch.id) + (risky or fragile)


def _verdict(failure: Failure, epoch: Epoch, query: Query | None = None) -> str:
    functions = () if query is None else query.plan.functions
    calls = f"; it calls {', '.join(f'{name}()' for name in functions)}" if functions else ""
    return f"{failure} (epoch {epoch.id} runs without this query, and not with it{calls})"
