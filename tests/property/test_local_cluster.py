"""The property tests once more where executors are processes of their own that lack the package until it comes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest

pytestmark = pytest.mark.cluster

HERE = Path(__file__).parent
SEED = os.environ.get("HEADRACE_CLUSTER_SEED", "41")
ALSO = "test_failing_queries.py::test_quarantine_survives_reopening_and_can_be_dropped"


BARE_PYTHON = """#!/bin/sh
PYTHONPATH=$(echo "$PYTHONPATH" | tr ':' '\\n' | grep -vxF '{source}' | paste -sd: -):{packages}
export PYTHONPATH
exec {python} -S "$@"
"""
"""This Python with its packages, but without Headrace, which comes from a folder."""


def bare_python(folder: Path) -> Path:
    """A Python for workers that cannot import Headrace."""
    source = Path(__file__).parents[2] / "src"
    packages = Path(pyarrow.__file__).parents[1]
    script = folder / "python"
    script.write_text(BARE_PYTHON.format(source=source, packages=packages, python=sys.executable))
    script.chmod(0o755)
    check = subprocess.run([script, "-c", "import pyarrow, headrace"], capture_output=True, text=True)
    assert "No module named 'headrace'" in check.stderr, check.stderr
    return script


def test_random_queries_equal_spark_on_a_local_cluster(tmp_path: Path) -> None:
    chosen = {
        "PYSPARK_PYTHON": str(bare_python(tmp_path)),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "HEADRACE_TEST_MASTER": "local-cluster[2,1,1024]",
        "HEADRACE_PROPERTY_SEED": SEED,
        "HEADRACE_PROPERTY_ROUNDS": "1",
        "HEADRACE_PROPERTY_QUERIES": "25",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    tests = (HERE / "test_equals_spark.py", HERE / ALSO)
    command = [sys.executable, "-m", "pytest", "-q", *map(str, tests)]
    done = subprocess.run(command, env=os.environ | chosen, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-20_000:]
    assert "2 passed" in done.stdout
