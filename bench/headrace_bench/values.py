"""What aggregates over all values of a group cost: time per epoch, shared and as plain Spark, in one run.

Beside some mixed aggregation queries run others with COUNT(DISTINCT), median, percentile, collect_set and MAX_BY.
"Plain Spark" is the same texts, with these functions declared to have no shared form. Each setting has its own
warehouse, the first epochs are left out, and a sample of the queries is audited at the end.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import click
from rich.table import Table

from headrace.model.lanes import is_factor
from headrace.sql.bodies import aggregates, calls
from headrace_bench import astream
from headrace_bench.epochs import Feed, create_streams, own_spark, run_timed, warehouse
from headrace_bench.spine import create_queries, numbers, screen

WARM_UP = 2
CALLS = (
    "COUNT(DISTINCT field1) AS a",
    "median(field2) AS a",
    "percentile(field1, array(0.5, 0.99)) AS a",
    "COUNT(DISTINCT field1, field3) AS a",
    "max_by(field1, field2) AS a",
    "collect_set(field4 % 50) AS a",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """So many queries that ask for values, beside others."""

    values: int
    others: int
    shared: bool


@click.command("values")
@click.option("--queries", default="1,8,64", show_default=True, callback=numbers, help="That ask for values.")
@click.option("--most-plain", default=8, show_default=True, help="More are not run as plain Spark.")
@click.option("--others", default=42, show_default=True, help="Mixed aggregation queries beside them.")
@click.option("--rows", default=200_000, show_default=True, help="Events per epoch.")
@click.option("--keys", default=100, show_default=True)
@click.option("--epochs", default=4, show_default=True)
def values(queries: list[int], most_plain: int, others: int, rows: int, keys: int, epochs: int) -> None:
    """Time per epoch of queries that ask for all values of a group, shared and as plain Spark."""
    settings = [Setting(0, others, True)]
    settings += [Setting(count, others, True) for count in queries]
    settings += [Setting(count, others, False) for count in queries if count <= most_plain]
    table = Table("value queries", "others", "run as", "s per epoch", "audit")
    with own_spark() as spark:
        for setting in settings:
            with read_as(setting.shared):
                seconds, audit = run_setting(spark, setting, Feed(rows, keys), epochs)
            how = "shared" if setting.shared else "plain Spark"
            table.add_row(str(setting.values), str(setting.others), how, f"{seconds:.2f}", audit)
    screen().print(table)


@contextmanager
def read_as(shared: bool) -> Iterator[None]:
    """Let texts be read as they are, or as if the functions of this benchmark had no shared form."""
    known = calls.read_call

    def refuse(node: Any, literals: tuple[str, ...]) -> calls.Call:
        call = known(node, literals)
        if not is_factor(call.function):
            raise calls.NotShared("it is measured as plain Spark")
        return call

    setattr(aggregates, "read_call", known if shared else refuse)  # noqa: B010
    try:
        yield
    finally:
        setattr(aggregates, "read_call", known)  # noqa: B010


def value_query(rng: Random, number: int) -> str:
    window = rng.choice(["'4 seconds'", "'4 seconds', '2 seconds'", "'6 seconds', '3 seconds'"])
    where = f"field{rng.randint(1, 5)} > {rng.randint(0, 50)}"
    return (
        f"SELECT key, {CALLS[number % len(CALLS)]} FROM {astream.STREAM} WHERE {where} "
        f"GROUP BY key, window(ts, {window})"
    )


def run_setting(spark: Any, setting: Setting, feed: Feed, epochs: int) -> tuple[float, str]:
    """(median seconds per epoch, what audits of a sample said)."""
    rng, seconds = Random(1), []
    with warehouse(spark) as hr:
        create_streams(hr)
        create_queries(hr, setting.others, seed=1)
        created = [hr.create_query(value_query(rng, n), name=f"v{n}") for n in range(setting.values)]
        for epoch in range(epochs + WARM_UP):
            timed = run_timed(hr, {astream.STREAM: feed.table(epoch)})
            if epoch >= WARM_UP:
                seconds.append(timed.seconds)
        sample = created[: len(CALLS)] if setting.shared else []
        ok = sum(query.audit().ok for query in sample)
    return statistics.median(seconds), f"{ok} of {len(sample)} ok" if sample else ""
