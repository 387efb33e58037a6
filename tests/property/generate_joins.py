"""Random joins from a seed: three streams, tuples over epochs, and join queries in both forms with lifetimes.

What a query should give is written a second time, in SQL that cuts windows by arithmetic: `Joined.oracle`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

NAMES = ("a", "b", "c")
DDL = "k INT, m BIGINT, s STRING, d DOUBLE, v BIGINT, ts TIMESTAMP"
SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("m", pa.int64()),
        ("s", pa.string()),
        ("d", pa.float64()),
        ("v", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
DELAY_US = 3_000_000
START_US = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000

KEYS = ("k", "m", "s", "d", "k % 2", "lower(s)")
PREDICATES = ("v > 3", "v <= 6", "v = 2", "d > 1.0", "s <> 'x'", "k IS NOT NULL", "v % 3 = 1", "s LIKE 'y%'")
ACROSS = ("{0}.v < {1}.v", "{0}.d >= {1}.d", "{0}.s = {1}.s", "{0}.v + 1 > {1}.v", "{0}.v + {1}.v > 9")
ITEMS = ("{0}.k", "{0}.v", "{1}.v", "{0}.s", "{0}.v + {1}.v", "{1}.d", "upper({1}.s)", "{1}.ts", "{0}.m * 2")
AGGREGATES = (
    "count(*)",
    "sum({0}.v)",
    "count({1}.d)",
    "min({1}.s)",
    "max({0}.v)",
    "avg({1}.v)",
    "sum({1}.v) FILTER (WHERE {1}.v > 4)",
    "var_samp({0}.v)",
    "count(*) FILTER (WHERE {0}.v > 2 AND {1}.s <> 'x')",
    "count(DISTINCT {1}.v)",
    "sum({0}.v * {1}.v)",
)


@dataclass(frozen=True, slots=True)
class Joined:
    """A join query: its text, its streams, and plain Spark SQL for its rows over the oracle's relations.

    `oracle` has :until for the watermark up to which windows have closed.
    """

    name: str
    text: str
    streams: tuple[str, ...]
    oracle: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class JoinScenario:
    seed: int
    tables: dict[str, tuple[pa.Table, ...]]
    queries: tuple[Joined, ...]
    epochs: int
    reopens: frozenset[int]
    rebuilds: bool


def random_joins(
    seed: int, queries: int, epochs: int = 5, rows: int = 40, *, by_key: bool = False
) -> JoinScenario:
    """Random queries over random tuples; with `by_key`, most of the queries are aggregations by the join's key."""
    rng = random.Random(seed)
    tables = {
        name: tuple(_table(rng, epoch, rng.choice([rows, rows, 5, 0])) for epoch in range(epochs))
        for name in NAMES
    }
    found = []
    for number in range(queries):
        first = rng.choice([0, 0, rng.randrange(epochs)])
        last = rng.choice([epochs, epochs, rng.randint(first + 1, epochs)])
        found.append(_Writer(rng, by_key).query(f"q{number}", first, last))
    reopens = frozenset(epoch for epoch in range(1, epochs) if rng.random() < 0.2)
    return JoinScenario(seed, tables, tuple(found), epochs, reopens, rng.random() < 0.3)


