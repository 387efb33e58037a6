"""Every query alone: what it takes, with all cores to itself.

A small machine cannot run a hundred isolated queries at once. So each has a group of its own, and groups run one after
the other: whoever runs has the machine. The sum of their CPU seconds is what isolated execution costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from headrace_bench.epochs import warehouse
from headrace_bench.isolation.cases import RANGE_S, Case, Phase, Sizes
from headrace_bench.isolation.feeding import made_aside, steps
from headrace_bench.isolation.figures import CORES, Stretch, Told, empty
from headrace_bench.isolation.making import create_queries, create_streams
from headrace_bench.meters import Meter

EPOCH_S = 1.0
WARM_EPOCHS = RANGE_S + 1
"""By then windows are full, and everything has been compiled."""


AT_ONCE = 16
"""So many queries have a warehouse at a time, because all of their rows would fill a disk."""

SLOWEST = 4
"""Where the rate rises step by step, so many of the slowest queries go on when all together take more than there is."""


def run_alone(spark: Any, case: Case, sizes: Sizes) -> Told:
    """A stretch for every rate and spread of the case.

    In a case that climbs, all queries are measured until all cores would be too few for them together, at two rates at
    least. Then only the slowest go on, until they are busy all the time. What is beyond that is extrapolated.
    """
    told, known = empty(case), dict[tuple[int, Any], Stretch]()
    names = list(case.load.draw())
    for phase in case.course:
        key = phase.rate, phase.spread
        if key not in known:
            known[key] = measure_alone(spark, case, phase, sizes, names)
        found = known[key]
        told.stretches.append(replace(found, phase=phase.name))
        if case.climbs and len(told.stretches) > 1:
            if max(found.busy.values()) > EPOCH_S and (found.cpu > CORES or len(names) <= SLOWEST):
                break
            if found.cpu > CORES:
                names = sorted(names, key=lambda name: found.busy[name])[-SLOWEST:]
    return told


def measure_alone(spark: Any, case: Case, phase: Phase, sizes: Sizes, names: Sequence[str]) -> Stretch:
    """Seconds of input, one epoch each, for some queries at a time.

    `busy` is how long a query's epochs take, so it keeps up if that is below 1. `latency_s` is computed from it: live,
    it is how old the newest tuple is that a query has, and that is half an epoch more than its epoch takes.
    """
    parts = [names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE)]
    return together([_measure(spark, case, phase, sizes, part, parts[0]) for part in parts])


def together(parts: Sequence[Stretch]) -> Stretch:
    """One stretch of those of different queries.

    >>> a, b = (Stretch("p", 1.0, 1, 0.5, {q: 1.0}, {q: 0.6}, {q: 0.0}, 0.2, {q: 0.5}, 2.0, {q: 0.1}) for q in "ab")
    >>> both = together([a, b])
    >>> both.groups, both.cpu, both.tasks, both.per_epoch, both.busy
    (2, 1.0, 0.4, 4.0, {'a': 0.1, 'b': 0.1})
    """
    whole = parts[0]
    for part in parts[1:]:
        whole = Stretch(
            whole.phase,
            whole.rate,
            whole.groups + part.groups,
            whole.cpu + part.cpu,
            whole.shares | part.shares,
            whole.latency_s | part.latency_s,
            whole.growth | part.growth,
            whole.tasks + part.tasks,
            whole.cpus | part.cpus,
            whole.per_epoch + part.per_epoch,
            whole.busy | part.busy,
        )
    return whole


def _measure(
    spark: Any, case: Case, phase: Phase, sizes: Sizes, names: Sequence[str], first: Sequence[str]
) -> Stretch:
    """What it takes to append the input counts for the first part only: one warehouse for all would do that once."""
    with warehouse(spark, sharing="manual") as hr:
        create_streams(hr, case.load)
        create_queries(hr, case.load, apart=True, only=names)
        hr._running._crew._threads = 1  # one after the other
        whole = Phase(phase.name, (WARM_EPOCHS + sizes.alone_epochs) * EPOCH_S, phase.rate, phase.spread)
        coming = steps(case.load, (whole,), EPOCH_S)
        tuples = 0
        for _ in range(WARM_EPOCHS):
            run_step(hr, next(coming).tables)
        before = hr._delivered.sealed
        with Meter() as meter:
            for step in made_aside(coming, meter):
                with nullcontext() if names is first else meter.aside():
                    append(hr, step.tables)
                hr.run_available()
                tuples += sum(table.num_rows for table in step.tables.values())
        return _stretch(hr, phase, before, tuples, meter.cpu_s, sizes.alone_epochs)


def run_step(hr: Any, tables: dict[str, Any]) -> int:
    """Append what arrives and run until it is processed; how many tuples that were."""
    append(hr, tables)
    hr.run_available()
    return sum(table.num_rows for table in tables.values())


def append(hr: Any, tables: dict[str, Any]) -> None:
    """Append what arrives to every stream."""
    for stream, table in tables.items():
        hr.append(stream, table)


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
    per_epoch = sum(hr._running.conducting.stage.tasks(set(homes.values())).values())
    return Stretch(
        phase.name,
        rate,
        len(set(homes.values())),
        cpu_s / input_s,
        {query: min(1.0, 1.0 / spent) if spent > 0 else 1.0 for query, spent in seconds.items()},
        {query: spent * EPOCH_S + EPOCH_S / 2 for query, spent in seconds.items()},
        {query: max(0.0, rate * (1 - 1 / spent)) if spent > 1 else 0.0 for query, spent in seconds.items()},
        tasks / input_s,
        {query: (worked[home] + besides) / input_s for query, home in homes.items()},
        per_epoch,
        seconds,
    )
