"""What the harness asks of a system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace.workloads.astream import AggregationQuery


class System(Protocol):
    """A system under test, in a process of its own. Files appear in `feed`, whole and in order of their names.

    `open` brings up what is there before any query (a session, a cluster). `create` returns when the queries are
    deployed, and takes all of them at once. `done` is how many tuples the slowest query has worked off with its results
    written. `rows` are one query's as (window end in microseconds since 1970, key, value), after `stop`.
    """

    name: str

    def open(self, feed: Path, work: Path) -> None: ...

    def create(self, queries: Sequence[AggregationQuery]) -> None: ...

    def done(self) -> int: ...

    def stop(self) -> None:
        """No more files come; let what is under way end, keep the results."""

    def rows(self, number: int) -> list[tuple[int, int, Any]]: ...

    def facts(self) -> dict[str, Any]:
        """Fields of `Outcome` that only the system knows: result_rows, bytes_*, phases_s, versions."""

    def close(self) -> None: ...
