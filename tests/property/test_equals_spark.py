"""Every random query equals plain Spark, however it came and went; what Spark fails on is quarantined."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from generate import random_scenario
from harness import check

pytestmark = pytest.mark.spark

QUERIES = int(os.environ.get("HEADRACE_PROPERTY_QUERIES", "45"))
ROUNDS = int(os.environ.get("HEADRACE_PROPERTY_ROUNDS", "2"))
FIRST = int(os.environ.get("HEADRACE_PROPERTY_SEED", "1"))
"""HEADRACE_PROPERTY_SEED=n HEADRACE_PROPERTY_ROUNDS=1 runs one seed; more rounds run the seeds after it."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_random_queries_equal_spark(seed: int, spark: Any, open_session: Callable[..., Any]) -> None:
    print(f"HEADRACE_PROPERTY_SEED={seed}")
    verdict = check(open_session, spark, random_scenario(seed, QUERIES), compiled=seed % 4 == 0)
    print(verdict)
    assert not verdict.differences, "\n\n".join(verdict.differences)
