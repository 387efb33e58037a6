"""What was asked for queries beside what they get, by what has come in and how far their groups are.

It needs no statistics and no policy. So it holds for queries that plain Spark runs and for those that catch up, too,
and where nobody decides who shares with whom.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.engine.conductor.facts import LiveQuery
from headrace.engine.conductor.stage import Standing
from headrace.optimizer.grouping.throughput import Violation

RATED_S = 10.0
"""The tuples of a group are counted over so long at least, and over two of its epochs."""

LATE_S, GAPS = 5.0, 5
"""A group may have become later by so much meanwhile, or by the longest of its last few epochs: one may be under way
just when it is looked at.
"""

NEARLY = 0.95
"""Who gets this part of what was asked for gets it."""

KEPT = 360
"""So many looks are remembered: an hour of them."""


@dataclass(frozen=True, slots=True)
class _Point:
    """At a moment: the tuples of each stream that had come in, and those that a group had behind it."""

    at: float
    arrived: Mapping[str, int]
    processed: Mapping[str, int]

    def waiting(self, stream: str) -> int:
        return max(0, self.arrived.get(stream, 0) - self.processed.get(stream, 0))


class Course:
    """How far groups were at the last looks. Not thread-safe."""

    def __init__(self) -> None:
        self._points: dict[str, deque[_Point]] = {}
        self._standings: dict[str, Standing] = {}

    def note(self, now: float, arrived: Mapping[str, int], standings: Mapping[str, Standing]) -> None:
        """Where groups stand. Groups that are not named any more are forgotten."""
        self._points = {name: self._points.get(name) or deque[_Point](maxlen=KEPT) for name in standings}
        self._standings = dict(standings)
        for name, standing in standings.items():
            self._points[name].append(_Point(now, arrived, standing.processed))

    def behind_s(self, group: str, streams: Iterable[str]) -> float:
        """How long the oldest tuple of these streams has waited for a group, at least.

        It is known when the next epoch of the group was sealed, and of tuples that it does not have, at which look they
        were there.
        """
        points, standing = self._points[group], self._standings[group]
        last, found = points[-1], 0.0
        for stream in streams:
            if stream in standing.waiting:
                found = max(found, standing.waits_s)
            done = last.processed.get(stream, 0)
            since = next((point.at for point in points if point.arrived.get(stream, 0) > done), last.at)
            found = max(found, last.at - since)
        return found if any(last.waiting(stream) for stream in streams) else 0.0

    def shortfall(self, group: str, streams: Iterable[str], asked: float) -> Shortfall | None:
        """What a group got if that is less than was asked for, in tuples per second of these streams, and more came in.

        It is looked back over more and more of its epochs until it is seen that they got less. None if they did not,
        and as long as the group was not looked at for a while.
        """
        points, names, epochs = list(self._points[group]), list(streams), 0
        last, late = points[-1], _lateness(points)
        for before, after in zip(points[-2::-1], points[:0:-1], strict=True):
            epochs += before.processed != after.processed
            elapsed = last.at - before.at
            if elapsed < RATED_S or epochs == 1:
                continue
            came = sum(last.arrived.get(one, 0) - before.arrived.get(one, 0) for one in names)
            done = sum(last.processed.get(one, 0) - before.processed.get(one, 0) for one in names)
            due = min(asked * elapsed, came)
            if done < NEARLY * due and due - done > late * due / elapsed:
                return Shortfall(done / elapsed, came / elapsed)
        return None


def _lateness(points: Sequence[_Point]) -> float:
    """By how many seconds a group that keeps up may be later at one look than at another."""
    ends = [after.at for before, after in pairwise(points) if before.processed != after.processed]
    return max([LATE_S, *(after - before for before, after in pairwise(ends[-GAPS - 1 :]))])


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Tuples per second that a query got, and those that came in."""

    got: float
    came: float

    def told(self, asked: float) -> str:
        """It in words."""
        of = f" of the {self.came:.0f}" if self.came < asked else ""
        that = " that come in" if of else ""
        return f"gets {self.got:.0f}{of} tuples per second{that}, and {asked:.0f} are asked for"


def unmet(queries: Iterable[LiveQuery], course: Course, interval_s: float) -> Iterator[Violation]:
    """Who gets less than was asked for. What waits for less than two intervals always does, and tells nothing."""
    for query in queries:
        needs, streams = query.needs, set(query.plan.streams)
        behind = course.behind_s(query.home, streams)
        if needs.min_rate is not None and behind > 2 * interval_s:
            shortfall = course.shortfall(query.home, streams, needs.min_rate)
            if shortfall is not None:
                yield Violation(query.id, shortfall.told(needs.min_rate), "min_rate")
        if needs.max_latency_s is not None and behind > needs.max_latency_s:
            text = f"is {behind:.1f} s behind its input, and {needs.max_latency_s:.1f} s are asked for"
            yield Violation(query.id, text, "max_latency")
