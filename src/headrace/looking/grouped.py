"""Sharing groups as people see them: `hr.groups()`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import quote

from headrace import sql
from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.conductor.conductor import ConductorInfo
from headrace.engine.delivered import Delivered
from headrace.engine.records import Metrics
from headrace.log.seal import Sealer
from headrace.looking.group_info import GroupInfo
from headrace.looking.predictions import errors_of_groups
from headrace.looking.showing import Listing
from headrace.model.errors import CatalogError
from headrace.model.events import Event, why_as_they_are
from headrace.model.grouping import MAIN, is_reserved, kind_of
from headrace.running.totals import EpochInfo

_LONGEST = 200

MEASURED = 20
"""So many of a group's last epochs are averaged."""


def group_infos(
    catalog: Catalog,
    delivered: Delivered,
    sealer: Sealer,
    epochs: Sequence[EpochInfo],
    errors: dict[str, str],
    events: Sequence[Event] = (),
    backfill_tasks: int | None = None,
    info: ConductorInfo | None = None,
) -> list[GroupInfo]:
    """Every group that a query lives in or will begin in, and the main one.

    `epochs` are the latest that were run since opening, `errors` say why a group is tried again, and `events` what was
    decided about groups, oldest first. Groups on their way have `backfill_tasks` at most. `info` is what the conductor
    tells of groups; None where nobody decides about them.
    """
    infos: list[GroupInfo] = Listing()
    now, homes = time.time(), members_by_group(catalog)
    reasons, off = why_as_they_are(events), {} if info is None else errors_of_groups(info)
    spent: dict[str, list[Metrics]] = defaultdict(list)
    for epoch in epochs:
        spent[epoch.group].append(epoch.cost)
    for name in sorted({MAIN, *homes}, key=lambda name: (name != MAIN, name)):
        following, entries = delivered.next_epoch(name), homes.get(name, [])
        cursor, spec = delivered.cursor(name), catalog.homes.spec(name, following)
        spec = None if spec is None else spec.catching_up(backfill_tasks)
        lag = delivered.behind(name)
        recent = spent[name][-MEASURED:]
        state = delivered.state_of(name)
        infos.append(
            GroupInfo(
                name,
                kind_of(name),
                state,
                tuple(entry.query.name for entry in entries),
                cursor,
                lag,
                lag_seconds(sealer, cursor, now),
                0 if spec is None else spec.tasks,
                0 if spec is None else spec.partitioning.partitions,
                next((entry.moving_to for entry in entries if entry.moving_to is not None), None),
                _average([cost.seconds for cost in recent]),
                _average([cost.map_seconds for cost in recent]),
                _average([cost.reduce_seconds for cost in recent]),
                _average([cost.fallback_seconds for cost in recent]),
                errors.get(name),
                min((entry.stays[-1].epoch for entry in entries if entry.stays), default=0),
                reasons.get(name),
                None if info is None else info.saves.get(name),
                off.get(name),
            )
        )
    return infos


def members_by_group(catalog: Catalog) -> dict[str, list[QueryEntry]]:
    """The queries that live in each group, or will begin in it, oldest first; not those that are quarantined."""
    homes: dict[str, list[QueryEntry]] = defaultdict(list)
    for entry in catalog.current():
        if entry.live and entry.error is None:
            homes[entry.group].append(entry)
    return dict(homes)


def lag_seconds(sealer: Sealer, cursor: int, now: float) -> float:
    """How long the oldest sealed epoch after `cursor` has waited; 0 when there is none.

    The time between two epochs is not part of it: a group that has run everything lags by nothing, however long the
    streams were silent.
    """
    latest = sealer.latest
    if latest is None or cursor >= latest.id:
        return 0.0
    return max(0.0, now - sealer.head(max(cursor + 1, sealer.first)).sealed_at)


def _average(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def check_group(name: str) -> str:
    """The name of a group that a person may name, in lower case; CatalogError when it cannot be one."""
    sql.check_name(name, "group")
    if is_reserved(name.lower()):
        raise CatalogError(
            "BAD_NAME",
            f"the group name {name!r} is of a kind that Headrace gives itself",
            hint="choose another name; plain-, backfill-, transit- and auto- with a number are taken",
        )
    if len(quote(name, safe="")) > _LONGEST:
        raise CatalogError("BAD_NAME", f"the group name {name!r} is too long", hint="choose a shorter one")
    return name.lower()
