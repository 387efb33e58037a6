"""What the operator of one expressway remembers: vehicles, stopped cars, this minute's readings, five minutes' sums."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.workloads.linear_road.hashing import Ints
from headrace.workloads.linear_road.kernels import (
    MOST_READINGS,
    READINGS,
    SCALE,
    STOP,
    STOPS,
    STRETCHES,
    VEHICLE,
    VEHICLES,
    index_vehicles,
    summarise,
)
from headrace.workloads.linear_road.rules import SEGMENTS, Lav, Rules

MINUTES = 5
"""The latest average velocity looks back so many minutes."""

AHEAD = 4
"""An accident concerns its own segment and so many before it."""


@dataclass(slots=True)
class RoadState:
    """The state of one expressway. `table` holds for the current minute: LAV, toll, accident ahead (see `drive`)."""

    rules: Rules
    minute: int = 0
    """The current minute, 0 before the first tuple."""
    counters: Ints = field(default_factory=lambda: np.zeros(6, np.int64))
    vehicles: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(1 << 8, VEHICLE))
    buckets: Ints = field(default_factory=lambda: np.full(1 << 9, -1, np.int32))
    stops: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(1 << 4, STOP))
    readings: Ints = field(default_factory=lambda: np.zeros(1 << 10, np.int64))
    past: Ints = field(default_factory=lambda: np.zeros((MINUTES, 4, STRETCHES), np.int64))
    """Sums of the five minutes before the current one, oldest first (see `summarise`)."""
    table: Ints = field(default_factory=lambda: np.zeros((3, STRETCHES), np.int32))

    def reserve(self, tuples: int) -> None:
        """Make room for whatever so many tuples can add."""
        self.stops = _room(self.stops, int(self.counters[STOPS]) + tuples)
        self.readings = _room(self.readings, int(self.counters[READINGS]) + tuples)
        self.vehicles = _room(self.vehicles, int(self.counters[VEHICLES]) + tuples)
        if len(self.buckets) < 2 * len(self.vehicles):
            self.buckets = np.full(_power(2 * len(self.vehicles)), -1, np.int32)
            index_vehicles(self.vehicles, self.buckets, int(self.counters[VEHICLES]))

    def move_to(self, minute: int) -> None:
        """Begin a later minute: add up the readings of the one that ended, and fix the new one's tolls."""
        if minute <= self.minute:
            return
        if self.minute:
            self._push(self._sums_of_minute())
            for _ in range(min(MINUTES, minute - self.minute - 1)):
                self._push(np.zeros((4, STRETCHES), np.int64))
        self.minute = minute
        self.counters[READINGS] = 0
        self.table = self._table()

    def _push(self, sums: Ints) -> None:
        self.past = np.concatenate([self.past[1:], sums[None]])

    def _sums_of_minute(self) -> Ints:
        sums = np.zeros((4, STRETCHES), np.int64)
        most = summarise(np.sort(self.readings[: self.counters[READINGS]]), sums)
        if most > MOST_READINGS:
            raise ValueError(f"a vehicle reported {most} times from one segment in minute {self.minute}")
        return sums

    def _table(self) -> Ints:
        lav = exact_lav(self.past) if self.rules.lav is Lav.PAPER else rounded_lav(self.past)
        ahead = self._accidents_ahead()
        cars = self.past[-1, 0]
        due = (cars > self.rules.crowded) & (lav < self.rules.slow) & (ahead < 0)
        toll = np.where(due, 2 * (cars - self.rules.crowded) ** 2, 0)
        return np.stack([lav, toll, ahead]).astype(np.int32)

    def _accidents_ahead(self) -> Ints:
        """For each stretch the nearest segment with an accident, among its own and the next four, or -1.

        An accident counts in a minute when it is there as the minute begins: it was detected in an earlier minute and
        is not cleared before this one.
        """
        stops = self.stops[: self.counters[STOPS]]
        here = np.zeros(STRETCHES, bool)
        here[stops["stretch"][stops["cars"] >= 2]] = True
        ahead = np.full((2, SEGMENTS), -1)
        for step in reversed(range(AHEAD + 1)):
            found = np.flatnonzero(here[:SEGMENTS])
            ahead[0, found[found >= step] - step] = found[found >= step]
            found = np.flatnonzero(here[SEGMENTS:])
            ahead[1, found[found + step < SEGMENTS] + step] = found[found + step < SEGMENTS]
        return ahead.ravel()

    def dump(self) -> bytes:
        """The state as bytes; arrays are cut to what is in use."""
        counters = self.counters
        out = io.BytesIO()
        np.savez(
            out,
            minute=np.array(self.minute),
            counters=counters,
            vehicles=self.vehicles[: counters[VEHICLES]],
            stops=self.stops[: counters[STOPS]],
            readings=self.readings[: counters[READINGS]],
            past=self.past,
            table=self.table,
        )
        return out.getvalue()

    @classmethod
    def load(cls, rules: Rules, dumped: bytes) -> RoadState:
        with np.load(io.BytesIO(dumped), allow_pickle=False) as kept:
            found = {name: kept[name] for name in kept.files}
        state = cls(rules, minute=int(found["minute"]), counters=found["counters"])
        # files do not keep the alignment of records, which the kernels rely on
        state.vehicles, state.stops = found["vehicles"].astype(VEHICLE), found["stops"].astype(STOP)
        state.readings = found["readings"]
        state.past, state.table = found["past"], found["table"]
        state.buckets = np.full(_power(2 * len(state.vehicles) + 2), -1, np.int32)
        index_vehicles(state.vehicles, state.buckets, len(state.vehicles))
        return state


def exact_lav(past: Ints) -> Ints:
    """The paper's average, rounded down: no rounding error, since tolls hang on it.

    Floating-point numbers decide nearly all stretches. Where they come close to a whole number, whole numbers decide.
    """
    cars, total = past[:, 0], past[:, 1]
    minutes = (cars > 0).sum(axis=0)
    averages = np.divide(total, cars, out=np.zeros(cars.shape), where=cars > 0) / SCALE
    lav = averages.sum(axis=0) / np.maximum(minutes, 1)
    down: Ints = np.floor(lav).astype(np.int64)
    for at in np.flatnonzero((np.abs(lav - np.rint(lav)) < 1e-6) & (minutes > 0)):
        down[at] = _floor_of_means(
            [(int(t), int(c)) for t, c in zip(total[:, at], cars[:, at], strict=True) if c]
        )
    return down


def _floor_of_means(sums: list[tuple[int, int]]) -> int:
    """The mean of total / cars over the minutes, in units of SCALE, rounded down, in whole numbers."""
    top, bottom = 0, 1
    for total, cars in sums:
        top, bottom = top * cars + total * bottom, bottom * cars
    return top // (bottom * max(1, len(sums)) * SCALE)


def rounded_lav(past: Ints) -> Ints:
    """The average of all readings, rounded to the nearest whole number, halves up."""
    total, count = past[:, 2].sum(axis=0), past[:, 3].sum(axis=0)
    rounded: Ints = (2 * total + count) // np.maximum(2 * count, 1)
    return rounded  # 0 where nobody reported


def _power(least: int) -> int:
    return 1 << max(9, (least - 1).bit_length())


def _room(array: npt.NDArray[Any], least: int) -> npt.NDArray[Any]:
    """The array, or a copy with room for `least` entries that doubles in size."""
    if len(array) >= least:
        return array
    wider = np.zeros(max(least, 2 * len(array)), array.dtype)
    wider[: len(array)] = array
    return wider
