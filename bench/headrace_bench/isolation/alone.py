"""Every query alone: what it takes, with all cores to itself.

A small machine cannot run a hundred isolated queries at once. So each has a group of its own, and groups run one after
the other: whoever runs has the machine. The sum of their CPU seconds is what isolated execution costs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace_bench.epochs import warehouse
from headrace_bench.isolation.cases import RANGE_S, Case, Phase, Sizes
from headrace_bench.isolation.feeding import made_aside, steps
from headrace_bench.isolation.figures import Stretch, Told, empty
from headrace_bench.isolation.making import create_queries, create_streams
from headrace_bench.meters import Meter

EPOCH_S = 1.0
WARM_EPOCHS = RANGE_S + 1
"""By then windows are full, and everything has been compiled."""


def run_alone(spark: Any, case: Case, sizes: Sizes) -> Told:
    """A stretch for every rate and spread of the case."""
    told, known = empty(case), dict[tuple[int, Any], Stretch]()
    for phase in case.course:
        key = phase.rate, phase.spread
        if key not in known:
            known[key] = measure_alone(spark, case, phase, sizes)
        found = known[key]
        told.stretches.append(replace(found, phase=phase.name))
    return told


def measure_alone(spark: Any, case: Case, phase: Phase, sizes: Sizes) -> Stretch:
    """Seconds of input, one epoch each. `latency_s` is what a query's epoch took, so it keeps up if that is below 1."""
    with warehouse(spark, sharing="manual") as hr:
        create_streams(hr, case.load)
        create_queries(hr, case.load, apart=True)
        hr._running._crew._threads = 1  # one after the other
        whole = Phase(phase.name, (WARM_EPOCHS + sizes.alone_epochs) * EPOCH_S, phase.rate, phase.spread)
        coming = steps(case.load, (whole,), EPOCH_S)
        tuples = 0
        for _ in range(WARM_EPOCHS):
            run_step(hr, next(coming).tables)
        before = hr._delivered.sealed
        with Meter() as meter:
            for step in made_aside(coming, meter):
                tuples += run_step(hr, step.tables)
        return _stretch(hr, phase, before, tuples, meter.cpu_s, sizes.alone_epochs)


def run_step(hr: Any, tables: dict[str, Any]) -> int:
    """Append what arrives and run until it is processed; how many tuples that were."""
    for stream, table in tables.items():
        hr.append(stream, table)
    hr.run_available()
    return sum(table.num_rows for table in tables.values())


def _stretch(hr: Any, phase: Phase, before: int, tuples: int, cpu_s: float, epochs: int) -> Stretch:
    homes = {info.name: info.group for info in hr.queries()}
    worked = dict.fromkeys(homes.values(), 0.0)
    took: dict[str, list[float]] = {group: [] for group in homes.values()}
    for epoch in hr.recent_epochs():
        if epoch.epoch > before and epoch.group in took:
            took[epoch.group].append(epoch.cost.seconds)
            worked[epoch.group] += epoch.cost.cpu_seconds
    tasks, input_s = sum(worked.values()), epochs * EPOCH_S
    seconds = {query: sum(took[home]) / input_s for query, home in homes.items()}
    # what Spark and the driver take is about the same for every query
    besides = max(0.0, cpu_s - tasks) / len(homes)
    rate = tuples / input_s
    return Stretch(
        phase.name,
        rate,
        len(set(homes.values())),
        cpu_s / input_s,
        {query: min(1.0, 1.0 / spent) if spent > 0 else 1.0 for query, spent in seconds.items()},
        seconds,
        {query: max(0.0, rate * (1 - 1 / spent)) if spent > 1 else 0.0 for query, spent in seconds.items()},
        tasks / input_s,
        {query: (worked[home] + besides) / input_s for query, home in homes.items()},
    )
