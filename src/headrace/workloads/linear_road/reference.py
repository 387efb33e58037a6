"""The answers that the rules ask for, by plain loops over the input.

This is written from the rules and shares no code with the operator. It favours the obvious over the fast: an accident
is a pair of cars with the minutes of its detection and clearing, a segment's speeds are lists per vehicle, an average
is a fraction. It reads the input in time order and forgets what no rule can ask for any more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from headrace.workloads.linear_road.rules import DAYS, UNKNOWN_S, Kind, Lav, Rules, minute_of

Paid = Callable[[int, int, int], int]
"""What a vehicle paid on a day on an expressway: (VID, Day, XWay) to the toll."""

Past = Callable[[int, int, int, int, int], tuple[int, int]]
"""LAV and toll of (XWay, Dir, Seg, Day, Quarter) in the last ten weeks; a LAV of 0 where nobody drove."""

Row = tuple[int, ...]
"""An input tuple: 15 integers in the order of the columns."""

Place = tuple[int, int, int]
"""Direction, lane and position."""


@dataclass(slots=True)
class Car:
    """One vehicle on one expressway."""

    vid: int
    place: Place | None = None
    reports: int = 0
    """How many reports in a row were from this place."""
    segment: tuple[int, int] | None = None
    toll: int = 0
    left: int | None = None


@dataclass(slots=True)
class Accident:
    """Two cars that are stopped at one place."""

    cars: tuple[int, int]
    direction: int
    segment: int
    detected: int
    cleared: int | None = None

    def counts_in(self, minute: int) -> bool:
        return self.detected < minute and (self.cleared is None or self.cleared >= minute)


@dataclass(slots=True)
class Expressway:
    """What the rules need to know of one expressway."""

    rules: Rules
    cars: dict[int, Car] = field(default_factory=dict)
    speeds: dict[int, dict[tuple[int, int], dict[int, list[int]]]] = field(default_factory=dict)
    """By minute, segment and vehicle: all speeds that were reported."""
    accidents: list[Accident] = field(default_factory=list)
    stopped: dict[Place, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The vehicles that are stopped at a place."""
    averages: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Averages by minute, direction and segment, so that each is computed once."""

    def forget_before(self, minute: int) -> None:
        """Drop what no tuple of this minute or a later one can ask for."""
        self.speeds = {m: by for m, by in self.speeds.items() if m >= minute - 5}
        self.accidents = [a for a in self.accidents if a.cleared is None or a.cleared >= minute]
        self.averages = {key: value for key, value in self.averages.items() if key[0] >= minute}

    def crowd(self, minute: int, direction: int, segment: int) -> int:
        return len(self.speeds.get(minute, {}).get((direction, segment), {}))

    def lav(self, minute: int, direction: int, segment: int) -> int:
        key = (minute, direction, segment)
        if key not in self.averages:
            past = [self.speeds.get(m, {}).get((direction, segment), {}) for m in range(minute - 5, minute)]
            by_paper = self.rules.lav is Lav.PAPER
            self.averages[key] = lav_of_paper(past) if by_paper else lav_of_readings(past)
        return self.averages[key]

    def accident_ahead(self, minute: int, direction: int, segment: int) -> int | None:
        """The nearest segment with an accident that counts, from this one to the fourth downstream."""
        if not self.accidents:
            return None
        step = 1 if direction == 0 else -1
        for candidate in range(segment, segment + 5 * step, step):
            for accident in self.accidents:
                if (accident.direction, accident.segment) == (direction, candidate) and accident.counts_in(
                    minute
                ):
                    return candidate
        return None

    def watch_for_accidents(self, car: Car, place: Place, segment: int, minute: int) -> None:
        """Clear the accidents of a car that moved; find the cars that stand where it came to stand."""
        if place == car.place:
            car.reports += 1
            if car.reports == 4:
                for other in self.stopped[place]:
                    self.accidents.append(Accident((car.vid, other), place[0], segment, minute))
                self.stopped[place].append(car.vid)
            return
        if car.place is not None and car.reports >= 4:
            self.stopped[car.place].remove(car.vid)
            for accident in self.accidents:
                if car.vid in accident.cars and accident.cleared is None:
                    accident.cleared = minute
        car.place, car.reports = place, 1


def lav_of_paper(minutes: list[dict[int, list[int]]]) -> int:
    """Each vehicle's average, the average of these per minute, the average of the minutes; rounded down."""
    per_minute = []
    for by_vehicle in minutes:
        if by_vehicle:
            # equal denominators are added first, which is only quicker
            sums: dict[int, int] = defaultdict(int)
            for speeds in by_vehicle.values():
                sums[len(speeds)] += sum(speeds)
            total = sum((Fraction(total, count) for count, total in sums.items()), Fraction(0))
            per_minute.append(total / len(by_vehicle))
    return floor(sum(per_minute, Fraction(0)) / len(per_minute)) if per_minute else 0


def lav_of_readings(minutes: list[dict[int, list[int]]]) -> int:
    """The average of all readings, rounded, halves up."""
    readings = [speed for by_vehicle in minutes for speeds in by_vehicle.values() for speed in speeds]
    return floor(Fraction(sum(readings), len(readings)) + Fraction(1, 2)) if readings else 0


def days_of(weekday: int) -> list[int]:
    """How many days ago it was that day of the week, up to ten weeks. Yesterday was day 7 of the week.

    >>> days_of(7)[:2], days_of(6)[:2], days_of(1)[-2:]
    ([1, 8], [2, 9], [56, 63])
    """
    return [day for day in range(1, DAYS + 1) if (day + weekday) % 7 == 1]


