"""What a session tells about its streams, queries and costs: small values, and how they are put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry, QueryState
from headrace.engine.costs import QueryCost
from headrace.engine.delivered import Delivered
from headrace.health import Problem, SourceHealth
from headrace.log.arrivals import Arrivals
from headrace.log.seal import Sealer
from headrace.looking.checkup import Checkup
from headrace.looking.showing import (
    Listing,
    html_table,
    show_bytes,
    show_duration,
    show_home,
    show_seconds,
    show_time,
    text_table,
)
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.grouping import MAIN
from headrace.model.query import Fallback
from headrace.model.types import Column
from headrace.running.totals import Totals


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """One line of `hr.queries()`: dropped queries are listed too, because their results stay.

    `rows` are those that a reader gets. Epochs count them, except where HAVING, a join's windows or expiry make a
    difference: these are counted when `queries` is called, each result file once (see `results.counting`). `error` is
    why it was quarantined; `trouble` says what keeps input from it now. It lives in `group`, and is on its way to
    `target` when it moves or catches up.
    """

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
    trouble: str | None = None
    group: str = MAIN
    target: str | None = None

    HEADERS: ClassVar = (
        "query",
        "state",
        "streams",
        "group",
        "first epoch",
        "last epoch",
        "rows",
        "shared",
        "error",
    )

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS."""
        return (
            self.name,
            self.state.value,
            self.stream,
            show_home(self.group, self.target),
            self.first_epoch,
            self.last_epoch,
            self.rows,
            self.shared,
            self.error or self.trouble,
        )


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """One line of `hr.streams()`; `rows` and `late_rows` count what epochs have taken in since it was created.

    `source` is the state of its input.
    """

    name: str
    columns: tuple[Column, ...]
    event_time: str
    watermark: timedelta
    watermark_us: int | None
    rows: int
    late_rows: int
    closed: bool
    source: SourceHealth

    HEADERS: ClassVar = (
        "stream",
        "event time",
        "delay",
        "watermark",
        "rows",
        "late rows",
        "closed",
        "source",
        "problem",
        "columns",
    )

    @property
    def watermark_time(self) -> str | None:
        """Where the watermark stands, as SELECT shows times; None before any event and when the stream is closed."""
        return None if self.watermark_us is None else show_time(self.watermark_us)

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS."""
        delay = show_duration(self.watermark // timedelta(microseconds=1))
        columns = ", ".join(f"{column.name} {column.type.name}" for column in self.columns)
        return (
            self.name,
            self.event_time,
            delay,
            self.watermark_time,
            self.rows,
            self.late_rows,
            self.closed,
            self.source.state.value,
            self.source.problem,
            columns,
        )


@dataclass(frozen=True, slots=True)
class QueryMetrics:
    """What one query has cost and brought so far.

    `rows` are those that a reader gets. `stored_rows` are those that epochs have written for it: more where HAVING
    drops some when they are read, fewer where joined rows become results only then. `group` is where it lives, and
    `lag_epochs` are sealed and not run for it yet. `cost` is its part of what its epochs took; None when
    none of them had it.
    """

    rows: int
    deployment_latency: float | None
    first_epoch: int | None
    last_epoch: int | None
    stored_rows: int = 0
    group: str = MAIN
    lag_epochs: int = 0
    cost: QueryCost | None = None

    def lines(self) -> tuple[tuple[str, Any], ...]:
        """What there is to see, in words and with units."""
        return (
            ("rows", self.rows),
            ("rows stored", self.stored_rows),
            ("active after", show_seconds(self.deployment_latency)),
            ("first epoch", self.first_epoch),
            ("last epoch", self.last_epoch),
            ("group", self.group),
            ("epochs behind", self.lag_epochs),
            *(() if self.cost is None else cost_lines(self.cost)),
        )

    def __repr__(self) -> str:
        return text_table(("query", ""), self.lines())

    def _repr_html_(self) -> str:
        return html_table(("query", ""), self.lines())


def cost_lines(cost: QueryCost) -> tuple[tuple[str, Any], ...]:
    """What a query has cost so far, in words and with units."""
    return (
        ("CPU so far", show_seconds(cost.cpu_seconds)),
        ("tuples read", cost.tuples),
        ("tuples matched", cost.matched),
        ("shuffled", show_bytes(cost.shuffled_bytes)),
        ("state", show_bytes(cost.state_bytes)),
        *(
            (f"{name}()", f"{show_seconds(spent.seconds)} for {spent.rows:,} rows")
            for name, spent in sorted(cost.functions.items())
        ),
    )


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

    def lines(self) -> tuple[tuple[str, Any], ...]:
        """What there is to see, in words and with units."""
        deployed = sorted(self.deployment_latencies)
        return (
            ("last epoch", None if self.epoch < 0 else self.epoch),
            ("sealed and not run yet", self.behind),
            ("active queries", self.active_queries),
            ("tuples taken in", self.input_rows),
            ("of them late", self.late_rows),
            ("rows delivered", self.result_rows),
            ("query changes", self.query_changes),
            ("last epoch took", show_seconds(self.last_epoch_seconds)),
            ("last epoch's tuples", self.last_epoch_rows),
            ("result after its window's end", show_seconds(self.event_time_latency)),
            ("query active after (median)", show_seconds(deployed[len(deployed) // 2] if deployed else None)),
        )

    def __repr__(self) -> str:
        return text_table(("since opening", ""), self.lines())

    def _repr_html_(self) -> str:
        return html_table(("since opening", ""), self.lines())


def stream_infos(catalog: Catalog, arrivals: Arrivals, sealer: Sealer, checkup: Checkup) -> list[StreamInfo]:
    """Every stream as of the last sealed epoch, in the order of creation."""
    latest = sealer.latest
    infos: list[StreamInfo] = Listing()
    streams = catalog.streams()
    for stream, source in zip(streams, checkup.sources(s.name for s in streams), strict=True):
        inflow = latest.of(stream.name) if latest else None
        mark = (
            None if inflow is None or inflow.watermark_us in (NEVER_US, FOREVER_US) else inflow.watermark_us
        )
        rows, late = (0, 0) if inflow is None else inflow.total
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
                source,
            )
        )
    return infos


def query_infos(
    entries: Iterable[QueryEntry], rows: Mapping[int, int], catalog: Catalog, checkup: Checkup
) -> list[QueryInfo]:
    """These queries with their states, their errors when they were quarantined, and the rows that were counted."""
    troubles: dict[str, list[Problem]] = {str(s.name): checkup.of_source(s) for s in catalog.streams()}
    groups = checkup.of_groups()

    def trouble(entry: QueryEntry) -> str | None:
        problems = [*checkup.of_functions(entry), *groups.get("", ()), *groups.get(entry.group, ())]
        problems += (p for name in entry.query.plan.streams for p in troubles.get(name, ()))
        return f"{problems[0].about}: {problems[0].message}" if problems and entry.live else None

    return Listing(
        QueryInfo(
            entry.query.name,
            entry.state,
            ", ".join(entry.query.plan.streams),
            entry.query.plan.text,
            entry.first_epoch,
            entry.last_epoch,
            rows[int(entry.query.id)],
            entry.error,
            entry.slot,
            not isinstance(entry.query.plan.body, Fallback),
            trouble(entry),
            entry.group,
            entry.moving_to if entry.live else None,
        )
        for entry in entries
    )


def query_metrics(
    entry: QueryEntry, rows: int, delivered: Delivered, costs: Mapping[int, QueryCost]
) -> QueryMetrics:
    """What the commits of its groups know of a query of which a reader gets `rows`."""
    latency = None if entry.active_at is None else max(0.0, entry.active_at - entry.requested_at)
    return QueryMetrics(
        rows,
        latency,
        entry.first_epoch,
        entry.last_epoch,
        delivered.stored_rows(entry),
        entry.group,
        delivered.behind(entry.group) if entry.live and entry.error is None else 0,
        costs.get(int(entry.query.id)),
    )


def session_metrics(group: Delivered, totals: Totals) -> SessionMetrics:
    """The counters of a session whose epochs have added up to `totals`."""
    commit = group.main
    return SessionMetrics(
        epoch=commit.epoch,
        active_queries=sum(group.active(name) for name in group.commits),
        input_rows=totals.input_rows,
        result_rows=totals.result_rows,
        late_rows=totals.late_rows,
        query_changes=totals.query_changes,
        last_epoch_seconds=commit.metrics.seconds,
        last_epoch_rows=commit.metrics.input_rows,
        event_time_latency=totals.event_time_latency,
        deployment_latencies=tuple(totals.deployments),
        behind=group.behind_most,
    )
