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
def test_spark_alone_and_fused_by_hand_give_the_rows_of_headrace(tmp_path: Path) -> None:
    expect_same_rows(TINY, SPARK_BASED, tmp_path)


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
    expect_same_rows(spec, SPARK_BASED, tmp_path)


@THOROUGH
@pytest.mark.cluster
@pytest.mark.parametrize("workload", [Workload.JOIN, Workload.COMPLEX])
def test_joins_fused_by_hand_have_the_rows_of_the_definition(workload: Workload, tmp_path: Path) -> None:
    """All 70 queries of each kind, in one run."""
    found = expect_defined_rows("fused", JOINED[workload], tmp_path)
    assert len(found) == 70 and sum(map(bool, found)) > 35, "most queries have rows"


@pytest.mark.cluster
@pytest.mark.parametrize("workload", [Workload.JOIN, Workload.COMPLEX])
@pytest.mark.parametrize("system", [pytest.param("spark", marks=THOROUGH), "headrace"])
def test_joins_have_the_rows_of_the_definition(system: str, workload: Workload, tmp_path: Path) -> None:
    few = JOINED[workload] | {"queries": 3, "sample": 3, "seed": SEEDS[workload]}
    found = expect_defined_rows(system, few, tmp_path)
    assert len(found) == 3 and all(found), "a query without rows compares nothing"


def expect_same_rows(trial: dict[str, Any], systems: Sequence[str], folder: Path) -> None:
    outcomes = {system: run_worker(system, folder / system, trial) for system in systems}
    expected = outcomes[systems[0]]["sample"]
    assert list(expected) == [str(number) for number in Trial.of({"system": "", **trial}).sampled()]
    assert all(expected.values()), "a query without rows compares nothing"
    for system, outcome in outcomes.items():
        same = {number: [*map(close, rows)] for number, rows in outcome["sample"].items()}
        assert same == expected, system
        assert outcome["result_rows"] >= sum(map(len, expected.values())), system


def expect_defined_rows(system: str, spec: dict[str, Any], folder: Path) -> list[list[tuple[Any, ...]]]:
    trial = Trial.of({"system": system, **spec})
    outcome = run_worker(system, folder / system, spec)
    expected = [sorted(by_definition(query, trial)) for query in trial.drawn()]
    for number, rows in enumerate(expected):
        assert [*map(tuple, outcome["sample"][str(number)])] == rows, trial.drawn()[number]
    if system != "headrace":  # which counts a joined row once, however many windows show it
        assert outcome["result_rows"] >= sum(map(len, expected))
    return expected


def run_worker(system: str, folder: Path, trial: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a tiny trial, in a process of its own because every system starts its own Spark session."""
    folder.mkdir()
    spec = folder / "trial.json"
    spec.write_text(json.dumps({"system": system, **trial}))
    command = [sys.executable, "-m", "headrace_bench.worker", str(spec), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-5_000:]
    outcome: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    assert outcome["failure"] is None, f"{system}: {outcome['failure']}\n{done.stderr[-5_000:]}"
    return outcome


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
