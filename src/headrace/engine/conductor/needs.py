"""What was asked for queries beside what they get, by what has come in and how far their groups are.

It needs no statistics and no policy. So it holds for queries that plain Spark runs and for those that catch up, too,
and where nobody decides who shares with whom.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.engine.conductor.facts import LiveQuery
from headrace.engine.conductor.stage import Standing
from headrace.optimizer.grouping.throughput import Violation

RATED_S = 10.0
"""The tuples of a group are counted over so long at least, and over two of its epochs."""

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
        self._waits: dict[str, float] = {}

    def note(self, now: float, arrived: Mapping[str, int], standings: Mapping[str, Standing]) -> None:
        """Where groups stand. Groups that are not named any more are forgotten."""
        self._points = {name: self._points.get(name) or deque[_Point](maxlen=KEPT) for name in standings}
        self._waits = {name: standing.waits_s for name, standing in standings.items()}
        for name, standing in standings.items():
            self._points[name].append(_Point(now, arrived, standing.processed))

    def behind_s(self, group: str, streams: Iterable[str]) -> float:
        """How long the oldest tuple of these streams has waited for a group, at least.

        It is known when an epoch was sealed, and of tuples that no epoch has yet, at which look they were there.
        """
        points, found = self._points[group], self._waits[group]
        last = points[-1]
        for stream in streams:
            done = last.processed.get(stream, 0)
            since = next((point.at for point in points if point.arrived.get(stream, 0) > done), last.at)
            found = max(found, last.at - since)
        return found if any(last.waiting(stream) for stream in streams) else 0.0

    def rates(self, group: str, streams: Iterable[str]) -> tuple[float, float] | None:
        """Tuples of these streams per second: those that a group processed, and those that it could have if it were
        quick enough. None as long as it was not looked at for a while.
        """
        points, last = self._points[group], self._points[group][-1]
        base, epochs = last, 0
        for before, after in zip(list(points)[-2::-1], list(points)[:0:-1], strict=True):
            base, epochs = before, epochs + (before.processed != after.processed)
            if epochs >= 2 and last.at - base.at >= RATED_S:
                break
        elapsed = last.at - base.at
        if elapsed < RATED_S:
            return None
        done = sum(last.processed.get(one, 0) - base.processed.get(one, 0) for one in streams)
        return done / elapsed, (done + sum(last.waiting(one) for one in streams)) / elapsed


def unmet(queries: Iterable[LiveQuery], course: Course, interval_s: float) -> Iterator[Violation]:
    """Who gets less than was asked for. What waits for less than two intervals always does, and tells nothing."""
    for query in queries:
        needs, streams = query.needs, set(query.plan.streams)
        behind = course.behind_s(query.home, streams)
        if needs.min_rate is not None and behind > 2 * interval_s:
            rates = course.rates(query.home, streams)
            if rates is not None and rates[0] < min(needs.min_rate, rates[1]):
                text = f"gets {rates[0]:.0f} tuples per second, and {needs.min_rate:.0f} are asked for"
                yield Violation(query.id, text, "min_rate")
        if needs.max_latency_s is not None and behind > needs.max_latency_s:
            text = f"is {behind:.1f} s behind its input, and {needs.max_latency_s:.1f} s are asked for"
            yield Violation(query.id, text, "max_latency")
