"""How a join is aggregated follows from what the engine measures, and may change while the query runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.engine import choosing
from headrace.looking.answers import plan_of
from headrace.model.plan import GroupingOperator
from headrace.model.strategy import Strategy

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEXT = (
    "SELECT o.k, SUM(o.v) AS s, COUNT(*) AS n FROM orders [RANGE 4 SECONDS SLIDE 2 SECONDS] AS o, "
    "visits [RANGE 4 SECONDS SLIDE 2 SECONDS] AS v WHERE o.k = v.k AND o.v > 1 GROUP BY o.k"
)
ROWS = 700
EVERY_EPOCHS = 3


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


def runs_as(query: Any) -> Strategy:
    """The strategy that the next epoch runs a query with, by the plan of its group."""
    operators = plan_of(query._session, "main").operators
    fed = any(isinstance(o, GroupingOperator) and query._id in o.queries for o in operators)
    assert fed == ("feeds a shared aggregation" in query.explain())
    return Strategy.JOINED_GROUPS if fed else Strategy.PRODUCT


def test_sparse_keys_are_joined_and_hot_ones_multiplied(
    open_session: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "EVERY_EPOCHS", EVERY_EPOCHS)
    hr = open_session(partitions=2)
    for stream in ("orders", "visits"):
        hr.create_stream(stream, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts", watermark="0 seconds")
    early = hr.create_query(TEXT, name="early")
    rng = random.Random(1)
    assert runs_as(early) == Strategy.PRODUCT, "nothing is known yet"
    for number in range(EVERY_EPOCHS + 1):
        epoch(hr, number, 100_000, rng)
    assert runs_as(early) == Strategy.JOINED_GROUPS and "keys of its streams" in early.explain()
    late = hr.create_query(TEXT.replace("> 1", "> 2"), name="late")
    epoch(hr, EVERY_EPOCHS + 1, 100_000, rng)
    assert runs_as(late) == Strategy.JOINED_GROUPS, "chosen when it started"
    for number in range(EVERY_EPOCHS + 2, 4 * EVERY_EPOCHS + 1):
        epoch(hr, number, 20, rng)
    assert runs_as(early) == runs_as(late) == Strategy.PRODUCT
    assert early.audit().ok and late.audit().ok
    assert len(early.to_pandas()) > 100
    known = hr._delivered.main.statistics
    assert known.joins and known.keys and known.streams
    hr.close()
    again = open_session(partitions=2)
    assert again._running.groups.main._chooser.known == known, "what was measured outlives the process"
