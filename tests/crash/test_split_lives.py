"""A split whose process dies anywhere: in jobs, before and after commits and arrivals. Its rows are those of a loop."""

from __future__ import annotations

import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from scenario import BUSY, outlive

import headrace
from thorough import seeds

pytestmark = [pytest.mark.crash, pytest.mark.spark]

cloudpickle.register_pickle_by_value(sys.modules[__name__])

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEPS, ROWS, Q = 5, 40, 3


class Numbered:
    """Gives every tuple its number within its sub-stream, and the one before it."""

    def open(self, sub_stream: int, state: Any) -> None:
        self.sub = sub_stream
        self.count, self.last = map(int, (state or b"0 -1").split())

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ids = batch.column("id").to_pylist()
        before = [self.last, *ids[:-1]]
        numbers = list(range(self.count, self.count + len(ids)))
        self.count, self.last = self.count + len(ids), ids[-1]
        columns = {"sub": [self.sub] * len(ids), "id": ids, "number": numbers, "before": before}
        return pa.record_batch({**columns, "ts": batch.column("ts")})

    def on_watermark(self, time: int) -> None:
        return None

    def snapshot(self) -> bytes:
        return f"{self.count} {self.last}".encode()


def batch(step: int) -> list[dict[str, Any]]:
    """Seven seconds of tuples, some out of order; the last batch lets the watermark pass nearly all of them."""
    rng = random.Random(step)
    return [
        {
            "id": step * ROWS + i,
            "place": rng.choice([0, 1, 2, 100]),
            "ts": NOON + timedelta(seconds=step * 7 + rng.randrange(8)),
        }
        for i in range(ROWS)
    ]


def play(hr: Any) -> None:
    """Go on wherever it stopped; how much was appended says where that is."""
    columns = "id BIGINT, place BIGINT, ts TIMESTAMP"
    hr.create_stream("input", columns, event_time="ts", watermark="4 seconds", if_not_exists=True)
    hr.create_split(
        "numbers", "input", Q, route="place % 100", broadcast="place >= 100", operator=Numbered,
        schema="sub BIGINT, id BIGINT, number BIGINT, before BIGINT, ts TIMESTAMP",
    )  # fmt: skip
    while True:
        hr.run_available()
        pending = [c.rows for a in hr._arrivals.pending() if a.stream == "input" for c in a.chunks]
        step = (hr.stream("input").rows + sum(pending)) // ROWS
        if step < STEPS:
            hr.append("input", batch(step))
        elif not hr._arrivals.closed("input"):
            hr.close_stream("input")
        else:
            break
    hr.run_available()


def by_hand(hr: Any) -> Counter[tuple[int, ...]]:
    """A plain loop over the tuples that were not late, in their order."""
    kept = []
    for epoch in hr._sealer.epochs():
        part = epoch.of("input")
        if part is None or not part.chunks:
            continue
        step = part.total[0] // ROWS - 1
        for row in batch(step):
            us = int(row["ts"].timestamp() * 1_000_000)
            if us >= part.closed_us:
                kept.append((us, row["id"], row["place"]))
    found: Counter[tuple[int, ...]] = Counter()
    for sub in range(Q):
        mine = [id_ for _, id_, place in sorted(kept) if place in (sub, 100)]
        found.update((sub, id_, i, mine[i - 1] if i else -1) for i, id_ in enumerate(mine))
    return found


@pytest.mark.parametrize("seed", seeds(1))
def test_rows_of_a_split_do_not_depend_on_deaths(spark: Any, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    seen: Counter[str] = Counter()

    def dies(point: str, epoch: int) -> bool:
        seen[point] += 1
        return rng.random() < (0.25 if point.startswith("split") and seen[point] < 8 else 0.01)

    def opens() -> Any:
        return headrace.open(
            tmp_path, spark=spark, progress=False, upkeep=BUSY, log_retention=None, partitions=2
        )

    hr, lives = outlive(opens, play, dies)
    print(f"seed {seed}: {lives} lives, points {dict(seen)}")
    assert lives > 1
    rows = hr.split("numbers").results().toArrow().to_pylist()
    wanted = by_hand(hr)
    assert len(wanted) > 100
    assert Counter((r["sub"], r["id"], r["number"], r["before"]) for r in rows) == wanted
    hr.close()
