"""A session without Spark: it remembers what it was told, and answers as it is set up to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.catalog.queries import QueryState
from headrace.health import Health, RunState
from headrace.model.errors import CatalogError, SqlError
from headrace.model.grouping import GroupState, kind_of
from headrace.storage.warehouse import Warehouse

if TYPE_CHECKING:  # programs that tests start import this module, and need neither of these
    import pandas as pd

    from headrace.looking.group_info import GroupInfo

WELL = Health(True, RunState.RUNNING, None, (), (), ())


@dataclass
class Info:
    name: str
    text: str = "SELECT 1"
    state: QueryState = QueryState.ACTIVE
    stream: str = "purchases"
    first_epoch: int | None = 3
    last_epoch: int | None = None
    rows: int = 0
    error: str | None = None
    slot: int | None = 0
    trouble: str | None = None
    group: str = "main"
    target: str | None = None


@dataclass
class Report:
    ok: bool = True
    missing: Any = ()
    unexpected: Any = ()
    expected_rows: int = 2
    actual_rows: int = 2
    error: str | None = None
    inputs: Any = ()
    note: str | None = None
    verbatim: bool = True


@dataclass
class Metrics:
    epoch: int = -1
    active_queries: int = 0
    input_rows: int = 0
    result_rows: int = 0
    late_rows: int = 0
    last_epoch_seconds: float = 0.0
    last_epoch_rows: int = 0
    event_time_latency: float | None = None
    deployment_latencies: tuple[float, ...] = ()


@dataclass
class Column:
    name: str
    type: str = "bigint"


@dataclass
class StreamLine:
    name: str
    columns: tuple[Column, ...] = (Column("userID"), Column("price", "double"))
    event_time: str = "ts"
    rows: int = 0
    late_rows: int = 0
    closed: bool = False


@dataclass
class Status:
    name: str
    state: QueryState = QueryState.ACTIVE
    rows: int = 0
    reasons: tuple[str, ...] = ("no epoch has run",)
    group: str = "main"
    standing: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        return "; ".join(self.reasons)


@dataclass
class Newest:
    rows: pa.Table
    epoch: int


def group_line(name: str = "main", cursor: int = 3, **others: Any) -> GroupInfo:
    """A line of `hr.groups()` of a group that is up to date, unless told otherwise."""
    found: dict[str, Any] = {
        "name": name,
        "kind": kind_of(name),
        "state": GroupState.RUNNING,
        "members": ("spend",),
        "cursor": cursor,
        "lag_epochs": 0,
        "lag_seconds": 0.0,
        "tasks": 2,
        "partitions": 2,
        "target": None,
        "seconds": 0.4,
        "map_seconds": 0.2,
        "reduce_seconds": 0.1,
        "plain_seconds": 0.0,
        "error": None,
    }
    from headrace.looking.group_info import GroupInfo

    return GroupInfo(**{**found, **others})


def no_rows() -> pa.Table:
    """Made when it is asked for: for an array of Python's values pyarrow imports pandas."""
    return pa.table({"country": pa.array([], pa.string()), "n": pa.array([], pa.int64())})


