"""The command `headrace bench groups`: measure, print a table of aims, and write a report."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import pyspark
from rich.console import Console
from rich.table import Table

import headrace
from headrace_bench.aims import Verdict
from headrace_bench.epochs import Feed, own_spark
from headrace_bench.groups import measures
from headrace_bench.groups.against import compare_checkouts, run_spine_of
from headrace_bench.groups.figures import Event, Seen, Sizes
from headrace_bench.groups.judging import judge_groups
from headrace_bench.pages import VERDICTS, head, table, verdict_rows
from headrace_bench.run import machine
from headrace_bench.spine import COUNT, screen

PARTS = ("against", "move", "repartition", "backfill", "beside")
MISSED = 1

Note = Callable[[str], None]


@click.command()
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="PATH",
    help="An older checkout of Headrace, such as a git worktree. Its epochs are measured in turns with ours.",
)
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Only this part; may be given again.")
@click.option("--rows", type=COUNT, default=500_000, show_default=True, help="Tuples per epoch.")
@click.option("--queries", type=COUNT, default=1_000, show_default=True, help="Queries of which some move.")
@click.option("--moved", type=COUNT, default=100, show_default=True, help="Queries that move.")
@click.option("--epochs", type=COUNT, default=6, show_default=True, help="Epochs before and after an event.")
@click.option("--rounds", type=COUNT, default=3, show_default=True, help="Processes of each checkout.")
@click.option(
    "--backfill-rows", type=COUNT, default=10_000_000, show_default=True, help="Tuples of the backfill."
)
@click.option(
    "--backfill-tasks", type=COUNT, help="Tasks of the backfill; else as many as Headrace takes by itself."
)
@click.option(
    "--beside-rows",
    type=COUNT,
    default=200_000,
    show_default=True,
    help="Tuples per epoch beside unshared queries.",
)
@click.option(
    "--partitions", type=COUNT, nargs=2, default=(2, 4), show_default=True, help="Before and after."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same queries.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="bench/reports",
    show_default=True,
    metavar="DIR",
    help="Where a report is written.",
)
@click.option("--name", metavar="NAME", help="Write a report of this name.")
def groups(
    against: Path | None, only: tuple[str, ...], rows: int, out: Path, name: str | None, **others: Any
) -> None:
    """What groups cost: epochs against an older checkout, moves, backfill, unshared queries, and repartitioning.

    All figures come from one run on two cores. The exit code is 1 if an aim was missed.
    """
    source = None if against is None else against.resolve() / "src"
    if source is not None and not (source / "headrace").is_dir():
        raise click.UsageError(f"{against} is not a checkout of Headrace: it has no src/headrace")
    if "against" in only and source is None:
        raise click.UsageError("--only against needs --against PATH")
    seen = Seen(Sizes(Feed(rows), **others))
    started = time.monotonic()
    facts = {
        "command": shlex.join(["headrace", *sys.argv[1:]]),
        "seed": seen.sizes.seed,
        "machine": machine(),
        "versions": {"headrace": headrace.__version__, "spark": pyspark.__version__},
    }
    with Console(stderr=True).status("starting") as status:
        measure(seen, source, only or PARTS, status.update)
    facts["seconds"] = round(time.monotonic() - started, 1)
    verdicts = judge_groups(seen)
    show(verdicts)
    if source is None:
        screen().print("Epochs were not measured against an older checkout: --against PATH does that.")
    if name is not None:
        screen().print(f"The report is in {write_report(out, name, facts, seen, verdicts)}")
    if not all(verdict.met for verdict in verdicts):
        sys.exit(MISSED)


def measure(seen: Seen, older: Path | None, parts: tuple[str, ...], note: Note) -> None:
    """Everything that was asked for. The other checkout's processes come first, while nothing else runs."""
    sizes = seen.sizes
    if older is not None and "against" in parts:
        seen.against = compare_checkouts(older, sizes, lambda source: run_spine_of(source, sizes), note)
    if not {*parts} - {"against"}:
        return
    with own_spark() as spark:
        if "move" in parts:
            note("a move")
            seen.move = measures.measure_move(spark, sizes)
        if "repartition" in parts:
            note("another number of partitions")
            seen.repartition = measures.measure_repartition(spark, sizes)
        if "backfill" in parts:
            note("a backfill")
            seen.backfill = measures.measure_backfill(spark, sizes)
        if "beside" in parts:
            note("unshared queries beside shared ones")
            seen.beside = measures.measure_beside(spark, sizes)


def show(verdicts: list[Verdict]) -> None:
    """The table of aims for the terminal."""
    shown = Table(*VERDICTS)
    for row in verdict_rows(verdicts):
        shown.add_row(*row)
    screen().print(shown)


def write_report(out: Path, name: str, facts: dict[str, Any], seen: Seen, verdicts: list[Verdict]) -> Path:
    """Write NAME.json and NAME.md; the page's path."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps({**facts, "seen": asdict(seen)}) + "\n")
    page = out / f"{name}.md"
    page.write_text(render(name, facts, seen, verdicts))
    return page


def render(name: str, facts: dict[str, Any], seen: Seen, verdicts: list[Verdict]) -> str:
    """The page: the aims, then the seconds of every epoch behind them."""
    sizes = seen.sizes
    lines = [
        *head(name, facts),
        "## Aims",
        "",
        f"{sizes.queries:,} mixed aggregation queries, {sizes.feed.rows:,} tuples per epoch, {sizes.feed.keys:,} keys.",
        "",
        *table(VERDICTS, verdict_rows(verdicts)),
        "## Seconds per epoch",
        "",
        *table(
            ("", "seconds"), ((what, " ".join(f"{s:.2f}" for s in seconds)) for what, seconds in series(seen))
        ),
    ]
    return "\n".join(lines) + "\n"


def series(seen: Seen) -> list[tuple[str, tuple[float, ...]]]:
    """What each measured epoch took, under what it was a part of."""
    found = []
    for pair in seen.against:
        found += [(f"this checkout, {pair.queries:,} queries, a median per process", pair.ours)]
        found += [(f"the older checkout, {pair.queries:,} queries, a median per process", pair.theirs)]
    events: list[Event | None] = [seen.move, seen.repartition]
    for event in (event for event in events if event is not None):
        found += [(f"before {event.what}", event.before), (f"then: {event.what}", (event.next, *event.after))]
    if seen.beside is not None:
        found += [("shared queries alone", seen.beside.alone), ("beside unshared ones", seen.beside.beside)]
    return found
