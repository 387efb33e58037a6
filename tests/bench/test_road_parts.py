"""What a response time is made of."""

from __future__ import annotations

from headrace_bench.road_parts import PARTS, Answered, Fed, parts_of, render_parts


def test_parts_add_up_to_the_response_time() -> None:
    fed = Fed(due=100.0, next_began=101.0, next_appended=101.1)
    answered = Answered(sealed=101.2, taken=0.5, split=0.1, process=0.3, committing=101.9, counted=102.0)
    found = parts_of(fed, answered)
    rounded = {part: round(seconds, 6) for part, seconds in found.items()}
    assert rounded == {
        "next second": 1.0, "append": 0.1, "seal": 0.1, "begin": 0.2, "split": 0.1, "process": 0.3, "commit": 0.2,
    }  # fmt: skip
    assert round(sum(found.values()), 6) == 2.0


def test_an_epoch_that_was_sealed_before_all_was_appended_makes_no_time_negative() -> None:
    found = parts_of(Fed(100.0, 101.0, 103.0), Answered(102.0, 0.5, 0.1, 0.3, 104.0, 103.9))
    assert min(found.values()) >= 0 and round(sum(found.values()), 6) == 4.0


def test_the_slowest_seconds_come_first() -> None:
    parts = {second: dict.fromkeys(PARTS, 0.1 * second) for second in range(1, 9)}
    lines = render_parts(parts, slowest=2).splitlines()
    assert [line.split()[0] for line in lines] == ["response", "p50", "p99", "max", "second", "second"]
    assert lines[4].startswith("second 8 ") and lines[5].startswith("second 7 ")
    assert render_parts({}) == "no second was answered"
