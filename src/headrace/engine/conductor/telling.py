"""Decisions and violations as events, with the reason in words and the figures behind it."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

from headrace.catalog.events import EventBook
from headrace.engine.conductor.facts import LiveQuery
from headrace.model.events import EventKind
from headrace.model.query import QueryId
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.throughput import Violation
from headrace.optimizer.grouping.values import Change, Grouping, Merged, Placed, Resized, SplitOff

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """Of what kind a violation was when it was told, when that was, and when it was last so."""

    kind: str
    at: float
    last: float


Violated = Mapping[tuple[QueryId, str], Told]
"""Who does not get what was asked for, or falls behind, and which of these it is."""

ASKED = ("min_rate", "max_latency")
"""Violations of what somebody asked for. All others say why a query falls behind."""

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


def left_behind(situation: Situation, found: Iterable[Violation]) -> Iterator[Violation]:
    """The queries of groups that fall behind of which `found` says nothing.

    By what their work is known to cost, a query that is alone should keep up, and others would be no faster alone.
    """
    known = {violation.query for violation in found}
    for group in situation.grouping.groups:
        health = situation.health.get(group.name)
        if health is None or not health.lags:
            continue
        so = (
            "and would process no more alone"
            if len(group.members) > 1
            else "though the cores should be enough"
        )
        for query in group.members:
            if query not in known:
                yield Violation(query, f"processes {health.share:.0%} of its input, {so}", "behind")


def note_violations(
    events: EventBook,
    violations: Iterable[Violation],
    before: Violated,
    queries: Mapping[QueryId, LiveQuery],
    now: float,
) -> Violated:
    """Events for the queries that no longer get what was asked for, or that fall behind; one as long as that lasts. All
    of these, and those of which it is not yet known that it is over.

    Why a query falls behind may look different at every look. It is told again when it has been told for a while.
    """
    after = {key: told for key, told in before.items() if now - told.last < OVER_S}
    new: dict[tuple[str, str], list[Violation]] = defaultdict(list)
    for violation in violations:
        asked = violation.kind in ASKED
        key = violation.query, violation.kind if asked else "behind"
        told = before.get(key)
        if told is None or (told.kind != violation.kind and now - told.at >= OVER_S):
            told = Told(violation.kind, now, now)
            home = queries[violation.query].home
            new[home, violation.what if asked else violation.kind].append(violation)
        after[key] = replace(told, last=now)
    for (group, _), alike in new.items():
        named = [queries[violation.query].name for violation in alike]
        events.add(now, EventKind.VIOLATION, group, _together(alike), named)
    return after


def _together(alike: Sequence[Violation]) -> str:
    """What is said of queries that have one trouble. The figures are those that most of them have."""
    texts = Counter(violation.what for violation in alike)
    [(text, _)] = texts.most_common(1)
    return text if len(texts) == 1 else f"{text}, or about as much"
