"""One trial in a process of its own: `python -m headrace_bench.worker TRIAL.json FOLDER`.

The folder gets `outcome.json`; lines of JSON on standard output tell how far it is. A process of its own makes CPU and
memory the system's, and can be ended when a system comes to no end.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace_bench import astream
from headrace_bench.astream import Request
from headrace_bench.driver import LiveSystem, find_sustainable, run_probe
from headrace_bench.meters import Meter
from headrace_bench.systems.system import System
from headrace_bench.trial import RAMPED, Outcome, Probe, Trial, feed
from headrace_bench.workload import Workload

SYSTEMS = {
    "headrace": "headrace_bench.systems.shared:Shared",
    "spark": "headrace_bench.systems.isolated:Isolated",
    "fused": "headrace_bench.systems.fused:Fused",
    "flink": "headrace_bench.systems.flink:Flink",
}
FUSED = {
    Workload.AGGREGATION: SYSTEMS["fused"],
    Workload.JOIN: "headrace_bench.systems.fused_joins:FusedJoins",
    Workload.COMPLEX: "headrace_bench.systems.fused_joins:FusedComplex",
    Workload.PREDICATES: SYSTEMS["fused"],
}
"""What is written by hand is written for a kind of query."""
POLL_S = 0.02

Report = Callable[..., None]


class TooSlow(Exception):
    """A trial's time is over."""


def make_system(name: str, workload: Workload = Workload.AGGREGATION) -> System:
    module, _, kind = (FUSED[workload] if name == "fused" else SYSTEMS[name]).partition(":")
    system: System = getattr(import_module(module), kind)()
    system.ddl = workload.ddl
    return system


def run_trial(system: System, trial: Trial, folder: Path, report: Report) -> Outcome:
    """Warm up, feed everything else at once, and time until the last tuple's results are written."""
    outcome, paths = Outcome(trial), trial.write_files(folder.parent / "data")
    source = folder / "feed"
    for used in (source, folder / "work"):
        shutil.rmtree(used, ignore_errors=True)
    for stream in trial.streams:
        (source / stream).mkdir(parents=True)
    with Meter() as meter:
        started = time.perf_counter()
        report(phase="starting")
        system.open(source, folder / "work", trial.streams)
        try:
            outcome.setup_s = time.perf_counter() - started
            started = time.perf_counter()
            report(phase="creating queries")
            system.create(trial.drawn())
            outcome.deploy_s = time.perf_counter() - started
            measure(system, trial, paths, source, outcome, meter, report)
            before_probes = system.facts() if trial.probing_s else {}
            if trial.probing_s:
                probe_rates(system, trial, source / astream.STREAM, outcome, report)
            system.stop()
            report(phase="checking")
            outcome.sample = {n: cut(system.rows(n), trial) for n in trial.sampled()}
            outcome.closed_us = closed_early(system, trial)
            for name, value in (before_probes or system.facts()).items():
                setattr(outcome, name, value)
        finally:
            system.close()
    outcome.peak_mb = {kind: round(size) for kind, size in meter.peak_mb.items()}
    return outcome


def measure(
    system: System,
    trial: Trial,
    paths: list[list[Path]],
    source: Path,
    outcome: Outcome,
    meter: Meter,
    report: Report,
) -> None:
    done, streams = 0, len(trial.streams)
    for files in paths[: trial.warm_up]:  # one by one: the first batches are small for everybody
        feed([files], source)
        done += trial.rows * streams
        wait(system, done, time.perf_counter() + trial.limit_s, lambda n: report(phase="warming up", done=n))
    cpu, since, started = meter.cpu_s, time.time(), time.perf_counter()
    feed(paths[trial.warm_up :], source)

    def note(rows: int) -> None:
        outcome.progress.append((round(time.perf_counter() - started, 3), rows - done))
        report(phase="running", done=rows - done)

    wait(system, done + trial.fed, started + trial.limit_s, note)
    outcome.seconds = time.perf_counter() - started
    outcome.cpu_s = round(meter.cpu_s - cpu, 2)
    if hasattr(system, "spent"):
        outcome.epochs, outcome.tasks_s = system.spent(since)


def probe_rates(system: System, trial: Trial, source: Path, outcome: Outcome, report: Report) -> None:
    """The highest sustainable rate; then, at half of it, latencies alone, with churn, and with a burst of queries."""
    if not hasattr(system, "request"):
        return
    live: LiveSystem = system  # type: ignore[assignment]

    def run(rate: int, what: str, requests: Iterable[Request] = (), seconds: float = trial.probe_s) -> Probe:
        def note(probe: Probe) -> None:
            age = probe.ages[-1][1] if probe.ages else 0.0
            report(phase=f"{what} at {rate:,}/s", age=age)

        return run_probe(live, trial, source, rate, seconds, requests, note)

    if trial.probes:
        outcome.probes = find_sustainable(
            lambda rate: run(rate, "probing"), 0.8 * outcome.throughput, trial.probes
        )
    half = max(1, (outcome.sustainable or round(outcome.throughput / 2)) // 2)
    if trial.probes or trial.latency:
        outcome.half = run(half, "half the rate")
    if trial.probes:
        outcome.churn = run(half, "queries come and go", astream.sc2(20, 2, trial.probe_s - 4))
        outcome.burst = run(half, "1,000 queries at once", [Request(2.0, 1_000, 0)])
    if trial.ramp:
        coming = astream.sc1(trial.ramp, RAMPED)
        outcome.ramp = run(trial.rate, f"{trial.ramp} queries more each second", coming, trial.ramp_s)


def wait(system: System, rows: int, deadline: float, note: Callable[[int], None]) -> None:
    """Until the slowest query has done so many tuples."""
    seen = -1
    while (done := system.done()) < rows:
        if done != seen:
            note(done)
            seen = done
        if time.perf_counter() > deadline:
            raise TooSlow(f"{done:,} of {rows:,} tuples were done when its time was over")
        time.sleep(POLL_S)
    note(done)


def closed_early(system: System, trial: Trial) -> dict[int, int]:
    """The sampled queries whose windows a system has not closed up to the end of the stream, and how far it came."""
    if not hasattr(system, "closed_us"):
        return {}
    found = {number: system.closed_us(number) for number in trial.sampled()}
    return {number: end for number, end in found.items() if end < trial.last_closed_us()}


def cut(rows: list[tuple[Any, ...]], trial: Trial) -> list[tuple[Any, ...]]:
    """The rows that are compared: of windows that every system has closed."""
    last_us = trial.last_closed_us()
    return sorted(row for row in rows if row[0] <= last_us and trial.compares(row[1]))


def main(arguments: list[str]) -> None:
    spec, folder = Path(arguments[0]), Path(arguments[1])
    trial = Trial.of(json.loads(spec.read_text()))

    def report(**news: Any) -> None:
        print(json.dumps(news), flush=True)

    try:
        outcome = run_trial(make_system(trial.system, trial.workload), trial, folder, report)
    except Exception as error:
        outcome = Outcome(
            trial, failure=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        )
        if not isinstance(error, TooSlow):
            import traceback

            traceback.print_exc()
    (folder / "outcome.json").write_text(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main(sys.argv[1:])
