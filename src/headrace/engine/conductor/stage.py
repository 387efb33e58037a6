"""The engine as the conductor sees it: what it asks, and what it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from headrace.engine.conductor.facts import LiveQuery
from headrace.engine.conductor.sampling import StreamSample
from headrace.model.query import QueryId


class Stage(Protocol):
    """All calls are quick, and may be made from any thread."""

    @property
    def cores(self) -> int:
        """Tasks that Spark runs at the same time."""

    def queries(self) -> list[LiveQuery]:
        """The queries that run or will begin, oldest first."""

    def tasks(self, groups: Iterable[str]) -> dict[str, int]:
        """With how many tasks each of these groups runs its next epoch."""

    def next_number(self) -> int:
        """The first number that no group of ours has had."""

    def arrived(self) -> dict[str, int]:
        """The tuples of each stream since its beginning, sealed or not."""

    def sample(self, stream: str, columns: Sequence[str], tuples: int) -> StreamSample | None:
        """Some of the newest tuples of a stream; None when there are none."""

    def move(self, moves: Sequence[tuple[QueryId, str]]) -> None:
        """Let queries live in other groups, durably, as soon as that can be."""

    def resize(self, group: str, tasks: int) -> None:
        """Let a group run with so many tasks from the next epoch on."""
