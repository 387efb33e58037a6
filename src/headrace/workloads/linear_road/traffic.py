"""Traffic for Linear Road: any time range of any number of expressways, second by second.

The road is made of *trips*. A trip is one vehicle's way from an entry ramp to an exit ramp. Trip (expressway, second it
begins, number) decides everything by a hash: direction, start, length, habits, stops. Speeds follow from the trip and
from a map of where and when traffic is slow, and never from other trips. So the traffic of a time range needs only
those trips that began at most one longest trip earlier, and equal seeds give equal tuples however the range is cut.

A vehicle reports every 30 seconds from the moment its trip begins. The vehicles that report in the same second form a
*phase*. The generator advances one phase per second, which yields tuples in time order without sorting.

What the rules need comes about like this: two trips that begin together now and then share their whole way and stop at
one place (an accident); other cars stop alone; the map of slow traffic brings averages below 40; a tenth of the trips
is made by a vehicle that left this or another expressway before; and some vehicles report once or twice more after they
left (noise that every implementation must ignore).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import pyarrow as pa

from headrace.workloads.linear_road.hashing import Ints, below, mixed, named, share
from headrace.workloads.linear_road.history import day_rows
from headrace.workloads.linear_road.rules import (
    COLUMNS,
    DAYS,
    ENTRY_LANE,
    EXIT_LANE,
    INPUT,
    MILE_FT,
    REPORT_S,
    RUN_S,
    SEGMENTS,
    Kind,
)

FEET_PER_MPH = 44
"""How far a vehicle gets in 30 seconds, per mile per hour."""

GHOSTS = 2
"""How many reports at most a vehicle makes after it left."""

REST = 5
"""How many reports' time at least lies between the longest possible trip's end and the vehicle's next trip."""

QIDS = 256
"""Requests per second and expressway for which there are numbers."""

_REQUESTS = ((Kind.BALANCE, 0.5), (Kind.EXPENDITURE, 0.1), (Kind.TRAVEL_TIME, 0.4))
"""Per cent of all tuples; the other 99 are position reports."""


