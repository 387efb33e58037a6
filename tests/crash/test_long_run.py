"""Many small epochs: files, listed queries, slots and the driver's memory stay bounded, and the rows stay right."""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from scenario import NOON

import headrace
from headrace.catalog.snapshot import SNAPSHOT
from headrace.engine.options import UpkeepOptions
from headrace.engine.paths import commits_dir
from headrace.storage.warehouse import record_name
from thorough import THOROUGH

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


LIVE, CHANGED, TURNS, LOOKS = 300, 20, 48, 4


@dataclass(frozen=True)
class Look:
    """What a warehouse and its processes take at one moment of a soak."""

    files: int
    kilobytes: int
    python_mb: int
    java_mb: int
    commit_kb: int
    snapshot_kb: int
    counted: int
    slots: int


def look_at(hr: Any, root: Path) -> Look:
    gc.collect()
    commit = hr._delivered.main
    files = [path.stat().st_size for path in root.rglob("*") if path.is_file()]
    return Look(
        len(files),
        sum(files) // 1024,
        resident_mb(os.getpid()),
        resident_mb(hr.spark.sparkContext._gateway.proc.pid),
        (root / record_name(commits_dir("main"), commit.epoch)).stat().st_size // 1024,
        (root / SNAPSHOT).stat().st_size // 1024,
        len(commit.rows.queries),
        hr._catalog._directory.queries.slots,
    )


def resident_mb(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


@THOROUGH
def test_a_soak_with_300_queries_that_come_and_go(spark: Any, tmp_path: Path) -> None:
    """Twenty of 300 queries are replaced per turn while epochs run: no file, no record and no process grows with
    the queries that were ever there.
    """
    names, looks, alive = itertools.count(), [], []
    with headrace.open(
        tmp_path, upkeep=QUICK, spark=spark, retention="4 seconds", log_retention="3 seconds", progress=False
    ) as hr:
        hr.create_stream("s", "k BIGINT, v DOUBLE, ts TIMESTAMP", event_time="ts", watermark="1 second")

        def create(count: int) -> None:
            new = [(f"q{number}", short_lived(number)) for number in itertools.islice(names, count)]
            hr.create_queries(new)
            alive.extend(name for name, _ in new)

        create(LIVE)
        hr.start(interval="50 milliseconds")
        for turn in range(TURNS):
            for name in alive[:CHANGED]:
                hr.drop_query(name)
            del alive[:CHANGED]
            create(CHANGED)
            hr.append("s", rows(turn))
            end = time.monotonic() + 120
            while hr.metrics().input_rows < 12 * (turn + 1):
                assert time.monotonic() < end and hr.health().error is None, hr.health()
                time.sleep(0.02)
            if turn % (TURNS // LOOKS) == TURNS // LOOKS - 1:
                looks.append(look_at(hr, tmp_path))
                print(turn + 1, looks[-1])
        hr.stop()
        for name in (alive[0], alive[100], alive[101]):
            report = hr.query(name).audit()
            assert report.ok, report
        assert sum(info.state.value == "active" for info in hr.queries()) == LIVE
    second, last = looks[1], looks[-1]
    assert last.files <= 1.3 * second.files + 20, looks
    assert last.kilobytes <= 1.5 * second.kilobytes + 500, looks
    assert last.python_mb <= second.python_mb + 40 and last.java_mb <= second.java_mb + 250, looks
    assert (
        last.commit_kb <= 1.3 * second.commit_kb + 10 and last.snapshot_kb <= 1.3 * second.snapshot_kb + 10
    ), looks
    held_back = CHANGED * (QUICK.keep_commits + QUICK.every + 2)  # they go at the next slow upkeep
    assert last.counted <= LIVE + held_back and last.slots <= LIVE + 2 * CHANGED, looks
