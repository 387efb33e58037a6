"""The gaming example: players buy gem packs, and every team of the studio asks its own questions.

Everything is seeded: the same seed gives the same purchases and the same queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa

STREAM = "purchases"
DDL = "userID BIGINT, gemPackID BIGINT, price DOUBLE, quantity INT, level INT, country STRING, ts TIMESTAMP"
EVENT_TIME = "ts"
WATERMARK = "2 seconds"

ARROW_SCHEMA = pa.schema(
    [
        ("userID", pa.int64()),
        ("gemPackID", pa.int64()),
        ("price", pa.float64()),
        ("quantity", pa.int32()),
        ("level", pa.int32()),
        ("country", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)

COUNTRIES = ("US", "JP", "DE", "BR", "KR", "FR", "GB", "TR", "NL", "SE", "NO", "NZ")
PACKS = 20
USERS = 5_000
LEVELS = 100

_SECOND_US = 1_000_000


@dataclass(slots=True)
class Purchases:
    """An endless stream of purchases at `rate` per second of event time.

    Most arrive in order; a share `out_of_order` is up to one second old on arrival, which the watermark still
    covers, and a share `late` is 5 to 30 seconds old, which it does not.
    """

    rate: int
    seed: int = 0
    out_of_order: float = 0.05
    late: float = 0.0005
    _rng: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError(f"rate must be positive, got {self.rate}")
        self._rng = np.random.default_rng(self.seed)

    def between(self, start_us: int, end_us: int) -> pa.Table:
        """The purchases that arrive in [start, end), in arrival order; adjacent calls keep the rate."""
        rows = max(0, end_us * self.rate // _SECOND_US - start_us * self.rate // _SECOND_US)
        rng = self._rng
        arrival_us = np.linspace(start_us, end_us, rows, endpoint=False).astype(np.int64)
        event_us = arrival_us - self._delays_us(rows)
        pack = rng.integers(1, PACKS + 1, rows)
        price = np.minimum(0.99 + rng.exponential(18.0, rows) + pack * 0.25, 99.99).round(2)
        weights = 1.0 / np.arange(1, len(COUNTRIES) + 1)
        country = rng.choice(len(COUNTRIES), rows, p=weights / weights.sum())
        unknown = rng.random(rows) < 0.005
        columns = [
            pa.array(rng.integers(1, USERS + 1, rows)),
            pa.array(pack),
            pa.array(price),
            pa.array(np.minimum(rng.geometric(0.55, rows), 10).astype(np.int32)),
            pa.array(rng.integers(1, LEVELS + 1, rows).astype(np.int32)),
            pa.DictionaryArray.from_arrays(pa.array(country, mask=unknown), pa.array(COUNTRIES)).cast(
                pa.string()
            ),
            pa.array(event_us).cast(pa.timestamp("us", tz="UTC")),
        ]
        return pa.Table.from_arrays(columns, schema=ARROW_SCHEMA)

    def _delays_us(self, rows: int) -> np.ndarray:
        rng = self._rng
        draw = rng.random(rows)
        delays = np.where(draw < self.out_of_order, rng.integers(0, _SECOND_US, rows), 0)
        too_old = rng.integers(5 * _SECOND_US, 30 * _SECOND_US, rows)
        return np.where(draw >= 1.0 - self.late, too_old, delays)


def purchases(
    start: datetime, rate: int, *, seed: int = 0, batch: timedelta = timedelta(seconds=1)
) -> Iterator[pa.Table]:
    """Endless batches of purchases, each `batch` of event time long, the first one from `start` on.

    >>> from datetime import UTC
    >>> batches = purchases(datetime(2026, 1, 1, tzinfo=UTC), 100)
    >>> [next(batches).num_rows for _ in range(3)]
    [100, 100, 100]
    """
    generator = Purchases(rate, seed)
    at_us, step_us = int(start.timestamp() * _SECOND_US), batch // timedelta(microseconds=1)
    while True:
        yield generator.between(at_us, at_us + step_us)
        at_us += step_us


class AdHocQuery(NamedTuple):
    """One question of one team, as the person typed it."""

    name: str
    team: str
    sql: str


def random_query(rng: Random, i: int) -> AdHocQuery:
    """The `i`-th ad-hoc query: a random team's question, random constants, a window of 1 to 10 seconds.

    >>> random_query(Random(1), 7) == random_query(Random(1), 7)
    True
    """
    team, topic, build = rng.choice(_QUESTIONS)
    return AdHocQuery(f"{team}_{topic}_{i:04d}", team, build(rng))


@dataclass(frozen=True, slots=True)
class _WindowText:
    """A window both ways it can be written: as Spark's `window(...)` or as CQL's `[RANGE ... SLIDE ...]`."""

    range_s: int
    slide_s: int

    @property
    def spark(self) -> str:
        slide = "" if self.slide_s == self.range_s else f", '{self.slide_s} seconds'"
        return f"window(ts, '{self.range_s} seconds'{slide})"

    @property
    def cql(self) -> str:
        slide = "" if self.slide_s == self.range_s else f" SLIDE {self.slide_s} SECONDS"
        return f"[RANGE {self.range_s} SECONDS{slide}]"


def _random_window(rng: Random) -> _WindowText:
    range_s = rng.randint(1, 10)
    return _WindowText(range_s, range_s if rng.random() < 0.5 else rng.randint(1, range_s))


def _aggregation(
    rng: Random, select: str, where: str = "", key: str = "", having: str = "", form: str | None = None
) -> str:
    """The query in Spark's or in CQL's form, whichever the die says unless `form` does."""
    window = _random_window(rng)
    clauses = f" WHERE {where}" if where else ""
    tail = f" HAVING {having}" if having else ""
    columns = f"{key}, {select}" if key else select
    if (form or rng.choice(("spark", "cql"))) == "cql":
        group = f" GROUP BY {key}" if key else ""
        return f"SELECT {columns} FROM {STREAM} {window.cql}{clauses}{group}{tail}"
    if rng.random() < 0.5:
        columns = f"window.start AS since, {columns}"
    keys = f"{key}, {window.spark}" if key else window.spark
    return f"SELECT {columns} FROM {STREAM}{clauses} GROUP BY {keys}{tail}"


def _price(rng: Random, low: float = 1, high: float = 60) -> float:
    return round(rng.uniform(low, high), 2)


def _spend(rng: Random) -> str:
    key = rng.choice(("country", "gemPackID", ""))
    where = rng.choice(
        (f"price > {_price(rng)}", f"price BETWEEN {_price(rng, 1, 20)} AND {_price(rng, 21, 90)}")
    )
    return _aggregation(rng, "COUNT(*) AS purchases, SUM(price) AS spend", where, key)


def _campaign(rng: Random) -> str:
    pack, least = rng.randint(1, PACKS), rng.randint(1, 4)
    where = f"gemPackID = {pack} AND quantity >= {least}"
    return _aggregation(rng, "COUNT(*) AS sold, AVG(price) AS paid", where, rng.choice(("country", "")))


def _reach(rng: Random) -> str:
    where = f"price < {_price(rng)}"
    return _aggregation(rng, "COUNT(*) AS buyers", where, "country", f"COUNT(*) > {rng.randint(5, 200)}")


def _habits(rng: Random) -> str:
    low = rng.randint(1, 60)
    where = f"level BETWEEN {low} AND {low + rng.randint(5, 40)}"
    return _aggregation(
        rng, "AVG(quantity) AS packs, STDDEV(price) AS spread", where, rng.choice(("gemPackID", ""))
    )


def _impulse(rng: Random) -> str:
    split = rng.randint(2, 6)
    select = (
        f"COUNT(*) FILTER (WHERE quantity >= {split}) AS bulk, "
        f"COUNT(*) FILTER (WHERE quantity < {split}) AS single, MAX(price) AS dearest"
    )
    return _aggregation(rng, select, f"level > {rng.randint(1, 90)}", rng.choice(("country", "")))


def _alert(rng: Random) -> str:
    where = rng.choice(
        (
            f"price > {_price(rng, 95, 99)}",
            f"quantity >= {rng.randint(8, 10)} AND price > {_price(rng, 30, 70)}",
            f"level <= {rng.randint(1, 3)} AND price >= {_price(rng, 60, 90)}",
        )
    )
    return f"SELECT userID, gemPackID, price, quantity, ts FROM {STREAM} WHERE {where}"


def _velocity(rng: Random) -> str:
    return _aggregation(
        rng,
        "COUNT(*) AS purchases, SUM(price) AS spend",
        f"price > {_price(rng, 20, 60)} AND country = '{rng.choice(COUNTRIES)}'",
        "userID",
        f"COUNT(*) >= {rng.randint(2, 4)}",
    )


def _bands(rng: Random) -> str:
    where = f"quantity = {rng.randint(1, 4)} OR price >= {_price(rng, 40, 90)}"
    return _aggregation(
        rng, "MIN(price) AS low, MAX(price) AS high, STDDEV(price) AS spread", where, "gemPackID"
    )


def _revenue(rng: Random) -> str:
    where = f"price * quantity > {rng.randint(10, 150)}"
    return _aggregation(
        rng, "ROUND(SUM(price * quantity), 2) AS revenue", where, rng.choice(("country", "gemPackID"))
    )


def _share(rng: Random) -> str:
    select = f"SUM(price) FILTER (WHERE gemPackID <= {rng.randint(3, 12)}) / SUM(price) AS share"
    return _aggregation(rng, select, f"country IS NOT NULL AND level >= {rng.randint(1, 50)}", "country")


def _ranks(rng: Random) -> str:
    where = f"level >= {rng.randint(50, 98)} AND country IN {tuple(rng.sample(COUNTRIES, 3))!r}"
    return _aggregation(rng, "COUNT(*) AS purchases, MAX(level) AS top", where, "country", form="cql")


def _regions(rng: Random) -> str:
    where = f"country LIKE '{rng.choice(COUNTRIES)[0]}%' AND price > {_price(rng, 1, 30)}"
    return _aggregation(rng, "COUNT(*) AS purchases, AVG(level) AS level", where, rng.choice(("country", "")))


def _unknown(rng: Random) -> str:
    return _aggregation(
        rng,
        "COUNT(*) AS purchases, SUM(quantity) AS packs",
        f"country IS NULL AND price > {_price(rng, 1, 20)}",
    )


_QUESTIONS: tuple[tuple[str, str, Callable[[Random], str]], ...] = (
    ("marketing", "spend", _spend),
    ("marketing", "campaign", _campaign),
    ("marketing", "reach", _reach),
    ("psychology", "habits", _habits),
    ("psychology", "impulse", _impulse),
    ("fraud", "alert", _alert),
    ("fraud", "velocity", _velocity),
    ("pricing", "bands", _bands),
    ("pricing", "revenue", _revenue),
    ("pricing", "share", _share),
    ("esports", "ranks", _ranks),
    ("regions", "like", _regions),
    ("regions", "unknown", _unknown),
)

TEAMS = tuple(sorted({team for team, _, _ in _QUESTIONS}))
