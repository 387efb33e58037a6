"""The road, its tuples and the numbers of the rules: what generator, operator and validator have in common.

Only formats and constants are shared. The operator and the validator each implement the rules on their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

import pyarrow as pa

SEGMENTS = 100
MILE_FT = 5_280
ROAD_FT = SEGMENTS * MILE_FT
REPORT_S = 30
"""Every vehicle reports its position once in this time."""

RUN_S = 10_800
"""A whole run takes three hours."""

ENTRY_LANE, EXIT_LANE = 0, 4
DAYS = 69
"""Days of history: day 1 is yesterday, day 69 is ten weeks ago."""

RUN_DOW = 1
"""The day of the week (1 to 7) on which a run takes place. Yesterday was day 7."""

QUARTERS = 96
"""Statistics of segments are kept for every quarter of an hour; quarter 0 begins at midnight."""

UNKNOWN_S = 60
"""How long a segment takes that nobody drove through at that time of the week, in all ten weeks: a mile a minute."""


class Kind(IntEnum):
    """The type of an input tuple."""

    POSITION = 0
    BALANCE = 2
    EXPENDITURE = 3
    TRAVEL_TIME = 4


COLUMNS = (
    *("Type", "Time", "VID", "Spd", "XWay", "Lane", "Dir", "Seg", "Pos"),
    *("QID", "Sinit", "Send", "DOW", "TOD", "Day"),
)
INPUT = pa.schema([(name, pa.int32()) for name in COLUMNS])
"""Input tuples: 15 integers, -1 where a field has no meaning."""

ANSWERS = {
    "tolls": pa.schema(
        [("VID", pa.int32()), ("Time", pa.int32()), ("LAV", pa.int32()), ("Toll", pa.int32())]
    ),
    "alerts": pa.schema([(name, pa.int32()) for name in ("Time", "XWay", "Seg", "Dir", "VID")]),
    "balances": pa.schema(
        [
            *((name, pa.int32()) for name in ("Time", "QID", "ResultTime")),
            ("Balance", pa.int64()),
            ("Parts", pa.int32()),
        ]
    ),
    "expenditures": pa.schema([(name, pa.int32()) for name in ("Time", "QID", "Balance")]),
    "travel_times": pa.schema([(name, pa.int32()) for name in ("Time", "QID", "TravelTime", "Toll")]),
}
"""Answers by kind, without the time of their emission, which whoever delivers them adds as the column `Emit`.

`Parts` says how many sub-streams a balance adds up.
"""

HISTORY = pa.schema([("VID", pa.int32()), ("Day", pa.int32()), ("XWay", pa.int32()), ("Toll", pa.int32())])
"""Historical tolls: one row per vehicle and day."""

PAST = pa.schema([(name, pa.int32()) for name in ("XWay", "Dir", "Seg", "Day", "Quarter", "LAV", "Toll")])
"""Historical statistics of segments: average speed and toll; no row, or a LAV of 0, where nobody drove."""


class Lav(Enum):
    """How the latest average velocity is defined. A run says which one it used."""

    PAPER = "each vehicle's average per minute, their average per minute, the average of the minutes, rounded down"
    READINGS = "all readings of the five minutes, averaged and rounded to the nearest whole number"


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers of the benchmark. Only tests use others, to make rare things happen with few vehicles."""

    lav: Lav = Lav.PAPER
    crowded: int = 50
    """A toll is due when more cars than this were in the segment in the minute before."""
    slow: int = 40
    """A toll is due when the latest average velocity is below this."""


def minute_of(time: int) -> int:
    """The minute of a time in seconds; the first minute is 1.

    >>> minute_of(0), minute_of(59), minute_of(60)
    (1, 1, 2)
    """
    return time // 60 + 1
