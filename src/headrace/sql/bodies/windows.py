"""`window(event_time, range[, slide[, start]])` and `session_window(event_time, gap)`: from call to window and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.model.query import CLOSED_COLUMN, WINDOW_COLUMN, Stream
from headrace.model.types import Kind
from headrace.model.window import AnyWindow, SessionWindow, Window
from headrace.sql import errors
from headrace.sql.render.templates import Template
from headrace.sql.resolve.functions import function_name
from headrace.sql.text.dialect import render
from headrace.sql.text.durations import parse_spark_duration, render_duration
from headrace.sql.text.literals import read_number, read_string
from headrace.sql.text.names import quote_name

WINDOW_FUNCTIONS = ("window", "session_window")

MAX_WINDOWS_PER_TUPLE = 100_000
"""Aggregations keep slices and make a row per window that closes: a day that slides by a second has 86,400 of them."""

MAX_COPIES_PER_TUPLE = 10_000
"""Joins, and queries that show tuples with their windows, make a row per tuple and window."""

MAX_EXPANDED = 64
"""Spark plans one projection per window that a tuple is in, so that 8,640 of them take 7 s to analyse. Where there are
more than this, `window_copies` makes the windows of the log.
"""

STAND_IN = "'1 second'"
"""The arguments of `window(...)` where only types and names are asked for: they do not depend on the durations."""


@dataclass(frozen=True, slots=True)
class WindowCall:
    """The duration arguments of one call; their values are read when a query is bound."""

    arguments: tuple[exp.Expr, ...]
    session: bool = False

    def window(self, literals: tuple[str, ...]) -> AnyWindow:
        """The window it means with these literals; raises SqlError when there is no such window."""
        if self.session:
            return checked_session(_gap(self.arguments[0], literals))
        range_us, *rest = (_duration(argument, literals) for argument in self.arguments)
        slide_us = rest[0] if rest else range_us
        return checked_window(range_us, slide_us, rest[1] if len(rest) > 1 else 0)


def window_call(node: exp.Anonymous) -> WindowCall:
    """The call's duration arguments; raises SqlError when their number is wrong."""
    count = len(node.expressions)
    if function_name(node) == "session_window":
        if count != 2:
            raise errors.bad_gap(f"session_window() takes 2 arguments, not {count}")
        return WindowCall(tuple(node.expressions[1:]), session=True)
    if not 2 <= count <= 4:
        raise errors.bad_window(f"window() takes 2 to 4 arguments, not {count}")
    return WindowCall(tuple(node.expressions[1:]))


def checked_window(range_us: int, slide_us: int, offset_us: int) -> Window:
    """A Window, or the SqlError that says which of its numbers is wrong.

    >>> checked_window(10, 5, 0)
    Window(range_us=10, slide_us=5, offset_us=0)
    """
    if range_us <= 0:
        raise errors.bad_window(f"the range of a window must be positive, not {_shown(range_us)}")
    if slide_us <= 0:
        raise errors.bad_window(f"the slide of a window must be positive, not {_shown(slide_us)}")
    if slide_us > range_us:
        raise errors.bad_window(f"the slide {_shown(slide_us)} is longer than the range {_shown(range_us)}")
    if abs(offset_us) >= slide_us:
        raise errors.bad_window(
            f"the start {_shown(offset_us)} is not shorter than the slide {_shown(slide_us)}"
        )
    window = Window(range_us, slide_us, offset_us)
    check_density(window, MAX_WINDOWS_PER_TUPLE, "an aggregation")
    return window


