"""The loops of the Linear Road operator: over reports and balance requests, a minute's readings, and journeys.

Each report depends on the ones before it, so this is a compiled loop. Everything that is fixed for a whole minute
(tolls, averages, accidents ahead) comes as a table, which makes the loop short.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, int32, int64

from headrace.operators.compiled.compiling import compiled, given, made
from headrace.workloads.linear_road.hashing import Ints

STRETCHES = 200
"""Segments of both directions: stretch = direction * 100 + segment."""

STANDING = 4
"""A vehicle is stopped when so many reports in a row have the same position and lane."""

SCALE = 5_354_228_880
"""The least common multiple of 1 to 24: averages of up to 24 speeds are whole numbers of this unit."""

MOST_READINGS = 24

VEHICLE = np.dtype(
    [
        ("vid", "i8"),
        ("place", "i8"),  # direction, lane and position of the last report, as one number
        ("balance", "i8"),
        ("toll", "i4"),  # what leaving the current segment will cost
        ("left", "i4"),  # when it left by the exit ramp, -1 while it is on the road
        ("stretch", "i2"),  # -1 when it is in no segment
        ("same", "i2"),  # how many reports in a row were of the same place, up to STANDING
        ("mark", "i4"),  # the last period between two savings in which this entry changed
    ],
    align=True,
)
STOP = np.dtype([("place", "i8"), ("cars", "i4"), ("stretch", "i4")], align=True)
"""A place where vehicles are stopped, and how many."""

VEHICLES, STOPS, READINGS, TOLLS, ALERTS, BALANCES, TOUCHED, MARK = range(8)
"""Positions in `counters`: how many entries of each array are in use, and the number of the period between savings."""

TYPE, TIME, VID, SPD, LANE, DIR, SEG, POS, QID = range(9)
"""Rows of the array of tuples."""

_GIVEN = given(int32, 2)
_MADE = made(int32, 2)
_VEHICLES = made(from_dtype(VEHICLE))
_STOPS = made(from_dtype(STOP))
_LONGS = made(int64)
_WORDS = made(int32)


@compiled((_VEHICLES, _WORDS, int64), returns=int64)
def find_vehicle(vehicles: Any, buckets: Ints, vid: Any) -> int:
    """The bucket of a vehicle, or of where it belongs: open addressing in a power of two of buckets, -1 is empty."""
    mask = len(buckets) - 1
    at: int = ((vid * 0x9E3779B1) >> 7) & mask
    while buckets[at] >= 0 and vehicles[buckets[at]].vid != vid:
        at = (at + 1) & mask
    return at


@compiled((_VEHICLES, _WORDS, int64, int64))
def index_vehicles(vehicles: Any, buckets: Ints, first: int, count: int) -> None:
    """Enter the vehicles from slot `first` up to `count` into the buckets."""
    for slot in range(first, count):
        buckets[find_vehicle(vehicles, buckets, vehicles[slot].vid)] = slot


@compiled((_STOPS, _LONGS, int64, int64))
def come_to_stop(stops: Any, counters: Ints, place: Any, stretch: Any) -> None:
    """One more vehicle is stopped at a place."""
    for at in range(counters[STOPS]):
        if stops[at].place == place:
            stops[at].cars += 1
            return
    at = counters[STOPS]
    stops[at].place, stops[at].cars, stops[at].stretch = place, 1, stretch
    counters[STOPS] = at + 1


@compiled((_STOPS, _LONGS, int64))
def drive_on(stops: Any, counters: Ints, place: Any) -> None:
    """One vehicle fewer is stopped at a place."""
    for at in range(counters[STOPS]):
        if stops[at].place == place:
            stops[at].cars -= 1
            if stops[at].cars == 0:
                counters[STOPS] -= 1
                stops[at] = stops[counters[STOPS]]
            return


@compiled(
    (
        *(_GIVEN, int64, int64, _VEHICLES, _WORDS, _WORDS, _STOPS, _LONGS),
        *(_MADE, _LONGS, _MADE, _MADE, _LONGS, _MADE),
    )
)
def drive(
    tuples: Ints,
    first: int,
    last: int,
    vehicles: Any,
    buckets: Ints,
    touched: Ints,
    stops: Any,
    counters: Ints,
    table: Ints,
    readings: Ints,
    tolls: Ints,
    alerts: Ints,
    balances: Ints,
    requests: Ints,
) -> None:
    """Play the tuples `first` up to `last`, which are all of one minute, and append to the answers.

    `table` has three rows over the stretches: LAV, toll, and the segment of the accident ahead or -1. All arrays have
    room for what can come; `counters` say how far they are filled. `tolls` gets (VID, Time, LAV, Toll), `alerts` gets
    (Time, Seg, Dir, VID), `requests` gets (Time, QID) and `balances` the balance. A reading is stretch, slot and speed
    in one number, so that sorting brings a vehicle's readings in a segment together.
    """
    for at in range(first, last):
        kind = tuples[TYPE, at]
        if kind != 0 and kind != 2:
            continue
        vid, time = np.int64(tuples[VID, at]), tuples[TIME, at]
        bucket = find_vehicle(vehicles, buckets, vid)
        slot = np.int64(buckets[bucket])
        if kind == 2:
            n = counters[BALANCES]
            requests[0, n], requests[1, n] = time, tuples[QID, at]
            balances[n] = vehicles[slot].balance if slot >= 0 else 0
            counters[BALANCES] = n + 1
            continue
        lane, direction = tuples[LANE, at], tuples[DIR, at]
        if slot < 0:
            slot = counters[VEHICLES]
            counters[VEHICLES] = slot + 1
            buckets[bucket] = slot
            vehicles[slot].vid, vehicles[slot].place = vid, -1
            vehicles[slot].left, vehicles[slot].stretch = -1, -1
            vehicles[slot].balance, vehicles[slot].toll, vehicles[slot].same = 0, 0, 0
            vehicles[slot].mark = -1
        car = vehicles[slot]
        if car.left >= 0:
            if lane != 0 or time - car.left <= 60:
                continue  # it has left, and this is noise
            car.left, car.place, car.stretch, car.toll, car.same = -1, -1, -1, 0, 0
        if car.mark != counters[MARK]:
            car.mark = counters[MARK]
            touched[counters[TOUCHED]] = slot
            counters[TOUCHED] += 1
        stretch = direction * 100 + tuples[SEG, at]
        n = counters[READINGS]
        readings[n] = (np.int64(stretch) << 40) | (slot << 8) | np.int64(tuples[SPD, at])
        counters[READINGS] = n + 1

        place = (np.int64(direction * 8 + lane) << 32) | np.int64(tuples[POS, at])
        if place != car.place:
            if car.same == STANDING:
                drive_on(stops, counters, car.place)
            car.place, car.same = place, 1
        elif car.same < STANDING:
            car.same += 1
            if car.same == STANDING:
                come_to_stop(stops, counters, place, stretch)

        if stretch != car.stretch:
            car.balance += car.toll
            car.stretch, car.toll = stretch, 0
            if lane != 4:
                n = counters[TOLLS]
                tolls[0, n], tolls[1, n] = vid, time
                tolls[2, n], tolls[3, n] = table[0, stretch], table[1, stretch]
                counters[TOLLS] = n + 1
                car.toll = table[1, stretch]
                if table[2, stretch] >= 0:
                    n = counters[ALERTS]
                    alerts[0, n], alerts[1, n] = time, table[2, stretch]
                    alerts[2, n], alerts[3, n] = direction, vid
                    counters[ALERTS] = n + 1
        if lane == 4:
            car.left = time


@compiled((_LONGS, made(int64, 2)), returns=int64)
def summarise(readings: Ints, minute: Ints) -> int:
    """Add a minute's sorted readings to its four rows over the stretches; the most readings one vehicle had.

    Rows: cars, sum of the cars' average speeds in units of 1/SCALE, sum of all speeds, number of readings.
    """
    most = 0
    at = 0
    while at < len(readings):
        car = readings[at] >> 8
        total, count = 0, 0
        while at < len(readings) and readings[at] >> 8 == car:
            total += readings[at] & 255
            count += 1
            at += 1
        stretch = car >> 32
        minute[0, stretch] += 1
        minute[1, stretch] += total * (SCALE // count)
        minute[2, stretch] += total
        minute[3, stretch] += count
        most = max(most, count)
    return most


@compiled((_MADE, _MADE, _MADE, _MADE))
def drive_through(requests: Ints, seconds: Ints, tolls: Ints, found: Ints) -> None:
    """How long journeys take, and what they cost, into the two rows of `found`.

    Rows of `requests`: first segment, last segment, day of the week, minute of the day. `seconds` and `tolls` have a
    row for each quarter of an hour of the week, and a column for each stretch. A vehicle drives through each segment
    as it is in the quarter in which it comes there. Who leaves by the exit ramp does not pay for the last segment.
    """
    for at in range(requests.shape[1]):
        segment, last = requests[0, at], requests[1, at]
        step, side = (1, 0) if segment <= last else (-1, 100)
        begin = np.int64((requests[2, at] - 1) * 1_440 + requests[3, at] - 1) * 60
        time, toll = begin, 0
        while True:
            quarter = time // 900 % len(seconds)
            time += seconds[quarter, side + segment]
            if segment == last:
                break
            toll += tolls[quarter, side + segment]
            segment += step
        found[0, at], found[1, at] = time - begin, toll
