"""Queries that plain Spark runs and that lag behind take several epochs at once, and get the same rows by that."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scenario import BUSY, outlive

import headrace
from headrace.catalog.queries import QueryState
from thorough import seeds

pytestmark = [pytest.mark.crash, pytest.mark.spark]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EPOCHS = 7
BAD = "this is no number"

TEXTS = {
    "slide": "SELECT pack, sort_array(collect_list(id)) AS ids, window.end AS til FROM sales "
    "GROUP BY pack, window(ts, '6 seconds', '2 seconds')",
    "visit": "SELECT pack, sort_array(collect_list(id)) AS ids FROM sales "
    "GROUP BY pack, session_window(ts, '1 second')",
    "fails": "SELECT pack, size(collect_list(CAST(name AS INT))) AS n FROM sales "
    "GROUP BY pack, window(ts, '3 seconds')",
}
"""Over windows that overlap, over sessions, and one that fails in the middle of its life."""


def batch(seed: int, number: int) -> list[dict[str, Any]]:
    """About four seconds of sales. Some are out of order, and some of those late; one of the fifth fits no number."""
    rng = random.Random(f"{seed} {number}")
    found = []
    for i in range(rng.randrange(1, 40)):
        second = number * 4 + rng.random() * 4 - (rng.random() < 0.2) * rng.random() * 12
        name = BAD if number == 4 and i == 0 else str(i)
        moment = NOON + timedelta(seconds=number * 4 + 3.9 if name == BAD else second)
        found.append({"id": 100 * number + i, "pack": rng.randrange(3), "name": name, "ts": moment})
    return found


def play(hr: Any, seed: int) -> None:
    """Every query twice: from the beginning, and once more when all epochs are there."""
    hr.create_stream(
        "sales",
        "id BIGINT, pack INT, name STRING, ts TIMESTAMP",
        event_time="ts",
        watermark="2 seconds",
        if_not_exists=True,
    )
    known = set(hr._catalog.names())
    for name, text in TEXTS.items():
        if f"live_{name}" not in known:
            hr.create_query(text, name=f"live_{name}")
    unfinished = bool(hr._arrivals.pending()) or hr._delivered.behind_most > 0
    for number in range(hr._arrivals.next_number - unfinished, EPOCHS):
        if hr._arrivals.next_number == number:
            hr.append("sales", batch(seed, number))
        hr.run_available()
    for name, text in TEXTS.items():
        if f"late_{name}" not in known:
            hr.create_query(text, name=f"late_{name}", start="earliest")
    hr.run_available()


def rows_of(hr: Any, name: str) -> Counter[str]:
    return Counter(str(row) for row in hr.query(name).results().toArrow().to_pylist())


@pytest.mark.parametrize("seed", seeds(1))
def test_queries_that_catch_up_have_the_rows_of_those_that_ran_live(
    spark: Any, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    print(f"seed {seed}")

    def dies(point: str, epoch: int) -> bool:
        return epoch >= EPOCHS - 1 and rng.random() < 0.1

    def opened() -> Any:
        return headrace.open(
            tmp_path, spark=spark, progress=False, upkeep=BUSY, log_retention=None, sharing="manual"
        )

    hr, lives = outlive(opened, lambda hr: play(hr, seed), dies)
    print(f"{lives} lives")
    for name in TEXTS:
        live, late = (hr._catalog.entry(f"{way}_{name}") for way in ("live", "late"))
        assert rows_of(hr, f"live_{name}") == rows_of(hr, f"late_{name}"), (seed, name)
        assert live.state is late.state and live.last_epoch == late.last_epoch, (seed, name)
        assert live.ended_us == late.ended_us, (seed, name)
        if name == "fails":
            assert late.state is QueryState.QUARANTINED
        else:
            assert rows_of(hr, f"late_{name}"), "there is something to compare"
            assert hr.query(f"late_{name}").audit().ok, (seed, name)
    hr.close()


def commits_of(hr: Any, query: str) -> Iterator[int]:
    group = hr._catalog.entry(query).group
    return (info.epoch for info in hr.recent_epochs() if info.group == group)


def test_epochs_that_wait_are_run_together(open_session: Any) -> None:
    hr = open_session(sharing="manual")
    play(hr, seed=3)
    live, late = [*commits_of(hr, "live_slide")], [*commits_of(hr, "late_slide")]
    assert len(late) < len(live) and max(late) == max(live)
    assert len(late) <= 3, "the first epoch is by itself, the others are one, and its creation is the last"
