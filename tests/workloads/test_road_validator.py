"""The validator finds each kind of fault, both ways, and says so in words."""

from __future__ import annotations

import pyarrow as pa
import pytest
from road_samples import batch_of, crowd, journey, report, request

from headrace.workloads.linear_road.history import TollHistory
from headrace.workloads.linear_road.operator import LinearRoad
from headrace.workloads.linear_road.past import PastRule, PastTable
from headrace.workloads.linear_road.play import emitted
from headrace.workloads.linear_road.rules import HISTORY, Kind, Lav, Rules
from headrace.workloads.linear_road.validator import LIMITS_S, Validator, Verdict

HISTORICAL = pa.RecordBatch.from_pylist([{"VID": 1, "Day": 9, "XWay": 0, "Toll": 77}], schema=HISTORY)

CRASH = [report(time, vid, 20, spd=0) for time in (0, 10, 20, 30) for vid in (5, 6)]

INPUT = batch_of(
    [
        *crowd(0, 10, 52),
        *CRASH,
        report(60, 1, 10),
        report(61, 7, 19),
        report(90, 1, 11),
        request(Kind.BALANCE, 100, 1, 1),
        request(Kind.EXPENDITURE, 101, 1, 2, xway=0, day=9),
        request(Kind.EXPENDITURE, 102, 1, 3, xway=0, day=8),
        journey(103, 4, 7, 9, 2, 480),
        journey(104, 5, 9, 7, 2, 480),
    ]
)


def right_answers() -> dict[str, pa.RecordBatch]:
    operator = LinearRoad(history=TollHistory.read([HISTORICAL], 0), past=PastTable.by_rule(5, 0))
    operator.open(0, None)
    return {kind: emitted(rows, 1.5) for kind, rows in operator.process(INPUT).items()}


def verdict_on(answers: dict[str, pa.RecordBatch]) -> Verdict:
    validator = Validator(
        paid=lambda vid, day, xway: 77 if (vid, day, xway) == (1, 9, 0) else 0, past=PastRule(5)
    )
    validator.feed(INPUT)
    for kind, rows in answers.items():
        validator.check(kind, rows)
    return validator.verdict()


def changed(rows: pa.RecordBatch, column: str, by: float) -> pa.RecordBatch:
    """The rows with a number added to a column of the last one."""
    values = rows.to_pylist()
    values[-1][column] += by
    return pa.RecordBatch.from_pylist(values, schema=rows.schema)


def test_right_answers_are_right() -> None:
    answers = right_answers()
    assert [answers[kind].num_rows for kind in answers] == [52 + 2 + 3, 1, 1, 2, 2]
    verdict = verdict_on(answers)
    assert verdict.ok and verdict.slowest_s == dict.fromkeys(answers, 1.5)
    assert verdict.render().startswith("average velocity: paper")


@pytest.mark.parametrize("kind", LIMITS_S)
def test_an_answer_that_does_not_come_is_missing(kind: str) -> None:
    answers = right_answers()
    verdict = verdict_on({**answers, kind: answers[kind].slice(1)})
    assert not verdict.ok and verdict.counts[kind]["missing"] == 1
    assert len(verdict.examples["missing"]) == 1


@pytest.mark.parametrize("kind", LIMITS_S)
def test_an_answer_that_nobody_asked_for_is_extra(kind: str) -> None:
    answers = right_answers()
    last = answers[kind].slice(answers[kind].num_rows - 1)
    for extra in (last, changed(last, "Time", 1)):  # the same once more, and one for another key
        verdict = verdict_on({**answers, kind: pa.concat_batches([answers[kind], extra])})
        assert verdict.counts[kind]["extra"] == 1 and len(verdict.examples["extra"]) == 1
        assert sum(count[fault] for count in verdict.counts.values() for fault in ("missing", "wrong")) == 0


@pytest.mark.parametrize(
    ("kind", "column", "by"),
    [
        *(("tolls", "Toll", 2), ("tolls", "LAV", -1), ("expenditures", "Balance", 1)),
        *(("balances", "Balance", 1), ("balances", "ResultTime", -20), ("balances", "ResultTime", 1)),
        *(("travel_times", "TravelTime", 1), ("travel_times", "Toll", -1)),
    ],
)
def test_a_wrong_value_is_wrong(kind: str, column: str, by: int) -> None:
    answers = right_answers()
    verdict = verdict_on({**answers, kind: changed(answers[kind], column, by)})
    assert verdict.counts[kind]["wrong"] == 1 and not verdict.counts[kind]["missing"]
    assert "should be" in verdict.examples["wrong"][0]


def test_an_alert_for_another_segment_is_missing_and_extra() -> None:
    answers = right_answers()
    verdict = verdict_on({**answers, "alerts": changed(answers["alerts"], "Seg", 1)})
    assert (verdict.counts["alerts"]["missing"], verdict.counts["alerts"]["extra"]) == (1, 1)


@pytest.mark.parametrize("kind", LIMITS_S)
def test_an_answer_after_its_limit_is_late(kind: str) -> None:
    answers = right_answers()
    in_time = changed(answers[kind], "Emit", LIMITS_S[kind] - 1.5)
    assert verdict_on({**answers, kind: in_time}).ok
    verdict = verdict_on({**answers, kind: changed(in_time, "Emit", 0.1)})
    assert verdict.counts[kind]["late"] == 1 and not verdict.ok


def balance_verdict(asked: int, balance: int, result_time: int) -> bool:
    """Vehicle 1 is charged 8 at 90 s; is this answer to a request all right?"""
    validator = Validator()
    validator.feed(batch_of([*crowd(0, 10, 52), report(60, 1, 10), report(90, 1, 11)]))
    validator.feed(batch_of([request(Kind.BALANCE, asked, 1, 1)]))
    row = {"Time": asked, "QID": 1, "ResultTime": result_time, "Balance": balance, "Emit": float(asked)}
    validator.check("balances", pa.RecordBatch.from_pylist([row]))
    return validator.verdict().counts["balances"]["right"] == 1


def test_a_balance_may_leave_out_only_a_charge_younger_than_30_seconds() -> None:
    assert balance_verdict(100, 8, 100) and balance_verdict(100, 8, 90)
    assert balance_verdict(119, 0, 89) and balance_verdict(119, 0, 90)
    assert not balance_verdict(119, 0, 119)  # it says it is up to date, and is not
    assert not balance_verdict(120, 0, 89)
    assert balance_verdict(90, 8, 90) and balance_verdict(90, 0, 90)
    assert not balance_verdict(100, 9, 100)


def test_a_run_says_which_average_it_used() -> None:
    assert "readings" in Validator(Rules(Lav.READINGS)).verdict().render()


def test_only_the_first_few_faults_are_spelt_out() -> None:
    verdict = verdict_on({})
    assert verdict.counts["tolls"]["missing"] == 57 and len(verdict.examples["missing"]) == 5
