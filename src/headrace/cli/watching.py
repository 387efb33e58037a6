"""The command `headrace watch`: the newest rows of a query, or the picture of a whole warehouse, as they come."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import click
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from headrace.cli import console as consoles
from headrace.cli import tables
from headrace.cli.face import Opener, QueryInfo, Served
from headrace.cli.live import view_for
from headrace.cli.monitor import Board
from headrace.cli.opening import opened
from headrace.cli.options import known_query, warehouse_option
from headrace.cli.screens import Lines, Picture
from headrace.cli.stopping import Clock, WallClock, stop_signals
from headrace.model.errors import HeadraceError
from headrace.service.client import connect

if TYPE_CHECKING:
    import pyarrow as pa

TICK_S = 1.0


@click.command()
@warehouse_option()
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many of the newest rows to show first, and on a terminal at a time.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in tables.Format]),
    help="How to print rows: a table that is redrawn (default on a terminal), CSV (default elsewhere) or JSON lines.",
)
@click.argument("name", required=False)
@click.pass_obj
def watch(opener: Opener, warehouse: str, rows: int, form: str | None, name: str | None) -> None:
    """Show the newest rows of the query NAME as they come; without NAME, what all queries do.

    While `headrace run` or `headrace serve` is up, it is asked. Without one, the warehouse is read again and again, so
    that rows of any other writer show too. Ctrl-C ends it with exit code 0.
    """
    clock = WallClock()
    chosen = None if form is None else tables.Format(form)
    with Looks(opener, warehouse) as looks, stop_signals(clock.stopped):
        if name is None:
            watch_all(looks, warehouse, clock)
        else:
            watch_query(looks, name, rows, chosen, clock)


class Looks:
    """Whoever can answer at the moment: the service of the warehouse, else a session that reads what is there now."""

    def __init__(self, opener: Opener, warehouse: str) -> None:
        self._opener, self._warehouse = opener, warehouse
        self._kept, self._current = ExitStack(), ExitStack()
        self._opened = False
        self.remote = False

    def now(self) -> Served:
        found = connect(self._warehouse)
        self.remote = found is not None
        return self._read() if found is None else found

    def _read(self) -> Served:
        """A session on what is committed now. The first is kept open, so that the Spark it starts stays."""
        if not self._opened:
            self._opened = True
            return self._kept.enter_context(opened(self._opener, self._warehouse, read_only=True))
        self._current.close()
        return self._current.enter_context(self._opener(self._warehouse, read_only=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._current.close()
        self._kept.close()


def watch_all(looks: Looks, warehouse: str, clock: Clock) -> None:
    """The picture of `headrace run`, of whatever runs or has run the warehouse."""
    began, board = clock.now(), Board(clock.now)
    with view_for(consoles.out()) as view:
        while not clock.stopped.is_set():
            try:
                session = looks.now()
                who = "watching" if looks.remote else "nobody runs it now, or a program without the API does"
                title = f"{warehouse} · {who} · Ctrl-C ends it"
                view.show(board.snapshot(session, clock.now() - began, title))
            except HeadraceError as error:
                if error.code not in ("SERVICE_GONE", "SERVICE_SILENT"):
                    raise
            clock.pause(TICK_S)


def watch_query(looks: Looks, name: str, limit: int, form: tables.Format | None, clock: Clock) -> None:
    """Rows of one query: redrawn on a terminal, printed once each elsewhere."""
    screen = consoles.out()
    table = form is tables.Format.TABLE or (form is None and screen.is_terminal)
    shown: Shown = Redrawn(screen) if table else Printed(form or tables.Format.CSV)
    tail = Tail(name, limit)
    with shown:
        while not clock.stopped.is_set():
            try:
                new = tail.look(looks.now())
                if new is not None:
                    shown.show(tail, new)
            except HeadraceError as error:
                if error.code not in ("SERVICE_GONE", "SERVICE_SILENT"):
                    raise
            clock.pause(TICK_S)


class Tail:
    """The end of a query's rows, as far as it has been seen."""

    def __init__(self, name: str, limit: int) -> None:
        self.name, self._limit = name, limit
        self.rows: pa.Table | None = None
        self.epoch: int | None = None
        self.info: QueryInfo | None = None
        self.why_empty: str | None = None
        self.standing: tuple[str, ...] = ()
        self._seen: tuple[tuple[str, int], ...] = ()

    def look(self, session: Served) -> pa.Table | None:
        """The rows that came since the last look, also when there are none; None when no group has run an epoch."""
        seen = tuple((group.name, group.cursor) for group in session.groups())
        if self.info is not None and seen == self._seen:
            return None
        self._seen = seen
        self.info = known_query(self.name, session.queries())
        handle = session.query(self.name)
        found = handle.newest(self._limit, self.epoch)
        self.epoch = found.epoch
        self.rows = found.rows if self.rows is None else _end(self.rows, found.rows, self._limit)
        status = handle.status()
        self.why_empty, self.standing = None if self.rows.num_rows else status.why, tuple(status.standing)
        return found.rows


def _end(before: pa.Table, after: pa.Table, limit: int) -> pa.Table:
    """The last `limit` rows of both."""
    import pyarrow as pa

    if after.num_rows < limit:
        after = pa.concat_tables([before.slice(max(0, before.num_rows - limit + after.num_rows)), after])
    return after.slice(max(0, after.num_rows - limit))


class Shown(Protocol):
    """What shows a tail: all of it anew, or what is new."""

    def show(self, tail: Tail, new: pa.Table) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Redrawn(Picture):
    """One table, redrawn in place."""

    def show(self, tail: Tail, new: pa.Table) -> None:
        self.draw(render_tail(tail))


class Printed(Lines):
    """Each row once, for pipes and files; the names of the columns come first in CSV."""

    def __init__(self, form: tables.Format) -> None:
        self._form, self._begun = form, False

    def show(self, tail: Tail, new: pa.Table) -> None:
        text = tables.format_rows(new, self._form)
        if self._form is tables.Format.CSV and self._begun:
            text = tables.format_rows(new, self._form, header=False)
        self._begun = True
        click.echo(text, nl=False)


def render_tail(tail: Tail) -> RenderableType:
    """The newest rows in a frame that says what the query is and how much there is of it."""
    assert tail.info is not None and tail.rows is not None
    state = tables.state_name(tail.info.state)
    parts: list[RenderableType] = []
    if tail.rows.num_rows:
        parts.append(tables.render_plain(tail.rows))
    else:
        parts.append(Text(tail.why_empty or "its first rows have just come", "dim"))
    if tail.rows.num_rows:
        parts += [Text(line, "yellow") for line in tail.standing]
    if tail.info.error:
        parts.append(Text(str(tail.info.error), "red"))
    title = Text(f"{tail.name} · {state} · {tail.info.rows:,} rows by epoch {tail.epoch} · Ctrl-C ends it")
    return Panel(Group(*parts), title=title, border_style=tables.STATE_STYLES.get(state, "blue"))
