"""Rows and verdicts as rich renderables, or as CSV and JSON lines for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from enum import Enum
from textwrap import shorten
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.cli.face import AuditReport, GroupInfo, QueryInfo
from headrace.looking.showing import count, show_home, show_names, show_seconds
from headrace.service.wire import values_of

Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""Column names and rows, whatever they came as."""

SHOWN_ERROR = 160
STATE_STYLES = {"active": "green", "pending": "yellow", "dropped": "dim", "quarantined": "red"}


GROUP_STYLES = {"running": "green", "catching up": "yellow", "forming": "yellow", "empty": "dim"}


class Format(Enum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def rows_of(data: Any, limit: int | None = None) -> Rows:
    """Names and rows of an Arrow table, a pandas or Spark frame, or a list of dicts or tuples.

    >>> rows_of([{"a": 1}, {"a": 2}], limit=1)
    (('a',), [(1,)])
    >>> import pandas
    >>> rows_of(pandas.DataFrame({"word": ["a", None], "number": [1.5, float("nan")]}))
    (('word', 'number'), [('a', 1.5), (None, nan)])
    """
    import pandas as pd
    import pyarrow as pa

    match data:
        case None:
            return (), []
        case pa.Table():
            table = data if limit is None else data.slice(0, limit)
            columns = [values_of(column) for column in table.columns]
            return tuple(table.column_names), list(zip(*columns, strict=True))
        case pd.DataFrame():
            frame = data if limit is None else data.head(limit)
            columns = [_without_nan(frame.iloc[:, number]) for number in range(len(frame.columns))]
            return tuple(map(str, frame.columns)), list(zip(*columns, strict=True))
        case list() | tuple():
            return _rows_of_list(data if limit is None else data[:limit])
        case _:
            return rows_of((data if limit is None else data.limit(limit)).toArrow())


def _without_nan(column: Any) -> list[Any]:
    """The values of a pandas column with None for what is missing; of a float, nobody can tell NULL from NaN there."""
    from pandas.api.types import is_float_dtype

    values = list(column)
    return (
        values
        if is_float_dtype(column)
        else [v if here else None for v, here in zip(values, column.notna(), strict=True)]
    )


def _rows_of_list(items: Sequence[Any]) -> Rows:
    if not items:
        return (), []
    first = items[0]
    if isinstance(first, Mapping):
        return tuple(first), [tuple(item.values()) for item in items]
    if isinstance(first, tuple):
        names = getattr(first, "__fields__", None) or [f"_{i + 1}" for i in range(len(first))]
        return tuple(names), [tuple(item) for item in items]
    return ("value",), [(item,) for item in items]


def render_rows(data: Any, max_rows: int) -> RenderableType:
    """A table of at most `max_rows` rows, with a line that says how many there are."""
    return _render(*rows_of(data, max_rows), len(data))


def _render(names: tuple[str, ...], rows: list[tuple[Any, ...]], total: int) -> RenderableType:
    count = f"{total:,} row{'' if total == 1 else 's'}"
    if total > len(rows):
        count += f", the first {len(rows):,} shown"
    if not names:
        return Text(f"({count})", "dim")
    return Group(_grid(names, rows), Text(f"({count})", "dim"))


def render_plain(data: Any) -> RenderableType:
    """A table of all rows and nothing else."""
    return _grid(*rows_of(data))


def _grid(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for i, name in enumerate(names):
        numeric = any(isinstance(row[i], int | float) for row in rows)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def format_rows(data: Any, form: Format, header: bool = True) -> str:
    """All rows as CSV, with the names of the columns first if wanted, or as one JSON object per line."""
    names, rows = rows_of(data)
    if form is Format.JSON:
        return "".join(
            json.dumps(dict(zip(names, row, strict=True)), default=str, ensure_ascii=False) + "\n"
            for row in rows
        )
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if header:
        writer.writerow(names)
    writer.writerows(rows)
    return buffer.getvalue()


def _cell(value: object) -> Text:
    if value is None:
        return Text("NULL", "dim")
    return Text(f"{value:,.6g}" if isinstance(value, float) and abs(value) < 1e6 else str(value))


def state_name(state: object) -> str:
    return str(state.value if isinstance(state, Enum) else state).lower()


def render_queries(infos: Sequence[QueryInfo]) -> RenderableType:
    if not infos:
        return Text('No queries. Create one: headrace sql -e "CREATE QUERY name AS SELECT ..."', "dim")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("name", "state", "stream", "group"):
        table.add_column(name, overflow="fold")
    table.add_column("first epoch", justify="right")
    table.add_column("rows", justify="right")
    table.add_column("error", overflow="fold", style="red")
    for info in infos:
        state = state_name(info.state)
        table.add_row(
            Text(info.name),
            Text(state, STATE_STYLES.get(state, "default")),
            Text(info.stream),
            Text(show_home(info.group, info.target)),
            "" if info.first_epoch is None else str(info.first_epoch),
            f"{info.rows:,}",
            Text(
                shorten(
                    str(info.error or info.trouble or "").partition("\n")[0], SHOWN_ERROR, placeholder=" ..."
                )
            ),
        )
    states = [state_name(info.state) for info in infos]
    parts = [f"{states.count(state):,} {state}" for state in dict.fromkeys(states)]
    return Group(table, Text(f"({len(infos):,} in all: {', '.join(parts)})", "dim"))


def render_groups(infos: Sequence[GroupInfo], most: int | None = None) -> RenderableType:
    """A line per group, and what is wrong with some below; of more than `most` those that lag least are left out."""
    shown = list(infos)
    if most is not None and len(shown) > most:
        shown = sorted(shown, key=lambda info: (info.name != "main", not info.error, -info.lag_epochs))[:most]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("group", "state"):
        table.add_column(name, overflow="fold")
    for name in ("queries", "epoch", "behind", "lag", "tasks", "per epoch", "saves"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("members", overflow="ellipsis", no_wrap=True)
    for info in shown:
        table.add_row(
            Text(info.name),
            Text(info.doing, "red" if info.error else GROUP_STYLES.get(state_name(info.state), "default")),
            f"{len(info.members):,}",
            "" if info.cursor < 0 else f"{info.cursor:,}",
            f"{info.lag_epochs:,}",
            show_seconds(info.lag_seconds) if info.lag_epochs else "",
            str(info.tasks),
            "" if info.seconds is None else show_seconds(info.seconds),
            info.saving or "",
            Text(show_names(info.members)),
        )
    errors = [Text(f"{info.name}: {info.error}", "red") for info in shown if info.error]
    reasons = [Text(f"{info.name}: {info.reason}", "dim") for info in shown if info.reason]
    left = len(infos) - len(shown)
    more = [Text(f"and {count(left, 'more group', 'more groups')}", "dim")] if left else []
    return Group(table, *errors, *reasons, *more)


def render_audits(audits: Sequence[tuple[str, AuditReport]]) -> RenderableType:
    """A line per audited query: the rows plain Spark gives, the rows Headrace delivered, and the verdict; then a line
    per stream: what was taken in and what was not.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("query", overflow="fold")
    table.add_column("Spark rows", justify="right")
    table.add_column("Headrace rows", justify="right")
    table.add_column("verdict")
    for name, report in audits:
        verdict = Text("equal", "green")
        if report.note and not (report.expected_rows or report.actual_rows):
            verdict = Text("nothing to compare", "yellow")
        if not report.ok:
            verdict = Text("DIFFERS" if report.error is None else "QUARANTINED", "bold red")
        table.add_row(Text(name), f"{report.expected_rows:,}", f"{report.actual_rows:,}", verdict)
    notes = [f"{name}: {report.note}" for name, report in audits if report.note]
    notes += [
        f"{name}: Spark ran the query as Headrace renders it, not its text"
        for name, r in audits
        if not r.verbatim
    ]
    inputs = {source.stream: source for _, report in audits for source in report.inputs}
    notes += [f"input of {source}" for source in inputs.values()]
    return Group(table, *(Text(note, "dim") for note in notes))


def render_difference(name: str, report: AuditReport, limit: int = 10) -> RenderableType:
    """The first rows that only Spark has, and those that only Headrace has."""
    parts: list[RenderableType] = []
    if report.error is not None:
        parts.append(Text(f"{name}: it was quarantined: {report.error}", "bold"))
    for title, data in (
        ("missing: plain Spark has these rows, Headrace does not", report.missing),
        ("unexpected: Headrace has these rows, plain Spark does not", report.unexpected),
    ):
        names, rows = rows_of(data, limit)
        if rows:
            parts += [Text(f"{name}: {title}", "bold"), _render(names, rows, len(rows))]
    return Group(*parts)
