"""Operators, routes and a warehouse without Spark for the tests of splits, and the same as a plain loop."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from local_spark import LocalContext
from split_operators import SECOND, Route, Summing, by_hand, spreads

from headrace.engine.splits.code import SplitCode, pack
from headrace.engine.splits.house import Splits
from headrace.engine.splits.runner import SplitHouse
from headrace.log.append import append
from headrace.model.epoch import FOREVER_US
from headrace.model.query import Stream, StreamName
from headrace.model.splits import FUNCTION, Split
from headrace.model.types import BIGINT, TIMESTAMP, Column
from log_samples import open_log

INPUT = Stream(
    StreamName("input"),
    (Column("id", BIGINT), Column("place", BIGINT), Column("rank", BIGINT), Column("ts", TIMESTAMP)),
    event_time="ts",
    watermark_us=2 * SECOND,
)


def output(name: str) -> Stream:
    columns = (Column("sub", BIGINT), Column("id", BIGINT), Column("total", BIGINT), Column("ts", TIMESTAMP))
    return Stream(StreamName(name), columns, "ts", 0)


class Context(LocalContext):
    """Just enough of Spark's context for a split."""

    master = "local"
    _jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))

    def broadcast(self, value: Any) -> Any:
        return SimpleNamespace(value=value, destroy=lambda: None)

    def getLocalProperty(self, name: str) -> None:
        return None

    def setLocalProperty(self, name: str, value: Any) -> None:
        pass

    def setJobGroup(self, group: str, description: str) -> None:
        pass

    def cancelJobGroup(self, group: str) -> None:
        pass


@dataclass
class Spark:
    sparkContext: Context = field(default_factory=Context)


@dataclass
class House:
    """A warehouse with a stream and its splits, run in this process."""

    log: Any
    splits: Splits

    def add(self, rows: list[dict[str, Any]], chunk_rows: int = 1_000_000) -> None:
        append(self.log.warehouse, self.log.arrivals, INPUT, rows, max_chunk_rows=chunk_rows)

    def run(self, max_rows: int = 1_000_000, *, together: bool = False) -> None:
        """Seal and run until nothing is left. `together`: everything is sealed before anything runs."""
        while together and self.log.sealer.seal(max_rows) is not None:
            pass
        while self.log.sealer.seal(max_rows) is not None or self.splits.due():
            for name in self.splits.due():
                self.splits.get(name).run_next()

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """All tuples of a stream, as the log has them, sealed or not."""
        sealed = [
            c for e in self.log.sealer.epochs() for p in e.streams if p.stream == stream for c in p.chunks
        ]
        waiting = [c for a in self.log.arrivals.pending() if a.stream == stream for c in a.chunks]
        paths = dict.fromkeys(chunk.path for chunk in [*sealed, *waiting])
        assert len(paths) == len(sealed) + len(waiting)
        return [row for path in paths for row in pq.read_table(self.log.warehouse.path(path)).to_pylist()]

    def forget(self) -> None:
        """Leave it as a killed process would."""
        self.log.warehouse._lock._forget()


def open_house(root: Path) -> House:
    log = open_log(root)
    if not log.catalog.has_stream("input"):
        log.sealer.create_stream(INPUT)
    house = SplitHouse(log.warehouse, log.catalog, log.arrivals, log.sealer)
    spark: Any = Spark()
    return House(log, Splits(house, lambda name: spark))


def split_of(sub_streams: int, order_by: tuple[str, ...] = (), **other: Any) -> Split:
    outputs = {kind: output(f"out_{kind}") for kind in ("each", "tens")}
    given = {"route": FUNCTION, "broadcast": FUNCTION, "wants": None, "call_us": 5 * SECOND, **other}
    return Split(
        id=0, name="out", stream="input", sub_streams=sub_streams, order_by=order_by, outputs=outputs,
        first_epoch=0, **given,
    )  # fmt: skip


def code_of(operator: Any = Summing, sub_streams: int = 4, **other: Any) -> Any:
    return pack("out", SplitCode(operator, **{"route": Route(sub_streams), "broadcast": spreads, **other}))


def attach(house: House, split: Split, code: Any) -> None:
    """Create a split, or give it its code again."""
    if house.log.catalog.splits.find(split.name) is None:
        house.splits.create(split, code)
    else:
        house.splits.of(split).attach(code)


def random_rows(rng: random.Random, first: int, count: int, around: int) -> list[dict[str, Any]]:
    """Tuples about some second, many of the same time, some of them late and some without a time."""
    return [
        {
            "id": first + i,
            "place": rng.choice([None, -3, 0, 1, 2, 3, 4, 5, 6, 7, 100, 200]),
            "rank": rng.randrange(3),
            "ts": None if rng.random() < 0.02 else (around + rng.randrange(-4, 5)) * SECOND,
        }
        for i in range(count)
    ]


def in_arrow(rows: list[dict[str, Any]]) -> pa.Table:
    types = {"id": pa.int64(), "place": pa.int64(), "rank": pa.int64(), "ts": pa.timestamp("us", "UTC")}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()})


def expected(
    house: House, sub_streams: int, order_by: tuple[str, ...]
) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of a split by a plain loop over the sealed epochs."""
    kept: list[tuple[Any, ...]] = []
    watermark = 0
    for epoch in house.log.sealer.epochs():
        part = epoch.of("input")
        tables = [pq.read_table(house.log.warehouse.path(chunk.path)) for chunk in part.chunks]
        rows = [row for table in tables for row in table.to_pylist()]
        for at, row in enumerate(rows):
            if row["ts"] is None:
                continue
            when = int(row["ts"].timestamp() * SECOND)
            if when >= part.closed_us:
                kept.append((when, *(row[name] for name in order_by), int(epoch.id), at, row))
        watermark = part.watermark_us
    kept.sort(key=lambda item: item[:-1])
    each: Counter[tuple[Any, ...]] = Counter()
    tens: Counter[tuple[Any, ...]] = Counter()
    for sub in range(sub_streams):
        total, counts = 0, Counter[int]()
        for when, *_, row in kept:
            place = by_hand(row["place"], sub_streams)
            if place not in (sub, -1) or when >= watermark:
                continue
            total += row["id"]
            counts[when // (10 * SECOND)] += 1
            each[(sub, row["id"], total, when)] += 1
        for ten, count in counts.items():
            if watermark == FOREVER_US or (ten + 1) * 10 * SECOND <= watermark:
                tens[(sub, ten, count, (ten + 1) * 10 * SECOND - 1)] += 1
    return {"each": each, "tens": tens}


def found(house: House) -> dict[str, Counter[tuple[Any, ...]]]:
    return {
        kind: Counter(
            (row["sub"], row["id"], row["total"], int(row["ts"].timestamp() * SECOND))
            for row in house.rows(f"out_{kind}")
        )
        for kind in ("each", "tens")
    }
