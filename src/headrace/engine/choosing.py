"""Strategies while a group runs: what its epochs measured, and what is decided by that.

What was measured is in the commits, so that a warehouse which is opened again need not learn it anew. What was decided
is there too, so a replay decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.catalog.queries import QueryEntry
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.query import Query, QueryId, StreamName
from headrace.model.statistics import (
    NOTHING_KNOWN,
    JoinCount,
    KeyStatistics,
    Statistics,
    StreamStatistics,
    add_epoch,
    add_join_counts,
)
from headrace.model.strategy import Choice, Strategies
from headrace.model.ways import FamilyWay, add_ways
from headrace.optimizer.measuring import measure_join
from headrace.optimizer.strategies import decide_strategies
from headrace.planner.strategies import possible_strategies

EVERY_EPOCHS = 8
"""How often running queries are looked at: a change has its price, because state is made anew."""


class Chooser:
    """The statistics of one group, and the choices for its next epoch. `known` is what its last commit knew."""

    def __init__(self, known: Statistics = NOTHING_KNOWN) -> None:
        self._known = known
        self._epoch = -1
        self._started: dict[QueryId, Choice] = {}
        self._fixed: set[QueryId] = set()
        self._open: dict[QueryId, Query] = {}
        self._ways: dict[str, tuple[FamilyWay, ...]] = {}

    @property
    def known(self) -> Statistics:
        """What was measured so far."""
        return self._known

    def measured(self, epoch: Epoch, keys: Sequence[KeyStatistics], joins: Sequence[JoinCount]) -> None:
        """Take in what an epoch has shown: keys that tasks sampled, and what they counted of joins."""
        work = tuple(
            found
            for count in add_join_counts(joins)
            if count.query in self._open
            and (found := measure_join(self._open[count.query], count, epoch)) is not None
        )
        if keys or work:
            shown = Statistics(streams=_paces(epoch), keys=tuple(keys), joins=work)
            self._known = add_epoch(self._known, shown)

    def found(self, ways: Iterable[FamilyWay], operators: Iterable[str]) -> None:
        """Take in how the tuples of an epoch found their queries. What an operator did last is remembered as long as it
        is among `operators`, those of the plan.
        """
        found: dict[str, list[FamilyWay]] = {}
        for way in ways:
            found.setdefault(way.operator, []).append(way)
        known = self._ways | {operator: add_ways(mine) for operator, mine in found.items()}
        self._ways = {operator: known[operator] for operator in operators if operator in known}

    def ways(self, operators: Iterable[str]) -> tuple[FamilyWay, ...]:
        """How tuples found their queries when these operators last had some."""
        return tuple(way for operator in operators for way in self._ways.get(operator, ()))

    def decide(self, epoch: int, entries: Iterable[QueryEntry], current: Strategies) -> dict[QueryId, Choice]:
        """The running queries that should go on otherwise from an epoch on; and choices for those that start with it.

        The latter are in force at once (see `started`): they have no state yet. Costs nothing without such queries.
        """
        self._epoch, self._started = epoch, {}
        open_ = [entry for entry in entries if len(possible_strategies(entry.query.plan.body)) > 1]
        self._open = {entry.query.id: entry.query for entry in open_}
        kept = tuple(work for work in self._known.joins if work.query in self._open)
        self._known = replace(self._known, joins=kept)
        if not open_:
            return {}
        running = {entry.query.id for entry in open_ if (entry.first_epoch or 0) < epoch}
        found = decide_strategies([entry.query for entry in open_], self._known, current, running)
        self._started = dict(found.started)
        if epoch % EVERY_EPOCHS:
            return {}
        return {query: choice for query, choice in found.moved.items() if query not in self._fixed}

    def started(self, epoch: int) -> dict[QueryId, Choice]:
        """The choices for the queries that start with an epoch."""
        return self._started if epoch == self._epoch else {}

    def keep(self, queries: Iterable[QueryId]) -> None:
        """These queries stay as they are: the log no longer has what another strategy would need."""
        self._fixed.update(queries)


def _paces(epoch: Epoch) -> tuple[StreamStatistics, ...]:
    """How fast the event time of each stream went on in an epoch."""
    return tuple(
        StreamStatistics(StreamName(inflow.stream), inflow.rows, inflow.watermark_us - inflow.closed_us)
        for inflow in epoch.streams
        if inflow.chunks and inflow.closed_us != NEVER_US and inflow.watermark_us != FOREVER_US
    )
