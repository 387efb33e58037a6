"""Random scenarios from a seed: streams, tuples split over epochs, and queries that come and go."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from generate_sql import RandomQuery, Writer
from generate_values import MICROS, RandomStream, random_stream, random_table

BASES = (1_704_067_200, 1_704_067_200, -7, -2_208_988_800, 4_000_000_000)
"""Seconds since 1970 at which event time begins: 2024, just before 1970, 1900, 2096."""

NEVER = -(2**63)
FOREVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Step:
    """One epoch of a stream: the tables appended for it, W(e-1) and W(e)."""

    tables: tuple[pa.Table, ...]
    closed_us: int
    watermark_us: int


@dataclass(frozen=True, slots=True)
class Lived:
    """A query, its stream and the epochs [first, last) it is active in."""

    name: str
    query: RandomQuery
    stream: RandomStream
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """`steps[stream][epoch]`; a stream in `closes` is closed in the last epoch.

    The warehouse is closed and opened again before the epochs in `reopens`. With `max_epoch_rows`, a step becomes
    several epochs.
    """

    seed: int
    streams: tuple[RandomStream, ...]
    steps: dict[str, tuple[Step, ...]]
    queries: tuple[Lived, ...]
    closes: frozenset[str]
    epochs: int
    reopens: frozenset[int]
    partitions: int | None
    max_epoch_rows: int | None

    @property
    def options(self) -> dict[str, Any]:
        chosen = {"partitions": self.partitions, "max_epoch_rows": self.max_epoch_rows}
        return {name: value for name, value in chosen.items() if value is not None}


def random_scenario(
    seed: int, queries: int, epochs: int = 5, rows: int = 150, sessions: bool = False
) -> Scenario:
    """The scenario of a seed; the same everywhere. With `sessions`, every query has a session window."""
    rng = random.Random(seed)
    types = rng.choice([("timestamp",), ("timestamp_ntz",), ("timestamp", "timestamp_ntz")])
    streams = tuple(random_stream(rng, f"s{i}", type_) for i, type_ in enumerate(types))
    closes = frozenset(s.name for s in streams if rng.random() < 0.6)
    late = rng.random() < 0.5
    steps = {s.name: _steps(rng, s, epochs, rows, late, s.name in closes) for s in streams}
    writers = {s.name: Writer(rng, s, sessions) for s in streams}
    lived = []
    for number in range(queries):
        stream = rng.choice(streams)
        first = min(rng.choice([0, 0, 0, rng.randrange(epochs)]), epochs - 1)
        last = rng.choice([epochs, epochs, epochs, rng.randint(first + 1, epochs)])
        lived.append(Lived(f"q{number}", writers[stream.name].query(), stream, first, last))
    reopens = frozenset(epoch for epoch in range(1, epochs) if rng.random() < 0.2)
    partitions, max_rows = rng.choice([None, None, 1, 3, 5]), rng.choice([None, None, None, 60])
    return Scenario(seed, streams, steps, tuple(lived), closes, epochs, reopens, partitions, max_rows)


def _steps(
    rng: random.Random, stream: RandomStream, epochs: int, rows: int, late: bool, closes: bool
) -> tuple[Step, ...]:
    base = rng.choice(BASES) * MICROS
    high, watermark = base, NEVER
    seen = False
    steps = []
    for number in range(epochs):
        count = rng.choice([rows, rows, rows, 3, 0]) if number != 1 else rows
        count = 0 if number == epochs - 1 and closes else count
        low = max(watermark, high - 20 * MICROS)
        times = [_time(rng, low, high, watermark, late) for _ in range(count)]
        known = [time for time in times if time is not None]
        closed = watermark
        if known:
            high = max([high, *known] if seen else known)
            seen = True
            watermark = max(watermark, high - stream.delay_us)
        if number == epochs - 1 and closes:
            watermark = FOREVER
        steps.append(Step(_split(rng, random_table(rng, stream, times)), closed, watermark))
    return tuple(steps)


def _time(rng: random.Random, low: int, high: int, watermark: int, late: bool) -> int | None:
    """An event time: NULL, on a second (where windows begin and end), or anywhere; late only if `late`."""
    if rng.random() < 0.03:
        return None
    if late and watermark != NEVER and rng.random() < 0.15:
        low = watermark - 30 * MICROS
    time = rng.randint(low, high + 25 * MICROS)
    if rng.random() < 0.3:
        time = max(low, time - time % MICROS)
    return time


def _split(rng: random.Random, table: pa.Table) -> tuple[pa.Table, ...]:
    if table.num_rows == 0:
        return ()
    cuts = sorted(rng.randint(0, table.num_rows) for _ in range(rng.choice([0, 0, 1, 2])))
    bounds = [0, *cuts, table.num_rows]
    pieces = [table.slice(a, b - a) for a, b in pairwise(bounds)]
    return tuple(piece for piece in pieces if piece.num_rows)