def _table(rng: random.Random, epoch: int, rows: int) -> pa.Table:
    """Tuples around the epoch's time; some are far behind, so that windows have closed on them."""

    def moment() -> int | None:
        if rng.random() < 0.02:
            return None
        behind = rng.choice([0, 0, 0, 0, 3_000_000, 12_000_000])
        at = START_US + epoch * 5_000_000 + rng.randrange(8_000_000) - behind
        return at - at % 1_000_000 if rng.random() < 0.3 else at

    columns = {
        "k": [rng.choice([1, 2, 3, None]) for _ in range(rows)],
        "m": [rng.choice([1, 2, 3, 4, None]) for _ in range(rows)],
        "s": [rng.choice(["x", "y", "yes", "Ä", None]) for _ in range(rows)],
        "d": [rng.choice([0.0, -0.0, 1.5, float("nan"), None]) for _ in range(rows)],
        "v": [rng.randrange(8) for _ in range(rows)],
        "ts": [moment() for _ in range(rows)],
    }
    return pa.table(columns, schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class _Side:
    alias: str
    stream: str
    range_s: int
    predicate: str | None


class _Writer:
    """Writes one query in both of its forms."""

    def __init__(self, rng: random.Random, by_key: bool) -> None:
        self.rng, self.by_key = rng, by_key and rng.random() < 0.8

    def query(self, name: str, first: int, last: int) -> Joined:
        rng = self.rng
        count = rng.choice([2, 2, 2, 2, 3, 3, 4])
        slide = rng.randint(1, 4)
        longest = rng.randint(slide, 9)
        cql = rng.random() < 0.6
        sides = []
        for number in range(count):
            range_s = rng.randint(slide, longest) if cql and rng.random() < 0.3 else longest
            predicate = rng.choice(PREDICATES) if rng.random() < (0.6 if count < 4 else 1.0) else None
            sides.append(_Side("pqrt"[number], rng.choice(NAMES), range_s, predicate))
        outer = count == 2 and rng.random() < 0.15 and not self.by_key
        kind = rng.choice(["LEFT", "RIGHT", "FULL"]) if outer else "INNER"
        conditions = self._conditions(sides)
        grouped = kind == "INNER" and (rng.random() < 0.35 or self.by_key)
        pair = [side.alias for side in rng.sample(sides, 2)]
        self.having = rng.choice(["", "", " HAVING count(*) > 2", f" HAVING max({pair[1]}.v) / 2 > 2"])
        keys: list[str] = []
        if grouped:
            several = [[self.key_items[0]], [f"{pair[0]}.k"], [], [self.key_items[0], f"{pair[1]}.v"]]
            keys = several[0] if self.by_key else rng.choice(several)
            pool = AGGREGATES[:8] if self.by_key else AGGREGATES  # the others are over two sides, or DISTINCT
            items = keys + [text.format(*pair) for text in rng.sample(pool, rng.randint(1, 3))]
        else:
            items = [text.format(*pair) for text in rng.sample(ITEMS, rng.randint(1, 4))]
        listed = [f"{text} AS c{i}" for i, text in enumerate(items)]
        text = (self._cql if cql else self._plain)(sides, slide, kind, conditions, keys, grouped, listed)
        streams = tuple(dict.fromkeys(side.stream for side in sides))
        oracle = self._oracle(sides, slide, kind, conditions, keys, grouped, listed, cql, streams)
        return Joined(name, text, streams, oracle, first, last)

    def _conditions(self, sides: list[_Side]) -> list[list[str]]:
        """Per side after the first: what joins it to those before."""
        rng = self.rng
        key = rng.choice(KEYS)
        names = [rng.choice(["k", "m"]) if key in ("k", "m") else key for _ in sides]
        texts = [self._over(side.alias, name) for side, name in zip(sides, names, strict=True)]
        self.key_items = texts
        found: list[list[str]] = []
        different = len(sides) > 2 and rng.random() < 0.5 and not self.by_key
        for number in range(1, len(sides)):
            other = rng.randrange(number)
            equal = f"{texts[other]} = {texts[number]}"
            if different and rng.random() < 0.7:
                own = rng.choice([*KEYS, "v"])
                pair = [self._over(sides[i].alias, own) for i in (other, number)]
                equal = f"{pair[0]} = {pair[1]}" + (f" AND {equal}" if rng.random() < 0.2 else "")
            mine = [] if rng.random() < 0.05 and len(sides) == 2 else [equal]
            if rng.random() < 0.3 and not self.by_key:
                before = sides[rng.randrange(number)].alias
                mine.append(rng.choice(ACROSS).format(before, sides[number].alias))
            found.append(mine)
        return found

    @staticmethod
    def _over(alias: str, text: str) -> str:
        return (
            text.replace("k", f"{alias}.k", 1)
            if text.startswith("k")
            else (f"lower({alias}.s)" if text.startswith("lower") else f"{alias}.{text}")
        )

    def _cql(self, sides, slide, kind, conditions, keys, grouped, listed) -> str:  # type: ignore[no-untyped-def]
        def relation(side: _Side) -> str:
            bracket = f"[RANGE {side.range_s} SECONDS SLIDE {slide} SECONDS]"
            if side.predicate is None:
                return f"{side.stream} {bracket} AS {side.alias}"
            return f"(SELECT * FROM {side.stream} {bracket} WHERE {side.predicate}) AS {side.alias}"

        return self._whole(sides, kind, conditions, keys, grouped, listed, relation, None)

    def _plain(self, sides, slide, kind, conditions, keys, grouped, listed) -> str:  # type: ignore[no-untyped-def]
        def relation(side: _Side) -> str:
            where = "" if side.predicate is None else f" WHERE {side.predicate}"
            call = f"window(ts, '{side.range_s} seconds', '{slide} seconds')"
            return f"(SELECT *, {call} AS w FROM {side.stream}{where}) AS {side.alias}"

        first = sides[0].alias
        equal = [
            [*mine, f"{first}.w = {side.alias}.w"] for side, mine in zip(sides[1:], conditions, strict=True)
        ]
        return self._whole(sides, kind, equal, keys, grouped, listed, relation, f"{first}.w")

    def _whole(self, sides, kind, conditions, keys, grouped, listed, relation, window) -> str:  # type: ignore[no-untyped-def]
        commas = kind == "INNER" and self.rng.random() < 0.5
        if commas:
            source = ", ".join(map(relation, sides))
            every = [text for mine in conditions for text in mine]
            where = f" WHERE {' AND '.join(every)}" if every else ""
        else:
            source, where = relation(sides[0]), ""
            for side, mine in zip(sides[1:], conditions, strict=True):
                on = f" ON {' AND '.join(mine)}" if mine else ""
                source += f" {kind if mine or kind != 'INNER' else 'CROSS'} JOIN {relation(side)}{on or ''}"
                if not mine and kind != "INNER":
                    source += " ON true"
        group = ""
        if grouped:
            by = [*([window] if window else []), *keys]
            group = (f" GROUP BY {', '.join(by)}" if by else "") + self.having
        shown = listed if window is None or kind != "INNER" else [*listed, f"{window}.end AS we"]
        return f"SELECT {', '.join(shown)} FROM {source}{where}{group}"

    def _oracle(self, sides, slide, kind, conditions, keys, grouped, listed, cql, streams) -> str:  # type: ignore[no-untyped-def]
        us = 1_000_000
        longest = max(side.range_s for side in sides)
        closed = f"least({', '.join(f'closed_{name}' for name in (*streams, *streams[:1]))})"
        phase = (longest % slide) * us

        def relation(side: _Side) -> str:
            where = "" if side.predicate is None else f" AND ({side.predicate})"
            first = f"(t_us - pmod(t_us - {phase}L, {slide * us}L) + {slide * us}L)"
            last = (
                f"(t_us + {side.range_s * us}L - pmod(t_us + {side.range_s * us}L - {phase}L, {slide * us}L))"
            )
            ends = f"explode(sequence({first}, {last}, {slide * us}L)) AS e"
            inner = f"SELECT *, {ends} FROM log_{side.stream} WHERE t_us IS NOT NULL{where}"
            return f"(SELECT * FROM ({inner}) WHERE e > {closed} AND e <= :until) AS {side.alias}"

        source, seen = relation(sides[0]), [f"{sides[0].alias}.e"]
        for side, mine in zip(sides[1:], conditions, strict=True):
            on = " AND ".join([f"coalesce({', '.join([*seen, 'NULL'])}) = {side.alias}.e", *mine])
            source += f" {kind} JOIN {relation(side)} ON {on}"
            seen.append(f"{side.alias}.e")
        end = f"coalesce({', '.join(seen)})"
        edges = [f"timestamp_micros({end} - {longest * us}L) AS ws", f"timestamp_micros({end}) AS we"]
        shown = [*edges, *listed] if cql else listed if kind != "INNER" else [*listed, edges[1]]
        by = ", ".join([end, *keys])
        grouping = f" GROUP BY {by}{self.having}" if grouped else ""
        return f"SELECT {', '.join(shown)} FROM {source}{grouping}"
