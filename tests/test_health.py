"""What `hr.health()` gives back: found by stream, and readable as text."""

from __future__ import annotations

import pytest

from headrace.health import Health, Problem, RunState, SourceHealth, SourceState
from headrace.results.audit import AuditReport


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


def test_people_who_look_at_health_or_an_audit_read_sentences() -> None:
    source = SourceHealth("s", SourceState.READING, files_taken=1, rows_taken=100)
    health = Health(True, RunState.IDLE, None, (), (source,), ())
    assert repr(health) == "<health: ok; the run is idle>"
    assert repr(source).startswith("<stream s: 100 rows and 1 file taken")
    report = AuditReport("q", True, 5, 5, (), (), 0, 0, inputs=(source,))
    assert repr(report).startswith(
        "<audit of q: ok, 5 rows equal plain Spark's\n  input of stream s: 100 rows"
    )
