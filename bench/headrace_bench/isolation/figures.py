"""What a run saw, and what is told of it: plain data for tables, plots and JSON, and pure functions between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from headrace.optimizer.grouping.throughput import fair_part
from headrace_bench.isolation.cases import ISOLATED, Case, Phase
from headrace_bench.isolation.keeping import Moment, arriving, kept_up


@dataclass(frozen=True, slots=True)
class Stretch:
    """How queries fared in the last half of a phase, by which things have settled.

    `shares` are the parts of the input that each query was given, at most 1. `cpu` is CPU seconds per second,
    and `tasks` those of tasks alone. `cpus` divides `cpu` among queries that ran alone.
    `latency_s` is how old the newest tuple was that a query had; `growth` is by how many tuples per second
    what waits grew. `per_epoch` are the tasks with which all groups ran an epoch (definition 2). `busy` tells of
    queries that ran alone how many seconds their epochs took per second of input. `least` are the shares that queries
    may have had at the least, by what was seen (`keeping.py`); none for queries that ran alone, which were measured.
    """

    phase: str
    rate: float
    groups: int
    cpu: float
    shares: dict[str, float]
    latency_s: dict[str, float]
    growth: dict[str, float]
    tasks: float = 0.0
    cpus: dict[str, float] = field(default_factory=dict)
    per_epoch: float = 0.0
    busy: dict[str, float] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        return min(self.shares.values())

    @property
    def mean(self) -> float:
        return sum(self.shares.values()) / len(self.shares)


@dataclass(frozen=True, slots=True)
class Change:
    """A decision: when it was taken, what it was, and the seconds until the first epoch in the new shape."""

    at: float
    kind: str
    reason: str
    delay_s: float | None


@dataclass(frozen=True, slots=True)
class Point:
    """A second of a run, for plots: groups, CPU per second, the mean share of each kind of query, and what waits."""

    at: float
    groups: int
    cpu: float
    shares: dict[str, float]
    waiting: dict[str, float]


@dataclass(slots=True)
class Told:
    """What is told of a run. A case whose queries ran alone has stretches only.

    `looked` is the CPU time of looks as a part of the time of all epochs, if there were a look every ten seconds as by
    default; `looked_raw` is the same with the looks that there were after the first phase. `pairs` are the seconds of
    work that were predicted for epochs and those that they took. `split_epochs` are
    the epochs between the first sign of back-pressure and each split. `gap_s` is the longest time in which a query that
    moved got nothing, and `gap_more_s` the most by which such a time was longer than what that query is used to.
    `case` tells the run from all others, and `course` its input. `ends` are the seconds at which its phases were over,
    and `kinds` those of its queries. `cost_error` is the error of the costs when it is known what tuples matched.
    `made` says when and with which code. `apart` is set if queries began isolated.
    """

    policy: str
    load: str
    queries: int
    stretches: list[Stretch]
    series: list[Point] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    error: float | None = None
    pairs: list[tuple[float, float]] = field(default_factory=list)
    looked: float = 0.0
    split_epochs: list[int] = field(default_factory=list)
    gap_s: float | None = None
    threshold: float = 1.0
    merge_every_s: float = 0.0
    climbs: bool = False
    case: str = ""
    ends: list[float] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    cost_error: float | None = None
    looked_raw: float = 0.0
    gap_more_s: float | None = None
    course: str = ""
    made: str = ""
    apart: bool = False

    @property
    def last(self) -> Stretch:
        return self.stretches[-1]

    @property
    def delays_s(self) -> list[float]:
        return [change.delay_s for change in self.changes if change.delay_s is not None]


CORES = 2
"""Spark runs so many tasks at a time here."""

SLOWER = 0.95
"""Whoever is given less than this part of what it would have alone is slowed."""


def at_once(alone: Stretch, cores: float = CORES) -> dict[str, float]:
    """The shares that queries would be given if all ran alone at the same time, with so many cores for all of them.

    They ran one after the other, each with all cores. If these are too few for what all take together, each gets what
    it takes up to the same part, as functional isolation takes it too.

    >>> stretch = Stretch("p", 1.0, 2, 3.0, {"a": 1.0, "b": 1.0}, {}, {}, cpus={"a": 0.5, "b": 2.5})
    >>> at_once(stretch, cores=2), at_once(stretch, cores=3)
    ({'a': 1.0, 'b': 0.6}, {'a': 1.0, 'b': 1.0})
    """
    part = fair_part(alone.cpus.values(), cores)
    return {
        query: min(share, part / alone.cpus[query] if alone.cpus.get(query, 0.0) > part else 1.0)
        for query, share in alone.shares.items()
    }


def isolated_course(alone: Told, cores: float = CORES) -> Iterator[float]:
    """The cores that all queries alone would keep busy at the same time, second by second, with so many for them all.

    What a query cannot do at once waits, and is done later. It is computed from what each took while it ran alone.

    >>> one = Stretch("p", 1.0, 1, 3.0, {"a": 1.0}, {}, {}, cpus={"a": 3.0})
    >>> two = Stretch("q", 1.0, 1, 0.5, {"a": 1.0}, {}, {}, cpus={"a": 0.5})
    >>> list(isolated_course(Told("isolated", "", 1, [one, two], ends=[1.0, 3.0]), cores=2))
    [2.0, 1.5, 0.5]
    """
    yield from (busy for busy, _ in isolated_seconds(alone, cores))


def isolated_seconds(alone: Told, cores: float = CORES) -> Iterator[tuple[float, float]]:
    """The same, each with the CPU seconds of work that still wait when that second is over.

    >>> one = Stretch("p", 1.0, 1, 3.0, {"a": 1.0}, {}, {}, cpus={"a": 3.0})
    >>> list(isolated_seconds(Told("isolated", "", 1, [one], ends=[2.0]), cores=2))
    [(2.0, 1.0), (2.0, 2.0)]
    """
    waits: dict[str, float] = {}
    before = 0.0
    for stretch, end in zip(alone.stretches, alone.ends, strict=True):
        for _ in range(round(end - before)):
            needs = {query: waits.get(query, 0.0) + cpu for query, cpu in stretch.cpus.items()}
            part = fair_part(needs.values(), cores)
            waits = {query: max(0.0, need - part) for query, need in needs.items()}
            yield sum(min(need, part) for need in needs.values()), sum(waits.values())
        before = end


def same_alone(told: Told, others: Iterable[Told]) -> Told | None:
    """The run of the same queries alone with the same input; None if there is none."""
    alone = (one for one in others if one.policy == ISOLATED and one.load == told.load)
    return next((one for one in alone if one.climbs == told.climbs and one.course == told.course), None)


def slowed(stretch: Stretch, alone: Stretch) -> list[str]:
    """The queries that were given less than alone."""
    shares = at_once(alone)
    return [query for query, share in stretch.shares.items() if share < SLOWER * shares[query]]


def unsure(stretch: Stretch, alone: Stretch) -> list[str]:
    """The queries of which it cannot be told whether they were given less: the stretch is too short for that."""
    shares, below = at_once(alone), slowed(stretch, alone)
    return [
        query
        for query, least in stretch.least.items()
        if query not in below and least < SLOWER * shares[query]
    ]


LATE_S = 4.0
"""A query that is further behind its input than this falls behind. Epochs of a group that is always busy and keeps
up have two seconds of input, so the newest tuple that its queries have is two to four seconds old."""


def stretch_of(phase: Phase, moments: Sequence[Moment], every: Sequence[Moment]) -> Stretch:
    """What the moments of a phase's last half say; latencies need those before it, too."""
    first, last = moments[0], moments[-1]
    elapsed = max(1e-6, last.at - first.at)
    kept = {query: kept_up(query, moments, every) for query in last.processed}
    return Stretch(
        phase.name,
        max(1.0, arriving(moments)),
        len(set(last.homes.values())),
        (last.cpu_s - first.cpu_s) / elapsed,
        {query: one.share for query, one in kept.items()},
        {query: latency(query, moments, every) for query in last.processed},
        {query: one.growth for query, one in kept.items()},
        per_epoch=sum(moment.tasks for moment in moments) / len(moments),
        least={query: one.least for query, one in kept.items()},
    )


