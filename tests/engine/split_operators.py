"""Operators and routes for the tests of splits. Workers import this module, so it imports little."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

SECOND = 1_000_000

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


class Keyed:
    """Numbers the tuples of every key (their place). A broadcast tuple counts for all keys that came before it.

    What it gives does not depend on how many sub-streams there are.
    """

    def open(self, sub_stream: int, state: Any) -> None:
        self.sub = sub_stream
        self.counts: dict[int, int] = (
            {} if state is None else {int(k): n for k, n in json.loads(state).items()}
        )

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        rows = []
        for row in batch.to_pylist():
            if row["place"] >= 100:
                self.counts = {key: count + 1 for key, count in self.counts.items()}
                continue
            count = self.counts[row["place"]] = self.counts.get(row["place"], 0) + 1
            rows.append((row["place"], row["id"], count, int(row["ts"].timestamp() * SECOND)))
        return {"each": as_rows(rows)}

    def on_watermark(self, time: int) -> None:
        return None

    def snapshot(self) -> bytes:
        return json.dumps(self.counts).encode()

    def split_state(self, state: bytes, sub_streams: int) -> dict[int, bytes]:
        found: dict[int, dict[str, int]] = {}
        for key, count in json.loads(state).items():
            found.setdefault(int(key) % sub_streams, {})[key] = count
        return {number: json.dumps(counts).encode() for number, counts in found.items()}

    def merge_state(self, states: Sequence[bytes]) -> bytes:
        merged: dict[str, int] = {}
        for state in states:
            merged |= json.loads(state)
        return json.dumps(merged).encode()


class KeyedChanges(Keyed):
    """The same with changes: here they are simply everything that there is."""

    def changes(self) -> bytes:
        return self.snapshot()

    def apply(self, changes: Any) -> None:
        self.open(self.sub, changes)
