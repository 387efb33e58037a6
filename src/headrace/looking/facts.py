"""Facts about a query, gathered from the catalog, the log and the last commit: what status and EXPLAIN speak of."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.delivered import Delivered
from headrace.health import Health, RunState, SourceHealth, SourceState
from headrace.log.arrivals import Arrivals
from headrace.log.seal import Sealer
from headrace.looking.grouped import lag_seconds
from headrace.looking.status import GroupFacts, QueryFacts, StreamFacts
from headrace.model.epoch import NEVER_US
from headrace.model.grouping import GroupKind, kind_of


@dataclass(frozen=True, slots=True)
class FactFinder:
    """Looks things up; reads no tuples and asks Spark nothing.

    `errors` say why an epoch is tried again, by group. The empty name stands for sealing, which is for all groups.
    """

    catalog: Catalog
    arrivals: Arrivals
    sealer: Sealer
    group: Delivered
    health: Health
    errors: Mapping[str, str] = field(default_factory=dict)

    def query(self, entry: QueryEntry) -> QueryFacts:
        """What is known of a query as of the last commit."""
        cursor, plan = self.group.cursor_of(entry), entry.query.plan
        began = NEVER_US
        if entry.first_epoch is not None and self.sealer.first <= entry.first_epoch <= cursor:
            began = self.sealer.head(entry.first_epoch).closed_us(plan.streams)
        return QueryFacts(
            name=entry.query.name,
            state=entry.state,
            streams=tuple(self._stream(name, entry) for name in plan.streams),
            rows=self.group.stored_rows(entry),
            window=plan.window,
            first_epoch=entry.first_epoch,
            last_epoch=entry.last_epoch,
            error=entry.error,
            epoch=cursor,
            run=self._run(entry),
            began_us=began,
            group=self.home(entry),
            missing=self.catalog.functions.missing(entry.query),
        )

    def _run(self, entry: QueryEntry) -> RunState:
        """What the run does for a query. Trouble of other groups is not its trouble."""
        troubled = "" in self.errors or entry.group in self.errors
        retries = self.health.run is RunState.RETRYING
        return RunState.RUNNING if retries and not troubled else self.health.run

    def home(self, entry: QueryEntry) -> GroupFacts:
        """Where the group of a query stands."""
        name = entry.group
        cursor = self.group.cursor(name)
        return GroupFacts(
            name,
            since=entry.stays[-1].epoch if entry.stays else 0,
            cursor=cursor,
            newest=self.group.sealed,
            lag_seconds=lag_seconds(self.sealer, cursor, time.time()),
            catching_up=kind_of(name) is GroupKind.TRANSIT,
            target=entry.moving_to,
            error=self.errors.get(name),
        )

    def empty(self, entry: QueryEntry) -> QueryFacts:
        """The facts of a query whose reader got no row, whatever was counted: joined rows are stored early."""
        return replace(self.query(entry), rows=0)

    def _stream(self, name: str, entry: QueryEntry) -> StreamFacts:
        cursor = self.group.cursor_of(entry)
        rows, late = self.group.totals(cursor).get(name, (0, 0))
        source = next((found for found in self.health.sources if found.stream == name), _gone(name))
        logged, kept = [], []
        if entry.first_epoch is not None:
            oldest = max(self.sealer.first, self.catalog.stream_ended(name) or 0)
            kept = [item.chunk for item in self.group.index.chunks(name, oldest, entry.first_epoch)]
            last = cursor + 1 if entry.last_epoch is None else min(cursor + 1, entry.last_epoch)
            logged = [item.chunk for item in self.group.index.chunks(name, entry.first_epoch, last)]
        return StreamFacts(
            name,
            source.state,
            watermark_us=self.group.watermark_at([name], cursor),
            rows=rows,
            late=late,
            waiting=self.waiting(name, cursor),
            since=sum(chunk.rows for chunk in logged),
            first_us=min((chunk.min_us for chunk in logged if chunk.min_us is not None), default=None),
            error=source.error,
            kept=sum(chunk.rows for chunk in kept),
        )

    def waiting(self, name: str, cursor: int) -> int:
        """Tuples of a stream that arrived after an epoch, be they sealed or not."""
        taken = self.sealer.latest.next_chunk if self.sealer.latest else 0
        rows = 0
        for i, arrival in enumerate(self.arrivals.pending()):
            if arrival.stream == name:
                rows += sum(chunk.rows for chunk in arrival.chunks[taken if i == 0 else 0 :])
        for epoch in self.sealer.epochs(cursor + 1) if cursor < self.group.sealed else ():
            inflow = epoch.of(name)
            rows += 0 if inflow is None else inflow.rows
        return rows


def _gone(name: str) -> SourceHealth:
    """What is left to say of a stream that was dropped."""
    return SourceHealth(name, SourceState.CLOSED)
