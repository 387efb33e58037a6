"""What the command line needs of a session: the public face as protocols, so that tests need no Spark."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from headrace.service.face import (
    AuditReport,
    GroupInfo,
    QueryHandle,
    QueryInfo,
    Served,
    SessionMetrics,
    StreamInfo,
)


class LocalQuery(QueryHandle, Protocol):
    def to_pandas(self) -> Any: ...


class Session(Served, Protocol):
    """A session in this process: one that may also write, feed streams and run epochs."""

    def create_stream(self, name: str, schema: str, *, event_time: str, watermark: str) -> Any: ...
    def create_query(self, sql: str, name: str) -> Any: ...
    def drop_query(self, name: str) -> Any: ...
    def append(self, stream: str, data: Any) -> Any: ...
    def warm_up(self) -> Any: ...
    def run_available(self) -> Any: ...
    def start(self, interval: str) -> Any: ...
    def stop(self) -> Any: ...
    def query(self, name: str) -> LocalQuery: ...


class Opener(Protocol):
    """Opens a warehouse for the length of a `with` block. `headrace.open` says what the options mean."""

    def __call__(
        self,
        warehouse: str,
        *,
        read_only: bool = False,
        partitions: int | None = None,
        backfill_tasks: int | None = None,
        sharing: str = "functional",
    ) -> AbstractContextManager[Session]: ...


__all__ = [
    "AuditReport",
    "GroupInfo",
    "LocalQuery",
    "Opener",
    "QueryHandle",
    "QueryInfo",
    "Served",
    "Session",
    "SessionMetrics",
    "StreamInfo",
]
