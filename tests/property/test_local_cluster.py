"""The property tests once more where executors are processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

HERE = Path(__file__).parent
SEED = os.environ.get("HEADRACE_CLUSTER_SEED", "41")
ALSO = "test_failing_queries.py::test_quarantine_survives_reopening_and_can_be_dropped"


def test_random_queries_equal_spark_on_a_local_cluster() -> None:
    chosen = {
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
