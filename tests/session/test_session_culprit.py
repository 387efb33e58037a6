"""An epoch that fails for whatever reason finds the query that is to blame, and everybody else goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from session_samples import info, rows, sale, with_sales

from headrace.catalog.queries import QueryState
from headrace.engine import attempt, limits
from headrace.engine.paths import search_path
from thorough import THOROUGH

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_jobs")]

Open = Callable[..., Any]

HUGE = "SELECT id FROM sales WHERE length(repeat(country, level * 300000000)) > 5"
"""Two letters times 300 million times the level: more than any heap here from level 3 on."""

SLOW = (
    "SELECT id FROM sales WHERE aggregate(sequence(1, 9000 * level), 0L, "
    "(a, x) -> (a + aggregate(sequence(1, 20000), 0L, (b, y) -> (b + y) % 7)) % 11) >= 0"
)
"""180 million steps per level and tuple, which nothing interrupts: longer than the time limit, and not by much."""


def never_ends(marker: Path) -> Callable[[Any], Any]:
    """A function that says that it has been called, and ends when its process does."""

    def waits(levels: Any) -> Any:
        marker.touch()
        time.sleep(3600)
        return levels

    return waits


def time_is_up_when_called(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time limits end as soon as a function that never ends was called, however fast this machine is."""

    class Timer(threading.Thread):
        def __init__(self, seconds: float, expire: Callable[[], None]) -> None:
            super().__init__(daemon=True)
            self._expire, self._over = expire, threading.Event()

        def run(self) -> None:
            while not self._over.wait(0.01):
                if marker.exists():
                    marker.unlink()
                    self._expire()
                    return

        def cancel(self) -> None:
            self._over.set()

    monkeypatch.setattr(limits, "threading", SimpleNamespace(Timer=Timer, Event=threading.Event))


def test_memory_planning_and_time_each_find_their_culprit(
    open_session: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    epoch 0: all is well
    epoch 1: `huge` runs out of memory; `odd` cannot be planned any more
    epoch 2: `slow` holds the epoch up
    """
    time_is_up_when_called(tmp_path / "called", monkeypatch)
    hr = with_sales(open_session(epoch_timeout="1 minute", query_timeout="1 minute"))
    good = [hr.create_query(f"SELECT id FROM sales WHERE level >= {n}") for n in range(2)]
    for name, text in {"huge": HUGE, "odd": "SELECT id FROM sales WHERE price > 7"}.items():
        hr.create_query(text, name=name)
    hr.append("sales", [sale(1, 0)])
    hr.run_available()
    assert [i.error for i in hr.queries()] == [None] * 4

    planned = attempt.plan_group

    def plan(members: Any, *rest: Any) -> Any:
        members = list(members)
        if any(member.query.name == "odd" for member in members):
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return planned(members, *rest)

    monkeypatch.setattr(attempt, "plan_group", plan)
    hr.create_query("SELECT id + 1 AS n FROM sales", name="new")
    hr.append("sales", [sale(2, 3)])
    hr.run_available()
    errors = {i.name: i.error for i in hr.queries() if i.error}
    assert errors.keys() == {"huge", "odd"}
    assert errors["huge"].startswith("out of memory: ") and "surrogates not allowed" in errors["odd"]
    assert all("epoch 1 runs without this query" in error for error in errors.values())
    assert info(hr, "huge").state is QueryState.QUARANTINED

    hr.register_function("waits", never_ends(tmp_path / "called"), "INT")
    hr.create_query("SELECT id FROM sales WHERE waits(level) > 0", name="slow")
    hr.append("sales", [sale(3, 3)])
    hr.run_available()
    assert info(hr, "slow").error.startswith("time limit: it did not end within"), info(hr, "slow")
    assert {i.name for i in hr.queries() if i.error} == {"huge", "odd", "slow"}
    assert not hr._warehouse.exists(search_path("main"))
    assert [rows(query) for query in good] == [[(1,), (2,), (3,)], [(2,), (3,)]]
    assert rows(hr.query("new")) == [(3,), (4,)] and hr.query("new").audit().ok
    report = hr.query("slow").audit()
    assert not report.ok and "time limit" in str(report), "it never had an epoch"

    hr.close()
    hr = open_session()
    assert {i.name for i in hr.queries() if i.error} == {"huge", "odd", "slow"}, "quarantine is durable"


@THOROUGH
def test_what_nothing_interrupts_is_found_by_time(open_session: Open) -> None:
    """It depends on how fast the machine is: a time limit is to end before the expression does, and not much before."""
    hr = with_sales(open_session(epoch_timeout="8 seconds", query_timeout="6 seconds"))
    good = hr.create_query("SELECT id FROM sales WHERE level >= 1")
    hr.create_query(SLOW, name="slow")
    hr.append("sales", [sale(3, 3)])
    hr.run_available()
    assert info(hr, "slow").error.startswith("time limit: it did not end within"), info(hr, "slow")
    assert rows(good) == [(3,)]
