"""Ten weeks of segment statistics: a row per stretch, day and quarter of an hour, and a table of them by weekday.

The rules ask for a prediction "from the statistics of ten weeks" and give no form for it. Decision 0032 says how we
read them. As tolls of ten weeks, statistics are a rule: any part of them can be made without the rest.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.workloads.linear_road.hashing import Ints, named, share
from headrace.workloads.linear_road.kernels import STRETCHES, drive_through
from headrace.workloads.linear_road.rules import DAYS, PAST, QUARTERS, RUN_DOW, SEGMENTS, UNKNOWN_S

_SHAPE = (DAYS, QUARTERS, STRETCHES)
_NIGHT = 20
"""Before this quarter of a day there are segments where nobody drives."""


def past_of(seed: int, xway: int) -> tuple[Ints, Ints]:
    """LAV and toll of an expressway by day (the first is yesterday), quarter and stretch.

    Working days have rush hours at 8:00 and 17:30, the middle of the road is slower, and every quarter has its luck.
    """
    day, quarter, stretch = np.ogrid[1 : DAYS + 1, :QUARTERS, :STRETCHES]
    luck = named(seed, 8, xway, np.arange(DAYS * QUARTERS * STRETCHES)).reshape(_SHAPE)
    to_rush = np.minimum(abs(quarter - 32), abs(quarter - 70))
    working = (_weekday(day) >= 2) & (_weekday(day) <= 6)
    rush = np.where(working, np.maximum(0, 24 - 2 * to_rush), 0)
    middle = 12 - abs(stretch % SEGMENTS - SEGMENTS // 2) // 5
    lav = 66 - rush - middle - share(luck, 0, 4)
    cars = 20 + 2 * (rush + middle) + share(luck, 4, 4)
    toll = np.where((cars > 50) & (lav < 40), 2 * (cars - 50) ** 2, 0)
    empty = (quarter < _NIGHT) & (share(luck, 8, 2) == 0)
    return np.where(empty, 0, lav), np.where(empty, 0, toll)


def _weekday(day: Ints) -> Ints:
    """The day of the week of so many days ago."""
    return (RUN_DOW - 1 - day) % 7 + 1


def historical_segments(seed: int, expressways: int) -> Iterator[pa.RecordBatch]:
    """All rows of the statistics, one batch for each expressway."""
    day, quarter, stretch = (at.ravel() for at in np.indices(_SHAPE))
    for xway in range(expressways):
        lav, toll = (values.ravel() for values in past_of(seed, xway))
        columns = (
            np.full_like(day, xway),
            stretch // SEGMENTS,
            stretch % SEGMENTS,
            day + 1,
            quarter,
            lav,
            toll,
        )
        yield pa.RecordBatch.from_arrays([pa.array(c.astype(np.int32)) for c in columns], schema=PAST)


@dataclass(frozen=True, slots=True)
class PastTable:
    """One expressway in a usual week: how many seconds every stretch takes in each quarter of an hour, and its toll."""

    seconds: Ints
    tolls: Ints

    @classmethod
    def by_rule(cls, seed: int, xway: int) -> PastTable:
        return cls._of(*past_of(seed, xway))

    @classmethod
    def read(cls, batches: Iterable[pa.RecordBatch], xway: int) -> PastTable:
        """Keep what the rows say of one expressway. They may come in any order."""
        lav, toll = np.zeros(_SHAPE, np.int64), np.zeros(_SHAPE, np.int64)
        for batch in batches:
            mine = batch.filter(pa.array(batch.column("XWay").to_numpy() == xway))
            side, seg, day, quarter, *values = (mine.column(name).to_numpy() for name in PAST.names[1:])
            at = day - 1, quarter, side * SEGMENTS + seg
            lav[at], toll[at] = values
        return cls._of(lav, toll)

    @classmethod
    def _of(cls, lav: Ints, toll: Ints) -> PastTable:
        """The average speed and the average toll of the same weekdays; days on which nobody drove do not count."""
        seconds, tolls = (np.zeros((7, QUARTERS, STRETCHES), np.int32) for _ in range(2))
        weekdays = _weekday(np.arange(1, DAYS + 1))
        for weekday in range(1, 8):
            speeds, paid = lav[weekdays == weekday], toll[weekdays == weekday]
            days, speed = np.count_nonzero(speeds, axis=0), speeds.sum(axis=0)
            known = days > 0
            seconds[weekday - 1] = np.where(known, 3_600 * days // np.maximum(speed, 1), UNKNOWN_S)
            tolls[weekday - 1] = np.where(speeds > 0, paid, 0).sum(axis=0) // np.maximum(days, 1)
        return cls(seconds.reshape(-1, STRETCHES), tolls.reshape(-1, STRETCHES))

    def travel(self, requests: Ints) -> tuple[Ints, Ints]:
        """Seconds and toll of journeys: rows are first segment, last segment, day of the week, minute of the day."""
        found = np.empty((2, requests.shape[1]), np.int32)
        drive_through(np.ascontiguousarray(requests, np.int32), self.seconds, self.tolls, found)
        return found[0], found[1]


@dataclass(slots=True)
class PastRule:
    """The statistics one by one, as whoever checks answers asks for them."""

    seed: int
    _made: dict[int, tuple[bytes, array[int]]] = field(default_factory=dict)

    def __call__(self, xway: int, direction: int, segment: int, day: int, quarter: int) -> tuple[int, int]:
        """LAV and toll; 0 where nobody drove."""
        if xway not in self._made:
            lav, toll = past_of(self.seed, xway)
            self._made[xway] = lav.astype(np.uint8).tobytes(), array("i", toll.astype(np.int32).tobytes())
        speeds, tolls = self._made[xway]
        at = ((day - 1) * QUARTERS + quarter) * STRETCHES + direction * SEGMENTS + segment
        return speeds[at], tolls[at]
