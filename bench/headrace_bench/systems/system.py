"""What the harness asks of a system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace_bench.workload import Query


class System(Protocol):
    """A system under test, in a process of its own. All streams have the columns of `ddl`. Every stream has a folder in
    `feed`, where its files appear, whole and in order of their names.

    `open` brings up what is there before any query (a session, a cluster). `create` returns when the queries are
    deployed, and takes all of them at once. `done` is how many tuples the slowest query has worked off with its results
    written: of all streams, as many of each as of the one that it is least far with. `rows` are one query's as (window
    end in microseconds since 1970, key, the other columns), after `stop`. A system that does not close every query's
    windows up to the latest tuple also has `closed_us(number)`: up to which end it has closed those of a query. One
    that works in epochs also has `spent(since)`: `epochs` and `tasks_s` of `Outcome` since a moment.
    """

    name: str
    ddl: str

    def open(self, feed: Path, work: Path, streams: Sequence[str]) -> None: ...

    def create(self, queries: Sequence[Query]) -> None: ...

    def done(self) -> int: ...

    def stop(self) -> None:
        """No more files come; let what is under way end, keep the results."""

    def rows(self, number: int) -> list[tuple[Any, ...]]: ...

    def facts(self) -> dict[str, Any]:
        """Fields of `Outcome` that only the system knows: result_rows, bytes_*, phases_s, versions."""

    def close(self) -> None: ...
