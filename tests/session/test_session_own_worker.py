"""Small epochs without a Spark job: the same rows, a choice that people can see, and no harm when the worker dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from session_samples import PER_COUNTRY, rows, sale, with_sales

from headrace.engine.own_worker import OWN_WORKER
from headrace.optimizer.place import decide_place

pytestmark = pytest.mark.spark


def test_small_epochs_run_in_the_own_worker_with_the_rows_of_plain_spark(
    open_session: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.group.decide_place", decide_place)
    hr = with_sales(open_session())
    query = hr.create_query(PER_COUNTRY, name="n")
    least = hr.create_query(
        "SELECT MIN(country) AS c, window.end FROM sales GROUP BY window(ts, '20 seconds')"
    )
    expressions = (
        "SELECT COUNT(*) AS n FROM sales WHERE hash(country) % 2 = 0 GROUP BY window(ts, '10 seconds')"
    )

    def places() -> list[str]:
        return [epoch.cells()[-1] for epoch in hr.recent_epochs()]

    def run(second: int) -> str:
        hr.append("sales", [sale(second), sale(second + 4, country="FR"), sale(second + 11, country=None)])
        assert hr.run_available() == 1
        return places()[-1]

    assert OWN_WORKER.wait_until_ready(60)
    assert [run(second) for second in (0, 13)] == ["own worker"] * 2
    assert OWN_WORKER.pid is not None
    os.kill(OWN_WORKER.pid, signal.SIGKILL)
    assert run(26) == "Spark"
    assert OWN_WORKER.wait_until_ready(60)
    assert run(39) == "own worker"
    hr.create_query(expressions, name="evaluated")
    assert run(52) == "Spark"  # who else evaluates an expression
    assert len(rows(query)) > 8 and query.audit().ok and least.audit().ok
    assert hr.query("evaluated").audit().ok
