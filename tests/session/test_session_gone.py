"""A session whose Spark is gone or whose process was forked says so, and loses nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session_samples import rows, sale, with_sales

from headrace.model.errors import EngineError

Open = Callable[..., Any]

SCRIPT = """
import os, signal, sys, time
sys.path.insert(0, {tests!r})
import headrace
from headrace.model.errors import HeadraceError
from session_samples import sale, with_sales

def code(call):
    try:
        call()
    except HeadraceError as error:
        return error.code
    return "ok"

hr = with_sales(headrace.open({root!r}, master="local[1]", progress=False))
frame = (
    hr.spark.readStream.format("rate").option("rowsPerSecond", 500).load().selectExpr("value AS k", "timestamp AS ts")
)
hr.create_stream("ticks", "k BIGINT, ts TIMESTAMP", event_time="ts", source=frame)
query = hr.create_query("SELECT level FROM sales", name="q")
for _ in range(2):
    hr.start(interval="50 milliseconds")
    before = hr.metrics().input_rows
    while hr.metrics().input_rows == before:
        pass
    hr.stop()
print("stopped", flush=True)
hr.append("sales", [sale(1, 7)])
hr.run_available()
ways = {{
    "results": query.results, "to_pandas": query.to_pandas, "audit": query.audit,
    "create": lambda: hr.create_query("SELECT level + 1 AS n FROM sales"),
    "select": lambda: hr.select("SELECT * FROM q"),
    "execute": lambda: hr.execute("SELECT * FROM q"),
    "run": hr.run_available, "start": hr.start, "warm_up": hr.warm_up,
    "stream": lambda: hr.create_stream("u", "ts TIMESTAMP", event_time="ts"),
}}
if {kill}:
    columns = hr.streams()[0].columns
    frame = hr.spark.range(1).selectExpr(*(f"CAST(NULL AS {{c.type.ddl}}) AS {{c.name}}" for c in columns))
    ways["append"] = lambda: hr.append("sales", frame)
    hr.start(interval="50 milliseconds")
    os.kill(hr.spark._sc._gateway.proc.pid, signal.SIGKILL)
    hr.spark._sc._gateway.proc.wait()
    while "SPARK_GONE" not in (hr.health().error or ""):
        time.sleep(0.05)
    hr.stop()
else:
    hr.spark.stop()
print({{name: code(way) for name, way in ways.items()}}, flush=True)
hr.append("sales", [sale(2, 8)])
hr.drop_query("q")
hr.close()
print("closed", flush=True)
"""


@pytest.mark.crash
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_every_call_says_that_spark_is_gone_and_close_keeps_what_was_asked_for(
    tmp_path: Path, kill: bool
) -> None:
    """Before that, a rate source is stopped twice in the midst of its batches, and prints nothing of it."""
    script = SCRIPT.format(tests=str(Path(__file__).parent), root=str(tmp_path / "w"), kill=kill)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    before, codes, closed = done.stdout.splitlines()[-3:]
    assert (before, closed) == ("stopped", "closed"), done.stdout
    found = eval(codes)
    may_work = {"to_pandas"}  # which reads the rows without Spark
    may_work |= set() if kill else {"create", "stream"}  # Spark's parser outlives the context
    assert {name for name, code in found.items() if code != "SPARK_GONE"} <= may_work, found
    assert "StackOverflowError" not in done.stderr, done.stderr[:2000]
    from headrace.log.open import open_log
    from headrace.storage.warehouse import Warehouse

    warehouse = Warehouse(tmp_path / "w")
    warehouse.acquire()
    log = open_log(warehouse)
    assert [c.rows for a in log.arrivals.pending() for c in a.chunks][-1] == 1, "the tuple that came after"
    assert log.catalog.entry("q").dropping, "the drop that was asked for after"


@pytest.mark.spark
def test_a_forked_child_is_refused_and_its_end_does_not_matter(open_session: Open) -> None:
    hr = with_sales(open_session())
    query = hr.create_query("SELECT level FROM sales", name="q")
    hr.append("sales", [sale(1, 7)])
    child = os.fork()
    if child == 0:
        codes = set()
        for call in (hr.run_available, query.to_pandas, hr.queries, lambda: hr.append("sales", [sale(2)])):
            try:
                call()
            except EngineError as error:
                codes.add(error.code)
        hr.close()
        os._exit(0 if codes == {"FORKED_PROCESS"} else 1)
    assert os.waitpid(child, 0)[1] == 0
    hr.run_available()
    assert rows(query) == [(7,)]
    assert hr._warehouse.holder()["pid"] == os.getpid()