def latency(query: str, moments: Sequence[Moment], every: Sequence[Moment]) -> float:
    """How old the newest tuple that a query had was, on average over these moments, in seconds.

    >>> course = [Moment(float(t), 10 * t, {"q": max(0, 10 * t - 20)}, {}, 0.0) for t in range(9)]
    >>> latency("q", course[4:], course)
    2.0
    """
    arrived = [moment.arrived for moment in every]
    ages = []
    for moment in moments:
        done = moment.processed.get(query, 0)
        at = min(bisect_left(arrived, done), len(every) - 1)
        ages.append(max(0.0, moment.at - every[at].at))
    return sum(ages) / len(ages)


def behind_s(moment: Moment, rate: float) -> float:
    """How many seconds of input at this rate wait for the slowest query."""
    return (moment.arrived - min(moment.processed.values(), default=moment.arrived)) / max(rate, 1e-9)


def series_of(moments: Sequence[Moment], kinds: dict[str, str], step_s: float = 1.0) -> list[Point]:
    """A point per second, with a mean per kind of query. Shares are those of some seconds: input comes in steps."""
    picked = [moments[0]]
    for moment in moments[1:]:
        if moment.at - picked[-1].at >= step_s:
            picked.append(moment)
    return [
        _point(before, after, picked[max(0, place + 1 - EVEN)], kinds)
        for place, (before, after) in enumerate(pairwise(picked))
    ]


EVEN = 5
"""Shares in a series are those of so many of its steps."""


