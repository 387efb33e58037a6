"""A short life of a warehouse, written so that anybody can go on with it wherever it stopped.

Each step asks for queries, drops some, appends one batch and runs. What was done is read from the warehouse: arrivals
are numbered, queries have names. A step is only begun when the one before has been run, so the last step that has an
arrival is the one to go on with.

    step      0      1      2      3      4      5      6
    spend     |-------------------------------------------
    high      |-------------------------------------------
    users     |---------------------|
    late             |---------------------|
    odd              |-------------------------------------     (Catalyst path)
    uniq             |----------------------------------        (plain Spark)
    again                                 |----------------     (takes a free slot)
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq

from headrace.engine.options import UpkeepOptions
from headrace.storage import faults

Dies = Callable[[str, int], bool]

BUSY = UpkeepOptions(grace_seconds=0.0, keep_commits=2, every=2, fan_in=2, pack=2)
"""Upkeep that finds something to do in every other epoch."""

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEPS = 7
ROWS = 30

QUERIES = {
    "spend": "SELECT gemPackID, window.start AS since, SUM(price) AS spend FROM purchases WHERE price > 1 "
    "GROUP BY gemPackID, window(ts, '10 seconds', '5 seconds')",
    "high": "SELECT id, price FROM purchases WHERE price > 5",
    "users": "SELECT userID, COUNT(*) AS n, MAX(name) AS last FROM purchases GROUP BY userID, window(ts, '7 seconds')",
    "late": "SELECT COUNT(*) AS n, AVG(price) AS mean, window.end AS til, COUNT(DISTINCT name, userID) AS users, "
    "max_by(name, price) AS dear, median(price) AS middle FROM purchases "
    "GROUP BY window(ts, '20 seconds')",
    "odd": "SELECT gemPackID % 2 AS half, MIN(price * 2) AS low FROM purchases "
    "GROUP BY gemPackID % 2, window(ts, '15 seconds', '5 seconds')",
    "uniq": "SELECT size(collect_list(DISTINCT userID)) AS users, window.start AS since FROM purchases "
    "GROUP BY window(ts, '10 seconds')",
    "again": "SELECT gemPackID, COUNT(*) AS n FROM purchases WHERE userID <> 3 "
    "GROUP BY gemPackID, window(ts, '10 seconds', '5 seconds')",
}
FAST = ("spend", "high", "users", "late", "again")
CREATES = {0: ("spend", "high", "users"), 1: ("late", "odd", "uniq"), 4: ("again",)}
DROPS = {3: ("users",), 4: ("late",), 6: ("uniq",)}


def batch(step: int) -> list[dict[str, Any]]:
    """Purchases of about seven seconds; a few are out of order, and some of those late. Prices add up exactly."""
    rows = []
    for i in range(ROWS):
        back = 9 if i % 11 == 0 else 0
        second = step * 7 + i * 7 / ROWS - back
        number = step * ROWS + i
        rows.append(
            {
                "id": number,
                "userID": number % 5,
                "gemPackID": number % 3,
                "name": f"user {number * 7 % 13}",
                "price": number % 32 / 4,
                "ts": NOON + timedelta(seconds=second),
            }
        )
    return rows


def play(hr: Any, names: tuple[str, ...] = tuple(QUERIES), steps: int = STEPS) -> None:
    """Go on with the scenario to its end."""
    if not hr.streams():
        hr.create_stream(
            "purchases",
            "id BIGINT, userID BIGINT, gemPackID BIGINT, name STRING, price DOUBLE, ts TIMESTAMP",
            event_time="ts",
            watermark="4 seconds",
        )
    # requests are on disk at once: those of a step that has not begun wait for its batch
    unfinished = bool(hr._arrivals.pending()) or hr._delivered.behind_most > 0
    for step in range(hr._arrivals.next_number - unfinished, steps):
        infos = {info.name: info for info in hr.queries()}
        for name in CREATES.get(step, ()):
            if name in names and name not in infos:
                hr.create_query(QUERIES[name], name=name)
        for name in DROPS.get(step, ()):
            if name in names and hr._catalog.entry(name).live:
                hr.drop_query(name)
        if hr._arrivals.next_number == step:
            hr.append("purchases", batch(step))
        hr.run_available()


def outlive(opens: Callable[[], Any], play: Callable[[Any], None], dies: Dies) -> tuple[Any, int]:
    """Play to the end, dying wherever `dies(point, epoch)` says so and going on in a new session; (it, lives).

    A session is left as a killed process would leave it: nothing flushed, nothing closed, the lock freed by the kernel.
    Its other threads die with it: whatever they reach next, and nothing that they do counts afterwards.
    """
    lives = 0
    while True:
        lives += 1
        hr, dead = opens(), threading.Event()

        def hook(point: str, hr: Any = hr, dead: threading.Event = dead) -> None:
            if dead.is_set() or dies(point, hr._delivered.main.epoch):
                dead.set()
                raise faults.Crash(point)

        with faults.hooked(hook):
            try:
                play(hr)
                return hr, lives
            except faults.Crash:
                dead.set()
                while hr._running._crew.busy:
                    hr._running._crew.wait(0.1)
        hr._warehouse._lock._forget()


def delivered(hr: Any) -> dict[str, Counter[tuple[Any, ...]]]:
    """All rows of all result tables as they are stored, by table: queries, epochs and query-sets included."""
    found: dict[str, Counter[tuple[Any, ...]]] = {}
    for file in [file for commit in hr._delivered.commits.values() for file in commit.results]:
        rows = pq.read_table(hr._warehouse.root / file.path).to_pylist()
        found.setdefault(file.signature, Counter()).update(tuple(sorted(row.items())) for row in rows)
    return found


def lifetimes(hr: Any) -> list[tuple[Any, ...]]:
    return [(i.name, i.state, i.slot, i.first_epoch, i.last_epoch, i.rows, i.error) for i in hr.queries()]


def files_of(hr: Any) -> set[str]:
    """The files of log, state and results that are there."""
    root = hr._warehouse.root
    found = {path for folder in ("log/purchases", "groups", "results") for path in (root / folder).rglob("*")}
    return {path.relative_to(root).as_posix() for path in found if path.is_file()}


def named_by(hr: Any) -> set[str]:
    """The files that should be there."""
    epochs = hr._sealer.epochs(hr._sealer.first)
    chunks = {chunk.path for epoch in epochs for part in epoch.streams for chunk in part.chunks}
    pending = {chunk.path for arrival in hr._arrivals.pending() for chunk in arrival.chunks}
    commits = {
        path.relative_to(hr._warehouse.root).as_posix()
        for group in hr._delivered.commits
        for path in sorted((hr._warehouse.root / "groups" / group / "commits").iterdir())[
            -BUSY.keep_commits :
        ]
    }
    return chunks | pending | hr._delivered.files() | commits
