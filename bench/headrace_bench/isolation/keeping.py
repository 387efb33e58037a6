"""How a query kept up with its input in a stretch of a run, and how sure that is.

Input comes in steps of about a second, and queries are given what came in epochs. So what waits goes up and down all
the time, and a difference between two moments says as much about steps and epochs as about the query. Rates from the
end of one epoch to that of another, against those from one step to another, do not have this fault: a query that can do
93 % of its input goes through 93 % of a second's input in every second, however long its epochs are.

One thing is left of the phase. A query that takes everything when an epoch begins, and begins a little later after each
step, gets later by a step at most. Then it takes two steps at once. So getting later by less than a step is no sign
that it falls behind. In a short stretch that may hide a share below 95 %: then the share is told as 1, and `least` says
what it may have been. A query that is seen to have everything near the end of a stretch has kept up, and that is sure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a run stands at `at`, in seconds since it began: tuples that had arrived, and those each query was given.

    `cpu_s` are the CPU seconds of all processes so far, `tasks` those with which all groups run an epoch together.
    """

    at: float
    arrived: int
    processed: dict[str, int]
    homes: dict[str, str]
    cpu_s: float
    tasks: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of its input that a query was given, at most 1, and the least that it may have been by what was seen.

    `growth` is by how many tuples per second what waits grew.
    """

    share: float
    least: float
    growth: float


Points = list[tuple[float, float]]
"""Seconds, and tuples so far."""

TROUGH_S = 1.6
"""In so long a time, whoever keeps up has had everything at some moment: epochs and arrivals are a second apart. Epochs
of a group that works off what waits are longer, and then so is this time."""

NOTHING_S = 0.02
"""If no more than what comes in so long a time waits, nothing does."""

FEW = 4
"""So many ends of epochs at least tell how far a query is from an even course."""


def kept_up(query: str, moments: Sequence[Moment], every: Sequence[Moment] = ()) -> Kept:
    """How a query kept up in these moments; `every` are those of the whole run, for the epoch before them.

    >>> half = [Moment(t / 4, t // 4 * 100, {"q": t // 4 * 50}, {}, 0.0) for t in range(40)]
    >>> kept_up("q", half)
    Kept(share=0.5, least=0.46875, growth=50.0)
    """
    rate, step_s, look_s = arriving(moments), step_of(moments), _apart(m.at for m in moments)
    ends, longest_s = _ends(query, moments, every or moments, step_s)
    if rate <= 0 or len(ends) < 2:
        return _by_count(query, moments)
    span_s = ends[-1][0] - ends[0][0]
    growth = rate - slope_of(ends)
    later = [at - done / rate for at, done in ends]
    made_good_s = max(after - low for after, low in zip(later, _lowest_after(later), strict=True))
    unsure_s = max(look_s, made_good_s)
    by_phase = len(ends) < FEW or _leaves_nothing(ends, moments, step_s)
    chance_s = step_s + unsure_s - look_s / 2 if by_phase else unsure_s
    rise_s = min(growth / rate * span_s, later[-1] - later[0] + look_s / 2)
    if _has_everything(query, moments, rate, longest_s):
        return Kept(1.0, 1.0, min(0.0, growth) if -growth / rate * span_s > chance_s else 0.0)
    least = min(1.0, max(0.0, 1.0 - growth / rate - unsure_s / span_s))
    if rise_s <= chance_s:
        return Kept(1.0, least, growth if -growth / rate * span_s > chance_s else 0.0)
    return Kept(min(1.0, max(0.0, 1.0 - growth / rate)), least, growth)


def arriving(moments: Sequence[Moment]) -> float:
    """Tuples per second, from one arrival to another: input comes in steps, and a short phase has few of them.

    >>> steps = [Moment(t / 4, (t + 2) // 4 * 100, {}, {}, 0.0) for t in range(13)]
    >>> arriving(steps), (steps[-1].arrived - steps[0].arrived) / (steps[-1].at - steps[0].at)
    (100.0, 100.0)
    >>> arriving(steps[3:13]), round((steps[12].arrived - steps[3].arrived) / (steps[12].at - steps[3].at), 1)
    (100.0, 88.9)
    """
    changed = _arrivals(moments)
    if len(changed) < 2:
        changed = [(one.at, one.arrived) for one in (moments[0], moments[-1])]
    return slope_of(changed)


def step_of(moments: Sequence[Moment]) -> float:
    """The seconds from one arrival to the next."""
    return _apart(at for at, _ in _arrivals(moments))


def slope_of(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line that fits best; 0 for points at one moment.

    >>> slope_of([(0.0, 0.0), (1.0, 3.0), (2.0, 3.0), (3.0, 6.0)])
    1.8
    """
    middle, level = mean(x for x, _ in points), mean(y for _, y in points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    return sum((x - middle) * (y - level) for x, y in points) / spread if spread > 0 else 0.0


def _arrivals(moments: Sequence[Moment]) -> Points:
    return [(b.at, float(b.arrived)) for a, b in pairwise(moments) if b.arrived > a.arrived]


def _apart(times: Iterable[float]) -> float:
    return median([b - a for a, b in pairwise(times)] or [0.0])


def _ends(
    query: str, moments: Sequence[Moment], every: Sequence[Moment], step_s: float
) -> tuple[Points, float]:
    """What the query had when each of its epochs ended, and the longest time from one end to the next.

    The first is the last before the stretch, if that is not long ago. If the query has had nothing for longer than it
    ever had before, that counts as epochs that gave it nothing.
    """
    first, last = moments[0].at, moments[-1].at
    seen = [m for m in every if 2 * first - last <= m.at <= last and query in m.processed]
    ends = [
        (b.at, float(b.processed[query]))
        for a, b in pairwise(seen)
        if b.processed[query] != a.processed[query]
    ]
    longest_s = max((b[0] - a[0] for a, b in pairwise(ends)), default=0.0)
    before = [end for end in ends if end[0] < first]
    ends = [*before[-1:], *(end for end in ends if end[0] >= first)]
    at, done = ends[-1] if ends else (first, float(moments[0].processed.get(query, 0)))
    if step_s > 0 and last - at > max(TROUGH_S, 2 * longest_s):
        ends = ends or [(at, done)]
        ends += [(at + step_s * number, done) for number in range(1, int((last - at) / step_s) + 1)]
    return ends, longest_s


def _lowest_after(values: Sequence[float]) -> list[float]:
    """The lowest of each value and all that follow."""
    lowest, found = values[-1], []
    for value in reversed(values):
        lowest = min(lowest, value)
        found.append(lowest)
    return found[::-1]


def _leaves_nothing(ends: Points, moments: Sequence[Moment], step_s: float) -> bool:
    """Whether no epoch of the last third leaves more than a step of what was there when the one before it ended."""
    times = [moment.at for moment in moments]
    for before, after in list(pairwise(ends))[-max(1, len(ends) // 3) :]:
        there = bisect_left(times, before[0] - step_s) - 1
        if there >= 0 and after[1] < moments[there].arrived:
            return False
    return True


def _has_everything(query: str, moments: Sequence[Moment], rate: float, longest_s: float) -> bool:
    """Whether nothing waits for the query at some moment near the end."""
    first, last = moments[0].at, moments[-1].at
    since = last - min(TROUGH_S + longest_s, (last - first) / 3)
    waits = [m.arrived - m.processed.get(query, 0) for m in moments if m.at >= since]
    return min(waits) <= NOTHING_S * rate


def _by_count(query: str, moments: Sequence[Moment]) -> Kept:
    """What can be said where there are no two ends of epochs: nothing, unless nothing came or the query has it all."""
    first, last = moments[0], moments[-1]
    elapsed = max(1e-6, last.at - first.at)
    more = (last.arrived - last.processed.get(query, 0)) - (first.arrived - first.processed.get(query, 0))
    came = last.arrived - first.arrived
    return Kept(1.0, 1.0 if came <= 0 else min(1.0, max(0.0, 1.0 - more / came)), min(0.0, more / elapsed))
