"""Random streams and tuples: every atomic type, with the values that break things."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.model.types import Kind, SqlType

MICROS = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1)

NAMES = (
    "k0", "a0", "c0", "p0", "r0", "query", "epoch", "qs0", "window_start", "window_end", "partition", "kind",
    "value", "order", "select", "count", "a b", "größe", "dot", "dot.ted", "Mixed", "tick`ed", "_x", "all",
    "name", "1st", "t", "end", "key", "vocabulary0", "日",
)  # fmt: skip
"""Names that the engine uses itself, SQL's words, and characters that need quotes."""


def single(value: float) -> float:
    """The nearest FLOAT."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


@dataclass(frozen=True, slots=True)
class Field:
    """A column and the pool its values come from.

    `summable`: sums of its values are exact, or not finite, in whatever order they are added. Spark's own sums of
    other floats depend on the order of its tasks, so only these are compared.
    """

    name: str
    type: SqlType
    values: tuple[Any, ...]
    summable: bool = False

    @property
    def sql(self) -> str:
        return quoted(self.name)

    @property
    def kind(self) -> Kind:
        return self.type.kind


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class RandomStream:
    """A stream's definition; `event_time` is the name of its last field."""

    name: str
    fields: tuple[Field, ...]
    delay_us: int

    @property
    def event_time(self) -> Field:
        return self.fields[-1]

    @property
    def ddl(self) -> str:
        return ", ".join(f"{field.sql} {field.type.name}" for field in self.fields)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(field.name, field.type.arrow) for field in self.fields])


def random_stream(rng: random.Random, name: str, event_type: str) -> RandomStream:
    """A stream with one to three columns of each of most types, under hostile names, in random order."""
    makers: list[Callable[[], tuple[str, tuple[Any, ...], bool]]] = [
        *[lambda: ("boolean", (True, False), False)] * 2,
        lambda: ("tinyint", _integers(rng, 8), True),
        lambda: ("smallint", _integers(rng, 16), True),
        *[lambda: ("int", _integers(rng, 32), True)] * 2,
        lambda: ("bigint", _integers(rng, 41), True),
        lambda: ("bigint", _integers(rng, 64), False),
        lambda: ("float", _dyadic(rng), True),
        lambda: ("float", _floats(rng, single), False),
        *[lambda: ("double", _dyadic(rng), True)] * 2,
        lambda: ("double", _floats(rng, float), False),
        *[lambda p=p, s=s: (f"decimal({p},{s})", _decimals(rng, p, s), p < 38) for p, s in _precisions(rng)],
        *[lambda: ("string", _strings(rng), False)] * 2,
        lambda: ("binary", (b"", b"\0", b"\xff", b"abc", b"ab\0"), False),
        lambda: ("date", _dates(rng), False),
        lambda: ("timestamp", _moments(rng, dt.UTC), False),
        lambda: ("timestamp_ntz", _moments(rng, None), False),
    ]
    chosen = [maker() for maker in makers if rng.random() < 0.8]
    rng.shuffle(chosen)
    names = rng.sample(NAMES, len(chosen) + 1)
    fields = [
        Field(n, SqlType(t), values, exact) for n, (t, values, exact) in zip(names, chosen, strict=False)
    ]
    event_name = rng.choice(["ts", "event time", names[-1]])
    event = Field(event_name, SqlType(event_type), ())
    return RandomStream(name, (*fields, event), rng.choice([0, 5, 5, 30]) * MICROS)


def _integers(rng: random.Random, bits: int) -> tuple[int, ...]:
    top = 2 ** (bits - 1)
    few = [rng.randrange(-9, 10) for _ in range(5)]
    return tuple({0, 1, -1, top - 1, -top, rng.randrange(-top, top), *few})


def _dyadic(rng: random.Random) -> tuple[float, ...]:
    numbers = [rng.randrange(-400, 400) / 4 for _ in range(8)]
    return (0.0, -0.0, 0.25, *numbers, *rng.choice([(), (), (math.nan,), (math.inf, -math.inf), (math.inf,)]))


def _floats(rng: random.Random, as_type: Any) -> tuple[float, ...]:
    extreme = (
        [3.4028234663852886e38, 1e-45] if as_type is single else [1.7976931348623157e308, 5e-324, 2.0**53 + 2]
    )
    numbers = [0.1, 0.3, 16777217.0, -1e-7, rng.uniform(-5, 5), *extreme, -extreme[0]]
    return (0.0, -0.0, math.nan, math.inf, -math.inf, *(as_type(number) for number in numbers))


def _precisions(rng: random.Random) -> list[tuple[int, int]]:
    return [
        (rng.choice([3, 9]), 2),
        (18, rng.choice([0, 4, 18])),
        (rng.choice([19, 28]), 6),
        (38, rng.choice([0, 10])),
    ]


def _decimals(rng: random.Random, precision: int, scale: int) -> tuple[Decimal, ...]:
    top = 10**precision - 1
    unscaled = {0, 1, -1, 10**scale, rng.randrange(-999, 999), rng.randrange(-999, 999)}
    unscaled |= {top, -top, rng.randrange(-top, top)} if precision < 38 else {top // 10**6, -(top // 10**7)}
    return tuple(Decimal(number).scaleb(-scale) for number in unscaled if abs(number) <= top)


def _strings(rng: random.Random) -> tuple[str, ...]:
    pool = [
        "", "a", "A", "ab", "abc", "b", "B", "zz", "é", "É", "ß", "日本", "\uffee", "\U0001f642", "it's", "%", "_",
        "a%b", "a_b", "a\\b", "a ", " a", "line\nbreak", "nul\0l", '"', "1", "12", "-3", "null", "x" * 40,
    ]  # fmt: skip
    return tuple(rng.sample(pool, rng.randint(5, 14)))


def _dates(rng: random.Random) -> tuple[dt.date, ...]:
    days = [
        (1970, 1, 1),
        (1969, 12, 31),
        (2024, 2, 29),
        (1, 1, 1),
        (9999, 12, 31),
        (1582, 10, 4),
        (1582, 10, 15),
    ]
    return (*(dt.date(*day) for day in days), *(dt.date(2020, 1, rng.randint(1, 31)) for _ in range(4)))


def _moments(rng: random.Random, zone: dt.tzinfo | None) -> tuple[dt.datetime, ...]:
    moments = [
        dt.datetime(1970, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        dt.datetime(1, 1, 2),
        dt.datetime(9999, 12, 30, 23, 59, 59, 999_999),
        dt.datetime(1900, 1, 1, 0, 0, 0, 1),
        *(dt.datetime(2024, 5, 5, rng.randrange(24), rng.randrange(60)) for _ in range(4)),
    ]
    return tuple(moment.replace(tzinfo=zone) for moment in moments)


def moment(micros: int, field: Field) -> dt.datetime:
    """Microseconds since 1970 as a value of the event-time column."""
    found = _EPOCH + dt.timedelta(microseconds=micros)
    return found.replace(tzinfo=dt.UTC) if field.kind is Kind.TIMESTAMP else found


def random_table(rng: random.Random, stream: RandomStream, times: list[int | None]) -> pa.Table:
    """One tuple per event time; a tenth of all values is NULL, and tuples repeat."""
    rows: list[dict[str, Any]] = []
    for time in times:
        if rows and rng.random() < 0.1:
            row = dict(rng.choice(rows))
        else:
            row = {f.name: None if rng.random() < 0.1 else rng.choice(f.values) for f in stream.fields[:-1]}
        rows.append(row | {stream.event_time.name: None if time is None else moment(time, stream.event_time)})
    return pa.Table.from_pylist(rows, schema=stream.schema)
