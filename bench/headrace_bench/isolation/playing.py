"""One run of a policy with the engine in the background, watched several times a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from headrace.optimizer.grouping.policies import grouper_of
from headrace.optimizer.grouping.settings import Settings
from headrace.options import SHARING
from headrace_bench.epochs import warehouse
from headrace_bench.isolation.alone import run_alone
from headrace_bench.isolation.cases import ISOLATED, RATES, WATCH_S, Case, Phase, Sizes
from headrace_bench.isolation.feeding import feeding, steps
from headrace_bench.isolation.figures import (
    Change,
    Told,
    behind_s,
    empty,
    ends_of,
    longest_gap,
    series_of,
    stretch_of,
)
from headrace_bench.isolation.keeping import Moment
from headrace_bench.isolation.making import create_queries, create_streams
from headrace_bench.meters import Meter

SAMPLE_S = 0.125
"""So often a run is looked at. It bounds how well a share is known."""

WARM_S = 4
"""Seconds of input that are run before the clock starts, so that no figure is about a cold start."""


def play(spark: Any, case: Case, sizes: Sizes) -> Told:
    """Run a case over a fresh warehouse."""
    return run_alone(spark, case, sizes) if case.alone else run_live(spark, case)


def run_live(spark: Any, case: Case) -> Told:
    """Let a policy decide while the input comes as it does."""
    with warehouse(spark, sharing=ISOLATED if case.apart else case.policy) as hr:
        create_streams(hr, case.load)
        create_queries(hr, case.load)
        hr.warm_up()
        coming = steps(case.load, (Phase("warm", WARM_S, RATES[case.load.workload]), *case.course))
        for _ in range(WARM_S):
            for stream, table in next(coming).tables.items():
                hr.append(stream, table)
            hr.run_available()
        if case.apart:
            switch(hr._running.conducting._conductor, case.policy)
        hr._running.conducting.use(
            Settings(
                merge_every_s=case.merge_every_s,
                watch_every_s=WATCH_S,
                threshold=case.threshold,
                bounded=True,
            )
        )
        hr.start(interval="1 second")
        began = time.time()
        with Meter() as meter, feeding(hr.append, _from_now(coming), meter):
            moments, early = watch(hr, case, began, meter)
        return tell(hr, case, moments, began, early)


def switch(conductor: Any, policy: str) -> None:
    """Let another policy decide from now on. People cannot do that in an open warehouse, and need not."""
    with conductor._lock:
        conductor._policy = SHARING[policy]
        conductor._grouper = grouper_of(conductor._policy)


def _from_now(coming: Iterator[Any]) -> Iterator[Any]:
    """The same steps, with the clock set to 0 at the first."""
    first = None
    for step in coming:
        first = step.at if first is None else first
        yield type(step)(step.at - first, step.phase, step.tables)


def watch(hr: Any, case: Case, began: float, meter: Meter) -> tuple[list[Moment], Any]:
    """Moments until the course is over, or until somebody has fallen behind in a case that climbs.

    And what `hr.sharing()` said when the first phase was over: the first looks pay for what is loaded and compiled.
    """
    found: list[Moment] = []
    ends, early = ends_of(case), None
    while time.time() - began < ends[-1]:
        with meter.aside():
            found.append(moment_of(hr, began, meter))
        done = [i for i, end in enumerate(ends) if found[-1].at >= end]
        if done and early is None:
            early = hr.sharing()
        if has_failed(case, found[-1]):
            break
        time.sleep(SAMPLE_S)
    return found, hr.sharing() if early is None else early


FAILED_S = 6.0
"""Whoever is so many seconds of input behind in a climb has had time to be split off, and the rate only rises. Just
before a long epoch ends, four seconds of input may wait for a query that keeps up."""


def has_failed(case: Case, moment: Moment) -> bool:
    """Whether a climb is over: somebody is so far behind that no policy gets it back while the rate rises."""
    done = sum(moment.at >= end for end in ends_of(case))
    rate = case.course[min(done, len(case.course) - 1)].rate * case.load.part
    return case.climbs and done > 0 and behind_s(moment, rate) > FAILED_S


def skipped_s(case: Case, phase: Phase) -> float:
    """The first seconds of a phase, of which nothing is told: a change is answered in them."""
    if phase.name == "steady":  # such a run has settled before
        return 0.0
    # steps of a climb are short, and lag that grows shows in all of one only
    return FIRST_S if case.climbs and phase != case.course[0] else phase.seconds / 2


FIRST_S = 1.0


def moment_of(hr: Any, began: float, meter: Meter) -> Moment:
    stage = hr._running.conducting.stage
    homes = {entry.query.name: entry.group for entry in hr._catalog.current()}
    done = {
        group: sum(stage.processed(hr._delivered.cursor(group)).values()) for group in set(homes.values())
    }
    processed = {query: done[group] for query, group in homes.items()}
    tasks = sum(stage.tasks(set(homes.values())).values())
    return Moment(time.time() - began, sum(stage.arrived().values()), processed, homes, meter.cpu_s, tasks)


def tell(hr: Any, case: Case, moments: list[Moment], began: float, early: Any) -> Told:
    """What is told of a run that is over."""
    told, sharing = empty(case), hr.sharing()
    told.changes = [
        Change(event.at - began, event.kind.value, event.reason, event.delay_seconds)
        for event in hr.events()
        if event.at >= began
    ]
    starts = [0.0, *told.ends[:-1]]
    for phase, start in zip(case.course, starts, strict=True):
        late = [m for m in moments if start + skipped_s(case, phase) <= m.at <= start + phase.seconds]
        if len(late) > 1:
            found = stretch_of(phase, late, moments)
            told.stretches.append(replace(found, tasks=_tasks(hr, began + late[0].at, began + late[-1].at)))
    told.series = series_of(moments, told.kinds)
    told.error, told.cost_error = sharing.prediction_error, sharing.cost_error
    told.pairs = [(e.predicted_s, e.measured_s) for e in hr._running.conducting.info().errors]
    epochs = [epoch for epoch in hr.recent_epochs() if epoch.committed_at >= began]
    per_look = (sharing.look_seconds - early.look_seconds) / max(1, sharing.looks - early.looks)
    ran = max(1e-9, sum(epoch.cost.seconds for epoch in epochs) / max(1e-9, moments[-1].at))
    told.looked = per_look / (Settings().watch_every_s * ran)
    looked_s = max(1e-9, moments[-1].at - min(told.ends[0], moments[-1].at / 2))
    told.looked_raw = (sharing.look_seconds - early.look_seconds) / looked_s / ran
    gap = longest_gap(moments, told.ends)
    told.gap_s, told.gap_more_s = (None, None) if gap is None else gap
    told.split_epochs = split_epochs(hr, moments, began, case)
    return told


def _tasks(hr: Any, since: float, until: float) -> float:
    """CPU seconds per second of all tasks, as the engine counts them."""
    ran: list[float] = [
        epoch.cost.cpu_seconds for epoch in hr.recent_epochs() if since < epoch.committed_at <= until
    ]
    return sum(ran) / (until - since)


def split_epochs(hr: Any, moments: list[Moment], began: float, case: Case) -> list[int]:
    """For the first split after queries fell behind, each time they did, the epochs that its group had run since.

    The splits that follow while they are still behind divide what has been split off already.
    """
    found, answered = [], set[float]()
    for event in hr.events():
        if event.kind.value != "split" or event.at < began:
            continue
        at = event.at - began
        rate = max(phase.rate for phase in case.course)
        since = None
        for moment in (m for m in moments if m.at <= at):
            since = (moment.at if since is None else since) if behind_s(moment, rate) > 1.0 else None
        since = at if since is None else since
        if since in answered:
            continue
        answered.add(since)
        ran = [
            epoch
            for epoch in hr.recent_epochs()
            if epoch.group == event.group and since < epoch.committed_at - began <= at
        ]
        found.append(len(ran))
    return found
