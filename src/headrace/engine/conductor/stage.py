"""The engine as the conductor sees it: what it asks, and what it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.engine.conductor.facts import LiveQuery
from headrace.engine.conductor.sampling import StreamSample
from headrace.model.query import QueryId
from headrace.optimizer.grouping.values import FunctionName


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a group is: the tuples of each stream that it has behind it, since the stream's beginning, and how long
    the oldest sealed epoch that it has not run yet has waited. `waiting` are the streams that this epoch has tuples of.
    """

    processed: Mapping[str, int]
    waits_s: float = 0.0
    waiting: frozenset[str] = frozenset()


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

    def standings(self, groups: Iterable[str]) -> dict[str, Standing]:
        """How far each of these groups is, be it one that plain Spark runs or one that catches up."""

    def function_costs(self) -> dict[FunctionName, float]:
        """What people said that calls of registered functions cost, in CPU seconds per row."""

    def sample(self, stream: str, columns: Sequence[str], tuples: int) -> StreamSample | None:
        """Some of the newest tuples of a stream; None when there are none."""

    def move(self, moves: Sequence[tuple[QueryId, str]]) -> None:
        """Let queries live in other groups, durably, as soon as that can be."""

    def resize(self, group: str, tasks: int) -> None:
        """Let a group run with so many tasks from the next epoch on."""
