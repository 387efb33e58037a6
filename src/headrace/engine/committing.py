"""The commit of an epoch: what a group's last commit becomes by what the epoch produced."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.job import JobResult
from headrace.engine.records import Commit, Metrics, Quarantine
from headrace.model.epoch import Epoch
from headrace.model.grouping import MAIN


@dataclass(frozen=True, slots=True)
class Ran:
    """An epoch that was run by the plan of version `plan`: what it produced, and how long it and its planning took."""

    epoch: Epoch
    plan: str
    result: JobResult
    seconds: float
    plan_seconds: float


def make_commit(catalog: Catalog, before: Commit, ran: Ran, now: float) -> Commit:
    """The commit of a group after an epoch. Strategies, statistics and inheritances are left as they were."""
    group, epoch, result = before.group, ran.epoch, ran.result
    entries = {int(entry.query.id): entry for entry in catalog.homes.living_in(group)}
    taken = catalog.homes.regroupings(group, before.regrouping, int(epoch.id))
    return replace(
        before,
        epoch=int(epoch.id),
        plan=ran.plan,
        segments=tuple(result.segments),
        results=(*before.results, *(replace(file, written_at=now) for file in result.results)),
        quarantined=_quarantined(group, entries),
        rows=before.rows.only(entries) + result.rows,
        metrics=_metrics(group, catalog.active_entries(epoch.id, group), ran),
        committed_at=now,
        regrouping=taken[-1].number if taken else before.regrouping,
        operators=result.operators,
    )


def _quarantined(group: str, entries: dict[int, QueryEntry]) -> dict[str, Quarantine]:
    """The queries that failed in a group."""
    return {
        str(id_): Quarantine(int(entry.last_epoch), entry.error, int(entry.ended_us or 0))
        for id_, entry in entries.items()
        if entry.error is not None
        and entry.last_epoch is not None
        and entry.group_at(entry.last_epoch) == group
    }


def _metrics(group: str, members: tuple[QueryEntry, ...], ran: Ran) -> Metrics:
    epoch, result = ran.epoch, ran.result
    read = {stream for entry in members for stream in entry.query.plan.streams}
    if group == MAIN:  # it takes in what nobody reads, too
        read = {inflow.stream for inflow in epoch.streams}
    return Metrics(
        input_rows=sum(inflow.rows for inflow in epoch.streams if inflow.stream in read),
        late_rows=sum(inflow.late_rows for inflow in epoch.streams if inflow.stream in read),
        result_rows=result.rows.total,
        active_queries=len(members),
        seconds=ran.seconds,
        plan_seconds=ran.plan_seconds,
        bytes_written=sum(f.bytes for f in result.results) + sum(s.bytes for s in result.segments),
        **{name: type(getattr(Metrics(), name))(value) for name, value in result.metrics.items()},
    )