@dataclass(frozen=True)
class Traffic:
    """A recipe for traffic. `peak` is the tuples per second and expressway at the end of the run.

    `segments` are the first and last segment in use; trips have from `trip[0]` to `trip[1]` reports. A shorter road
    with shorter trips gets crowded at lower rates, which small tests need.
    """

    expressways: int = 1
    seed: int = 0
    seconds: int = RUN_S
    peak: float = 1_700.0
    segments: tuple[int, int] = (0, SEGMENTS - 1)
    trip: tuple[int, int] = (10, 70)
    accidents_per_hour: float = 12.0

    def __post_init__(self) -> None:
        first, last = self.segments
        shortest, longest = self.trip
        if not (0 <= first <= last < SEGMENTS and 2 <= shortest <= longest <= 1_000):
            raise ValueError(f"no such road: segments {self.segments}, trips of {self.trip} reports")
        if self.expressways < 1 or self.seconds < 1 or self.peak <= 0:
            raise ValueError("traffic needs an expressway, a duration and a rate")

    @cached_property
    def begun(self) -> Ints:
        """How many trips of an expressway began before each second; the last entry is the number of all trips.

        The second t needs `0.99 * peak * sqrt(t / seconds)` reports. Trips that began 30, 60, ... seconds earlier and
        still last bring some of them. New trips bring the others.
        """
        shortest, longest = self.trip
        rounds = -(-self.seconds // REPORT_S)
        wanted = 0.99 * self.peak * np.sqrt(np.arange(rounds * REPORT_S) / self.seconds).reshape(rounds, -1)
        still = 1 - np.clip((np.arange(1, longest) - shortest + 1) / (longest - shortest + 1), 0, 1)
        begin = np.zeros_like(wanted)
        for at in range(rounds):
            past = begin[max(0, at - longest + 1) : at][::-1]
            begin[at] = wanted[at] - still[: len(past)] @ past
        total = np.floor(np.cumsum(begin.ravel())[: self.seconds]).astype(np.int64)
        return np.concatenate([[0], total])

    @property
    def vehicles(self) -> int:
        """How many vehicle numbers each expressway has; those of expressway x begin at x times this."""
        return int(self.begun[-1])

    @property
    def longest_s(self) -> int:
        return (self.trip[1] + GHOSTS) * REPORT_S

    def batches(
        self, start: int = 0, end: int | None = None, rows: int = 200_000
    ) -> Iterator[pa.RecordBatch]:
        """The tuples of the seconds `start` up to `end` (excluded) in time order, in batches of at least `rows`.

        The memory in use is that of the vehicles on the road and of one batch.
        """
        end = self.seconds if end is None else min(end, self.seconds)
        phases = [_Phase() for _ in range(REPORT_S)]
        waiting: list[Ints] = []
        count, slow = 0, _slow_map(self, 0)
        # a whole minute earlier at most, so that the first map is that of its minute
        for second in range(max(0, start - self.longest_s) // 60 * 60, end):
            if second % 60 == 0:
                slow = _slow_map(self, second // 60)
            tuples = _advance(self, phases[second % REPORT_S], second, slow, second >= start)
            waiting += tuples
            count += sum(part.shape[1] for part in tuples)
            if count >= rows:
                yield _batch(waiting)
                waiting, count = [], 0
        if waiting:
            yield _batch(waiting)


@dataclass(slots=True)
class _Phase:
    """The vehicles that report in the same second of every half minute, one entry each."""

    trip: Ints = field(default_factory=lambda: np.zeros(0, np.uint64))
    vid: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    xway: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    dir: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    way: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    """Feet from the beginning of the road in the direction of travel."""
    lane: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    habit: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    report: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    """The number of the next report of the trip."""
    last: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    ghosts: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    stop: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    go: Ints = field(default_factory=lambda: np.zeros(0, np.int32))

    def keep(self, which: Ints) -> None:
        for column in fields(self):
            setattr(self, column.name, getattr(self, column.name)[which])

    def join(self, other: _Phase) -> None:
        for column in fields(self):
            both = [getattr(self, column.name), getattr(other, column.name)]
            setattr(self, column.name, np.concatenate(both))


def _advance(traffic: Traffic, phase: _Phase, second: int, slow: Ints, wanted: bool) -> list[Ints]:
    """Let a phase's vehicles report and drive on; the tuples of the second, if they are wanted."""
    phase.join(_new_trips(traffic, second))
    if len(phase.vid) == 0:
        return []
    first, last = traffic.segments
    length = (last - first + 1) * MILE_FT
    pos = np.where(phase.dir == 0, first * MILE_FT + phase.way, (last + 1) * MILE_FT - 1 - phase.way)
    seg = pos // MILE_FT
    luck = mixed(phase.trip + phase.report.astype(np.uint64))
    speed = slow[phase.xway, phase.dir, seg] + phase.habit + share(luck, 0, 4) - 8
    speed = np.clip(speed, 4, 88).astype(np.int32)
    speed[(phase.report >= phase.stop) & (phase.report < phase.go)] = 0
    further = phase.way + speed * FEET_PER_MPH
    over = further >= length
    np.copyto(phase.last, phase.report, where=over & (phase.report < phase.last))
    gone = phase.report > phase.last
    lane = np.where(
        phase.report == phase.last, EXIT_LANE, np.where(phase.report == 0, ENTRY_LANE, phase.lane)
    )
    lane[gone] = below(luck[gone], 4, 5)
    tuples = []
    if wanted:
        tuples.append(_positions(second, phase, speed, lane, seg, pos))
        tuples += _requests(traffic, second, phase, luck)
    phase.way = np.where(over, phase.way, further)
    phase.report = phase.report + np.int32(1)
    phase.keep(phase.report <= phase.last + phase.ghosts)
    return tuples


def _new_trips(traffic: Traffic, second: int) -> _Phase:
    """The trips that begin in a second. The first two of an expressway may share their way: they have an accident."""
    begun = traffic.begun
    count = int(begun[second + 1] - begun[second])
    if count == 0:
        return _Phase()
    roads = np.arange(traffic.expressways)
    xway, number = np.repeat(roads, count), np.tile(np.arange(count), traffic.expressways)
    own = named(traffic.seed, 1, xway, second, number)
    luck = (named(traffic.seed, 2, roads, second) >> np.uint64(11)) * 2.0**-53
    crash = np.repeat(luck < traffic.accidents_per_hour / 3_600, count) & (number < 2) & (count > 1)
    trip = np.where(crash, named(traffic.seed, 1, xway, second, 0), own)
    shortest, longest = traffic.trip
    last = shortest - 1 + below(trip, 0, longest - shortest + 1)
    last = np.where(crash, longest - 1, last)
    first_segment, last_segment = traffic.segments
    room = (last_segment - first_segment + 1) * MILE_FT
    way = share(trip, 16, 20) * np.maximum(room - (last + 1) * 70 * FEET_PER_MPH, room // 2) >> 20
    stop, go = _stops(own, trip, crash, last)
    values = {
        "xway": xway,
        "vid": _vehicles(traffic, xway, second, number),
        "dir": share(trip, 36, 1),
        "way": way,
        "lane": 1 + below(trip, 37, 3),
        "habit": share(mixed(trip), 0, 4) - 8,
        "report": np.zeros(len(xway)),
        "last": last,
        "ghosts": np.where(below(own, 20, 200) == 0, 1 + share(own, 36, 1), 0),
        "stop": stop,
        "go": go,
    }
    return _Phase(trip, **{name: column.astype(np.int32) for name, column in values.items()})


def _stops(own: Ints, trip: Ints, crash: Ints, last: Ints) -> tuple[Ints, Ints]:
    """From which report up to which a vehicle stands still. Of two cars in an accident, each goes on when it likes."""
    from_ = 1 + below(trip, 40, 6)
    long = np.where(crash, 6 + below(mixed(own), 20, 10), 2 + below(mixed(own), 20, 5))
    stands = crash | (below(own, 4, 500) == 0)
    go = np.minimum(from_ + long, last - 1)
    return np.where(stands, from_, 0), np.where(stands, go, 0)


def _vehicles(traffic: Traffic, xway: Ints, second: int, number: Ints) -> Ints:
    """Who makes a trip: a new vehicle, or one in ten times the vehicle of an earlier trip that is surely over."""
    xway, number, at = xway.copy(), number.copy(), np.full(len(xway), second)
    rest = traffic.longest_s + (REST - GHOSTS) * REPORT_S
    before = second - rest
    again = np.ones(len(xway), bool)
    while before >= 0 and again.any():
        count = int(traffic.begun[before + 1] - traffic.begun[before])
        again &= (below(named(traffic.seed, 3, xway, at, number), 0, 10) == 0) & (number < count)
        # one shift for all trips of a second, so that no two of them take the same vehicle
        shift = int(share(named(traffic.seed, 4, before), 0, 31)[0])
        xway = np.where(again, (xway + shift) % traffic.expressways, xway)
        at = np.where(again, before, at)
        before -= rest
    return np.asarray(xway * traffic.vehicles + traffic.begun[at] + number)


def _slow_map(traffic: Traffic, minute: int) -> Ints:
    """Mean speeds [expressway, direction, segment] of the minute: slower in the middle of the road, in waves, later."""
    seg = np.arange(SEGMENTS)
    first, last = traffic.segments
    middle = 1 - np.abs(seg - (first + last) / 2) / ((last - first + 1) / 2 + 1)
    start = share(named(traffic.seed, 5, np.arange(traffic.expressways)), 0, 10) / 1_024 * 2 * np.pi
    turn = np.array([1.0, -1.0])[None, :, None] * (seg / 9.0)[None, None, :] + minute / 7.0
    wave = 0.5 + 0.5 * np.sin(turn + start[:, None, None])
    late = 0.4 + 0.6 * (60 * minute / traffic.seconds)
    return np.asarray(66 - 52 * np.clip(late * (0.45 * middle + 0.75 * wave), 0, 1)).astype(np.int32)


def _positions(second: int, phase: _Phase, speed: Ints, lane: Ints, seg: Ints, pos: Ints) -> Ints:
    tuples = np.full((len(COLUMNS), len(phase.vid)), -1, np.int32)
    tuples[:9] = (
        np.zeros_like(phase.vid),
        np.full_like(phase.vid, second),
        *(phase.vid, speed, phase.xway, lane, phase.dir, seg, pos),
    )
    return tuples


def _requests(traffic: Traffic, second: int, phase: _Phase, luck: Ints) -> list[Ints]:
    """Requests of some of the vehicles that report in the second; numbered without gaps per expressway."""
    draw = share(luck, 24, 20) * (99.0 / 2**20)
    asks = np.flatnonzero(draw < 1.0)
    if len(asks) == 0:
        return []
    asks = asks[np.argsort(phase.xway[asks], kind="stable")]
    xway, draw, luck, vid = phase.xway[asks], draw[asks], luck[asks], phase.vid[asks]
    rank = np.arange(len(asks)) - np.searchsorted(xway, xway)
    tuples = np.full((len(COLUMNS), len(asks)), -1, np.int32)
    column = {name: tuples[at] for at, name in enumerate(COLUMNS)}
    kind = np.searchsorted(np.cumsum([part for _, part in _REQUESTS])[:-1], draw, side="right")
    column["Type"][:] = np.array([kind_ for kind_, _ in _REQUESTS])[kind]
    column["Time"][:] = second
    column["VID"][:] = vid
    column["QID"][:] = (xway * traffic.seconds + second) * QIDS + rank
    spent = column["Type"] == Kind.EXPENDITURE
    day = 1 + below(luck, 44, DAYS)
    home, _ = day_rows(traffic.seed, traffic.expressways, traffic.vehicles, vid, day)
    column["XWay"][spent] = np.where(share(luck, 60, 3) > 0, home, xway)[spent]
    column["Day"][spent] = day[spent]
    _fill_travel(column, xway, luck)
    return [tuples[:, rank < QIDS]]


def _fill_travel(column: dict[str, Ints], xway: Ints, luck: Ints) -> None:
    travel = column["Type"] == Kind.TRAVEL_TIME
    words = mixed(luck)
    for name, values in (
        ("XWay", xway),
        ("Sinit", below(words, 0, SEGMENTS)),
        ("Send", below(words, 16, SEGMENTS)),
        ("DOW", 1 + below(words, 32, 7)),
        ("TOD", 1 + below(words, 48, 1_440)),
    ):
        column[name][travel] = values[travel]


def _batch(parts: list[Ints]) -> pa.RecordBatch:
    tuples = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in tuples], schema=INPUT)
