"""Real drivers, killed with SIGKILL: at the important points on the run's own JVM, and together with their JVM.

Whatever is left, the next session (of this process) plays the scenario to its end and must have delivered what an
undisturbed run delivers; every query's audit must agree.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attached import gateway_of
from scenario import BUSY, QUERIES, delivered, files_of, lifetimes, named_by, play

import headrace
from headrace.storage import faults
from thorough import THOROUGH

pytestmark = [pytest.mark.crash, pytest.mark.spark]

DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture(scope="module")
def undisturbed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with headrace.open(
        tmp_path_factory.mktemp("undisturbed"), spark=spark, upkeep=BUSY, progress=False
    ) as hr:
        play(hr)
        yield hr


def drive(warehouse: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DRIVER), str(warehouse), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def go_on(spark: Any, warehouse: Path, undisturbed: Any, audited: tuple[str, ...]) -> None:
    with headrace.open(warehouse, spark=spark, upkeep=BUSY, progress=False) as hr:
        play(hr)
        assert delivered(hr) == delivered(undisturbed)
        assert lifetimes(hr) == lifetimes(undisturbed)
        for name in audited:
            report = hr.query(name).audit()
            assert report.ok, report
            assert report.actual_rows > 0
    with headrace.open(warehouse, spark=spark, upkeep=BUSY) as hr:
        assert files_of(hr) == named_by(hr)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("seal.after:3", marks=THOROUGH),
        "fallback.after:3",
        "commit.before:4",
        pytest.param("commit.after:5", marks=THOROUGH),
    ],
)
def test_killed(spark: Any, tmp_path: Path, undisturbed: Any, point: str) -> None:
    warehouse = tmp_path / "warehouse"
    died = drive(warehouse, **gateway_of(spark), **{faults.VARIABLE: point})
    assert died.returncode == -signal.SIGKILL, died.stderr
    go_on(
        spark, warehouse, undisturbed, ("spend", "users", "odd", "uniq") if point == "commit.before:4" else ()
    )


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("master", "point"),
    [
        pytest.param("local[2,4]", "commit.before:9", marks=THOROUGH, id="local"),
        pytest.param("local-cluster[2,1,1024]", "job.after:9", id="cluster"),
    ],
)
def test_killed_with_its_jvm(spark: Any, tmp_path: Path, undisturbed: Any, master: str, point: str) -> None:
    """Also, on the way, a worker dies once in the middle of each kind of task, and Spark runs that task again."""
    markers = tmp_path / "markers"
    markers.mkdir()
    for name in ("task.map", "task.reduce", "task.catalyst", "task.fallback"):
        (markers / name).touch()
    warehouse = tmp_path / "warehouse"
    died = drive(
        warehouse,
        master,
        **{faults.VARIABLE: point, faults.TASK_VARIABLE: str(markers), "SPARK_LOCAL_IP": "127.0.0.1"},
        HEADRACE_OWN_WORKER="off",  # the tasks that die are Spark's
    )
    assert died.returncode == -signal.SIGKILL, died.stderr[-3000:]
    assert list(markers.iterdir()) == []
    go_on(spark, warehouse, undisturbed, tuple(QUERIES))
