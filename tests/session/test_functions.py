"""Functions that people register: they run in epochs, fail alone, wait after reopening, and audits call them too."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.model.errors import HeadraceError
from headrace.workloads.embedding import FUNCTIONS
from headrace.workloads.isolation import STREAMS, Traffic, draw_queries
from headrace.workloads.nexmark import EVENT_TIME, Nexmark

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WINDOW = "window(ts, '10 seconds')"


def odd_price(prices: pa.Array, shops: pa.Array) -> pa.Array:
    """Fails on a price that only some queries ask about."""
    if pc.any(pc.equal(prices, 13.0)).as_py():
        raise ValueError("thirteen")
    lengths = pc.utf8_length(shops).cast(pa.float64())
    return pc.multiply(prices, lengths)


def _orders(rows: int, seed: int, second: int) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "shop": ["Oslo", "Bergen", "Rome", None][int(rng.integers(4))],
            "price": None if rng.random() < 0.1 else float(rng.integers(1, 10)),
            "n": int(rng.integers(0, 5)),
            "ts": NOON + timedelta(seconds=second + int(rng.integers(0, 8))),
        }
        for _ in range(rows)
    ]


def _open(open_session: Callable[..., Any], **options: Any) -> Any:
    hr = open_session(**options)
    if not hr.streams():
        hr.create_stream("orders", "shop STRING, price DOUBLE, n INT, ts TIMESTAMP", event_time="ts")
    return hr


QUERIES = {
    "where": f"SELECT shop, COUNT(*) AS c FROM orders WHERE odd(price, shop) > 20 AND n > 1 GROUP BY shop, {WINDOW}",
    "higher": f"SELECT shop, COUNT(*) AS c FROM orders WHERE n > 0 AND odd(price, shop) > 30 GROUP BY shop, {WINDOW}",
    "input": "SELECT n, SUM(odd(price, shop)) AS s, MAX(odd(price, upper(shop))) AS m FROM orders "
    f"GROUP BY n, {WINDOW}",
    "outer": "SELECT COUNT(*) AS c FROM orders WHERE n > 1 AND coalesce(odd(price, shop), 0) + n > 25 "
    f"GROUP BY {WINDOW}",
    "having": f"SELECT shop, odd(SUM(price), shop) AS o FROM orders GROUP BY shop, {WINDOW} "
    "HAVING odd(MAX(price), shop) > 8",
    "key": f"SELECT odd(price, shop) AS k, COUNT(*) AS c FROM orders WHERE n < 4 GROUP BY odd(price, shop), {WINDOW}",
    "rows": "SELECT shop, odd(price, shop) AS o FROM orders WHERE NOT odd(price, shop) < 15",
    "nested": "SELECT price FROM orders WHERE odd(odd(price, shop), shop) BETWEEN 50 AND 200",
    "plain": f"SELECT shop, COUNT(*) AS c FROM orders WHERE n > 1 GROUP BY shop, {WINDOW}",
}


def test_functions_anywhere_in_a_query_deliver_what_spark_does(open_session: Callable[..., Any]) -> None:
    hr = _open(open_session)
    hr.register_function("odd", odd_price, "DOUBLE")
    for name, text in QUERIES.items():
        hr.create_query(text, name=name)
    hr.append("orders", _orders(300, 1, 0))
    hr.run_available()
    hr.append("orders", [*_orders(200, 2, 9), *_orders(5, 3, 60)])
    hr.run_available()
    for name in QUERIES:
        report = hr.query(name).audit()
        assert report.ok and report.actual_rows > 0, f"{name}: {report}"


def test_a_failing_function_takes_only_the_queries_whose_rows_make_it_fail(
    open_session: Callable[..., Any],
) -> None:
    hr = _open(open_session)
    hr.register_function("odd", odd_price, "DOUBLE")
    texts = {
        "safe": f"SELECT COUNT(*) AS c FROM orders WHERE odd(price, shop) > 5 AND price < 10 GROUP BY {WINDOW}",
        "broken": f"SELECT COUNT(*) AS c FROM orders WHERE odd(price, shop) > 5 AND n > 1 GROUP BY {WINDOW}",
        "outer": f"SELECT COUNT(*) AS c FROM orders WHERE odd(price, shop) + 1 > 5 GROUP BY {WINDOW}",
        "guarded": f"SELECT SUM(1 + odd(price, shop)) AS c FROM orders WHERE price < 10 GROUP BY {WINDOW}",
    }
    for name, text in texts.items():
        hr.create_query(text, name=name)
    hr.append("orders", _orders(50, 4, 0))
    hr.run_available()
    bad = {"shop": "Oslo", "price": 13.0, "n": 3, "ts": NOON + timedelta(seconds=12)}
    hr.append("orders", [bad, *_orders(20, 5, 30)])
    hr.run_available()
    states = {info.name: info.error for info in hr.queries()}
    assert states["safe"] is None and states["guarded"] is None
    for name in ("broken", "outer"):
        assert states[name] is not None and "odd()" in states[name] and "thirteen" in states[name]
    assert hr.query("safe").audit().ok and hr.query("guarded").audit().ok


def test_after_reopening_queries_wait_for_their_function_and_lose_nothing(
    open_session: Callable[..., Any],
) -> None:
    hr = _open(open_session)
    hr.register_function("odd", odd_price, "DOUBLE")
    hr.create_query(QUERIES["where"], name="where", group="alerts")
    hr.create_query(QUERIES["plain"], name="plain", group="alerts")
    hr.append("orders", _orders(100, 6, 0))
    hr.run_available()
    assert {hr.query(name).metrics().group for name in ("where", "plain")} == {"alerts"}
    hr.create_query(QUERIES["input"], name="odd one out", group="alerts")
    hr.create_query(QUERIES["rows"], name="young")  # its first epoch comes when nobody has its function
    hr.close()

    hr = _open(open_session)
    hr.append("orders", [*_orders(100, 7, 9), *_orders(5, 8, 60)])
    problem = hr.health().problems[0]
    assert problem.about == "query `where`" and "register the function again" in (problem.hint or "")
    assert "it waits for odd(): register the function again" in str(hr.query("where").status().standing)
    with pytest.raises(
        HeadraceError, match=r"odd\(\) is not registered; query `(where|young)` waits"
    ) as raised:
        hr.run_available()
    assert "register the function again" in str(raised.value)
    hr.drop_query("odd one out")  # it lacks the function in epochs that are sealed, and nobody waits for that
    with pytest.raises(HeadraceError, match="is not registered"):
        hr.run_available()
    assert "dropped before epoch" in str(hr.query("odd one out").status())
    assert hr.query("plain").audit().ok and len(hr.query("plain").to_pandas()) > 1  # the others went on
    assert hr.query("where").metrics().group != hr.query("plain").metrics().group
    assert [(info.name, info.ready) for info in hr.functions()] == [("odd", False)]
    assert "odd" in str(hr.execute("SHOW FUNCTIONS").to_pylist())
    with pytest.raises(HeadraceError, match="FUNCTION_IN_USE"):
        hr.register_function("odd", odd_price, "STRING")
    with pytest.raises(HeadraceError, match="register the function again"):
        hr.create_query(QUERIES["rows"])
    hr.register_function("odd", odd_price, "DOUBLE")
    hr.run_available()
    assert all(hr.query(name).audit().ok for name in ("where", "plain", "young"))
    hr.append("orders", _orders(5, 9, 70))
    hr.run_available()
    assert hr.query("where").metrics().group == "alerts", "it is back where a person had put it"
    assert len(hr.query("young").to_pandas()) > 0
    hr.close()
    hr = _open(open_session, rebuild=True, functions={"odd": (odd_price, "DOUBLE")})
    hr.append("orders", _orders(5, 8, 90))
    hr.run_available()
    assert hr.query("where").audit().ok
    with pytest.raises(HeadraceError, match="did you mean"):
        hr.create_query("SELECT od(price, shop) AS o FROM orders")
    with pytest.raises(HeadraceError, match="FUNCTION_EXISTS"):
        hr.register_function("upper", odd_price, "DOUBLE")


def test_w2_and_w3_of_funshare_deliver_what_spark_does(open_session: Callable[..., Any]) -> None:
    """Functions of joined tuples, and texts that are similar."""
    hr = open_session()
    for name, (function, type_) in FUNCTIONS.items():
        hr.register_function(name, function, type_)
    for stream, schema in STREAMS.items():
        hr.create_stream(stream, schema, event_time=EVENT_TIME)
    anomalies = draw_queries("W2", 6, (0.4, 0.6), seed=1, range_s=4)
    similar = draw_queries("W3", 3, (0.5, 0.9), seed=3, range_s=4)
    drawn = [
        *(replace(query, likeness=0.8 - number / 10) for number, query in enumerate(anomalies)),
        *(replace(query, likeness=0.9 - number / 4) for number, query in enumerate(similar)),
    ]
    handles = [hr.create_query(query.cql()) for query in drawn]
    assert all(handle.sharing.shared for handle in handles)
    traffic = Traffic(Nexmark(NOON, rate=100, seed=3, proportions=(10, 10, 30)))
    for first in (0, 400):
        for stream, table in traffic.events(first, 400).items():
            hr.append(stream, table)
        hr.run_available()
    for stream in STREAMS:
        hr.close_stream(stream)
    hr.run_available()
    for query, handle in zip(drawn, handles, strict=True):
        report = handle.audit()
        assert report.ok and report.actual_rows > 0, f"{query}: {report}"
    cost = handles[2].metrics().cost
    assert cost.functions["price_anomaly"].rows > 0 and cost.functions["price_anomaly"].seconds > 0


def test_a_function_that_hangs_loses_its_queries_and_nobody_else(
    open_session: Callable[..., Any], tmp_path: Path
) -> None:
    hr = _open(open_session, function_timeout="8 seconds", query_timeout="12 seconds")
    still = tmp_path / "still"

    def stuck(prices: pa.Array) -> pa.Array:
        while not still.exists():
            time.sleep(0.05)
        return prices

    hr.register_function("stuck", stuck, "DOUBLE")
    hr.create_query("SELECT price FROM orders WHERE stuck(price) > 5", name="stuck")
    hr.create_query(QUERIES["plain"], name="plain")
    hr.append("orders", [*_orders(30, 9, 0), *_orders(2, 9, 40)])
    hr.run_available()
    errors = {info.name: info.error for info in hr.queries()}
    assert errors["plain"] is None and hr.query("plain").audit().ok
    assert "did not end within" in errors["stuck"] and "it calls stuck()" in errors["stuck"]
