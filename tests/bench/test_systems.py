"""Every system that is measured gives the same rows: figures of wrong results mean nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from join_definition import JOINED, by_definition

from headrace_bench.astream import AggregationQuery
from headrace_bench.systems.fused import closed_windows
from headrace_bench.trial import Trial
from headrace_bench.workload import Workload
from thorough import THOROUGH

SPARK_BASED = ("headrace", "spark", "fused")
QUERIES = 3
TINY = {"queries": QUERIES, "rows": 2_000, "files": 2, "warm_up": 1, "rate": 500, "keys": 10}


SEEDS = {Workload.JOIN: 51, Workload.COMPLEX: 284}
"""Of three queries that all have rows, and whose predicates let Spark's watermark come as far as the stream's."""

PREDICATES_SEED = 1
"""Of five queries that all have rows."""


@pytest.mark.cluster
def test_all_systems_have_the_same_rows_and_joins_those_of_the_definition(tmp_path: Path) -> None:
    """In one process: starting Spark takes longer than such a trial."""
    joins = [few_joins("headrace", workload) for workload in SEEDS]
    outcomes = run_workers([*(TINY | {"system": system} for system in SPARK_BASED), *joins], tmp_path)
    expect_same_rows(TINY, dict(zip(SPARK_BASED, outcomes, strict=False)))
    for spec, outcome in zip(joins, outcomes[len(SPARK_BASED) :], strict=True):
        expect_defined_rows(spec, outcome)


@THOROUGH
@pytest.mark.cluster
def test_predicates_have_the_same_rows_everywhere(tmp_path: Path) -> None:
    spec = TINY | {
        "workload": "predicates",
        "columns": 2,
        "queries": 5,
        "rows": 4_000,
        "seed": PREDICATES_SEED,
    }
    outcomes = run_workers([spec | {"system": system} for system in SPARK_BASED], tmp_path)
    expect_same_rows(spec, dict(zip(SPARK_BASED, outcomes, strict=True)))


@THOROUGH
@pytest.mark.cluster
@pytest.mark.parametrize("workload", SEEDS)
def test_joins_by_hand_and_by_spark_alone_have_the_rows_of_the_definition(
    workload: Workload, tmp_path: Path
) -> None:
    """All 70 queries of each kind, in one run of what is written by hand, and a few of them as Spark's own queries."""
    specs = [JOINED[workload] | {"system": "fused"}, few_joins("spark", workload)]
    by_hand, alone = run_workers(specs, tmp_path)
    found = [bool(by_hand["sample"][str(number)]) for number in range(70)]
    assert len(by_hand["sample"]) == 70 and sum(found) > 35, "most queries have rows"
    for spec, outcome in zip(specs, (by_hand, alone), strict=True):
        expect_defined_rows(spec, outcome)


def few_joins(system: str, workload: Workload) -> dict[str, Any]:
    return JOINED[workload] | {
        "system": system,
        "queries": QUERIES,
        "sample": QUERIES,
        "seed": SEEDS[workload],
    }


def expect_same_rows(spec: dict[str, Any], outcomes: dict[str, Any]) -> None:
    expected = outcomes[SPARK_BASED[0]]["sample"]
    assert list(expected) == [str(number) for number in Trial.of({"system": "", **spec}).sampled()]
    assert all(expected.values()), "a query without rows compares nothing"
    for system, outcome in outcomes.items():
        same = {number: [*map(close, rows)] for number, rows in outcome["sample"].items()}
        assert same == expected, system
        assert outcome["result_rows"] >= sum(map(len, expected.values())), system


def expect_defined_rows(spec: dict[str, Any], outcome: dict[str, Any]) -> None:
    trial = Trial.of(spec)
    expected = [sorted(by_definition(query, trial)) for query in trial.drawn()]
    for number, rows in enumerate(expected):
        assert [*map(tuple, outcome["sample"][str(number)])] == rows, trial.drawn()[number]
    if spec["queries"] == QUERIES:
        assert len(expected) == QUERIES and all(expected), "a query without rows compares nothing"
    if spec["system"] != "headrace":  # which counts a joined row once, however many windows show it
        assert outcome["result_rows"] >= sum(map(len, expected))


def run_workers(trials: Sequence[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """The outcomes of tiny trials, one after the other in a process of their own: each starts a Spark session."""
    folders = [folder / str(number) for number in range(len(trials))]
    arguments = []
    for trial, place in zip(trials, folders, strict=True):
        place.mkdir()
        (place / "trial.json").write_text(json.dumps(trial))
        arguments.append([str(place / "trial.json"), str(place)])
    program = f"from headrace_bench.worker import main\nfor each in {arguments!r}: main(each)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-5_000:]
    outcomes = [json.loads((place / "outcome.json").read_text()) for place in folders]
    for trial, outcome in zip(trials, outcomes, strict=True):
        assert outcome["failure"] is None, f"{trial}: {outcome['failure']}\n{done.stderr[-5_000:]}"
    return outcomes


def close(row: list[Any]) -> list[Any]:
    return [pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for value in row]


def test_slices_become_windows_when_the_watermark_reaches_their_end() -> None:
    # slice   0   1   2   3   4   5      one key, a window of 3 s every 2 s
    # sum     1   2   4       8   16
    #         |---------)                ends 3: 7; the one before it ends 1 and holds slice 0 only
    #                 |---------)        ends 5: 12
    #                         |--------- ends 7: 24
    chunk = [(7, AggregationQuery("SUM", 1, ((1, ">=", 0),), 3, 2))]
    slices = pa.table({"slice_s": [0, 1, 2, 4, 5], "key": [9] * 5, "v7": [1, 2, 4, 8, 16]})

    def closed(after_s: int, until_s: int) -> list[tuple[int, int]]:
        rows = pa.concat_tables(closed_windows(chunk, slices, after_s, until_s))
        assert set(rows["query"].to_pylist()) == {7}
        return sorted(zip(rows["end_s"].to_pylist(), rows["value"].to_pylist(), strict=True))

    assert closed(-100, 5) == [(1, 1), (3, 7), (5, 12)]
    assert closed(3, 6) == [(5, 12)]
    assert closed(5, 9) == [(7, 24)]


def test_a_window_in_which_nothing_has_matched_has_no_row() -> None:
    chunk = [
        (number, AggregationQuery(aggregate, 1, ((1, ">=", 0),), 1, 1))
        for number, aggregate in enumerate(("SUM", "COUNT", "AVG", "MIN", "MAX"))
    ]
    columns = {"v0": [None, 6], "v1": [0, 2], "v2": [None, 6], "n2": [0, 2], "v3": [None, 2], "v4": [None, 4]}
    slices = pa.table(
        {"slice_s": [0, 0], "key": [1, 2], **{k: pa.array(v, pa.int64()) for k, v in columns.items()}}
    )
    rows = pa.concat_tables(closed_windows(chunk, slices, -100, 1)).select(["query", "key", "value", "mean"])
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        (0, 2, 6, None),
        (1, 2, 2, None),
        (2, 2, None, 3.0),
        (3, 2, 2, None),
        (4, 2, 4, None),
    ]