_DAYS_OF = {weekday: days_of(weekday) for weekday in range(1, 8)}


def journey(past: Past, xway: int, first: int, last: int, weekday: int, minute: int) -> tuple[int, int]:
    """How many seconds it takes from the beginning of one segment to the end of another, and the tolls on the way.

    Each segment is as it usually is at the time at which the vehicle comes there: driven through with the average speed
    of the same weekday and quarter of an hour, for the average toll, both rounded down. The last one is left by the
    exit ramp, so that it is not charged.
    """
    direction = 0 if first <= last else 1
    segment, gone, tolls = first, 0, 0
    while True:
        minutes = minute - 1 + gone // 60
        that_day = (weekday - 1 + minutes // 1_440) % 7 + 1
        quarter = minutes % 1_440 // 15
        seen = [past(xway, direction, segment, day, quarter) for day in _DAYS_OF[that_day]]
        seen = [(speed, toll) for speed, toll in seen if speed > 0]
        if seen:
            gone += 3_600 * len(seen) // sum(speed for speed, _ in seen)
        else:
            gone += UNKNOWN_S
        if segment == last:
            return gone, tolls
        if seen:
            tolls += sum(toll for _, toll in seen) // len(seen)
        segment += 1 if direction == 0 else -1


@dataclass(frozen=True, slots=True)
class Expected:
    """One answer that is due: its kind, its key, and the values it must have."""

    kind: str
    key: tuple[int, ...]
    value: tuple[int, ...]


@dataclass(slots=True)
class Reference:
    """Reads input tuples in time order and says which answers are due."""

    rules: Rules
    paid: Paid | None = None
    past: Past | None = None
    minute: int = 0
    expressways: dict[int, Expressway] = field(default_factory=dict)
    charges: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    """By vehicle: the times of its charges on all expressways, and what was charged up to each."""

    def read(self, row: Row) -> Iterator[Expected]:
        """The answers to one tuple."""
        kind, time, vid, xway, qid, day = row[0], row[1], row[2], row[4], row[9], row[14]
        minute = minute_of(time)
        if minute != self.minute:
            self.minute = minute
            for road in self.expressways.values():
                road.forget_before(minute)
        if kind == Kind.POSITION:
            yield from self._position(row, minute)
        elif kind == Kind.BALANCE:
            yield Expected("balances", (time, qid), (vid,))
        elif kind == Kind.EXPENDITURE:
            if self.paid is None:
                raise ValueError("daily expenditure was asked for, but the validator has no history")
            yield Expected("expenditures", (time, qid), (self.paid(vid, day, xway),))
        elif kind == Kind.TRAVEL_TIME:
            if self.past is None:
                raise ValueError("a travel time was asked for, but the validator knows no past")
            yield Expected("travel_times", (time, qid), journey(self.past, xway, *row[10:14]))

    def _position(self, row: Row, minute: int) -> Iterator[Expected]:
        time, vid, speed, xway, lane, direction, segment, position = row[1:9]
        road = self.expressways.get(xway)
        if road is None:
            road = self.expressways[xway] = Expressway(self.rules)
        car = road.cars.get(vid)
        if car is None:
            car = road.cars[vid] = Car(vid)
        if car.left is not None:
            if lane != 0 or time - car.left <= 60:
                return
            car = road.cars[vid] = Car(vid)
        stretch = (direction, segment)
        road.speeds.setdefault(minute, {}).setdefault(stretch, {}).setdefault(vid, []).append(speed)
        road.watch_for_accidents(car, (direction, lane, position), segment, minute)
        if stretch != car.segment:
            if car.segment is not None and car.toll:
                self._charge(vid, time, car.toll)
            car.segment, car.toll = stretch, 0
            if lane != 4:
                yield from self._entered(xway, car, time)
        if lane == 4:
            car.left = time

    def _entered(self, xway: int, car: Car, time: int) -> Iterator[Expected]:
        assert car.segment is not None
        road, minute, (direction, segment) = self.expressways[xway], minute_of(time), car.segment
        ahead = road.accident_ahead(minute, direction, segment)
        lav = road.lav(minute, direction, segment)
        crowd = road.crowd(minute - 1, direction, segment)
        if crowd > self.rules.crowded and lav < self.rules.slow and ahead is None:
            car.toll = 2 * (crowd - self.rules.crowded) ** 2
        yield Expected("tolls", (car.vid, time), (lav, car.toll))
        if ahead is not None:
            yield Expected("alerts", (time, xway, ahead, direction, car.vid), ())

    def _charge(self, vid: int, time: int, toll: int) -> None:
        times, sums = self.charges.setdefault(vid, ([], []))
        times.append(time)
        sums.append(toll + (sums[-1] if sums else 0))

    def balances(self, vid: int, time: int) -> set[tuple[int, int, int]]:
        """The balances that may be given to a request: (balance, earliest and latest ResultTime).

        All charges before the second of the request are in, or all but the last of them if it is younger than 30 s.
        Charges in that very second may be in or not, since the request may come before or after them.
        """
        times, sums = self.charges.get(vid, ([], []))
        before, up_to = bisect_left(times, time), bisect_right(times, time)
        allowed = set(range(before, up_to + 1))
        if before and time - times[before - 1] < 30:
            allowed.add(before - 1)
        found = set()
        for count in allowed:
            earliest = times[count - 1] if count else 0
            latest = min(time, times[count]) if count < len(times) else time
            found.add((sums[count - 1] if count else 0, earliest, latest))
        return found
