"""The command `headrace bench isolation`: run the cases behind FunShare's figures, and write a report."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pyspark
from rich.console import Console
from rich.table import Table

import headrace
from headrace_bench.epochs import own_spark
from headrace_bench.isolation.cases import (
    FULL,
    PANELS,
    POLICIES,
    PULSED,
    QUICK,
    SAME,
    SHIFTING,
    Sizes,
    cases_of,
    panels_of,
)
from headrace_bench.isolation.figures import Told, name_of
from headrace_bench.isolation.judging import judge_isolation
from headrace_bench.isolation.playing import play
from headrace_bench.isolation.pulse import measure_pulse, measure_shift
from headrace_bench.isolation.reporting import (
    read_panels,
    read_pulse,
    read_shift,
    told_pulse,
    told_shift,
    write_report,
)
from headrace_bench.pages import VERDICTS, verdict_rows
from headrace_bench.run import machine
from headrace_bench.spine import screen

MISSED = 1
FIGURES = tuple(dict.fromkeys(name for panel in PANELS for name in (panel.rstrip("abcde"), panel)))


@click.command()
@click.option("--quick", is_flag=True, help="Fewer queries and shorter runs: a few minutes per figure.")
@click.option(
    "--figure",
    "figures",
    multiple=True,
    type=click.Choice(FIGURES),
    help="Only this figure of the paper, or this panel of one; may be given again.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(POLICIES),
    help="Only this policy; may be given again.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same tuples and queries.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="bench/reports",
    show_default=True,
    metavar="DIR",
    help="Where the report is written.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="The report's name; what one of that name has already, and is not run again, stays.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Run only what the report of that name has not yet, at the rates that were measured for it. Without this, "
    "runs of the figures that are run again go if they had other rates or sizes.",
)
def isolation(
    quick: bool,
    figures: tuple[str, ...],
    policies: tuple[str, ...],
    seed: int,
    out: Path,
    name: str | None,
    resume: bool,
) -> None:
    """What every policy of sharing costs, and how every query fares, as in FunShare's section VI.

    Runs W1, W2 and W3 with the engine in the background, and every query alone. The exit code is 1 if an aim was
    missed.
    """
    sizes = replace(QUICK if quick else FULL, seed=seed)
    named = name or datetime.now(UTC).strftime("%Y-%m-%d-%H%M-isolation") + ("-quick" if quick else "")
    facts: dict[str, Any] = {
        "command": shlex.join(["headrace", *sys.argv[1:]]),
        "seed": seed,
        "machine": machine(),
        "versions": {"headrace": headrace.__version__, "spark": pyspark.__version__},
    }
    started = time.monotonic()
    data = Path(out) / f"{named}.json"
    panels, wanted = read_panels(data), panels_of(figures)
    pulse, shift = read_pulse(data), read_shift(data)
    known = kept(panels, wanted, resume=resume)
    page = Path(out) / f"{named}.md"
    with own_spark() as spark:
        if PULSED & set(wanted):
            if pulse is not None and (resume or not {"8"} & set(wanted)):
                screen().print("The rate of the pulse is that of the report, measured before.")
            else:
                pulse = measure_pulse(spark, sizes)
            screen().print(told_pulse(pulse))
        if SHIFTING & set(wanted):
            if resume and shift is not None:
                screen().print("The rate of figure 9 is that of the report, measured before.")
            else:
                shift = measure_shift(spark, sizes)
            screen().print(told_shift(shift))
        facts |= {"pulse": pulse, "shift": shift}
        sizes = replace(
            sizes,
            pulse_rate=sizes.pulse_rate if pulse is None else pulse.rate,
            shift_rate=sizes.shift_rate if shift is None else shift.rate,
        )
        if gone := drop_others(panels, wanted, sizes):
            screen().print(f"{gone} runs of the report had other rates or sizes, and are dropped.")
        for panel, told in run_panels(spark, wanted, policies or POLICIES, sizes, known):
            changed = put(panels, panel, told)
            facts["seconds"] = round(time.monotonic() - started, 1)
            # whoever ends a run loses one case at most
            page = write_report(Path(out), named, facts, panels, changed)
    verdicts = judge_isolation(panels)
    shown = Table(*VERDICTS)
    for row in verdict_rows(verdicts):
        shown.add_row(*row)
    screen().print(shown)
    screen().print(f"The report is in {page}")
    if not all(verdict.met for verdict in verdicts if verdict.binds):
        sys.exit(MISSED)


def kept(panels: dict[str, list[Told]], wanted: Collection[str], *, resume: bool) -> dict[str, Told]:
    """The runs of a report that are not made again, by their case: all with `resume`. Else those of panels that are not
    run again, if panels that are wanted tell of the same runs.
    """
    whose = set(panels) if resume else {SAME[panel] for panel in wanted if panel in SAME} - set(wanted)
    return {told.case: told for panel in whose for told in panels.get(panel, ()) if told.case}


def put(panels: dict[str, list[Told]], panel: str, told: Told) -> set[str]:
    """Put a run into its panel, and in the place of an older one of the same case in others; the panels it is in."""
    others = {
        name for name, found in panels.items() if told.case and told.case in {one.case for one in found}
    }
    for name in {panel, *others}:
        panels[name] = _with(panels.get(name, ()), told)
    return {panel, *others}


def drop_others(panels: dict[str, list[Told]], wanted: Collection[str], sizes: Sizes) -> int:
    """Drop the runs of panels that are run now if they are other cases than today's; how many that were.

    Panels with a pulse have one rate, so that of a report goes for all of them or none.
    """
    run_again = set(wanted) | (PULSED if PULSED & set(wanted) else set())
    before = sum(map(len, panels.values()))
    for panel in run_again & set(panels):
        cases = {name_of(case) for case in cases_of(panel, sizes)}
        panels[panel] = [told for told in panels[panel] if told.case in cases]
        if not panels[panel]:
            del panels[panel]
    return before - sum(map(len, panels.values()))


def code() -> str:
    """The commit of the code that runs, if it is a checkout."""
    folder = Path(headrace.__file__).parent
    try:
        asked = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
        found = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()


def _with(found: Iterable[Told], told: Told) -> list[Told]:
    """These and one more, in the order of policies; it takes the place of an older one of the same case."""
    kept = [one for one in found if one.case != told.case or not told.case]
    return sorted([*kept, told], key=_order)


def _order(told: Told) -> tuple[Any, ...]:
    return told.queries, told.load, POLICIES.index(told.policy), told.threshold, told.merge_every_s


def run_panels(
    spark: Any, panels: tuple[str, ...], policies: tuple[str, ...], sizes: Sizes, known: dict[str, Told]
) -> Iterator[tuple[str, Told]]:
    """Each panel with what is told of a run of it. A run that several panels have, or that is known, is made once."""
    known, told_to, commit = dict(known), Console(stderr=True), code() or "unknown code"
    for panel in panels:
        for case in cases_of(panel, sizes):
            if case.policy not in policies:
                continue
            name = name_of(case)
            if name not in known:
                began = time.monotonic()
                known[name] = play(spark, case, sizes)
                known[name].made = f"with {commit}, {datetime.now(UTC):%Y-%m-%d}"
                told_to.print(line_of(panel, known[name], time.monotonic() - began), highlight=False)
            yield panel, known[name]


def line_of(panel: str, told: Told, seconds: float) -> str:
    """A line for the terminal."""
    last = told.last
    error = "" if told.error is None else f", predicted within {told.error:.0%}"
    delays = f", moves took {max(told.delays_s):.2f} s at most" if told.delays_s else ""
    return (
        f"{panel:>4} {told.load}, {told.policy}: {last.groups} groups, {last.cpu:.2f} cores, worst {last.worst:.2f}, "
        f"{max(last.latency_s.values()):.2f} s{error}{delays} ({seconds:.0f} s)"
    )
