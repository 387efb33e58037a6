"""How a join is aggregated follows from what the engine measures, and may change while the query runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.engine.choosing import EVERY_EPOCHS

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEXT = (
    "SELECT o.k, SUM(o.v) AS s, COUNT(*) AS n FROM orders [RANGE 4 SECONDS SLIDE 2 SECONDS] AS o, "
    "visits [RANGE 4 SECONDS SLIDE 2 SECONDS] AS v WHERE o.k = v.k AND o.v > 1 GROUP BY o.k"
)
ROWS = 700


def epoch(hr: Any, number: int, keys: int, rng: random.Random) -> None:
    """Two seconds of both streams, with this many keys."""
    for stream in ("orders", "visits"):
        rows = [
            {
                "k": rng.randrange(keys),
                "v": rng.randrange(9),
                "ts": NOON + timedelta(seconds=2 * number + 2 * i / ROWS),
            }
            for i in range(ROWS)
        ]
        hr.append(stream, rows)
    hr.run_available()


def test_sparse_keys_are_joined_and_hot_ones_multiplied(open_session: Callable[..., Any]) -> None:
    hr = open_session(partitions=2)
    for stream in ("orders", "visits"):
        hr.create_stream(stream, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts", watermark="0 seconds")
    early = hr.create_query(TEXT, name="early")
    rng = random.Random(1)
    assert "product" in early.explain(), "nothing is known yet"
    for number in range(EVERY_EPOCHS + 1):
        epoch(hr, number, 100_000, rng)
    assert "joined, then grouped" in early.explain() and "keys of its streams" in early.explain()
    late = hr.create_query(TEXT.replace("> 1", "> 2"), name="late")
    epoch(hr, EVERY_EPOCHS + 1, 100_000, rng)
    assert "joined, then grouped" in late.explain(), "chosen when it started"
    for number in range(EVERY_EPOCHS + 2, 4 * EVERY_EPOCHS + 1):
        epoch(hr, number, 20, rng)
    assert "product" in early.explain(verbose=True).split("joined, then grouped")[0]
    assert early.audit().ok and late.audit().ok
    assert len(early.to_pandas()) > 100
