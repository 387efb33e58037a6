"""The command `headrace`: which commands there are, and how each of them ends.

Exit codes: 0 all well, 1 an audit found a difference or health found a problem, 2 bad usage or an error, 130 stopped
with Ctrl-C, 141 the reader of the output went away.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

import headrace
from headrace.cli import console
from headrace.model.errors import HeadraceError

ERROR, INTERRUPTED, NO_READER = 2, 130, 141

COMMANDS = {
    "demo": ("headrace.cli.demo_command", "Play a minute of several hundred ad-hoc queries, and audit them."),
    "run": ("headrace.cli.service_commands", "Run the queries of a warehouse, with a live picture."),
    "serve": ("headrace.cli.service_commands", "Run the queries of a warehouse, with a log instead."),
    "sql": ("headrace.cli.sql_command", "Run SQL statements from -e, a file or a prompt."),
    "watch": ("headrace.cli.watching", "Show the newest rows of a query, or all queries, as they come."),
    "queries": ("headrace.cli.looking", "List the queries with their state, rows and errors."),
    "groups": ("headrace.cli.looking", "List the sharing groups with their members, lag and cost."),
    "health": ("headrace.cli.looking", "Show every stream's input, and what is broken."),
    "events": ("headrace.cli.looking", "List what was decided about groups, and why."),
    "explain": ("headrace.cli.looking", "Show how queries run and what they share."),
    "audit": ("headrace.cli.looking", "Compare delivered rows with plain Spark's."),
    "bench": ("headrace.cli.bench_command", "Measure Headrace and what people would use instead."),
}
"""Module and summary by command, in the order of the help. A module is imported when its command is called: what others
need, above all Spark and pandas, takes a second to load.
"""


class Commands(click.Group):
    """A group whose commands end with a clear message and a proper exit code, never with a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]}; the commands are {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with console.told_warnings():
                result = super().invoke(ctx)
            sys.stdout.flush()
        except HeadraceError as error:
            console.print_error(error)
            ctx.exit(ERROR)
        except (KeyboardInterrupt, click.Abort):
            console.err().print("Stopped.", style="yellow")
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _discard_output()
            ctx.exit(NO_READER)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            listed = ", ".join(_options(error.ctx))
            raise click.UsageError(
                f"there is no option {error.option_name}; the options are {listed}", error.ctx
            ) from None
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            console.print_unexpected(error)
            ctx.exit(ERROR)
        return result


def _options(ctx: click.Context | None) -> list[str]:
    """The long names of a command's options."""
    parameters = [] if ctx is None else ctx.command.get_params(ctx)
    names = [name for parameter in parameters for name in parameter.opts if name.startswith("--")]
    return [name for name in names if name != "--help"]


def _discard_output() -> None:
    """Let Python flush what nobody reads at its end without a word."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(headrace.__version__, prog_name="headrace")
@click.option("--debug", is_flag=True, help="Show Python tracebacks of unexpected errors.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Run thousands of continuous SQL queries over the same streams as a few shared Spark jobs.

    New here? `headrace demo` plays a minute of several hundred queries that come and go.
    """
    if ctx.obj is None:
        from headrace.cli.opening import open_warehouse

        ctx.obj = open_warehouse


def main() -> None:
    """The console script."""
    cli(prog_name="headrace")


if __name__ == "__main__":
    main()
