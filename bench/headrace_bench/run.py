"""Running the trials of a campaign, each in a process of its own, and checking that all systems gave the same rows."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from headrace.results.compare import compare_rows
from headrace_bench.campaign import Section
from headrace_bench.trial import Outcome, Trial

Show = Callable[[Trial, str], None]
"""Takes what a trial is at."""

START_S = 120.0
"""Starting, creating and checking may take so long besides the trial's own limit."""


@dataclass(slots=True)
class Finished:
    """A section with what came of its trials, where rows of systems differed, and which were not compared."""

    section: Section
    outcomes: list[Outcome] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def run_sections(
    sections: Iterable[Section], show: Show, budget_s: float | None = None
) -> Iterator[Finished]:
    """Run everything; with a budget, what does not fit any more is named as left out."""
    deadline = None if budget_s is None else time.monotonic() + budget_s
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for section in sections:
            finished = Finished(section)
            for trial in section.trials:
                left = None if deadline is None else deadline - time.monotonic()
                finished.outcomes.append(run_one(trial, Path(folder), show, left))
            finished.left_out = list(left_out(finished.outcomes))
            finished.differences = list(differences(finished.outcomes))
            yield finished


def run_one(trial: Trial, folder: Path, show: Show, left_s: float | None) -> Outcome:
    """One trial in a process of its own, ended when its time is over."""
    if left_s is not None and left_s < 10:
        return Outcome(trial, failure="left out: this run's time was over")
    place = folder / "trial"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    spec = place / "trial.json"
    spec.write_text(json.dumps(asdict(trial)))
    limit_s = START_S + 2 * trial.limit_s + 2 * trial.probing_s
    if left_s is not None:
        limit_s = min(limit_s, left_s)
    with (place / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace_bench.worker", str(spec), str(place)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        timer = threading.Timer(limit_s, end_tree, (process.pid,))
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    show(trial, describe(json.loads(line)))
            process.wait()
        except BaseException:
            end_tree(process.pid)
            raise
        finally:
            timer.cancel()
    found = place / "outcome.json"
    if not found.exists():
        why = "its time was over" if process.returncode < 0 else f"it ended with code {process.returncode}"
        lines = (place / "log").read_text(errors="replace").strip().splitlines()
        return Outcome(
            trial, failure=f"{why}{': ' + lines[-1][:200] if lines and process.returncode > 0 else ''}"
        )
    return Outcome.read(found)


def end_tree(pid: int) -> None:
    """End a worker and everything it started."""
    try:
        parent = psutil.Process(pid)
        doomed = [*parent.children(recursive=True), parent]
    except psutil.NoSuchProcess:
        return
    for process in doomed:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def describe(news: dict[str, Any]) -> str:
    """
    >>> describe({"phase": "running", "done": 1500000})
    'running, 1,500,000 tuples'
    """
    text = str(news["phase"])
    if "done" in news:
        text += f", {news['done']:,} tuples"
    if "age" in news:
        text += f", oldest tuple {news['age']:.1f} s"
    return text


def differences(outcomes: list[Outcome]) -> Iterator[str]:
    """Where two systems gave other rows to the same query over the same tuples; such figures are taken back."""
    seen: dict[Trial, Outcome] = {}
    for outcome in outcomes:
        if outcome.failure:
            continue
        first = seen.setdefault(replace(outcome.trial, system=""), outcome)
        for number in outcome.sample:
            ours, theirs = (closed_by_both(one, number, (first, outcome)) for one in (first, outcome))
            missing, unexpected = compare_rows(ours, theirs)
            if missing or unexpected:
                outcome.failure = f"its rows differ from those of {first.trial.system}"
                yield (
                    f"query {number} of {outcome.trial.queries}: {outcome.trial.system} lacks {len(missing):,} rows of "
                    f"{first.trial.system} and has {len(unexpected):,} others, such as "
                    f"{(missing or unexpected)[0]} and {(unexpected or missing)[0]}"
                )
                break


def closed_by_both(of: Outcome, number: int, both: Sequence[Outcome]) -> list[tuple[Any, ...]]:
    """A query's rows in one of two systems: those of windows that both of them have closed."""
    ends = [one.closed_us[number] for one in both if number in one.closed_us]
    return [row for row in of.sample[number] if row[0] <= min(ends, default=row[0])]


def left_out(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Which rows were not compared, because a system does not close windows as far as the others."""
    for outcome in outcomes:
        others = [o for o in outcomes if replace(o.trial, system="") == replace(outcome.trial, system="")]
        for number, end in outcome.closed_us.items():
            most = max((len(o.sample.get(number, ())) for o in others if not o.failure), default=0)
            both = max((sum(r[0] <= end for r in o.sample.get(number, ())) for o in others), default=0)
            if most > both:
                of = f"query {number} of {outcome.trial.queries}: {outcome.trial.system}"
                yield (
                    f"{of} has closed its windows up to the last tuple that it accepts, so {both:,} of {most:,} rows "
                    "were compared"
                )


def machine() -> dict[str, Any]:
    """What the figures were measured on, without naming it."""
    return {
        "system": platform.system(),
        "python": platform.python_version(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
