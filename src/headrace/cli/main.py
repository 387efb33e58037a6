"""The commands `headrace demo | sql | queries | explain | audit | bench`, and how each of them ends.

Exit codes: 0 all well, 1 an audit found a difference, 2 bad usage or an error, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

import headrace
from headrace.cli import console, statements, tables
from headrace.cli.bench import BenchOptions, run_bench
from headrace.cli.demo import DemoOptions, run_demo
from headrace.cli.face import AuditReport, Opener, QueryInfo, Session
from headrace.cli.opening import open_warehouse, opened
from headrace.model.errors import CatalogError, HeadraceError, did_you_mean

ERROR, INTERRUPTED, DIFFERS = 2, 130, 1


class Commands(click.Group):
    """A group whose commands end with a clear message and a proper exit code, never with a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HeadraceError as error:
            console.print_error(error)
            ctx.exit(ERROR)
        except (KeyboardInterrupt, click.Abort):
            console.err().print("Stopped.", style="yellow")
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            console.print_unexpected(error)
            ctx.exit(ERROR)


def warehouse_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--warehouse",
        metavar="DIR",
        default=default,
        show_default=True,
        help="Directory that holds the streams, the queries and their results.",
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(headrace.__version__, prog_name="headrace")
@click.option("--debug", is_flag=True, help="Show Python tracebacks of unexpected errors.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Run thousands of continuous SQL queries over the same streams as a few shared Spark jobs.

    New here? `headrace demo` plays a minute of several hundred queries that come and go.
    """
    if ctx.obj is None:
        ctx.obj = open_warehouse


@cli.command(short_help="Play a minute of several hundred ad-hoc queries, and audit them.")
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


@cli.command(short_help="Run SQL statements from -e, a file or a prompt.")
@warehouse_option("./headrace-warehouse")
@click.option(
    "-e", "--execute", "texts", multiple=True, metavar="STATEMENT", help="Run this; may be repeated."
)
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in tables.Format]),
    default=tables.Format.TABLE.value,
    show_default=True,
    help="How to print rows.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Rows to print at most, as a table.",
)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.pass_obj
def sql(
    opener: Opener, warehouse: str, texts: tuple[str, ...], form: str, max_rows: int, file: str | None
) -> None:
    """Run SQL statements: from -e, from FILE (- is standard input), or from a prompt.

    \b
    CREATE STREAM ...            a named input: columns, event-time column, watermark delay
    CREATE QUERY spend AS SELECT SUM(price) FROM purchases [RANGE 10 SECONDS]
    DROP QUERY spend
    SHOW STREAMS
    SHOW QUERIES
    EXPLAIN spend
    SELECT * FROM spend          the rows a query has delivered so far

    The warehouse is created when it does not exist yet. A script stops at its first error.
    """
    if texts and file:
        raise click.UsageError("give statements with -e or in a file, not both")
    show = partial(_print_result, form=tables.Format(form), max_rows=max_rows)
    script = _script_of(texts, file)
    found = None if script is None else statements.split_statements(script)
    if found == ():
        raise click.UsageError("there is no statement to run")
    with opened(opener, warehouse) as session:
        if found is None:
            _prompt(session, show)
        else:
            _run_script(session, found, show)


def _script_of(texts: Sequence[str], file: str | None) -> str | None:
    """The statements to run as one script, or None when a person is to type them."""
    if texts:
        return ";\n".join(texts)
    if file and file != "-":
        try:
            return Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"{file} is not UTF-8 text: {error.reason}") from error
    return None if sys.stdin.isatty() and not file else sys.stdin.read()


def _run_script(
    session: Session, found: Sequence[statements.Statement], show: Callable[[str | pa.Table], None]
) -> None:
    for i, statement in enumerate(found, 1):
        try:
            result = _execute(session, statement.text)
        except HeadraceError:
            if len(found) > 1:
                console.err().print(
                    f"Statement {i} of {len(found)}, at line {statement.line}, failed:", style="yellow"
                )
            raise
        show(result)


def _prompt(session: Session, show: Callable[[str | pa.Table], None]) -> None:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (gives `input` a history and editing)
    console.err().print("Statements end with a semicolon. Ctrl-D or quit leaves.", style="dim")

    def run(text: str) -> None:
        try:
            show(_execute(session, text))
        except HeadraceError as error:
            console.print_error(error)

    statements.read_prompt(input, run)


def _execute(session: Session, text: str) -> str | pa.Table:
    with console.spinner("Running", plain=False):
        return session.execute(text)


def _print_result(result: str | pa.Table, form: tables.Format, max_rows: int) -> None:
    if isinstance(result, str):
        click.echo(result)
    elif form is tables.Format.TABLE:
        console.out().print(tables.render_rows(result, max_rows))
    else:
        click.echo(tables.format_rows(result, form), nl=False)


@cli.command(short_help="List the queries with their state, rows and errors.")
@warehouse_option("./headrace-warehouse")
@click.option("--state", metavar="STATE", help="Only queries in this state, such as active or dropped.")
@click.pass_obj
def queries(opener: Opener, warehouse: str, state: str | None) -> None:
    """List the queries: name, state, stream, first epoch, rows delivered, error."""
    with opened(opener, warehouse, read_only=True) as session:
        infos = [info for info in session.queries() if state in (None, tables.state_name(info.state))]
        console.out().print(tables.render_queries(infos))


@cli.command(short_help="Show how queries run and what they share.")
@warehouse_option("./headrace-warehouse")
@click.option("--all", "everything", is_flag=True, help="Explain the whole shared plan.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_obj
def explain(opener: Opener, warehouse: str, everything: bool, names: tuple[str, ...]) -> None:
    """Show how queries run: what they share, and the plain Spark SQL they are equal to."""
    _need_names(names, everything)
    with opened(opener, warehouse, read_only=True) as session:
        if everything:
            click.echo(session.explain())
            return
        known = session.queries()
        for name in names:
            click.echo(session.query(_known(name, known).name).explain())


@cli.command(short_help="Compare delivered rows with plain Spark's.")
@warehouse_option("./headrace-warehouse")
@click.option("--all", "everything", is_flag=True, help="Audit every query.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_obj
def audit(opener: Opener, warehouse: str, everything: bool, names: tuple[str, ...]) -> None:
    """Compare delivered rows with what plain Spark gives for the same tuples.

    Prints the verdict and the first differing rows. The exit code is 1 when a query differs.
    """
    _need_names(names, everything)
    with opened(opener, warehouse, read_only=True) as session:
        known = session.queries()
        chosen = [info.name for info in known] if everything else [_known(name, known).name for name in names]
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


def _need_names(names: Sequence[str], everything: bool) -> None:
    if bool(names) == everything:
        raise click.UsageError("name one or more queries, or say --all")


def _known(name: str, known: Sequence[QueryInfo]) -> QueryInfo:
    """The query of that name, the youngest when the name was used more than once."""
    found = [info for info in known if info.name == name]
    if not found:
        raise CatalogError(
            "QUERY_NOT_FOUND",
            f"there is no query `{name}`",
            hint=did_you_mean(name, (info.name for info in known)),
        )
    return found[-1]


WORKLOAD_NAMES = ("aggregation", "join", "complex")


@cli.command(short_help="Measure Headrace and what people would use instead.")
@click.option("--quick", is_flag=True, help="End within three minutes; small, so only for a first look.")
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
    help="Only queries of this kind; may be given again. All kinds if not given, aggregations alone with --quick.",
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
def bench(
    quick: bool,
    extra: tuple[str, ...],
    systems: str,
    workloads: tuple[str, ...],
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
    known = ("headrace", "spark", "fused", "flink")
    chosen = (*_names(systems, known), *extra)
    wanted = (
        _names(curves, CURVE_NAMES)
        if curves not in ("none", "all")
        else ()
        if curves == "none"
        else CURVE_NAMES
    )
    if quick:
        probes, rows, files, wanted = min(probes, 1), min(rows, 200_000), min(files, 4), ()
    kinds = tuple(dict.fromkeys(workloads)) or (WORKLOAD_NAMES[:1] if quick else WORKLOAD_NAMES)
    options = BenchOptions(
        quick, tuple(dict.fromkeys(chosen)), wanted, probes, rows, files, seed, out, name, kinds
    )
    if not run_bench(options):
        sys.exit(DIFFERS)


CURVE_NAMES = ("queries", "keys", "columns", "skew", "density", "epoch")


def _names(text: str, known: Sequence[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in found:
        if name not in known:
            raise click.UsageError(f"{name} is not one of {', '.join(known)}")
    return found


def main() -> None:
    """The console script."""
    cli(prog_name="headrace")


if __name__ == "__main__":
    main()