def check_density(window: Window, limit: int, what: str) -> None:
    """Raise SqlError when `window` has each tuple in more windows than `what` may have."""
    if window.per_tuple > limit:
        shown = f"a window of {render_duration(window.range_us)} every {render_duration(window.slide_us)}"
        least = render_duration(-(-window.range_us // limit))
        raise errors.window_too_dense(shown, window.per_tuple, limit, what, least)


def stand_ins(calls: Sequence[WindowCall], literals: tuple[str, ...]) -> dict[int, tuple[int, str]]:
    """Edits that make every `window(...)` of a text tumble: (length, new text) by the place in the source."""
    edits: dict[int, tuple[int, str]] = {}
    for call in calls:
        for place, argument in enumerate(() if call.session else call.arguments):
            literal = argument.find(exp.Literal)
            if literal is None:
                continue
            raw = literals[literal.meta["slot"]]
            words = ("1000000", "0") if not literal.meta["string"] else (STAND_IN, "'0 seconds'")
            edits[literal.meta["start"]] = (len(raw), words[place > 1])
    return edits


def window_copies(window: Window, stream: Stream, *, live: bool) -> str:
    """SQL that gives a tuple of the log each window it is in; with `live` only what LIVE_WINDOWS may keep.

    This is Spark's own `window(...)` but for dense windows, of which it would make a plan without end.
    """
    time = quote_name(stream.event_time)
    if window.per_tuple <= MAX_EXPANDED:
        return f"window({time}, {render_window_arguments(window)})"
    range_us, slide, offset = (f"{us}L" for us in (window.range_us, window.slide_us, window.offset_us))
    moment = f"unix_micros(CAST({time} AS TIMESTAMP))"
    after = f"GREATEST({moment}, {CLOSED_COLUMN}, :after)" if live else moment
    last = f"LEAST({moment}, try_subtract(:until, {range_us}))" if live else moment
    low = f"{after} - {range_us} + 1"
    first, final = f"{low} + pmod({offset} - ({low}), {slide})", f"{last} - pmod({last} - {offset}, {slide})"
    edges = []
    for edge, us in (("start", "s"), ("end", f"s + {range_us}")):
        moved = f"timestamp_micros({us})"
        ntz = stream.column(stream.event_time).type.kind is Kind.TIMESTAMP_NTZ
        edges.append(f"'{edge}', {f'CAST({moved} AS TIMESTAMP_NTZ)' if ntz else moved}")
    some = f"{time} IS NOT NULL AND {first} <= {final}"
    starts = f"CASE WHEN {some} THEN sequence({first}, {final}, {slide}) ELSE array() END"
    return f"explode(transform({starts}, s -> named_struct({', '.join(edges)})))"


def checked_session(gap_us: int) -> SessionWindow:
    """A SessionWindow, or the SqlError that says why there is none."""
    if gap_us <= 0:
        raise errors.bad_gap(f"the gap of a session must be positive, not {_shown(gap_us)}")
    return SessionWindow(gap_us)


def render_window_arguments(window: AnyWindow) -> str:
    """The duration arguments that make Spark build exactly this window.

    >>> render_window_arguments(Window(10_000_000, 5_000_000)), render_window_arguments(SessionWindow(60_000_000))
    ("'10 seconds', '5 seconds'", "'1 minute'")
    """
    if isinstance(window, SessionWindow):
        return f"'{render_duration(window.gap_us)}'"
    texts = [window.range_us]
    if window.slide_us != window.range_us or window.offset_us:
        texts.append(window.slide_us)
    if window.offset_us:
        texts.append(window.offset_us)
    return ", ".join(f"'{render_duration(us)}'" for us in texts)


def window_column() -> exp.Column:
    """The resolved form of every reference to the query's window."""
    return exp.Column(this=exp.Identifier(this=WINDOW_COLUMN, quoted=False))


def is_window_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name == WINDOW_COLUMN


def window_edge(node: exp.Expr) -> str | None:
    """'start' or 'end' when `node` is that field of the window, else None."""
    if isinstance(node, exp.Dot) and is_window_column(node.this):
        field = node.expression.name.lower()
        return field if field in ("start", "end") else None
    return None


def window_time(window: exp.Expr, kind: Kind) -> exp.Expr:
    """What Spark's `window_time(window)` is: the last microsecond that is in the window.

    Spark tells its windows from other structs by metadata, which no struct of ours has.
    """
    end = exp.Dot(this=window, expression=exp.to_identifier("end"))
    minus = exp.Neg(this=exp.Literal.number(1))
    moment = exp.Anonymous(this="timestampadd", expressions=[exp.Var(this="MICROSECOND"), minus, end])
    moment.meta["harmless"] = kind
    return moment


def is_window_time(node: exp.Expr) -> bool:
    match node:
        case exp.Anonymous(expressions=[exp.Var(name="MICROSECOND"), _, end]):
            return function_name(node) == "timestampadd" and window_edge(end) == "end"
        case _:
            return False


def has_window(key: exp.Expr) -> bool:
    """Whether each row of a group by `key` is of one window."""
    match key:
        case exp.GroupingSets():
            return all(map(has_window, key.expressions))
        case exp.Tuple():
            return any(map(has_window, key.expressions))
        case exp.Paren():
            return has_window(key.this)
        case _:
            return is_window_column(key) or window_edge(key) is not None or is_window_time(key)


def _duration(node: exp.Expr, literals: tuple[str, ...]) -> int:
    text = read_string(node, literals)
    if text is not None:
        return parse_spark_duration(text)
    number = read_number(node, literals)
    if isinstance(number, int):
        return number
    raise errors.bad_window(f"{render(node)} is not a constant duration in quotes")


def _gap(node: exp.Expr, literals: tuple[str, ...]) -> int:
    text = read_string(node, literals)
    if text is None:
        shown = Template.of(render(node)).fill(literals, "")
        raise errors.bad_gap(f"the gap {shown} is not a constant duration in quotes")
    return parse_spark_duration(text)


def _shown(us: int) -> str:
    return render_duration(us) if us else "0 seconds"
