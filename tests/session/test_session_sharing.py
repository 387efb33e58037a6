"""Sharing with the engine itself: a slow query leaves its group, others keep their pace, and every row is Spark's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from session_samples import NOON, PER_COUNTRY, eventually, rows, sale, with_sales

from headrace.model.errors import EngineError
from headrace.model.events import EventKind
from headrace.model.query import Needs
from headrace.optimizer.grouping.timetable import Timetable
from thorough import THOROUGH

pytestmark = pytest.mark.spark

Open = Callable[..., Any]
SCHEMA = "user BIGINT, pack BIGINT, price DOUBLE, ts TIMESTAMP"
HEAVY = (
    "SELECT s.price FROM sales [RANGE 4 SECONDS SLIDE 1 SECONDS] AS s, ads [RANGE 4 SECONDS SLIDE 1 SECONDS] AS a "
    "WHERE s.user = a.user"
)


def look_often(hr: Any, watch: float, merge: float) -> None:
    """Let the conductor look every so many seconds, so that a test need not wait for a minute."""
    conductor = hr._running.conducting._conductor
    conductor._settings = replace(conductor._settings, watch_every_s=watch, merge_every_s=merge)
    conductor._state.timetable = Timetable.start(time.time(), conductor._settings)


class Feed:
    """Appends to two streams in the background, about four times a second, as long as the block lasts."""

    def __init__(self, hr: Any, tuples: int, users: int) -> None:
        self._hr, self._tuples, self._users = hr, tuples, users
        self._stopping = threading.Event()
        self._rng, self._began = np.random.default_rng(3), time.time()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.25):
            for stream in ("sales", "ads"):
                self._hr.append(stream, self._batch())

    def _batch(self) -> pa.Table:
        n, rng = self._tuples, self._rng
        now = int((NOON.timestamp() + time.time() - self._began) * 1e6)
        return pa.table(
            {
                "user": rng.integers(0, self._users, n),
                "pack": rng.integers(0, 20, n),
                "price": rng.integers(0, 400, n) / 4,
                "ts": pa.array(now + rng.integers(0, 200_000, n), pa.timestamp("us", "UTC")),
            }
        )


@pytest.fixture
def running(open_session: Open) -> Iterator[Any]:
    hr = open_session(partitions=2, max_epoch_rows=5_000)
    for stream in ("sales", "ads"):
        hr.create_stream(stream, SCHEMA, event_time="ts", watermark="1 second")
    look_often(hr, 1.0, 600.0)
    yield hr
    hr.stop()


@THOROUGH  # what is slow depends on the machine
def test_a_slow_query_leaves_and_the_others_keep_their_pace(running: Any) -> None:
    hr = running
    for i in range(8):
        text = f"SELECT pack, SUM(price) AS s FROM sales WHERE price > {i} GROUP BY pack, window(ts, '2 seconds')"
        hr.create_query(text, name=f"light{i}")
    hr.create_query(HEAVY, name="heavy")
    hr.start(interval="1 second")
    with Feed(hr, tuples=600, users=1):  # all meet all, in one partition
        split = eventually(
            lambda: [event for event in hr.events() if event.kind is EventKind.SPLIT and event.delay_seconds],
            90,
        )[0]
        assert (split.count, split.queries) == (1, ("heavy",)), split
        assert "their work on ads and sales held the group at" in split.reason
        assert split.delay_seconds is not None
        homes = {query.name: query.group for query in hr.queries()}
        assert {homes[f"light{i}"] for i in range(8)} == {"main"}
        assert homes["heavy"].startswith("auto-")
        eventually(lambda: hr._delivered.behind("main") <= 1, 60)
        [group] = [group for group in hr.groups() if group.name == homes["heavy"]]
        assert group.reason == split.reason
    hr.stop()
    assert hr.query("light3").audit().ok
    told = hr.sharing()
    assert told.looks > 0
    assert told.reconfigurations >= 1
    assert hr._running.conducting.trouble.error is None
    print(told)


def test_what_a_query_needs_lasts_and_an_unmet_need_is_an_event(open_session: Open) -> None:
    hr = with_sales(open_session())
    with pytest.raises(EngineError, match="min_rate"):
        hr.create_query(PER_COUNTRY, min_rate=-1)
    hr.create_query(PER_COUNTRY, name="counts", min_rate=5.5, max_latency="2 seconds", priority=3)
    hr.append("sales", [sale(1), sale(12)])
    hr.run_available()
    hr.close()
    again = open_session(sharing="isolated")
    for handle in again.create_queries(["SELECT id FROM sales"], group="alerts", max_latency="3 seconds"):
        assert again._catalog.entry(handle.name).query.needs == Needs(max_latency_s=3.0)
        again.drop_query(handle.name)
    needs = again._catalog.entry("counts").query.needs
    assert (needs.min_rate, needs.max_latency_s, needs.priority) == (5.5, 2.0, 3)
    again.create_query("SELECT id FROM sales", name="all")
    assert again._catalog.entry("all").group == "auto-0", "isolated queries have groups of their own"
    again.append("sales", [sale(25)])
    again.run_available()
    assert rows(again.query("all")) == [(25,)]
    [placed] = again.execute("SHOW EVENTS").to_pylist()
    assert (placed["event"], placed["group"]) == ("placed", "auto-0")
    assert again.sharing().policy == "isolated"
