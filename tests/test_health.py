"""What `hr.health()` gives back: found by stream, and readable as text."""

from __future__ import annotations

import pytest

from headrace.health import Health, Problem, RunState, SourceHealth, SourceState


def test_a_source_is_found_in_any_case_of_letters() -> None:
    health = Health(True, RunState.IDLE, None, (), (SourceHealth("Sales", SourceState.APPEND),), ())
    assert health.source("sales").state is SourceState.APPEND
    with pytest.raises(KeyError):
        health.source("other")


def test_the_text_says_what_is_wrong_and_what_to_do() -> None:
    problem = Problem("stream `s`", "2 files were set aside", "look at hr.health().aside", 0.0)
    health = Health(False, RunState.RUNNING, None, (problem,), (), ())
    assert str(health).splitlines() == [
        "1 problem; the run is running",
        "- stream `s`: 2 files were set aside",
        "  hint: look at hr.health().aside",
    ]
    assert str(Health(True, RunState.IDLE, None, (), (), ())) == "ok; the run is idle"
