"""Validation in shares: the same verdict as that of the validator, whatever the answers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.workloads.linear_road import split as road
from headrace.workloads.linear_road.operator import LinearRoad
from headrace.workloads.linear_road.past import PastRule, PastTable
from headrace.workloads.linear_road.play import Play, emitted
from headrace.workloads.linear_road.traffic import Traffic
from headrace.workloads.linear_road.validator import Validator, Verdict
from headrace_bench.road_check import Answers, Played, Share, share_of, validate

TRAFFIC = Traffic(3, seed=3, peak=30, segments=(40, 60), trip=(5, 15), accidents_per_hour=60)
PLAYED = Played(TRAFFIC, 10_080, 10_200, 10_320)


def history(xway: int) -> road.RuledHistory:
    return road.RuledHistory(TRAFFIC.seed, TRAFFIC.expressways, TRAFFIC.vehicles, xway)


@pytest.fixture(scope="module")
def shares() -> list[Share]:
    return [share_of(PLAYED, 2, number) for number in range(2)]


@pytest.fixture(scope="module")
def answers() -> dict[str, pa.Table]:
    """The right answers, those of the warming up included."""
    past = [PastTable.by_rule(TRAFFIC.seed, xway) for xway in range(TRAFFIC.expressways)]
    play = Play(TRAFFIC.expressways, lambda xway: LinearRoad(history=history(xway), past=past[xway]))
    found: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in road.OUTPUTS}
    for batch in TRAFFIC.batches(PLAYED.warm, PLAYED.end):
        for kind, rows in play.process(batch):
            found[kind].append(rows)
    return {kind: pa.Table.from_batches(rows) for kind, rows in found.items()}


def by_the_validator(answers: dict[str, pa.Table], delay: float) -> Verdict:
    """Everything from the beginning on, by one validator."""
    validator = Validator(
        paid=lambda vid, day, xway: int(history(xway).paid(np.array([vid]), np.array([day]))[0]),
        past=PastRule(TRAFFIC.seed),
    )
    for batch in TRAFFIC.batches(PLAYED.warm, PLAYED.end):
        validator.feed(batch)
    for kind, table in answers.items():
        for rows in table.combine_chunks().to_batches():
            validator.check(kind, emitted(rows, delay))
    return validator.verdict()


def in_shares(folder: Path, shares: list[Share], answers: dict[str, pa.Table], delay: float) -> Verdict:
    files = []
    for kind, table in answers.items():
        for second in sorted(set(table.column("Time").to_pylist())):
            path = folder / f"{kind}-{second}.parquet"
            pq.write_table(table.filter(pa.array(table.column("Time").to_numpy() == second)), path)
            files.append(Answers(kind, str(path), second + delay))
    return validate(PLAYED, shares, files)


def spoilt(answers: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """One toll is wrong, one is missing, one comes twice; one alert, balance and travel time each are missing."""
    tolls = answers["tolls"].sort_by("Time")
    wrong = tolls.column("Toll").to_numpy().copy()
    wrong[-1] += 7
    tolls = tolls.set_column(tolls.column_names.index("Toll"), "Toll", pa.array(wrong))
    end = tolls.num_rows
    tolls = pa.concat_tables([tolls.slice(0, end - 3), tolls.slice(end - 2), tolls.slice(end - 5, 1)])
    fewer = {kind: answers[kind].sort_by("Time") for kind in ("alerts", "balances", "travel_times")}
    return answers | {"tolls": tolls} | {kind: table[:-1] for kind, table in fewer.items()}


def faults(verdict: Verdict) -> dict[str, dict[str, int]]:
    return {
        kind: {fault: count[fault] for fault in ("missing", "extra", "wrong", "late")}
        for kind, count in verdict.counts.items()
    }


def test_right_answers_are_right(tmp_path: Path, shares: list[Share], answers: Any) -> None:
    verdict = in_shares(tmp_path, shares, answers, 1.0)
    assert verdict.ok, verdict.render()
    assert all(verdict.counts[kind]["right"] for kind in road.OUTPUTS), verdict.render()
    assert verdict.slowest_s["tolls"] == 1.0


@pytest.mark.parametrize("delay", [1.0, 6.0])
def test_faults_are_those_that_the_validator_finds(
    tmp_path: Path, shares: list[Share], answers: Any, delay: float
) -> None:
    bad = spoilt(answers)
    found = in_shares(tmp_path, shares, bad, delay)
    assert not found.ok
    if delay < 5:
        wanted = by_the_validator(bad, delay)
        assert wanted.counts["tolls"]["wrong"] == 1 and faults(found) == faults(wanted)
    assert found.counts["tolls"]["wrong"] == found.counts["tolls"]["missing"] == 1
    assert bool(found.counts["tolls"]["late"]) == (delay > 5)