def _point(before: Moment, after: Moment, first: Moment, kinds: dict[str, str]) -> Point:
    elapsed, arrived = after.at - before.at, max(1, after.arrived - first.arrived)
    shares: dict[str, list[float]] = {}
    waiting: dict[str, list[float]] = {}
    for query, done in after.processed.items():
        kind = kinds[query]
        shares.setdefault(kind, []).append((done - first.processed.get(query, done)) / arrived)
        waiting.setdefault(kind, []).append(after.arrived - done)
    return Point(
        after.at,
        len(set(after.homes.values())),
        (after.cpu_s - before.cpu_s) / elapsed,
        {kind: sum(found) / len(found) for kind, found in shares.items()},
        {kind: sum(found) / len(found) for kind, found in waiting.items()},
    )


def longest_gap(moments: Sequence[Moment], ends: Sequence[float]) -> tuple[float, float] | None:
    """The longest time in which a query that was moving got nothing new, and the most by which such a time was longer
    than the longest of that query elsewhere in the same phase. None without moves.
    """
    moved: dict[str, list[float]] = {}
    for before, after in pairwise(moments):
        for query, home in after.homes.items():
            if before.homes.get(query, home) != home:
                moved.setdefault(query, []).append(after.at)
    longest, beyond = 0.0, 0.0
    for query, moves in moved.items():
        stills = _stills(query, moments)
        around = [still for still in stills if any(still[0] <= at <= still[1] for at in moves)]
        others = [still for still in stills if still not in around]
        for first, last in around:
            usual = [b - a for a, b in others if _phase_at(a, ends) == _phase_at(first, ends)]
            longest = max(longest, last - first)
            beyond = max(beyond, last - first - max(usual, default=0.0))
    return (longest, beyond) if moved else None


def _stills(query: str, moments: Sequence[Moment]) -> list[tuple[float, float]]:
    """The times in which a query's count did not rise, each from one rise to the next."""
    here = [moment for moment in moments if query in moment.processed]
    rises = [b.at for a, b in pairwise(here) if b.processed[query] > a.processed[query]]
    return list(pairwise([here[0].at, *rises, here[-1].at])) if here else []


def _phase_at(at: float, ends: Sequence[float]) -> int:
    return bisect_left(ends, at)


def sustained(told: Told) -> float:
    """The highest rate of a climb, in tuples per second, at which nobody fell behind; 0 if there is none.

    Nobody may be late, nor be given less than 90 %: a step is too short to see by how late somebody is that this grows.
    """
    good = [s.rate for s in told.stretches if max(s.latency_s.values()) <= LATE_S and s.worst >= 0.9]
    return max(good, default=0.0)


def capacity_alone(told: Told) -> float:
    """The rate at which the slowest query, alone, is just busy all the time. At the highest rates, only some ran."""
    slowest = told.last.busy or told.last.latency_s
    return min(
        rate_at([(one.rate, (one.busy or one.latency_s)[query]) for one in told.stretches], 1.0)
        for query in slowest
    )


def capacity_at_once(told: Told, cores: float = CORES) -> float:
    """The rate at which all queries alone, at the same time, take so many cores; at most that of the slowest alone."""
    whole = [one for one in told.stretches if len(one.latency_s) == len(told.stretches[0].latency_s)]
    return min(rate_at([(one.rate, one.cpu) for one in whole], cores), capacity_alone(told))


def rate_at(steps: Sequence[tuple[float, float]], bound: float) -> float:
    """The rate at which what grows with it reaches a bound; in proportion between steps, and beyond the last two.

    >>> rate_at([(1.0, 0.1), (2.0, 0.2), (4.0, 0.8)], 0.5), rate_at([(1.0, 0.1), (2.0, 0.2)], 0.5)
    (3.0, 5.0)
    """
    for (low, before), (high, after) in pairwise(steps):
        if after > before and (after >= bound or high == steps[-1][0]):
            return max(0.0, low + (high - low) * (bound - before) / (after - before))
    return float("inf")


def empty(case: Case) -> Told:
    """What is told of a case before anything was seen."""
    return Told(
        case.policy,
        str(case.load),
        case.load.queries,
        [],
        threshold=case.threshold,
        merge_every_s=case.merge_every_s,
        climbs=case.climbs,
        case=name_of(case),
        course=course_of(case),
        apart=case.apart,
        ends=ends_of(case),
        kinds={name: query.kind.value for name, query in case.load.draw().items()},
    )


def ends_of(case: Case) -> list[float]:
    """When each phase of a course is over."""
    return list(accumulate(phase.seconds for phase in case.course))


def course_of(case: Case) -> str:
    """What tells the input of a case from others."""
    course = ", ".join(f"{p.name} {p.seconds:g} s {p.rate}/s {p.spread.value}" for p in case.course)
    return f"{course}; seed {case.load.seed}"


def name_of(case: Case) -> str:
    """What tells a case from all others."""
    tuned = f"{case.threshold:g}, {case.merge_every_s:g} s, {case.climbs}{', apart' if case.apart else ''}"
    return f"{case.policy}; {case.load}; {course_of(case)}; {tuned}"
