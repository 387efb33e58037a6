"""A query that ends Spark's process is found.

The test plays in a process of its own, which opens the warehouse again itself, as somebody at a prompt would. What a
session says after its JVM has died, and that another one goes on: `tests/session/test_session_gone.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from thorough import THOROUGH

pytestmark = pytest.mark.crash

SAMPLES = Path(__file__).parent.parent / "session"

HUGE = """
hr = with_sales(open_session())
good = [hr.create_query(f"SELECT id FROM sales WHERE level >= {n}", name=f"good{n}") for n in range(4)]
hr.create_query("SELECT id FROM sales WHERE length(repeat(country, level * 300000000)) > 5", name="huge")
hr.create_query("SELECT length(country) + level AS n FROM sales", name="new")
hr.append("sales", [sale(1, 3)])
found["codes"] = []
for attempt in range(8):
    try:
        hr.run_available()
        break
    except HeadraceError as error:
        found["codes"].append(error.code)
        hr.close()
        hr = open_session()
found["errors"] = {info.name: info.error for info in hr.queries() if info.error}
hr.append("sales", [sale(2, 3)])
hr.run_available()
found["rows"] = {info.name: rows(hr.query(info.name)) for info in hr.queries() if not info.error}
found["audits"] = [hr.query(name).audit().ok for name in ("good3", "new")]
hr.close()
"""

SCRIPT = """
import json, os, signal, sys
sys.path.insert(0, {samples!r})
import headrace
from headrace.model.errors import HeadraceError
from session_samples import rows, sale, with_sales

root = {root!r}

def open_session():
    return headrace.open(root, master="local[1]", config={config!r}, progress=False)

found = {{}}
{body}
print(json.dumps(found))
"""


def play(body: str, root: Path, config: dict[str, str]) -> dict[str, Any]:
    script = SCRIPT.format(samples=str(SAMPLES), root=str(root), config=config, body=body)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    print(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@THOROUGH
def test_a_query_that_ends_the_jvm_is_found_after_some_openings(tmp_path: Path) -> None:
    """Out of memory ends this JVM, so every trial with the culprit ends it: each opening knows more than the last."""
    found = play(HUGE, tmp_path / "w", {"spark.driver.extraJavaOptions": "-XX:+ExitOnOutOfMemoryError"})
    assert found["codes"] and set(found["codes"]) == {"SPARK_GONE"}, found
    assert len(found["codes"]) <= 4, "two deaths, then trials: without the suspects, and the culprit alone"
    assert found["errors"].keys() == {"huge"} and found["errors"]["huge"].startswith("Spark died"), found
    assert found["rows"] == {**{f"good{n}": [[1], [2]] for n in range(4)}, "new": [[5], [5]]}
    assert found["audits"] == [True, True]
