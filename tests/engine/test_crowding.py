"""Light epochs do not wait behind the tasks of a group that keeps all cores busy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace.engine.crowding import JobsUnderWay
from headrace.engine.group import Group
from headrace.model.metrics import NOBODY
from headrace.optimizer.place import EpochWork, Place


def group(name: str, jobs: JobsUnderWay, seconds: float) -> Any:
    """What a group knows of its last epoch, which had 25,000 tuples."""
    metrics = SimpleNamespace(input_rows=25_000, map_seconds=seconds, reduce_seconds=0.0)
    spent = SimpleNamespace(
        map_seconds=seconds, reduce_seconds=0.0, functions={}, matched=NOBODY, joined=NOBODY, rows=NOBODY
    )
    catalog = SimpleNamespace(active_entries=lambda epoch, group: ())
    return SimpleNamespace(
        name=name,
        _inquiry=SimpleNamespace(untroubled=lambda epoch: True),
        _house=SimpleNamespace(jobs=jobs, catalog=catalog),
        _before=SimpleNamespace(metrics=metrics, operators={"join": spent}),
    )


def test_light_work_needs_no_job_while_another_group_runs_one() -> None:
    epoch: Any = SimpleNamespace(id=7)
    now = [0.0]
    jobs, work = JobsUnderWay(lambda: now[0]), EpochWork(25_000, 0, catalyst=False)
    heavy, light = group("heavy", jobs, 4.0), group("light", jobs, 0.1)
    jobs.begins("light")
    assert Group._place(light, epoch, work) is Place.SPARK, "nobody is in its way, and two cores are quicker"
    jobs.begins("heavy")
    assert Group._place(light, epoch, work) is Place.OWN_WORKER
    assert not jobs.has_others("heavy"), "the light one needs no job"
    assert Group._place(heavy, epoch, work) is Place.SPARK, "its work is worth a job, whoever runs beside it"
    jobs.ends("heavy")
    assert Group._place(light, epoch, work) is Place.OWN_WORKER, (
        "the heavy one's next epoch may begin at any moment"
    )
    jobs.ends("light")
    assert not jobs.has_others("heavy"), "its epoch ran without a job"
    now[0] = 2.0
    assert Group._place(light, epoch, work) is Place.SPARK
