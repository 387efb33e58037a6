"""Many small epochs: files, listed queries, slots and the driver's memory stay bounded, and the rows stay right."""

from __future__ import annotations

import gc
import itertools
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from scenario import NOON

import headrace
from headrace.engine.options import UpkeepOptions

pytestmark = [pytest.mark.crash, pytest.mark.spark]

QUICK = UpkeepOptions(grace_seconds=0.5, keep_commits=3, every=6, fan_in=4, pack=6)
PLAIN = "SELECT size(collect_list(DISTINCT k)) AS n FROM s GROUP BY window(ts, '3 seconds')"
EPOCHS, ROUND = 80, 20


def rows(epoch: int) -> list[dict[str, Any]]:
    """Half a second of event time per epoch, a few tuples out of order."""
    times = (
        NOON + timedelta(milliseconds=500 * epoch + 37 * i - (900 if i % 7 == 0 else 0)) for i in range(12)
    )
    return [{"k": (epoch + i) % 4, "v": float(i), "ts": ts} for i, ts in enumerate(times)]


def short_lived(number: int) -> str:
    if number % 3 == 2:
        return f"SELECT k, v FROM s WHERE v > {number % 11}"
    return f"SELECT k, SUM(v) AS v FROM s WHERE v > {number % 11} GROUP BY k, window(ts, '{1 + number % 2} seconds')"


def files_in(root: Path) -> Counter[str]:
    """How many files every part of a warehouse has."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return Counter("/".join(path.parts[: 3 if path.parts[0] == "groups" else 1]) for path in found)


def held(hr: Any) -> dict[str, int]:
    """The sizes of whatever the driver remembers."""
    return {
        "entries": len(hr._catalog.entries()),
        "logged": sum(map(len, hr._delivered.index._streams.values())),
        "garbage": len(hr._running.groups._house.upkeep._garbage),
        "results": len(hr._delivered.main.results),
        "counted": len(hr._delivered.main.rows),
        "slots": hr._catalog._directory.queries.slots,
    }


def test_bounded(spark: Any, tmp_path: Path) -> None:
    options = {
        "upkeep": QUICK,
        "spark": spark,
        "retention": "4 seconds",
        "log_retention": "3 seconds",
        "progress": False,
    }
    seen: list[tuple[Counter[str], dict[str, int], int]] = []
    alive: list[str] = []
    number = itertools.count()
    with headrace.open(tmp_path, **options) as hr:
        hr.create_stream("s", "k BIGINT, v DOUBLE, ts TIMESTAMP", event_time="ts", watermark="1 second")
        hr.create_query(
            "SELECT k, COUNT(*) AS n FROM s GROUP BY k, window(ts, '4 seconds', '1 second')", name="long"
        )
        for epoch in range(EPOCHS):
            if epoch % 2 == 0:
                name = f"q{next(number)}"
                hr.create_query(short_lived(int(name[1:])), name=name)
                alive.append(name)
                if len(alive) > 5:
                    hr.drop_query(alive.pop(0))
            if epoch == EPOCHS - 10:  # it reads the log again, so not for long
                hr.create_query(PLAIN, name="plain")
            hr.append("s", rows(epoch))
            hr.run_available()
            if epoch % ROUND == ROUND - 1:
                gc.collect()
                seen.append((files_in(tmp_path), held(hr), len(gc.get_objects())))
                for name in ("long", alive[0]):
                    report = hr.query(name).audit()
                    assert report.ok, report
        assert hr._delivered.main.epoch == EPOCHS - 1
        assert hr.query("long").metrics().rows > 0
        listed = [info.name for info in hr.queries()]

    # the first round has expired nothing yet
    (files, sizes, objects), last = seen[1], seen[-1]
    assert sum(last[0].values()) <= 1.3 * sum(files.values()) + 20, (files, last[0])
    assert sum(last[0].values()) < EPOCHS * 2, last[0]
    assert all(last[1][name] <= 1.5 * size + 20 for name, size in sizes.items()), (sizes, last[1])
    assert last[1]["slots"] <= 2 + 6 + 1
    assert last[2] - objects < 20_000, (objects, last[2])
    assert "q0" not in listed and "q1" not in listed
    assert {"long", "plain", *alive} <= set(listed)

    with headrace.open(tmp_path, **options) as hr:
        assert {"long", "plain", *alive} <= {info.name for info in hr.queries()}
        for epoch in range(EPOCHS, EPOCHS + 4):
            hr.append("s", rows(epoch))
            hr.run_available()
        for name in ("long", "plain", alive[-1]):
            report = hr.query(name).audit()
            assert report.ok, report
            assert report.note or name != "long", "the log of its first epochs is gone"
