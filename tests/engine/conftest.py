"""What tests of the engine have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from processes import ForkedWorker


@pytest.fixture
def tasks_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tasks of splits run in this process, without Spark, which keeps no instances from another test."""
    from headrace.engine.splits import tasks

    monkeypatch.setattr("headrace.engine.splits.job.unwrap_spark_exception", nullcontext)
    monkeypatch.setenv("HEADRACE_OWN_WORKER", "off")
    tasks._KEPT.clear()
    yield
    tasks._KEPT.clear()


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Own workers are forked from a process that has imported the package: a new one takes a second for that."""
    monkeypatch.setattr("headrace.engine.beside.start", ForkedWorker)
