"""Public calls in the wrong process or without Spark; no JVM needed, because a fake stands for Spark."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.guard import guarding
from headrace.model.errors import CatalogError, EngineError


class FakeContext:
    """A Spark context that was stopped (`_jsc` is None), has died, or lives."""

    def __init__(self, state: str) -> None:
        self._jsc = None if state == "stopped" else self
        self._state = state

    def sc(self) -> FakeContext:
        if self._state == "dead":
            raise ConnectionRefusedError(111, "Connection refused")
        return self

    def isStopped(self) -> bool:
        return False


class Closing:
    """As the part of a session looks that it inherits."""

    def close(self) -> str:
        return "closed"


@guarding(lambda session: session)
class Calls(Closing):
    """As a session looks to the guard."""

    def __init__(self, state: str, pid: int | None = None) -> None:
        self._pid, self._closed = pid or os.getpid(), False
        self._sparks: Any = SimpleNamespace(started=SimpleNamespace(sparkContext=FakeContext(state)))

    def results(self) -> str:
        """What it does."""
        return "rows"

    def fail(self, error: Exception) -> None:
        raise error

    def translate(self) -> None:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except ConnectionRefusedError:
            raise CatalogError("BAD_SCHEMA", "not Spark DDL") from None


def code_of(call: Any, *args: Any) -> str:
    with pytest.raises(EngineError) as caught:
        call(*args)
    assert caught.value.hint
    return caught.value.code


def test_a_forked_child_may_only_close() -> None:
    calls = Calls("alive", pid=os.getpid() + 1)
    assert code_of(calls.results) == "FORKED_PROCESS"
    assert calls.close() == "closed"


def test_what_fails_without_spark_says_that_spark_is_gone() -> None:
    for state in ("dead", "stopped"):
        calls = Calls(state)
        assert code_of(calls.fail, ConnectionRefusedError(111, "Connection refused")) == "SPARK_GONE"
        assert code_of(calls.translate) == "SPARK_GONE", "in whatever words"
    assert code_of(Calls("stopped").results) == "SPARK_GONE", "it would go astray before it fails"


def test_other_failures_stay_what_they_are() -> None:
    with pytest.raises(CatalogError):
        Calls("dead").fail(CatalogError("QUERY_EXISTS", "there is already a query `q`"))
    with pytest.raises(ZeroDivisionError):
        Calls("alive").fail(ZeroDivisionError())
    assert Calls("alive").results() == "rows" and "What it does." in (Calls.results.__doc__ or "")