@dataclass
class Handle:
    info: Info
    report: Report
    delivered: dict[int, pa.Table] = field(default_factory=dict)
    epoch: int = -1
    standing: tuple[str, ...] = ()

    def to_pandas(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame({"country": ["US", "JP"], "spend": [12.5, 3.25]})

    def status(self) -> Status:
        return Status(self.info.name, standing=self.standing)

    def newest(self, limit: int, after: int | None) -> Newest:
        """The rows that the test has set up for each epoch after `after`."""
        found = [t for e, t in self.delivered.items() if after is None or e > after]
        rows = pa.concat_tables(found) if found else no_rows()
        return Newest(rows.slice(max(0, rows.num_rows - limit)), self.epoch)

    def explain(self) -> str:
        return f"plan of {self.info.name}"

    def audit(self) -> Report:
        return self.report


@dataclass
class FakeSession:
    infos: dict[str, Info] = field(default_factory=dict)
    reports: dict[str, Report] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    refuse: frozenset[str] = frozenset()
    calls: list[tuple[str, str]] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    appended: list[pa.Table] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    running: bool = False
    read_only: bool | None = None
    warmed: FakeSession | None = None
    epoch: int = -1
    delivered: dict[int, pa.Table] = field(default_factory=dict)
    stream_lines: list[StreamLine] = field(default_factory=list)
    found_health: Health = WELL
    other_groups: list[GroupInfo] = field(default_factory=list)
    standing: tuple[str, ...] = ()
    width: tuple[int | None, int | None] = (None, None)
    sharing: str = "functional"

    @contextmanager
    def open(
        self,
        warehouse: str,
        *,
        read_only: bool = False,
        partitions: int | None = None,
        backfill_tasks: int | None = None,
        sharing: str = "functional",
    ) -> Iterator[FakeSession]:
        """An `Opener`: the directory becomes a warehouse, as a real session would make it.

        What the demo warms up on is another session, and of no interest afterwards.
        """
        Warehouse(warehouse)
        if "headrace-warm-up-" in warehouse:
            self.warmed = FakeSession()
            yield self.warmed
            return
        self.opened += 1
        self.read_only, self.width, self.sharing = read_only, (partitions, backfill_tasks), sharing
        try:
            yield self
        finally:
            self.closed += 1

    def create_stream(self, name: str, schema: str, *, event_time: str, watermark: str) -> None:
        self.calls.append(("create_stream", name))

    def create_query(self, sql: str, name: str) -> None:
        if name in self.refuse:
            raise SqlError("BAD_QUERY", f"cannot run {name}")
        self.calls.append(("create_query", name))
        self.infos[name] = Info(name, sql, rows=2)

    def drop_query(self, name: str) -> None:
        self.calls.append(("drop_query", name))
        self.infos[name].state = QueryState.DROPPED

    def append(self, stream: str, data: pa.Table) -> None:
        assert self.running, "purchases come while the session runs"
        self.appended.append(data)
        self.epoch += 1

    def start(self, interval: str) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def warm_up(self) -> None:
        pass

    def run_available(self) -> None:
        self.calls.append(("run_available", ""))

    def query(self, name: str) -> Handle:
        if name not in self.infos:
            raise CatalogError("QUERY_NOT_FOUND", f"there is no query `{name}`")
        report = self.reports.get(name, Report())
        return Handle(self.infos[name], report, self.delivered, self.epoch, self.standing)

    def queries(self) -> list[Info]:
        return list(self.infos.values())

    def groups(self) -> list[GroupInfo]:
        return [group_line(cursor=self.epoch, members=tuple(self.infos)), *self.other_groups]

    def streams(self) -> list[StreamLine]:
        return self.stream_lines

    def health(self) -> Health:
        return self.found_health

    def explain(self) -> str:
        return "the whole plan"

    def metrics(self) -> Metrics:
        active = sum(info.state is QueryState.ACTIVE for info in self.infos.values())
        rows = sum(table.num_rows for table in self.appended)
        return Metrics(
            epoch=self.epoch,
            active_queries=active,
            input_rows=rows,
            result_rows=rows // 10,
            last_epoch_seconds=0.4,
            event_time_latency=2.5,
            deployment_latencies=(0.2, 0.9),
        )

    def execute(self, statement: str) -> str | pa.Table:
        self.executed.append(statement)
        answer = self.answers.get(statement, "ok")
        if isinstance(answer, BaseException):
            raise answer
        return answer


class FakeClock:
    """Time moves only when somebody pauses. `stop_at` plays a Ctrl-C after that many seconds."""

    def __init__(self, stop_at: float | None = None) -> None:
        self.began = self.time = 1_772_323_200.0
        self.stop_at = stop_at
        self.stopped = threading.Event()

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> bool:
        self.time += max(seconds, 0.0)
        if self.stop_at is not None and self.time - self.began >= self.stop_at:
            self.stopped.set()
        return self.stopped.is_set()
