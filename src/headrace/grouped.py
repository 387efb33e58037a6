"""Sharing groups as people see them: `hr.groups()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from headrace import sql
from headrace.catalog.catalog import Catalog
from headrace.engine.delivered import Delivered
from headrace.log.seal import Sealer
from headrace.model.errors import CatalogError
from headrace.model.grouping import MAIN, GroupKind, GroupState, is_reserved, kind_of
from headrace.running import EpochInfo
from headrace.showing import Listing, show_seconds

_LONGEST = 200

MEASURED = 20
"""So many of a group's last epochs are averaged."""


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """One line of `hr.groups()`.

    `cursor` is the last epoch that the group has behind it, and lag what is between that and the newest sealed epoch:
    `lag_seconds` since that one was sealed. The seconds are averages over its last epochs: in all, and in map tasks,
    reduce tasks and plain Spark. `target` is the group that its queries are on their way to.
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

    HEADERS: ClassVar = (
        "group",
        "state",
        "queries",
        "cursor",
        "epochs behind",
        "seconds behind",
        "tasks",
        "per epoch",
        "map",
        "reduce",
        "plain Spark",
        "members",
        "error",
    )

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS."""
        shown = ", ".join(self.members[:5]) + (
            f" and {len(self.members) - 5} more" if len(self.members) > 5 else ""
        )
        state = self.state.value if self.target is None else f"{self.state.value}, then to {self.target}"
        return (
            self.name,
            state,
            len(self.members),
            None if self.cursor < 0 else self.cursor,
            self.lag_epochs,
            round(self.lag_seconds, 1),
            self.tasks,
            show_seconds(self.seconds),
            show_seconds(self.map_seconds),
            show_seconds(self.reduce_seconds),
            show_seconds(self.plain_seconds),
            shown,
            self.error,
        )


def group_infos(
    catalog: Catalog,
    delivered: Delivered,
    sealer: Sealer,
    epochs: list[EpochInfo],
    errors: dict[str, str],
) -> list[GroupInfo]:
    """Every group that a query lives in, and the main one. `epochs` are the latest that were run since opening."""
    infos: list[GroupInfo] = Listing()
    for name in sorted(catalog.groups(), key=lambda name: (name != MAIN, name)):
        following = delivered.next_epoch(name)
        entries = [entry for entry in catalog.living_in(name) if entry.live and entry.group == name]
        members = tuple(entry.query.name for entry in entries if entry.error is None)
        if not members and name != MAIN:
            continue
        cursor, spec = delivered.cursor(name), catalog.spec(name, following)
        lag = delivered.behind(name)
        recent = [info.cost for info in epochs if info.group == name][-MEASURED:]
        state = delivered.state_of(name)
        infos.append(
            GroupInfo(
                name,
                kind_of(name),
                state,
                members,
                cursor,
                lag,
                _lag_seconds(sealer, cursor) if lag else 0.0,
                0 if spec is None else spec.tasks,
                0 if spec is None else spec.partitioning.partitions,
                next((entry.moving_to for entry in entries if entry.moving_to is not None), None),
                _average([cost.seconds for cost in recent]),
                _average([cost.map_seconds for cost in recent]),
                _average([cost.reduce_seconds for cost in recent]),
                _average([cost.fallback_seconds for cost in recent]),
                errors.get(name),
            )
        )
    return infos


def _lag_seconds(sealer: Sealer, cursor: int) -> float:
    """How much later the newest epoch was sealed than the one that a group has run last."""
    latest, begin = sealer.latest, max(cursor, sealer.first)
    return 0.0 if latest is None else max(0.0, latest.sealed_at - sealer.epoch(begin).sealed_at)


def _average(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def check_group(name: str) -> str:
    """The name of a group that a person may name, in lower case; CatalogError when it cannot be one."""
    sql.check_name(name, "group")
    if is_reserved(name.lower()):
        raise CatalogError(
            "BAD_NAME",
            f"the group name {name!r} is of a kind that Headrace gives itself",
            hint="choose another name; plain-, backfill- and transit- with a number are taken",
        )
    if len(quote(name, safe="")) > _LONGEST:
        raise CatalogError("BAD_NAME", f"the group name {name!r} is too long", hint="choose a shorter one")
    return name.lower()
