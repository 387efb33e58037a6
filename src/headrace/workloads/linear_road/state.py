"""What the operator of one expressway remembers: vehicles, stopped cars, this minute's readings, five minutes' sums."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.workloads.linear_road.hashing import Ints
from headrace.workloads.linear_road.kernels import (
    MARK,
    MOST_READINGS,
    READINGS,
    SCALE,
    STOP,
    STOPS,
    STRETCHES,
    TOUCHED,
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
    time: int = 0
    """The latest time of a tuple or watermark."""
    counters: Ints = field(default_factory=lambda: np.zeros(8, np.int64))
    vehicles: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(1 << 8, VEHICLE))
    buckets: Ints = field(default_factory=lambda: np.full(1 << 9, -1, np.int32))
    stops: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(1 << 4, STOP))
    readings: Ints = field(default_factory=lambda: np.zeros(1 << 10, np.int64))
    past: Ints = field(default_factory=lambda: np.zeros((MINUTES, 4, STRETCHES), np.int64))
    """Sums of the five minutes before the current one, oldest first (see `summarise`)."""
    table: Ints = field(default_factory=lambda: np.zeros((3, STRETCHES), np.int32))
    touched: Ints = field(default_factory=lambda: np.zeros(1 << 8, np.int32))
    """Slots of the vehicles that changed since the last saving."""
    saved_minute: int = 0
    saved_readings: int = 0

    def reserve(self, tuples: int) -> None:
        """Make room for whatever so many tuples can add."""
        self.stops = _room(self.stops, int(self.counters[STOPS]) + tuples)
        self.readings = _room(self.readings, int(self.counters[READINGS]) + tuples)
        self.touched = _room(self.touched, int(self.counters[TOUCHED]) + tuples)
        self.vehicles = _room(self.vehicles, int(self.counters[VEHICLES]) + tuples)
        if len(self.buckets) < 2 * len(self.vehicles):
            self.buckets = np.full(_power(2 * len(self.vehicles)), -1, np.int32)
            index_vehicles(self.vehicles, self.buckets, 0, int(self.counters[VEHICLES]))

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
        vehicles = self.vehicles[: self.counters[VEHICLES]]
        dumped = _pack(
            vehicles=vehicles, readings=self._readings(0), past=self.past, table=self.table, **self._always()
        )
        self._begin_period()
        return dumped

    def dump_changes(self) -> bytes:
        """What changed since the last saving, as bytes: a few vehicles, new readings, a new minute's table."""
        slots = self.touched[: self.counters[TOUCHED]]
        minute = {"past": self.past, "table": self.table} if self.minute != self.saved_minute else {}
        since = 0 if minute else self.saved_readings
        dumped = _pack(
            slots=slots,
            vehicles=self.vehicles[slots],
            readings=self._readings(since),
            **minute,
            **self._always(),
        )
        self._begin_period()
        return dumped

    def load_changes(self, dumped: bytes) -> None:
        """Take over what `dump_changes` gave for the state that this one is equal to."""
        found = _unpack(dumped)
        before, kept = int(self.counters[VEHICLES]), int(self.counters[READINGS])
        self.reserve(max(0, int(found["counters"][VEHICLES]) - before) + len(found["readings"]))
        self.vehicles[found["slots"]] = found["vehicles"].astype(VEHICLE)
        index_vehicles(self.vehicles, self.buckets, before, int(found["counters"][VEHICLES]))
        if "table" in found:
            self.past, self.table, kept = found["past"], found["table"], 0
        self.readings[kept : kept + len(found["readings"])] = found["readings"]
        self._load_always(found)

    @classmethod
    def load(cls, rules: Rules, dumped: bytes) -> RoadState:
        found = _unpack(dumped)
        state = cls(rules)
        # files do not keep the alignment of records, which the kernels rely on
        state.vehicles = found["vehicles"].astype(VEHICLE)
        state.readings, state.past, state.table = found["readings"], found["past"], found["table"]
        state.buckets = np.full(_power(2 * len(state.vehicles) + 2), -1, np.int32)
        index_vehicles(state.vehicles, state.buckets, 0, len(state.vehicles))
        state._load_always(found)
        return state

    def _always(self) -> dict[str, npt.NDArray[Any]]:
        """What is small enough to be in every saving."""
        stops = self.stops[: self.counters[STOPS]]
        times = np.array([self.minute, self.time])
        return {"times": times, "counters": self.counters, "stops": stops}

    def _load_always(self, found: dict[str, npt.NDArray[Any]]) -> None:
        self.minute, self.time = found["times"].tolist()
        self.counters = found["counters"]
        self.stops = found["stops"].astype(STOP)
        self._begin_period()

    def _readings(self, since: int) -> Ints:
        return self.readings[since : self.counters[READINGS]]

    def _begin_period(self) -> None:
        """Whatever changes from now on belongs to the next saving."""
        self.counters[MARK] += 1
        self.counters[TOUCHED] = 0
        self.saved_minute, self.saved_readings = self.minute, int(self.counters[READINGS])


def _pack(**arrays: npt.NDArray[Any]) -> bytes:
    """Arrays as bytes: what each is, as JSON, and then their content. Numpy's own archives take ten times as long."""
    index, parts, at = [], [], 0
    for name, array in arrays.items():
        parts.append(np.ascontiguousarray(array).tobytes())
        index.append((name, _described(array.dtype), array.shape, at))
        at += len(parts[-1])
    header = json.dumps(index).encode()
    return b"".join((len(header).to_bytes(8, "little"), header, *parts))


@cache
def _described(kind: np.dtype[Any]) -> Any:
    return np.lib.format.dtype_to_descr(kind)


def _unpack(packed: bytes) -> dict[str, npt.NDArray[Any]]:
    start = 8 + int.from_bytes(packed[:8], "little")
    found = {}
    for name, described, shape, at in json.loads(packed[8:start]):
        fields = [tuple(field) for field in described] if isinstance(described, list) else described
        kind = np.lib.format.descr_to_dtype(fields)
        found[name] = np.frombuffer(packed, kind, int(np.prod(shape)), start + at).reshape(shape).copy()
    return found


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
