"""The commands that keep epochs going: `headrace run` with a live picture, `headrace serve` with a log.

Both open the same API on loopback and publish it in the warehouse, so that every other command reaches the session that
runs. Ctrl-C and SIGTERM finish the epoch under way and end with exit code 0; a second one leaves at once with 130.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from rich.console import Console

from headrace.cli import console as consoles
from headrace.cli.face import Opener, Session
from headrace.cli.live import LiveView, LogView
from headrace.cli.monitor import Board
from headrace.cli.opening import entered
from headrace.cli.options import warehouse_option
from headrace.cli.registering import call_registers, find_registers
from headrace.cli.statements import only_reads
from headrace.cli.stopping import Clock, WallClock, stop_signals
from headrace.model.errors import EngineError, HeadraceWarning
from headrace.service.client import connect
from headrace.service.server import Service, published
from headrace.storage.warehouse import Warehouse, local_directory

TICK_S = 0.5
Command = TypeVar("Command", bound=Callable[..., Any])

SHOWN_STATEMENT = 200

interval_option = click.option(
    "--interval",
    default="1 second",
    show_default=True,
    metavar="DURATION",
    help="How often what has arrived becomes an epoch.",
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Port of the API on 127.0.0.1; a free one if not given.",
)


partitions_option = click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Spread keys over so many tasks; as many as Spark has cores, or as was said last, if not given.",
)
backfill_option = click.option(
    "--backfill-tasks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Tasks that a query takes at most while it catches up; as many as the others if not given.",
)
sharing_option = click.option(
    "--sharing",
    type=click.Choice(["functional", "isolated", "full", "overlap", "selectivity", "manual"]),
    default="functional",
    show_default=True,
    help="Who shares work with whom: queries that do not slow each other, nobody, all that read the same streams, "
    "those whose filters overlap, those that select about as much, or as people say.",
)


register_option = click.option(
    "--register",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="A Python module, or a .py file, whose register(session) is called before the first epoch: it registers the "
    "functions that queries call. May be given again.",
)


_RUNNING = (
    warehouse_option(),
    interval_option,
    port_option,
    partitions_option,
    backfill_option,
    sharing_option,
    register_option,
)


def running_options(command: Command) -> Command:
    """The options of whatever runs a warehouse: those of `RunOptions`."""
    for option in reversed(_RUNNING):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`command` is `run` or `serve`; `live` wants the picture, where there is a terminal to draw it on."""

    command: str
    interval: str
    port: int
    live: bool
    partitions: int | None = None
    backfill_tasks: int | None = None
    sharing: str = "functional"
    modules: tuple[str, ...] = ()


@click.command()
@running_options
@click.pass_obj
def run(opener: Opener, /, warehouse: str, **given: Any) -> None:
    """Run the queries of a warehouse in the foreground, with a live picture of what goes on.

    Every interval, what has arrived in the streams becomes an epoch. Meanwhile `sql`, `queries`, `groups`, `explain`,
    `audit` and `watch` in other terminals reach this process: create and drop queries as you like. The warehouse is
    created when there is none. Ctrl-C finishes the epoch under way and ends with exit code 0.
    """
    keep_running(opener, warehouse, RunOptions("run", live=True, **given))


@click.command()
@running_options
@click.pass_obj
def serve(opener: Opener, /, warehouse: str, **given: Any) -> None:
    """Run the queries of a warehouse as `headrace run` does, and print a log instead of a picture.

    The API is on 127.0.0.1 only, and the file `service.json` in the warehouse has its address and its token. Ctrl-C or
    SIGTERM finishes the epoch under way and ends with exit code 0.
    """
    keep_running(opener, warehouse, RunOptions("serve", live=False, **given))


def keep_running(opener: Opener, warehouse: str, options: RunOptions, clock: Clock | None = None) -> None:
    """Run epochs until the clock says stop. Says what it does, and ends with everything on disk."""
    warnings.simplefilter("ignore", HeadraceWarning)  # problems are shown as they come and go
    clock, screen = clock or WallClock(), consoles.out()
    _check_interval(options.interval)
    registers = find_registers(options.modules)
    _check_free(warehouse)
    if not (local_directory(warehouse) / "format.json").exists():
        Warehouse(warehouse)
        screen.print(f"Created the warehouse {warehouse}.", markup=False)
    with (
        published(warehouse, options.command, options.port) as service,
        entered(
            opener(
                warehouse,
                partitions=options.partitions,
                backfill_tasks=options.backfill_tasks,
                sharing=options.sharing,
            )
        ) as session,
        stop_signals(clock.stopped),
    ):
        call_registers(session, registers)
        _run(session, service, warehouse, options, clock, screen)


def _run(
    session: Session, service: Service, warehouse: str, options: RunOptions, clock: Clock, screen: Console
) -> None:
    log = LogView(screen)
    live = options.live and screen.is_terminal
    service.start(session, on_statement=(lambda text: None) if live else lambda text: _log(log, text))
    with consoles.spinner("Starting Spark's workers"):
        session.warm_up()
    session.start(interval=options.interval)
    try:
        began = clock.now()
        address = service.endpoint.address
        title = f"{warehouse} · every {options.interval} · {address} · Ctrl-C ends it"
        board, footer = Board(clock.now), _next_steps(warehouse)
        if not live:
            log.say(f"running {warehouse} every {options.interval}; the API is at {address}")
        with LiveView(screen) if live else log as view:
            while True:
                view.show(board.snapshot(session, clock.now() - began, title, footer))
                if clock.pause(TICK_S):
                    break
    finally:
        with consoles.spinner("Stopping: the epoch under way is finished first"):
            service.stop()
            session.stop()
    epoch = session.metrics().epoch
    screen.print(f"Stopped after epoch {epoch}." if epoch >= 0 else "Stopped; no epoch has run.")


def _next_steps(warehouse: str) -> str:
    program = consoles.program_name()
    return f"In another terminal: {program} sql --warehouse {warehouse}"


def _log(log: LogView, statement: str) -> None:
    """Statements that change something are worth a line."""
    if not only_reads(statement):
        text = " ".join(statement.split())
        log.say(f"statement: {text[:SHOWN_STATEMENT]}{' ...' if len(text) > SHOWN_STATEMENT else ''}")


def _check_interval(interval: str) -> None:
    """Refuse a bad interval before Spark starts."""
    from headrace.sql import parse_duration

    if parse_duration(interval) <= 0:
        raise EngineError("BAD_OPTION", "the interval must be longer than nothing", hint="say '1 second'")


def _check_free(warehouse: str) -> None:
    remote = connect(warehouse)
    if remote is not None:
        raise EngineError(
            "ALREADY_RUNNING",
            f"process {remote.endpoint.pid} runs this warehouse already",
            detail=f"it was started with `headrace {remote.endpoint.command}` and answers at {remote.endpoint.address}",
            hint="use `headrace sql`, `queries`, `groups`, `health`, `explain`, `audit` or `watch`: they reach it",
        )
