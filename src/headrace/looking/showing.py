"""How values look to people: times as times, durations in words, small tables as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


def show_time(us: int) -> str:
    """A moment in microseconds since 1970, as SELECT shows it; in UTC.

    >>> show_time(1_767_268_801_000_000), show_time(1_767_268_801_500_000), show_time(10**18)
    ('2026-01-01 12:00:01', '2026-01-01 12:00:01.500', 'year 33658')
    """
    try:
        moment = _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return f"year {1970 + us // 31_556_952_000_000}"
    whole = moment.replace(microsecond=0, tzinfo=None).isoformat(" ")
    if not moment.microsecond:
        return whole
    digits = f"{moment.microsecond:06d}"
    return f"{whole}.{digits[:3] if digits.endswith('000') else digits}"


def show_duration(us: int) -> str:
    """A length of time in words.

    >>> show_duration(5_000_000), show_duration(5_400_000_000), show_duration(250_000), show_duration(0)
    ('5 seconds', '1 hour 30 minutes', '0.25 seconds', '0 seconds')
    """
    parts, left = [], abs(us)
    for name, size in _UNITS[:-1]:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}{'' if count == 1 else 's'}")
    if left or not parts:
        seconds = left / 1_000_000
        parts.append(f"{seconds:.6f}".rstrip("0").rstrip(".") + (" second" if seconds == 1 else " seconds"))
    return ("-" if us < 0 else "") + " ".join(parts)


def show_seconds(seconds: float | None) -> str:
    """A measured time, with as many digits as matter.

    >>> show_seconds(0.0123), show_seconds(2.345), show_seconds(61.0), show_seconds(None)
    ('12 ms', '2.3 s', '61 s', '-')
    """
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds:,.0f} s"


def show_bytes(number: float) -> str:
    """A size of data, with as many digits as matter.

    >>> show_bytes(0), show_bytes(999), show_bytes(1_536_000), show_bytes(25e9)
    ('0 bytes', '999 bytes', '1.5 MB', '25 GB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            shown = number / size
            return f"{shown:.1f} {unit}" if shown < 10 else f"{shown:,.0f} {unit}"
    return f"{number:.0f} bytes"


def show_way(since: int, cursor: int, newest: int) -> str:
    """How far somebody is who began with epoch `since`, has `cursor` behind him and goes on to `newest`.

    >>> show_way(0, 119, 799), show_way(40, 39, 49)
    ('epoch 119 of 799 (15 %)', 'epoch 39 of 49 (0 %)')
    """
    done, whole = cursor - since + 1, newest - since + 1
    return f"epoch {max(cursor, 0):,} of {newest:,} ({100 * done // whole if whole > 0 else 100} %)"


def show_home(group: str, target: str | None) -> str:
    """Where a query lives, and where it goes.

    >>> show_home("main", None), show_home("backfill-7", "main")
    ('main', 'backfill-7, then main')
    """
    return group if target is None else f"{group}, then {target}"


def show_names(names: Sequence[str], most: int = 5) -> str:
    """
    >>> show_names(["a", "b"]), show_names(["a", "b", "c"], most=2)
    ('a, b', 'a, b and 1 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def count(number: int, what: str, plural: str | None = None) -> str:
    """
    >>> count(1, "row"), count(1200, "row"), count(2, "query", "queries")
    ('1 row', '1,200 rows', '2 queries')
    """
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def text_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns side by side, as wide as they need to be.

    >>> print(text_table(["query", "rows"], [["spend", 12], ["a", None]]))
    query  rows
    spend    12
    a         -
    """
    listed = [[_cell(value) for value in row] for row in rows]
    numbers = [[isinstance(value, int | float) for value in row] for row in rows] if listed else []
    widths = [max(len(line[i]) for line in [list(headers), *listed]) for i in range(len(headers))]
    right = [bool(numbers) and any(row[i] for row in numbers) for i in range(len(headers))]
    lines = [
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(headers), *listed]
    ]
    return "\n".join(lines)


def html_table(headers: Sequence[str], rows: Iterable[Sequence[Any]], caption: str | None = None) -> str:
    """
    >>> html_table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>" for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_text(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


class Text(str):
    """A text that notebooks show as it is, line by line."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html_text(self)

    def __repr__(self) -> str:
        return str(self)


class Listing(list[Any]):
    """A list of lines that looks like a table; `HEADERS` and `cells` of its items say how."""

    def _rows(self) -> tuple[Sequence[str], list[Sequence[Any]]]:
        return self[0].HEADERS, [item.cells() for item in self]

    def __repr__(self) -> str:
        return text_table(*self._rows()) if self else "[]"

    def _repr_html_(self) -> str:
        return html_table(*self._rows()) if self else "<i>none</i>"
