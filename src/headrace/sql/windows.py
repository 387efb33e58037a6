"""`window(event_time, range[, slide[, start]])` and `session_window(event_time, gap)`: from call to window and back."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.model.query import WINDOW_COLUMN
from headrace.model.window import AnyWindow, SessionWindow, Window
from headrace.sql import errors
from headrace.sql.dialect import render
from headrace.sql.durations import parse_spark_duration, render_duration
from headrace.sql.functions import function_name
from headrace.sql.literals import read_number, read_string
from headrace.sql.templates import Template

WINDOW_FUNCTIONS = ("window", "session_window")


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
    return Window(range_us, slide_us, offset_us)


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
            return is_window_column(key) or window_edge(key) is not None


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
