"""Decisions and violations as events, with the reason in words and the figures behind it."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import assert_never

from headrace.catalog.events import EventBook
from headrace.engine.conductor.facts import LiveQuery
from headrace.model.events import EventKind
from headrace.model.query import QueryId
from headrace.optimizer.grouping.throughput import Violation
from headrace.optimizer.grouping.values import Change, Grouping, Merged, Placed, Resized, SplitOff

_LOGGER = logging.getLogger(__name__)

Violated = Mapping[tuple[QueryId, str], float]
"""Who does not get what was asked for, and of what kind that is, with when it was last so."""

OVER_S = 60.0
"""It is over when it has not been so for this long: what comes and goes with every look is told once."""


@contextmanager
def only_telling() -> Iterator[None]:
    """For what is told of things that are decided or done. They hold whether anybody can be told or not, on a full disk
    say. So trouble is logged, and not raised.
    """
    try:
        yield
    except Exception as error:
        _LOGGER.warning("an event could not be kept: %s", error)


def note_change(
    events: EventBook,
    change: Change,
    before: Grouping,
    after: Grouping,
    names: Mapping[QueryId, str],
    now: float,
) -> int:
    """Note a decision; the number of its event."""
    add, homes = events.add, before.by_query()
    match change:
        case Merged():
            came = [q for q in after.by_name()[change.into].members if homes[q].name != change.into]
            asked = {"cost": change.cost, "threshold": change.threshold}
            figures = {name: figure for name, figure in asked.items() if figure is not None}
            figures["saved_tasks"] = change.saved_tasks
            named = [names[query] for query in came]
            return add(
                now, EventKind.MERGED, change.into, change.reason, named, figures, change.groups
            ).number
        case SplitOff():
            named = [names[query] for query in change.queries]
            return add(now, EventKind.SPLIT, change.group, change.reason, named, others=change.into).number
        case Resized():
            figures = {"before": change.before, "after": change.after}
            return add(now, EventKind.TASKS, change.group, change.reason, figures=figures).number
        case Placed():
            return add(now, EventKind.PLACED, change.group, change.reason, [names[change.query]]).number
        case _:
            assert_never(change)


def note_violations(
    events: EventBook,
    violations: Iterable[Violation],
    before: Violated,
    queries: Mapping[QueryId, LiveQuery],
    now: float,
) -> Violated:
    """An event for every query that no longer gets what was asked for; one as long as that lasts. All of these, and
    those of which it is not yet known that it is over.
    """
    found = {(violation.query, violation.kind): violation for violation in violations}
    new: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, violation in found.items():
        if key not in before:
            query = queries[violation.query]
            new[query.home, violation.what].append(query.name)
    for (group, what), named in new.items():
        events.add(now, EventKind.VIOLATION, group, what, named)
    return {key: at for key, at in before.items() if now - at < OVER_S} | dict.fromkeys(found, now)
