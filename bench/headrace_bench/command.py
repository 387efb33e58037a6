"""The command `headrace bench`: the comparison with its options, and a command per benchmark of its own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from headrace_bench.comparing import QUICK_S, BenchOptions, run_bench

DIFFERS = 1
ISOLATION = "isolation"
WORKLOAD_NAMES = ("aggregation", "join", "complex", "predicates", ISOLATION)
USUAL_WORKLOADS = WORKLOAD_NAMES[:3]


COMMANDS = {
    "spine": ("headrace_bench.spine", "Time per epoch at 1, 100 and 1,000 aggregation queries."),
    "joins": (
        "headrace_bench.joins",
        "Time per epoch of join queries, of sums of joins and of groups of joins.",
    ),
    "values": (
        "headrace_bench.values",
        "Time per epoch of queries that ask for all values of a group, shared and as plain Spark.",
    ),
    "membership": (
        "headrace_bench.membership",
        "How tuples find their queries: every way by itself, beside the chosen one. No Spark.",
    ),
    "linear-road": (
        "headrace_bench.road_rating",
        "Linear Road at its real rate: response times, and the largest number of expressways that keeps the limits.",
    ),
    "splits": (
        "headrace_bench.split_costs",
        "What splitting a stream costs on one core, measured and as the paper's cost model predicts it.",
    ),
    "isolation": (
        "headrace_bench.isolation.command",
        "FunShare's workloads: what each policy of sharing costs, and how every query fares against alone.",
    ),
    "many": (
        "headrace_bench.many",
        "Many live queries: creating them while epochs run, an epoch in which one changes, looking at them.",
    ),
    "groups": (
        "headrace_bench.groups.command",
        "What groups, moves, backfill and partitionings cost, against the aims.",
    ),
}
"""Module and summary by command, in the order of the help. A module has its command under the command's name."""


class Benchmarks(click.Group):
    """Without a command it compares systems. A command's module is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name.replace("-", "_"))
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Other benchmarks, with options of their own"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=Benchmarks, invoke_without_command=True)
@click.option("--quick", is_flag=True, help="End within three minutes; small, so only for a first look.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=1),
    metavar="NUMBER",
    help="End within so many minutes; with --quick the trials of that, in the sizes that are asked for.",
)
@click.option("--with", "extra", multiple=True, type=click.Choice(["flink"]), help="Measure this system too.")
@click.option(
    "--systems",
    default="headrace,spark,fused",
    show_default=True,
    metavar="NAMES",
    help="Which systems, of headrace, spark (a streaming query each) and fused (one foreachBatch).",
)
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    type=click.Choice(WORKLOAD_NAMES),
    help="Only queries of this kind; may be given again. The first three if not given; aggregations with --quick. With "
    "isolation, which compares policies of sharing, the command of that name is run.",
)
@click.option(
    "--figure", "figures", multiple=True, metavar="FIGURE", help="Of --workload isolation, only this one."
)
@click.option(
    "--curves",
    default="none",
    show_default=True,
    metavar="NAMES",
    help="Scaling curves of Headrace: queries, keys, columns, skew, density, epoch; or all.",
)
@click.option(
    "--probes",
    type=click.IntRange(min=0),
    default=4,
    show_default=True,
    help="Rates to try for the sustainable throughput at 1,000 queries; 0 leaves it out.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1_000),
    default=500_000,
    show_default=True,
    help="Tuples per file; joins take a fifth.",
)
@click.option(
    "--files",
    type=click.IntRange(min=1),
    default=6,
    show_default=True,
    help="Files after warming up; joins take half.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same tuples and queries.")
@click.option(
    "--out", default="bench/reports", show_default=True, metavar="DIR", help="Where reports are written."
)
@click.option("--name", metavar="NAME", help="The report's name; else the time it was made.")
@click.pass_context
def bench(
    ctx: click.Context,
    quick: bool,
    minutes: float | None,
    extra: tuple[str, ...],
    systems: str,
    workloads: tuple[str, ...],
    figures: tuple[str, ...],
    curves: str,
    probes: int,
    rows: int,
    files: int,
    seed: int,
    out: str,
    name: str | None,
) -> None:
    """Measure Headrace and its alternatives on the same files, one after the other.

    Every system runs in processes of its own, reads the same Parquet files and must deliver the same rows; figures of
    a system whose rows differ are taken back and the exit code is 1. The report (JSON, Markdown and plots) says what
    was run on which machine.
    """
    if ctx.invoked_subcommand is not None:
        refuse_options(ctx)
        return
    if ISOLATION in workloads:
        compare_policies(ctx, workloads, quick=quick, figures=figures, seed=seed, out=out, name=name)
        return
    if figures:
        raise click.UsageError("--figure is about --workload isolation", ctx)
    known = ("headrace", "spark", "fused", "flink")
    chosen = (*_names(systems, known), *extra)
    wanted = (
        _names(curves, CURVE_NAMES)
        if curves not in ("none", "all")
        else ()
        if curves == "none"
        else CURVE_NAMES
    )
    if quick and minutes is None:
        probes, rows, files, wanted = min(probes, 1), min(rows, 200_000), min(files, 4), ()
    limit_s = minutes * 60 if minutes is not None else QUICK_S if quick else None
    kinds = tuple(dict.fromkeys(workloads)) or (USUAL_WORKLOADS[:1] if quick else USUAL_WORKLOADS)
    options = BenchOptions(
        quick, tuple(dict.fromkeys(chosen)), wanted, probes, rows, files, seed, out, name, kinds, limit_s
    )
    if not run_bench(options):
        sys.exit(DIFFERS)


def compare_policies(ctx: click.Context, workloads: tuple[str, ...], **options: Any) -> None:
    """Run the benchmark of policies. It has a driver of its own: it compares policies of Headrace, not systems."""
    if set(workloads) != {ISOLATION}:
        raise click.UsageError("--workload isolation stands alone", ctx)
    found = bench.get_command(ctx, ISOLATION)
    assert found is not None
    ctx.invoke(found, policies=(), **options)


def refuse_options(ctx: click.Context) -> None:
    """Options of the comparison mean nothing to another benchmark."""
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        raise click.UsageError(f"options of {ctx.invoked_subcommand} stand after its name", ctx)


CURVE_NAMES = ("queries", "keys", "columns", "skew", "density", "epoch")


def _names(text: str, known: Sequence[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in found:
        if name not in known:
            raise click.UsageError(f"{name} is not one of {', '.join(known)}")
    return found
