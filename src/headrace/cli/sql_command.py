"""The command `headrace sql`: statements from -e, a file, standard input or a prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli import console, statements, tables
from headrace.cli.face import Opener, Served
from headrace.cli.opening import reached
from headrace.cli.options import warehouse_option
from headrace.cli.prompt import prompt
from headrace.model.errors import HeadraceError
from headrace.notes import note_of
from headrace.service.client import RemoteSession

if TYPE_CHECKING:
    import pyarrow as pa


@click.command()
@warehouse_option()
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
    INSERT INTO purchases VALUES (1, 2.5, '2026-01-01 12:00:00')
    CREATE QUERY spend AS SELECT SUM(price) FROM purchases [RANGE 10 SECONDS]
    SELECT * FROM spend          the rows a query has delivered so far; why, if there are none
    SELECT * FROM purchases      the recent rows of a stream
    DESCRIBE spend
    EXPLAIN spend
    SHOW STREAMS
    SHOW QUERIES
    SHOW GROUPS                  queries that share their work, how far each group is, and what it costs
    SHOW FUNCTIONS               functions of your own, and the queries that call them
    SHOW SPLITS                  operators of your own over streams that are cut into sub-streams
    SHOW EVENTS                  what was decided about groups, and why
    SHOW PREDICTIONS             what work was predicted for epochs, and what they took
    DROP QUERY spend
    HELP                         all of them, and the grammar of each

    While `headrace run` or `headrace serve` is up, the statements go there. Without one, this command opens the
    warehouse itself, and creates it when a statement writes and there is none. A script stops at its first error.
    """
    if texts and file:
        raise click.UsageError("give statements with -e or in a file, not both")
    show = partial(_print_result, form=tables.Format(form), max_rows=max_rows)
    script = _script_of(texts, file)
    found = None if script is None else statements.split_statements(script)
    if found == ():
        raise click.UsageError("there is no statement to run")
    if found is not None and all(statements.is_help(statement.text) for statement in found):
        for statement in found:
            click.echo(statements.help_for(statement.text))
        return
    writes = found is None or not all(statements.only_reads(statement.text) for statement in found)
    with reached(opener, warehouse, read_only=not writes) as session:
        if found is None:
            prompt(session, lambda text: show(_typed(session, text, warehouse)), _where(session))
        else:
            _run_script(session, found, show)
    if found is not None and writes and not isinstance(session, RemoteSession):
        _say_nobody_runs(warehouse)


def _typed(session: Served, text: str, warehouse: str) -> str | pa.Table:
    """The answer to what a person typed, of the service that is up by now: it may have been started again."""
    if isinstance(session, RemoteSession) and session.follow(warehouse):
        click.echo(_where(session))
    return _execute(session, text)


def _where(session: Served) -> str:
    """Who runs the statements that are typed, for a person to know."""
    if isinstance(session, RemoteSession):
        return f"Connected to process {session.endpoint.pid}, which runs this warehouse."
    return "No epochs run while this prompt is open: `headrace run` in another terminal runs them."


def _say_nobody_runs(warehouse: str) -> None:
    text = f"Nobody runs this warehouse now. To run it: {console.program_name()} run --warehouse {warehouse}"
    console.err().print(text, style="dim", soft_wrap=True, markup=False)


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
    session: Served, found: Sequence[statements.Statement], show: Callable[[str | pa.Table], None]
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


def _execute(session: Served, text: str) -> str | pa.Table:
    with console.spinner("Running", plain=False):
        return session.execute(text)


def _print_result(result: str | pa.Table, form: tables.Format, max_rows: int) -> None:
    if isinstance(result, str):
        click.echo(result)
        return
    if form is tables.Format.TABLE:
        console.out().print(tables.render_rows(result, max_rows))
    else:
        click.echo(tables.format_rows(result, form), nl=False)
    note = note_of(result)
    if note is not None:  # beside the rows, so that other programs read rows only
        console.err().print(note, style="dim", soft_wrap=True, markup=False)
