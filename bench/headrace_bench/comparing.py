"""The comparison: measure Headrace and what people would use instead, and write down what was seen."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli import console

if TYPE_CHECKING:
    from headrace_bench.trial import Trial

QUICK_S = 165.0
"""What does not fit into three minutes is left out of a quick run, and the report says so."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    quick: bool
    systems: tuple[str, ...]
    curves: tuple[str, ...]
    probes: int
    rows: int
    files: int
    seed: int
    out: str
    name: str | None
    workloads: tuple[str, ...] = ("aggregation",)
    limit_s: float | None = None
    """What does not fit into so many seconds is left out."""


def run_bench(options: BenchOptions) -> bool:
    """Run, report, and say whether all systems gave the same rows."""
    from headrace_bench import campaign, report
    from headrace_bench.run import Finished, machine, run_sections
    from headrace_bench.trial import Trial
    from headrace_bench.workload import Workload

    base = Trial("headrace", 1, rows=options.rows, files=options.files, seed=options.seed)
    kinds = [Workload(name) for name in options.workloads]
    sections = list(
        campaign.campaign(base, options.systems, options.curves, options.quick, options.probes, kinds)
    )
    facts = {
        "command": shlex.join(["headrace", *sys.argv[1:]]),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": options.seed,
        "machine": machine(),
    }
    finished: list[Finished] = []
    started = time.monotonic()
    try:
        with _Progress(sum(len(section.trials) for section in sections)) as progress:
            for one in run_sections(sections, progress.show, options.limit_s):
                finished.append(one)
                progress.finished([line for f in finished for line in report.summary([f])])
    except KeyboardInterrupt:
        if not finished:
            raise
        lost = ", ".join(section.name for section in sections[len(finished) :])
        facts["command"] = f"{facts['command']} (stopped before {lost})"
    facts["seconds"] = round(time.monotonic() - started, 1)
    facts["versions"] = {
        name: version for f in finished for o in f.outcomes for name, version in o.versions.items()
    }
    name = options.name or datetime.now(UTC).strftime("%Y-%m-%d-%H%M") + ("-quick" if options.quick else "")
    page = report.write_report(Path(options.out), name, facts, finished)
    screen = console.out()
    for trial, text in report.summary(finished):
        screen.print(f"{trial.system:>8} {trial.queries:>6,} {trial.workload} queries: {text}")
    for one in finished:
        for text in one.left_out:
            screen.print(f"Not compared: {text}")
        for text in one.differences:
            screen.print(Text(f"Rows differ: {text}", "red"))
    screen.print(f"The report is in {page}")
    return not any(one.differences for one in finished)


class _Progress:
    """One line of what is under way on a terminal; without one, a line per trial."""

    def __init__(self, trials: int) -> None:
        self._trials, self._number, self._current = trials, 0, None
        self._screen = console.err()
        self._live: Live | None = None
        self._done: list[tuple[Trial, str]] = []
        self._started = time.monotonic()

    def __enter__(self) -> _Progress:
        if self._screen.is_terminal:
            self._live = Live(console=self._screen, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, trial: Trial, text: str) -> None:
        if trial is not self._current:
            self._current, self._number = trial, self._number + 1  # type: ignore[assignment]
            if self._live is None:
                self._screen.print(self._title(trial))
        if self._live is not None:
            self._live.update(self._view(trial, text))

    def finished(self, done: list[tuple[Trial, str]]) -> None:
        self._done = done

    def _title(self, trial: Trial) -> str:
        return f"trial {self._number} of {self._trials}: {trial.system}, {trial.queries:,} {trial.workload} queries"

    def _view(self, trial: Trial, text: str) -> Table:
        view = Table.grid(padding=(0, 1))
        for past, found in self._done[-12:]:
            view.add_row(f"{past.system}, {past.queries:,} queries", found)
        spent = time.monotonic() - self._started
        view.add_row(Text(self._title(trial), "bold"), f"{text} ({spent:,.0f} s so far)")
        return view
