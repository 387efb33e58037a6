"""What is known of the streams and of the work of queries, as the engine measured it: the input of decisions.

All figures are sums over what was measured, so statistics of tasks and epochs are added up, and older ones fade.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from headrace.model.query import QueryId, StreamName


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """`tuples` of a stream came while its largest event time moved on by `span_us`."""

    stream: StreamName
    tuples: float
    span_us: float

    def tuples_in(self, range_us: int) -> float | None:
        """How many tuples a window of this range holds; None while event time has not moved."""
        return self.tuples * range_us / self.span_us if self.span_us > 0 else None


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """How often tuples of a stream have the same key, counted in batches of them.

    `input` names the stream and the key (`planner.joins.input_id`). `keys` are the distinct keys of each batch, added
    up. `pairs` are the ordered pairs of tuples that a batch can make, and `equal` those of them that share a key.

    >>> KeyStatistics.of_counts("orders by user", [2, 1, 1])
    KeyStatistics(input='orders by user', batches=1, tuples=4, keys=3, pairs=12, equal=2)
    """

    input: str
    batches: float
    tuples: float
    keys: float
    pairs: float
    equal: float

    @classmethod
    def of_counts(cls, input_: str, counts: list[int]) -> KeyStatistics:
        """Of one batch, in which each key has this many tuples."""
        tuples = sum(counts)
        equal = sum(count * (count - 1) for count in counts)
        return cls(input_, 1, tuples, len(counts), tuples * (tuples - 1), equal)

    @property
    def meeting(self) -> float:
        """The probability that two tuples have the same key; between one in all pairs and one."""
        return min(1.0, max(self.equal, 1.0) / max(self.pairs, 1.0))

    def keys_in(self, tuples: float) -> float:
        """About how many distinct keys so many tuples have, if all keys there are were equally frequent.

        >>> one = KeyStatistics.of_counts("a", [1] * 900 + [2] * 50)
        >>> round(one.keys_in(1000)), 8000 < one.keys_in(20_000) < 9000
        (950, True)
        """
        size, found = self.tuples / self.batches, self.keys / self.batches
        if found >= size:
            return tuples
        known = _solve_universe(size, found)
        return -known * math.expm1(-tuples / known)


def _solve_universe(tuples: float, distinct: float) -> float:
    """Of how many keys so many tuples show so many distinct ones: d = K (1 - exp(-n / K)), by bisection."""
    low, high = distinct, max(2.0, tuples * tuples)
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if -middle * math.expm1(-tuples / middle) < distinct else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class JoinWork:
    """What an aggregation of a join by its key had to do in `windows` that closed, whatever its strategy.

    `keys` counts each side's keys that the query's predicate let in, and `rows` the joined rows.
    """

    query: QueryId
    windows: float
    keys: float
    rows: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """All that decisions are made of. `arrived` is how many tuples each stream has brought since its beginning."""

    arrived: tuple[tuple[StreamName, int], ...] = ()
    streams: tuple[StreamStatistics, ...] = ()
    keys: tuple[KeyStatistics, ...] = ()
    joins: tuple[JoinWork, ...] = ()

    @classmethod
    def of_arrivals(cls, arrived: Mapping[StreamName, int]) -> Statistics:
        return cls(tuple(sorted(arrived.items())))

    def stream(self, name: StreamName) -> StreamStatistics | None:
        return next((one for one in self.streams if one.stream == name), None)

    def keys_of(self, input_: str) -> KeyStatistics | None:
        return next((one for one in self.keys if one.input == input_), None)


NOTHING_KNOWN = Statistics()

FADING = 0.8
"""What an epoch measured counts so much less with every epoch after it: about five epochs are remembered."""


FADED = 0.01
"""A record whose figures are all below this is forgotten."""


def add_epoch(known: Statistics, measured: Statistics, keep: float = FADING) -> Statistics:
    """What is known after an epoch: its figures, and older ones that have faded. `arrived` is that of the epoch.

    >>> one = Statistics(streams=(StreamStatistics(StreamName("a"), 100, 10),))
    >>> add_epoch(one, one, 0.5).streams
    (StreamStatistics(stream='a', tuples=150.0, span_us=15.0),)
    """
    return Statistics(
        measured.arrived or known.arrived,
        _added(known.streams, measured.streams, keep),
        _added(known.keys, measured.keys, keep),
        _added(known.joins, measured.joins, keep),
    )


Record = TypeVar("Record", StreamStatistics, KeyStatistics, JoinWork)


def _added(known: tuple[Record, ...], measured: tuple[Record, ...], keep: float) -> tuple[Record, ...]:
    """Records of the same thing added up, ordered by what they are of. What has faded away is left out."""
    found: dict[Any, list[float]] = {}
    kinds: set[type[Record]] = set()
    for records, weight in ((known, keep), (measured, 1.0)):
        for record in records:
            kinds.add(type(record))
            of, *figures = (getattr(record, field.name) for field in fields(record))
            sums = found.setdefault(of, [0.0] * len(figures))
            found[of] = [total + weight * figure for total, figure in zip(sums, figures, strict=True)]
    kept = {of: sums for of, sums in sorted(found.items()) if max(sums) > FADED}
    return tuple(kind(of, *sums) for kind in kinds for of, sums in kept.items())
