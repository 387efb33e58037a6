"""What the service needs of a session, and what its client gives back: the public face as protocols.

A real `headrace.Session`, a client of a service and the fakes of tests all fit. Nothing here imports Spark or Arrow, so
that a command that only asks a running service is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.looking.group_info import GroupInfo as GroupInfo

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.health import Health


class QueryInfo(Protocol):
    """One line of `hr.queries()`; dropped queries are listed too, because their results stay."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> object: ...
    @property
    def stream(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def first_epoch(self) -> int | None: ...
    @property
    def last_epoch(self) -> int | None: ...
    @property
    def rows(self) -> int: ...
    @property
    def error(self) -> Any: ...
    @property
    def trouble(self) -> str | None:
        """What keeps input from the query now."""
        ...

    @property
    def group(self) -> str: ...
    @property
    def target(self) -> str | None:
        """The group that it is on its way to."""
        ...


class ColumnInfo(Protocol):
    @property
    def name(self) -> str: ...


class StreamInfo(Protocol):
    """One line of `hr.streams()`."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> Sequence[ColumnInfo]: ...
    @property
    def event_time(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def late_rows(self) -> int: ...
    @property
    def closed(self) -> bool: ...


class AuditReport(Protocol):
    """What `q.audit()` found; `missing` and `unexpected` hold the first differing rows."""

    @property
    def ok(self) -> bool: ...
    @property
    def missing(self) -> Any: ...
    @property
    def unexpected(self) -> Any: ...
    @property
    def expected_rows(self) -> int: ...
    @property
    def actual_rows(self) -> int: ...
    @property
    def error(self) -> str | None:
        """Why the query was quarantined; it is not ok then."""
        ...

    @property
    def note(self) -> str | None:
        """What part of the query's life was compared, when it was not all of it."""
        ...

    @property
    def verbatim(self) -> bool:
        """Whether plain Spark ran the query's own text, and not a rendering of it."""
        ...

    @property
    def inputs(self) -> Sequence[Any]:
        """What was taken in of each stream and what was not; each is one line as text."""
        ...


class Newest(Protocol):
    """Rows that were delivered up to and including `epoch`."""

    @property
    def rows(self) -> pa.Table: ...
    @property
    def epoch(self) -> int: ...


class QueryStatus(Protocol):
    """How a query does; `why` says why it has no rows, and `standing` how its group does when that is worth a word."""

    @property
    def why(self) -> str: ...
    @property
    def standing(self) -> Sequence[str]: ...


class QueryHandle(Protocol):
    def status(self) -> QueryStatus: ...
    def newest(self, limit: int, after: int | None) -> Newest: ...
    def explain(self) -> str: ...
    def audit(self) -> AuditReport: ...


class SessionMetrics(Protocol):
    """Counters since the session opened; latencies in seconds."""

    @property
    def epoch(self) -> int:
        """The last committed epoch, below 0 before the first."""
        ...

    @property
    def active_queries(self) -> int: ...
    @property
    def input_rows(self) -> int: ...
    @property
    def result_rows(self) -> int: ...
    @property
    def late_rows(self) -> int: ...
    @property
    def last_epoch_seconds(self) -> float: ...
    @property
    def last_epoch_rows(self) -> int: ...

    @property
    def event_time_latency(self) -> float | None:
        """Commit time minus event time of the last epoch's newest result, None when it had none."""
        ...

    @property
    def deployment_latencies(self) -> Sequence[float]:
        """From the request to the start of the query, the most recent requests last."""
        ...


class Served(Protocol):
    """A session as the service offers it, and as the commands that look and ask use it."""

    def query(self, name: str) -> QueryHandle: ...
    def queries(self) -> Sequence[QueryInfo]: ...
    def streams(self) -> Sequence[StreamInfo]: ...
    def groups(self) -> Sequence[GroupInfo]: ...
    def explain(self) -> str: ...
    def metrics(self) -> SessionMetrics: ...
    def health(self) -> Health: ...
    def execute(self, statement: str) -> str | pa.Table: ...
