"""Every way a text can be refused, as named constructors: the code is stable, the hint says what to do."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.errors import SqlError, did_you_mean

Span = tuple[int, int] | None


def empty_text() -> SqlError:
    return SqlError(
        "EMPTY_TEXT", "there is no statement in the text", hint="write a SELECT ... FROM a stream"
    )


def not_text(found: object) -> SqlError:
    return SqlError("NOT_TEXT", f"a {type(found).__name__} is not SQL text", hint="give a str")


def half_character(text: str, at: int) -> SqlError:
    line_start = text.rfind("\n", 0, at) + 1
    return SqlError(
        "NOT_TEXT",
        f"the text contains U+{ord(text[at]):04X}, which is half of a character and no text in any file",
        span=(text.count("\n", 0, at) + 1, at - line_start + 1),
        hint="read the text as UTF-8 before it gets here",
    )


def text_too_long(size: int, limit: int) -> SqlError:
    return SqlError(
        "TEXT_TOO_LONG",
        f"the text has {size:,} bytes, more than the {limit:,} a query may have",
        hint="shorten it; a long list of constants belongs into a column of the stream",
    )


def too_big(name: str, made: float, limit: int, span: Span) -> SqlError:
    return SqlError(
        "VALUE_TOO_BIG",
        f"{name}() would make a value of {made:,.0f} parts, more than the {limit:,} that one call may make",
        span=span,
        hint="ask for a smaller one: each tuple would need that much memory",
    )


def too_many_aggregates(found: int, limit: int) -> SqlError:
    return SqlError(
        "TOO_MANY_AGGREGATES",
        f"the query has {found:,} aggregates, more than the {limit:,} that one query may have",
        hint="split it into several queries: they share their work",
    )


def syntax(what: str, span: Span = None) -> SqlError:
    return SqlError("SYNTAX", what, span=span, hint="the language is Spark SQL; HELP lists the statements")


def given_twice(what: str, span: Span = None) -> SqlError:
    shown = {"event_time": "EVENT TIME", "watermark": "WATERMARK"}.get(what, f"the option `{what}`")
    return SqlError("GIVEN_TWICE", f"{shown} is given twice", span=span, hint="say it once")


def two_statements(span: Span) -> SqlError:
    return SqlError(
        "TWO_STATEMENTS",
        "there is more than one statement in the text",
        span=span,
        hint="submit them one by one",
    )


def unknown_statement(word: str, span: Span) -> SqlError:
    return SqlError(
        "UNKNOWN_STATEMENT",
        f"{word} is not a statement we know",
        span=span,
        hint="HELP lists the statements",
    )


def no_replace_stream(span: Span) -> SqlError:
    return SqlError(
        "SYNTAX",
        "a stream cannot be replaced: queries rely on its columns",
        span=span,
        hint="drop it with DROP STREAM when no query reads it, and create it again",
    )


def not_a_query(what: str) -> SqlError:
    return SqlError(
        "NOT_A_QUERY", f"{what} is not a continuous query", hint="a query is a SELECT over streams"
    )


def unknown_stream(name: str, known: Iterable[str], span: Span = None) -> SqlError:
    hint = did_you_mean(name, known) or "create it first: CREATE STREAM ..."
    return SqlError("UNKNOWN_STREAM", f"there is no stream `{name}`", hint=hint, span=span)


def unknown_column(name: str, known: Iterable[str], span: Span = None) -> SqlError:
    return SqlError(
        "UNKNOWN_COLUMN", f"there is no column `{name}` here", hint=did_you_mean(name, known), span=span
    )


def ambiguous_column(name: str, span: Span = None) -> SqlError:
    return SqlError(
        "AMBIGUOUS_COLUMN",
        f"`{name}` could be more than one column",
        span=span,
        hint="give the columns different aliases",
    )


def reserved_column(name: str) -> SqlError:
    return SqlError(
        "RESERVED_NAME",
        f"the name `{name}` is reserved",
        hint="names that begin with __headrace are for internal columns",
    )


def no_window(what: str, event_time: str) -> SqlError:
    return SqlError(
        "NO_WINDOW",
        f"{what} without a window never ends on a stream",
        hint=f"add GROUP BY window({event_time}, '10 seconds'), or write `FROM stream [RANGE 10 SECONDS]`",
    )


def join_without_window(relation: str, event_time: str) -> SqlError:
    return SqlError(
        "NO_WINDOW",
        f"the join of `{relation}` without a window never ends on a stream",
        hint="write `FROM a [RANGE 10 SECONDS] AS a, b [RANGE 10 SECONDS] AS b WHERE ...`, or join subqueries "
        f"(SELECT *, window({event_time}, '10 seconds') AS window FROM stream) with their windows equal in ON",
    )


def join_without_equal_windows(relation: str | None) -> SqlError:
    return SqlError(
        "NO_WINDOW",
        f"the join of `{relation or 'a subquery'}` does not say that the windows are equal",
        hint="add an equality of the windows to ON, such as l.window = r.window",
    )


def window_may_be_null(side: str) -> SqlError:
    return SqlError(
        "NO_WINDOW",
        f"the window of `{side}` is NULL in rows of the outer join without a tuple of `{side}`, and the group of these "
        "never ends",
        hint="group by the window of the side that every row has, or by coalesce() of the windows of all sides",
    )


def join_of_windows() -> SqlError:
    return SqlError(
        "TWO_WINDOWS",
        "the subqueries of the join have different windows",
        hint="give them the same window, or write `FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS], "
        "b [RANGE 20 SECONDS SLIDE 5 SECONDS]`, where ranges may differ",
    )


def join_of_sessions() -> SqlError:
    return SqlError(
        "UNSUPPORTED",
        "sessions are not joined: each key has its own, so no window is common to the streams",
        hint="join windows: window(...), or [RANGE n UNIT SLIDE n UNIT]",
    )


def slides_differ() -> SqlError:
    return SqlError(
        "TWO_WINDOWS",
        "the streams of the join have windows with different slides",
        hint="ranges may differ, the slide is one for all: write the same SLIDE n UNIT in each bracket",
    )


def distinct_across_windows() -> SqlError:
    return SqlError(
        "NO_WINDOW",
        "DISTINCT over the rows of different windows never ends on a stream",
        hint="add window.start or window.end to the select list, and rows are compared within a window",
    )


def set_without_window(word: str, event_time: str) -> SqlError:
    return SqlError(
        "NO_WINDOW",
        f"{word} also groups without the window that is inside of it, which never ends on a stream",
        hint=f"take the window out: GROUP BY window({event_time}, '10 seconds'), {word} (the other keys)",
    )


def two_sliding_windows() -> SqlError:
    return SqlError(
        "UNSUPPORTED",
        "a sliding window() is called in two places: Spark takes each tuple once per pair of their windows",
        hint="ask for the window in HAVING, as HAVING window.start > ..., or call it once, "
        "FROM (SELECT *, window(...) AS w FROM stream), and use w outside",
    )


def hidden_window(found: SqlError) -> SqlError:
    return SqlError(
        found.code,
        "Spark does not find the group's window when window() is called in WHERE as well",
        hint="ask for the window in HAVING, as HAVING window.start > ..., "
        "or write window(...).start in the select list too",
        detail=found.detail,
    )


def window_time_beside_group(found: SqlError) -> SqlError:
    return SqlError(
        found.code,
        "Spark takes window_time() of a window that is grouped by in an outer SELECT only",
        hint="write SELECT window_time(w), ... FROM (SELECT window(...) AS w, ... GROUP BY ...)",
        detail=found.detail,
    )


def not_event_time(function: str, argument: str, event_time: str) -> SqlError:
    return SqlError(
        "NOT_EVENT_TIME",
        f"{function}() is over `{argument}`, which is not the stream's event-time column",
        hint=f"write {function}({event_time}, ...)",
    )


def bad_window(what: str) -> SqlError:
    return SqlError(
        "BAD_WINDOW",
        what,
        hint="a window needs 0 < slide <= range, such as window(ts, '10 seconds', '5 seconds')",
    )


def window_too_dense(window: str, per_tuple: int, limit: int, what: str, least: str) -> SqlError:
    return SqlError(
        "WINDOW_TOO_DENSE",
        f"{window} puts each tuple into {per_tuple:,} windows; {what} may have {limit:,}",
        hint=f"slide by {least} or more, or shorten the range",
    )


def bad_gap(what: str) -> SqlError:
    return SqlError(
        "BAD_WINDOW",
        what,
        hint="a session needs one positive gap for all tuples, such as session_window(ts, '5 seconds')",
    )


def session_of_a_tuple(where: str, hint: str) -> SqlError:
    return SqlError(
        "UNSUPPORTED", f"session_window() {where}: there each tuple is a session of its own", hint=hint
    )


def two_windows() -> SqlError:
    return SqlError("TWO_WINDOWS", "the query names two different windows", hint="use one window per query")


def bad_duration(text: str, why: str) -> SqlError:
    return SqlError(
        "BAD_DURATION",
        f"'{text}' is not a duration: {why}",
        hint="write for example '5 seconds' or '1 hour 30 minutes'",
    )


def unsupported(what: str, hint: str | None = None, span: Span = None) -> SqlError:
    return SqlError("UNSUPPORTED", what, hint=hint, span=span)


def misread(difference: str) -> SqlError:
    return SqlError(
        "MISREAD",
        "Headrace does not read this text as Spark does",
        detail=difference,
        hint="write the expression in another way, with parentheses or a function call",
    )


def nondeterministic(function: str, span: Span = None) -> SqlError:
    return SqlError(
        "NONDETERMINISTIC",
        f"{function} gives another answer each time it runs",
        hint="results must be repeatable: use columns of the stream instead",
        span=span,
    )
