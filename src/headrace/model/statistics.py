"""What is known of the streams and of the work of queries, as the engine measured it: the input of decisions.

All figures are sums over what was measured, so statistics of tasks and epochs are added up, and older ones fade.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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
    `read` tuples of the stream had to be read for these; the others are wanted by no query (0: not known).

    >>> KeyStatistics.of_counts("orders by user", [2, 1, 1], 10)
    KeyStatistics(input='orders by user', batches=1, tuples=4, keys=3, pairs=12, equal=2, read=10)
    """

    input: str
    batches: float
    tuples: float
    keys: float
    pairs: float
    equal: float
    read: float = 0

    @classmethod
    def of_counts(cls, input_: str, counts: list[int], read: float) -> KeyStatistics:
        """Of one batch of `read` tuples, in which each key has this many that are wanted."""
        tuples = sum(counts)
        equal = sum(count * (count - 1) for count in counts)
        return cls(input_, 1 if tuples else 0, tuples, len(counts), tuples * (tuples - 1), equal, read)

    @property
    def wanted(self) -> float:
        """The share of the stream's tuples that some query wants; no query wants more."""
        return min(1.0, self.tuples / self.read) if self.read > 0 else 1.0

    @property
    def meeting(self) -> float:
        """The probability that two tuples have the same key; between one in all pairs and one."""
        return min(1.0, max(self.equal, 1.0) / max(self.pairs, 1.0))

    def keys_in(self, tuples: float) -> float:
        """About how many distinct keys so many tuples have, if all keys there are were equally frequent.

        >>> one = KeyStatistics.of_counts("a", [1] * 900 + [2] * 50, 1000)
        >>> round(one.keys_in(1000)), 8000 < one.keys_in(20_000) < 9000
        (950, True)
        """
        return expected_keys(self.tuples / self.batches, self.keys / self.batches, tuples)


def expected_keys(seen: float, distinct: float, tuples: float) -> float:
    """About how many keys `tuples` tuples have, when `seen` others had so many distinct ones.

    >>> round(expected_keys(1_000, 950, 1_000)), expected_keys(10, 10, 70)
    (950, 70)
    """
    if distinct >= seen:
        return tuples
    known = _solve_universe(seen, distinct)
    return -known * math.expm1(-tuples / known)


def _solve_universe(tuples: float, distinct: float) -> float:
    """Of how many keys so many tuples show so many distinct ones: d = K (1 - exp(-n / K)), by bisection."""
    low, high = distinct, max(2.0, tuples * tuples)
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if -middle * math.expm1(-tuples / middle) < distinct else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class SideCount:
    """New tuples of a stream that a side of a join query let in for windows of this range, and their distinct keys."""

    stream: StreamName
    range_us: int
    tuples: int
    keys: int


@dataclass(frozen=True, slots=True)
class JoinCount:
    """What one task, or an epoch, counted of an aggregation of a join by its key.

    `keys` are those of all sides in the windows that closed, which a product sees. Joining sees `sides` instead. `rows`
    are joined rows, once for each window that holds them.

    >>> one = JoinCount(QueryId(7), 0, 3, (SideCount(StreamName("a"), 10, 5, 2),))
    >>> one + JoinCount(QueryId(7), 0, 4, (SideCount(StreamName("a"), 10, 1, 1),))
    JoinCount(query=7, keys=0, rows=7, sides=(SideCount(stream='a', range_us=10, tuples=6, keys=3),))
    """

    query: QueryId
    keys: float = 0
    rows: float = 0
    sides: tuple[SideCount, ...] = ()

    def __add__(self, other: JoinCount) -> JoinCount:
        """Both together. Tasks have different keys, so keys add up; sides are in the same order in all of them."""
        if not (self.sides and other.sides):
            sides = self.sides or other.sides
        else:
            sides = tuple(
                SideCount(a.stream, a.range_us, a.tuples + b.tuples, a.keys + b.keys)
                for a, b in zip(self.sides, other.sides, strict=True)
            )
        return JoinCount(self.query, self.keys + other.keys, self.rows + other.rows, sides)


def add_join_counts(counts: Iterable[JoinCount]) -> list[JoinCount]:
    """What was counted of each query, in the order of queries."""
    found: dict[QueryId, JoinCount] = {}
    for one in counts:
        found[one.query] = found[one.query] + one if one.query in found else one
    return [found[query] for query in sorted(found)]


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
"""What an epoch measured counts so much less with every epoch after it: about five epochs are remembered. Of the work
of a join, about five closed windows.
"""


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
        _work_added(known.joins, measured.joins, keep),
    )


def _work_added(
    known: tuple[JoinWork, ...], measured: tuple[JoinWork, ...], keep: float
) -> tuple[JoinWork, ...]:
    """The work of each query. It fades with every window that closes, so that short epochs remember as many windows as
    long ones. A query of which nothing was measured stays as it is.

    >>> before = (JoinWork(QueryId(1), 4, 40, 400),)
    >>> _work_added(before, (JoinWork(QueryId(1), 1, 20, 100),), 0.5)
    (JoinWork(query=1, windows=3.0, keys=40.0, rows=300.0),)
    >>> _work_added(before, (JoinWork(QueryId(1), 0, 0, 10),), 0.5)
    (JoinWork(query=1, windows=4.0, keys=40.0, rows=410.0),)
    """
    found = {one.query: one for one in known}
    for new in measured:
        old, weight = found.get(new.query, JoinWork(new.query, 0, 0, 0)), keep**new.windows
        found[new.query] = JoinWork(
            new.query,
            weight * old.windows + new.windows,
            weight * old.keys + new.keys,
            weight * old.rows + new.rows,
        )
    return tuple(found[query] for query in sorted(found))


Record = TypeVar("Record", StreamStatistics, KeyStatistics)


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
