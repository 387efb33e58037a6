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

from headrace.log.open import open_log
from headrace.model.errors import EngineError
from headrace.storage.warehouse import Warehouse

Open = Callable[..., Any]

SCRIPT = """
import os, signal, sys, time
sys.path.insert(0, {tests!r})
import headrace
from headrace.model.errors import HeadraceError
from session_samples import rows, sale, with_sales

def code(call):
    try:
        call()
    except HeadraceError as error:
        return error.code
    return "ok"

def open_session(folder):
    return headrace.open(os.path.join({root!r}, folder), master="local[1]", progress=False)

def ticking(hr):
    frame = hr.spark.readStream.format("rate").option("rowsPerSecond", 500).load()
    frame = frame.selectExpr("value AS k", "timestamp AS ts")
    with_sales(hr).create_stream("ticks", "k BIGINT, ts TIMESTAMP", event_time="ts", source=frame)
    hr.create_query("SELECT level FROM sales", name="q")
    hr.create_query("SELECT COUNT(*) AS n FROM sales GROUP BY window(ts, '10 seconds')", name="total")
    hr.create_query("SELECT id FROM sales", name="leaves")
    return hr

def ways(hr):
    query = hr.query("q")
    return {{
        "results": query.results, "to_pandas": query.to_pandas, "audit": query.audit,
        "create": lambda: hr.create_query("SELECT level + 1 AS n FROM sales"),
        "select": lambda: hr.select("SELECT * FROM q"),
        "execute": lambda: hr.execute("SELECT * FROM q"),
        "run": hr.run_available, "start": hr.start, "warm_up": hr.warm_up,
        "stream": lambda: hr.create_stream("u", "ts TIMESTAMP", event_time="ts"),
    }}

def leave(hr):
    hr.append("sales", [sale(2, 8)])
    hr.drop_query("leaves")
    hr.close()

def stopped():
    hr = ticking(open_session("stopped"))
    for _ in range(2):
        hr.start(interval="50 milliseconds")
        before = hr.metrics().input_rows
        while hr.metrics().input_rows == before:
            pass
        hr.stop()
    hr.append("sales", [sale(1, 7)])
    hr.run_available()
    hr.spark.stop()
    yield {{name: code(way) for name, way in ways(hr).items()}}
    leave(hr)

def killed():
    hr = ticking(open_session("killed"))
    hr.append("sales", [sale(1, 7)])
    hr.run_available()
    columns = hr.streams()[0].columns
    frame = hr.spark.range(1).selectExpr(*(f"CAST(NULL AS {{c.type.ddl}}) AS {{c.name}}" for c in columns))
    hr.start(interval="50 milliseconds")
    java, dead = hr.spark._sc._gateway.proc, hr.spark
    os.kill(java.pid, signal.SIGKILL)
    java.wait()
    while "SPARK_GONE" not in (hr.health().error or ""):
        time.sleep(0.05)
    hr.stop()
    yield {{name: code(way) for name, way in (ways(hr) | {{"append": lambda: hr.append("sales", frame)}}).items()}}
    try:
        hr.run_available()
    except HeadraceError as error:
        yield error.hint
    leave(hr)
    yield code(lambda: headrace.open(os.path.join({root!r}, "killed"), spark=dead))
    hr = open_session("killed")
    hr.append("sales", [sale(30, 9)])
    hr.run_available()
    yield sorted(rows(hr.query("q"))), rows(hr.query("total"))
    yield [hr.query(name).audit().ok for name in ("q", "total")]
    yield hr.query("leaves").state.value, hr.spark._sc._gateway.proc.pid != java.pid
    hr.close()

print(list(stopped()))
print(list(killed()))
"""


@pytest.mark.crash
def test_every_call_says_that_spark_is_gone_and_another_session_of_the_process_goes_on(
    tmp_path: Path,
) -> None:
    """In one process: Spark is stopped, with a rate source that was stopped twice in the midst of its batches and
    prints nothing of it; another context begins; its JVM is killed; the warehouse is opened again with another JVM.
    """
    script = SCRIPT.format(tests=str(Path(__file__).parent), root=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "StackOverflowError" not in done.stderr, done.stderr[:2000]
    ((stopped,), killed) = map(eval, done.stdout.splitlines()[-2:])
    may_work = {"to_pandas"}  # which reads the rows without Spark
    with_parser = may_work | {"create", "stream"}  # Spark's parser outlives the context
    assert {name for name, code in stopped.items() if code != "SPARK_GONE"} <= with_parser, stopped
    codes, hint, given, found, audits, after = killed
    assert {name for name, code in codes.items() if code != "SPARK_GONE"} <= may_work, codes
    assert "open the warehouse again" in hint and given == "SPARK_GONE"
    assert found == ([(7,), (8,), (9,)], [(2,)]), "nothing is lost, nothing comes twice"
    assert audits == [True, True] and after == ("dropped", True)
    _check_what_was_asked_for_after(tmp_path / "stopped")


def _check_what_was_asked_for_after(root: Path) -> None:
    warehouse = Warehouse(root)
    warehouse.acquire()
    log = open_log(warehouse)
    assert [c.rows for a in log.arrivals.pending() for c in a.chunks][-1] == 1, "the tuple that came after"
    assert log.catalog.entry("leaves").dropping, "the drop that was asked for after"


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
