"""The commands that look: `headrace queries | groups | health | events | explain | audit`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from headrace.cli import console, tables
from headrace.cli.face import AuditReport, Opener
from headrace.cli.live import render_sources
from headrace.cli.opening import reached
from headrace.cli.options import known_query, need_names, warehouse_option

DIFFERS = UNWELL = 1


@click.command()
@warehouse_option()
@click.option(
    "--state",
    type=click.Choice(list(tables.STATE_STYLES), case_sensitive=False),
    help="Only queries in this state.",
)
@click.option("--group", help="Only queries that live in this group.")
@click.pass_obj
def queries(opener: Opener, warehouse: str, state: str | None, group: str | None) -> None:
    """List the queries: name, state, stream, group, first epoch, rows delivered, error."""
    with reached(opener, warehouse, read_only=True) as session:
        infos = [info for info in session.queries() if state in (None, tables.state_name(info.state))]
    infos = [info for info in infos if group is None or info.group == group.lower()]
    console.out().print(tables.render_queries(infos))


@click.command()
@warehouse_option()
@click.option("--verbose", is_flag=True, help="Also what work was predicted for epochs, and what they took.")
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="So many predictions: the newest of each group.",
)
@click.pass_obj
def groups(opener: Opener, warehouse: str, verbose: bool, max_rows: int) -> None:
    """List the sharing groups: what each does, its queries, how far it is, what its epochs take, and what it saves.

    Queries of one group share their work. Each group runs at its own pace, so that a slow one lags alone. `saves` is in
    cores: what the queries of the group would need more if each of them ran alone.
    """
    with reached(opener, warehouse, read_only=True) as session:
        infos = session.groups()
        found = session.execute("SHOW PREDICTIONS") if verbose else None
    screen = console.out()
    screen.print(tables.render_groups(infos))
    if found is not None:
        assert not isinstance(found, str)
        screen.print(tables.render_rows(_newest(found, max_rows), max_rows))


def _newest(predictions: Any, count: int) -> Any:
    """About so many of a table of predictions that lists group after group: the newest of each group, one at least."""
    groups = predictions.column("group").to_pylist()
    if not groups:
        return predictions
    sizes = Counter(groups)
    each, left = max(1, count // len(sizes)), []
    for row, group in enumerate(groups):
        if sizes[group] <= each:
            left.append(row)
        sizes[group] -= 1
    return predictions.take(left)


@click.command()
@warehouse_option()
@click.pass_obj
def health(opener: Opener, warehouse: str) -> None:
    """Show the input of every stream, and every problem with a hint. Exits with 1 when there is a problem."""
    with reached(opener, warehouse, read_only=True) as session:
        found = session.health()
    if found.sources:
        console.out().print(render_sources(found.sources))
    click.echo(found)
    if not found.ok:
        sys.exit(UNWELL)


@click.command()
@warehouse_option()
@click.option(
    "--max-rows", type=click.IntRange(min=1), default=50, show_default=True, help="The newest so many."
)
@click.pass_obj
def events(opener: Opener, warehouse: str, max_rows: int) -> None:
    """List what was decided about groups and why, and which queries did not get what was asked for them.

    The newest event is last. `took` is the time from a decision to the first epoch in the new shape.
    """
    with reached(opener, warehouse, read_only=True) as session:
        found = session.execute("SHOW EVENTS")
    assert not isinstance(found, str)
    console.out().print(tables.render_rows(found.slice(max(0, found.num_rows - max_rows)), max_rows))


@click.command()
@warehouse_option()
@click.option("--all", "everything", is_flag=True, help="Explain the whole shared plan.")
@click.option("--verbose", is_flag=True, help="In the engine's own words: operators, lanes and families.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_obj
def explain(opener: Opener, warehouse: str, everything: bool, verbose: bool, names: tuple[str, ...]) -> None:
    """Show how queries run: what they share, their windows, watermark and cost, and the plain Spark SQL they equal."""
    need_names(names, everything)
    with reached(opener, warehouse, read_only=True) as session:
        if everything:
            click.echo(session.execute("EXPLAIN VERBOSE") if verbose else session.explain())
            return
        known = session.queries()
        for name in (known_query(name, known).name for name in names):
            quoted = f"`{name}`"
            click.echo(
                session.execute(f"EXPLAIN VERBOSE {quoted}") if verbose else session.query(name).explain()
            )


@click.command()
@warehouse_option()
@click.option("--all", "everything", is_flag=True, help="Audit every query.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_obj
def audit(opener: Opener, warehouse: str, everything: bool, names: tuple[str, ...]) -> None:
    """Compare delivered rows with what plain Spark gives for the same tuples.

    Prints the verdict and the first differing rows. The exit code is 1 when a query differs.
    """
    need_names(names, everything)
    with reached(opener, warehouse, read_only=True) as session:
        known = session.queries()
        chosen = (
            [info.name for info in known] if everything else [known_query(name, known).name for name in names]
        )
        audits: list[tuple[str, AuditReport]] = []
        for name in chosen:
            with console.spinner(f"Auditing {name} ({len(audits) + 1} of {len(chosen)})"):
                audits.append((name, session.query(name).audit()))
    _print_audits(audits)
    if not all(report.ok for _, report in audits):
        sys.exit(DIFFERS)


def _print_audits(audits: Sequence[tuple[str, AuditReport]]) -> None:
    screen = console.out()
    screen.print(tables.render_audits(audits))
    for name, report in audits:
        if not report.ok:
            screen.print(tables.render_difference(name, report))
