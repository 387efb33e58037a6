"""The command `headrace demo` and its options."""

from __future__ import annotations

import sys

import click

from headrace.cli.demo import DemoOptions, run_demo
from headrace.cli.face import Opener
from headrace.cli.options import warehouse_option

DIFFERS = 1


@click.command()
@warehouse_option("./demo-warehouse")
@click.option(
    "--seconds", type=click.IntRange(min=1), default=60, show_default=True, help="How long to play."
)
@click.option(
    "--queries", type=click.IntRange(min=1), default=300, show_default=True, help="How many queries come by."
)
@click.option(
    "--rate", type=click.IntRange(min=1), default=20_000, show_default=True, help="Purchases per second."
)
@click.option("--seed", type=int, default=7, show_default=True, help="Same seed, same queries.")
@click.option(
    "--audits",
    type=click.IntRange(min=0),
    default=12,
    show_default=True,
    help="How many queries to compare with plain Spark at the end.",
)
@click.pass_obj
def demo(
    opener: Opener, warehouse: str, seconds: int, queries: int, rate: int, seed: int, audits: int
) -> None:
    """Play the gaming example: one stream of purchases, several hundred ad-hoc queries.

    Teams create and drop queries while purchases stream in. At the end a sample of the queries is compared
    with plain Spark. Ctrl-C stops early and goes to the summary. The exit code is 1 when a query failed or an
    audit finds a difference.
    """
    if not run_demo(opener, warehouse, DemoOptions(seconds, queries, rate, seed, audits)):
        sys.exit(DIFFERS)
