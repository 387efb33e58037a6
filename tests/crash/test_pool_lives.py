"""Tuples that are kept in place of partials, on the running engine: queries come, go and move, keys spread anew.

Processes die, and keys become few and many again. Rows stay those of plain Spark.

    step        0      1      2      3      4      5      6
    keys        many   many   many   few    few    many   many      tuples, then partials, then tuples again
    1 to 60     |----------------------------------------------
    61 to 68                  |--------------------------------
    dropped     |-------------|
    moved                            |---- group alerts -------
    tasks       2                           1
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scenario import BUSY, outlive

import headrace

pytestmark = [pytest.mark.crash, pytest.mark.spark]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEPS, ROWS, FEW, MANY = 7, 12_000, 50, 12_000
FEW_STEPS = (3, 4)
EPOCH_S = 4
WINDOWS = ("'8 seconds', '4 seconds'", "'6 seconds', '3 seconds'")
AGGREGATES = (
    "SUM(amount) AS a, COUNT(rate) AS n",
    "MIN(amount) AS a, MAX(name) AS m",
    "AVG(rate) AS a",
    "MAX(amount) FILTER (WHERE rate > 0.5) AS a, COUNT(*) AS n",
    "VARIANCE(amount) AS a",
)


def text(number: int) -> str:
    """The queries have few windows and many predicates, so each would have partials of its own for every tuple."""
    rng = random.Random(number)
    window, low = WINDOWS[number % 2], rng.randrange(60)
    return (
        f"SELECT key, window.start AS since, {AGGREGATES[number % 5]} FROM sales "
        f"WHERE amount >= {low} GROUP BY key, window(ts, {window})"
    )


FIRST = {f"q{number}": text(number) for number in range(60)}
LATER = {f"q{number}": text(number) for number in range(60, 68)}
DROPPED = [f"q{number}" for number in range(0, 60, 9)]
MOVED = [f"q{number}" for number in range(1, 60, 3) if f"q{number}" not in DROPPED]


def batch(step: int) -> pa.Table:
    """Four seconds of tuples. Rates are eighths, so that their sums are exact, and some are NULL."""
    rng = np.random.default_rng(step)
    seconds = np.sort(rng.uniform(step * EPOCH_S, (step + 1) * EPOCH_S, ROWS))
    seconds[::97] -= 5  # some are late
    rates = pa.array(rng.integers(0, 16, ROWS) / 8, mask=rng.random(ROWS) < 0.1)
    start = int(NOON.timestamp() * 1e6)
    return pa.table(
        {
            "key": rng.integers(0, FEW if step in FEW_STEPS else MANY, ROWS),
            "amount": rng.integers(-5, 100, ROWS),
            "rate": rates,
            "name": pa.array([f"name {n}" for n in rng.integers(0, 40, ROWS)]),
            "ts": pa.array(start + (seconds * 1e6).astype(np.int64), pa.timestamp("us", "UTC")),
        }
    )


def play(hr: Any, kept: set[int]) -> None:
    """Go on wherever it stopped, and note the steps after which tuples were kept in place of partials.

    Whoever died in a step has nothing to tell of it.
    """
    columns = "key BIGINT, amount BIGINT, rate DOUBLE, name STRING, ts TIMESTAMP"
    hr.create_stream("sales", columns, event_time="ts", watermark="2 seconds", if_not_exists=True)
    unfinished = bool(hr._arrivals.pending()) or hr._delivered.behind_most > 0
    for step in range(hr._arrivals.next_number - unfinished, STEPS):
        known = set(hr._catalog.names())
        for at, texts in ((0, FIRST), (2, LATER)):
            if step == at and not known >= set(texts):
                hr.create_queries(list(texts.items()))
        for name in DROPPED if step == 2 else ():
            if hr._catalog.entry(name).live:
                hr.drop_query(name)
        for name in MOVED if step == 3 else ():
            if hr._catalog.entry(name).group != "alerts":
                hr.move_query(name, "alerts")
        if step == 4:
            hr.repartition(1)
        if hr._arrivals.next_number == step:
            hr.append("sales", batch(step))
        hr.run_available()
        if "tuples are kept in place of partials" in str(hr.explain(verbose=True)):
            kept.add(step)
    if hr.streams()[0].watermark is not None:
        hr.close_stream("sales")
        hr.run_available()


def opener(spark: Any, path: Path) -> Callable[[], Any]:
    def opened() -> Any:
        return headrace.open(
            path, spark=spark, progress=False, upkeep=BUSY, log_retention=None, partitions=2, sharing="manual"
        )

    return opened


def test_rows_do_not_depend_on_what_is_kept_moves_widths_and_deaths(
    spark: Any, tmp_path: Path, seed: int = 5
) -> None:
    rng, kept = random.Random(seed), set[int]()
    print(f"seed {seed}")
    hr, lives = outlive(
        opener(spark, tmp_path), lambda hr: play(hr, kept), lambda point, epoch: rng.random() < 0.02
    )
    print(f"{lives} lives, tuples were kept after steps {sorted(kept)}")
    assert kept & {0, 1, 2}, "with many keys, tuples are kept"
    assert not kept & {4}, "with few keys, partials are"
    assert kept & {5, 6}, "and tuples again"
    assert lives > 1
    for name in ("q0", "q1", "q7", "q8", "q13", "q64"):
        audit = hr.query(name).audit()
        assert audit.ok, f"seed {seed}, {name}: {audit}"
        assert hr.query(name).results().count() > 0, name
    hr.close()
