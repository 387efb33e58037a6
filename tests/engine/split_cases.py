"""Operators, routes and a warehouse without Spark for the tests of splits, and the same as a plain loop."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from local_spark import LocalContext

from headrace.engine.splits.code import SplitCode, pack
from headrace.engine.splits.house import Splits
from headrace.engine.splits.runner import SplitHouse
from headrace.log.append import append
from headrace.model.epoch import FOREVER_US
from headrace.model.query import Stream, StreamName
from headrace.model.splits import FUNCTION, Split
from headrace.model.types import BIGINT, TIMESTAMP, Column
from log_samples import open_log

SECOND = 1_000_000

INPUT = Stream(
    StreamName("input"),
    (Column("id", BIGINT), Column("place", BIGINT), Column("rank", BIGINT), Column("ts", TIMESTAMP)),
    event_time="ts",
    watermark_us=2 * SECOND,
)


def output(name: str) -> Stream:
    columns = (Column("sub", BIGINT), Column("id", BIGINT), Column("total", BIGINT), Column("ts", TIMESTAMP))
    return Stream(StreamName(name), columns, "ts", 0)


ROWS = pa.schema(
    [("sub", pa.int64()), ("id", pa.int64()), ("total", pa.int64()), ("ts", pa.timestamp("us", "UTC"))]
)


class Summing:
    """For each tuple the sum of the ids so far; for every ten seconds that are over, how many tuples came in them."""

    def open(self, sub_stream: int, state: Any) -> None:
        self.sub = sub_stream
        kept: Any = json.loads(state) if state is not None else [0, 0, {}]
        self.total, self.seen, self.counts = (
            kept[0],
            kept[1],
            Counter({int(k): v for k, v in kept[2].items()}),
        )

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        rows = []
        for row in batch.to_pylist():
            when = int(row["ts"].timestamp() * SECOND)
            assert when >= self.seen, f"time goes back from {self.seen} to {when}"
            self.seen = when
            self.total += row["id"]
            self.counts[when // (10 * SECOND)] += 1
            rows.append((self.sub, row["id"], self.total, when))
        return {"each": as_rows(rows)}

    def on_watermark(self, time: int) -> dict[str, pa.RecordBatch]:
        over = sorted(ten for ten in self.counts if (ten + 1) * 10 * SECOND <= time)
        return {
            "tens": as_rows(
                [(self.sub, ten, self.counts.pop(ten), (ten + 1) * 10 * SECOND - 1) for ten in over]
            )
        }

    def snapshot(self) -> bytes:
        return json.dumps([self.total, self.seen, dict(self.counts)]).encode()


class Incremental(Summing):
    """The same with changes: here they are simply everything that there is."""

    def changes(self) -> bytes:
        return self.snapshot()

    def apply(self, changes: Any) -> None:
        self.open(self.sub, changes)


class Tabular(Summing):
    """The same with Arrow as its state."""

    def open(self, sub_stream: int, state: Any) -> None:
        super().open(sub_stream, None if state is None else state.column("kept")[0].as_py())

    def snapshot(self) -> Any:
        return pa.record_batch({"kept": [super().snapshot()]})


def as_rows(rows: Sequence[tuple[int, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 4
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, ROWS.types, strict=True)], schema=ROWS
    )


def by_hand(place: int | None, sub_streams: int) -> int | None:
    """Where a tuple goes: places from 100 on go to all (-1), negative ones nowhere."""
    if place is None or place < 0:
        return None
    return -1 if place >= 100 else place % sub_streams


@dataclass(frozen=True)
class Route:
    sub_streams: int

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        found = [by_hand(place, self.sub_streams) for place in batch.column("place").to_pylist()]
        return pa.array([None if place == -1 else place for place in found], pa.int64())


def spreads(batch: pa.RecordBatch) -> pa.Array:
    return pa.array([place is not None and place >= 100 for place in batch.column("place").to_pylist()])


class Context(LocalContext):
    """Just enough of Spark's context for a split."""

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

    def run(self, max_rows: int = 1_000_000) -> None:
        """Seal and run until nothing is left."""
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
    given = {"route": FUNCTION, "broadcast": FUNCTION, "wants": None, **other}
    return Split(
        id=0, name="out", stream="input", sub_streams=sub_streams, order_by=order_by, outputs=outputs,
        first_epoch=0, call_us=5 * SECOND, **given,
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
