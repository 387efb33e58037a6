"""What a session tells about its streams, queries and costs: small values, and how they are put together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryState
from headrace.engine.group import Delivered
from headrace.log.arrivals import Arrivals
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.query import Fallback
from headrace.model.types import Column
from headrace.running import Totals


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """One line of `hr.queries()`: dropped queries are listed too, because their results stay."""

    name: str
    state: QueryState
    stream: str
    text: str
    first_epoch: int | None
    last_epoch: int | None
    rows: int
    error: str | None
    slot: int | None
    shared: bool


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """One line of `hr.streams()`; `rows` and `late_rows` count what epochs have taken in since it was created."""

    name: str
    columns: tuple[Column, ...]
    event_time: str
    watermark: timedelta
    watermark_us: int | None
    rows: int
    late_rows: int
    closed: bool


@dataclass(frozen=True, slots=True)
class QueryMetrics:
    """What one query has cost and brought so far."""

    rows: int
    deployment_latency: float | None
    first_epoch: int | None
    last_epoch: int | None


@dataclass(frozen=True, slots=True)
class SessionMetrics:
    """Counters since the session opened; latencies and seconds are wall-clock seconds.

    `query_changes` counts creations and deletions that have taken effect.
    """

    epoch: int
    active_queries: int
    input_rows: int
    result_rows: int
    late_rows: int
    query_changes: int
    last_epoch_seconds: float
    last_epoch_rows: int
    event_time_latency: float | None
    deployment_latencies: tuple[float, ...]
    behind: int


def stream_infos(catalog: Catalog, arrivals: Arrivals, sealer: Sealer, group: Delivered) -> list[StreamInfo]:
    """Every stream as of the last sealed epoch, in the order of creation."""
    latest = sealer.latest
    infos = []
    for stream in catalog.streams():
        part = latest.of(stream.name) if latest else None
        mark = None if part is None or part.watermark_us in (NEVER_US, FOREVER_US) else part.watermark_us
        rows, late = group.commit.stream_rows.get(stream.name, (0, 0))
        infos.append(
            StreamInfo(
                stream.name,
                stream.columns,
                stream.event_time,
                timedelta(microseconds=stream.watermark_us),
                mark,
                rows,
                late,
                arrivals.closed(stream.name),
            )
        )
    return infos


def query_infos(catalog: Catalog, group: Delivered) -> list[QueryInfo]:
    """Every query, oldest first, with its state, and its error when it was quarantined."""
    rows = group.commit.rows
    return [
        QueryInfo(
            entry.query.name,
            entry.state,
            ", ".join(entry.query.plan.streams),
            entry.query.plan.text,
            entry.first_epoch,
            entry.last_epoch,
            rows.get(str(entry.query.id), 0),
            entry.error,
            entry.slot,
            not isinstance(entry.query.plan.body, Fallback),
        )
        for entry in catalog.entries()
    ]


def session_metrics(group: Delivered, totals: Totals) -> SessionMetrics:
    """The counters of a session whose epochs have added up to `totals`."""
    commit = group.commit
    return SessionMetrics(
        epoch=commit.epoch,
        active_queries=commit.metrics.active_queries,
        input_rows=totals.input_rows,
        result_rows=totals.result_rows,
        late_rows=totals.late_rows,
        query_changes=totals.query_changes,
        last_epoch_seconds=commit.metrics.seconds,
        last_epoch_rows=commit.metrics.input_rows,
        event_time_latency=totals.event_time_latency,
        deployment_latencies=tuple(totals.deployments),
        behind=group.behind,
    )
