"""A sharing group as people see it, in this process or by way of the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.looking.showing import show_names, show_seconds, show_way
from headrace.model.grouping import GroupKind, GroupState


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """One line of `hr.groups()`.

    `cursor` is the last epoch that the group has behind it. `lag_epochs` are sealed and not run yet, and the oldest of
    them has waited for `lag_seconds`. `since` is the epoch with which the first of its members began to live in it. The
    seconds are averages over its last epochs: in all, and in map tasks, reduce tasks and plain Spark. `target` is the
    group that its queries are on their way to. `reason` says why it is as it is: the last merge or split.

    `saves` is in cores, that is in CPU seconds per second: what its queries would need more if each ran alone, as
    predicted by the last look. `prediction_error` is how far the predicted work of its epochs was off (the median; 0.1
    is 10 %). Both are None where nobody can tell.
    """

    name: str
    kind: GroupKind
    state: GroupState
    members: tuple[str, ...]
    cursor: int
    lag_epochs: int
    lag_seconds: float
    tasks: int
    partitions: int
    target: str | None
    seconds: float | None
    map_seconds: float | None
    reduce_seconds: float | None
    plain_seconds: float | None
    error: str | None
    since: int = 0
    reason: str | None = None
    saves: float | None = None
    prediction_error: float | None = None

    HEADERS: ClassVar = (
        "group",
        "state",
        "queries",
        "cursor",
        "epochs behind",
        "seconds behind",
        "tasks",
        "partitions",
        "per epoch",
        "map",
        "reduce",
        "plain Spark",
        "saves",
        "members",
        "error",
        "why",
    )

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS."""
        return (
            self.name,
            self.doing,
            len(self.members),
            None if self.cursor < 0 else self.cursor,
            self.lag_epochs,
            round(self.lag_seconds, 1),
            self.tasks,
            self.partitions,
            show_seconds(self.seconds),
            show_seconds(self.map_seconds),
            show_seconds(self.reduce_seconds),
            show_seconds(self.plain_seconds),
            self.saving,
            show_names(self.members),
            self.error,
            self.reason,
        )

    @property
    def saving(self) -> str | None:
        """What it saves, in words."""
        return None if self.saves is None else f"{self.saves:.2f} cores"

    @property
    def newest(self) -> int:
        """The newest sealed epoch."""
        return self.cursor + self.lag_epochs

    @property
    def doing(self) -> str:
        """What it does now, in words."""
        said = self.state.value
        if self.state is GroupState.CATCHING_UP:
            said += f": {show_way(self.since, self.cursor, self.newest)}"
        return said if self.target is None else f"{said}, then to {self.target}"
