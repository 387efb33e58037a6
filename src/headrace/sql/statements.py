"""Statements: the SQL face of the Python API. `docs/sql.md` describes each of them."""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.statements import (
    AlterNeeds,
    AlterSplit,
    CloseStream,
    CreateQuery,
    CreateStream,
    Describe,
    DropQuery,
    DropSplit,
    DropStream,
    Explain,
    Help,
    IfPresent,
    Insert,
    MoveQuery,
    Repartition,
    Select,
    ShowEvents,
    ShowFunctions,
    ShowGroups,
    ShowPredictions,
    ShowQueries,
    ShowSplits,
    ShowStreams,
    Statement,
)
from headrace.sql import errors
from headrace.sql.text.cursor import Cursor
from headrace.sql.text.lexer import statement_tokens

_QUERY_STARTS = ("SELECT", "WITH", "FROM", "(")


def parse_statement(text: str) -> Statement:
    """The one statement in `text`; raises SqlError with the position where it stops making sense.

    >>> parse_statement("DROP QUERY `spend per user`;")
    DropQuery(name='spend per user', if_exists=False)
    >>> parse_statement("EXPLAIN VERBOSE spend")
    Explain(name_or_text='spend', verbose=True, is_text=False)
    >>> parse_statement("ALTER SPLIT road SET q = 4, route = 'xway % 4'")
    AlterSplit(name='road', q=4, route='xway % 4')
    >>> parse_statement("ALTER QUERY spend SET GROUP alerts")
    MoveQuery(name='spend', group='alerts')
    >>> parse_statement("ALTER QUERY spend SET (min_rate = 100, max_latency = '2 seconds')")
    AlterNeeds(name='spend', needs={'min_rate': '100', 'max_latency': '2 seconds'})
    """
    cursor = Cursor(text, statement_tokens(text))
    statement = _statement(cursor)
    cursor.end()
    return statement


def _statement(cursor: Cursor) -> Statement:
    if cursor.sees(*_QUERY_STARTS):
        return Select(cursor.rest())
    if cursor.accept("CREATE"):
        return _create(cursor)
    if cursor.accept("ALTER"):
        return _alter(cursor)
    if cursor.accept("DROP"):
        return _drop(cursor)
    if cursor.accept("CLOSE"):
        cursor.expect("STREAM")
        return CloseStream(cursor.name("stream"))
    if cursor.accept("DESCRIBE") or cursor.accept("DESC"):
        return _describe(cursor)
    if cursor.accept("INSERT"):
        return _insert(cursor)
    if cursor.accept("SHOW"):
        return _show(cursor)
    if cursor.accept("EXPLAIN"):
        return _explain(cursor)
    if cursor.accept("HELP"):
        return Help(cursor.words() or None)
    raise errors.unknown_statement(cursor.peek_word(), cursor.span())


def _create(cursor: Cursor) -> Statement:
    replace = cursor.accept("OR", "REPLACE")
    if replace and cursor.sees("STREAM"):
        raise errors.no_replace_stream(cursor.span())
    if cursor.accept("QUERY"):
        present = _if_present(cursor, replace)
        return _create_query(cursor, present)
    if cursor.accept("STREAM"):
        return _create_stream(cursor, _if_present(cursor, replace))
    raise cursor.problem("QUERY" if replace else "STREAM or QUERY")


def _create_query(cursor: Cursor, present: IfPresent) -> Statement:
    name = cursor.name("query")
    group = start = None
    needs: dict[str, str] = {}
    while not cursor.accept("AS"):
        if group is None and cursor.accept("IN"):
            cursor.expect("GROUP")
            group = cursor.name("group")
        elif start is None and cursor.accept("START"):
            cursor.accept("TIMESTAMP")
            start = cursor.string("'earliest', a time or '2 hours ago'")
        elif not needs and cursor.accept("WITH"):
            needs = _needs(cursor)
        else:
            raise cursor.problem("AS, after at most one IN GROUP, one START and one WITH,")
    if not cursor.sees(*_QUERY_STARTS):
        raise cursor.problem("SELECT")
    return CreateQuery(name, cursor.rest(), present, group, start, needs)


def _needs(cursor: Cursor) -> dict[str, str]:
    """Read `(min_rate = 100, max_latency = '2 seconds', priority = 1)`."""
    span, needs = cursor.span(), dict[str, str]()
    _options(cursor, needs, Cursor.value)
    if not needs:
        raise errors.syntax("nothing is asked for between the parentheses", span)
    return needs


def _alter(cursor: Cursor) -> Statement:
    if cursor.accept("QUERY"):
        name = cursor.name("query")
        if cursor.accept("SET", "GROUP"):
            return MoveQuery(name, cursor.name("group"))
        if not cursor.accept("SET") or not cursor.sees("("):
            raise cursor.problem("SET GROUP or SET (...)")
        return AlterNeeds(name, _needs(cursor))
    if cursor.accept("WAREHOUSE"):
        cursor.expect("SET", "PARTITIONS")
        return Repartition(cursor.whole_number("of partitions"))
    if cursor.accept("SPLIT"):
        return _alter_split(cursor)
    raise cursor.problem("QUERY, SPLIT or WAREHOUSE")


def _alter_split(cursor: Cursor) -> Statement:
    name = cursor.name("split")
    cursor.expect("SET", "Q", "=")
    count, route = cursor.whole_number("of sub-streams"), None
    if cursor.accept(","):
        cursor.expect("ROUTE", "=")
        route = cursor.string("SQL that gives the number of a sub-stream")
    return AlterSplit(name, count, route)


def _if_present(cursor: Cursor, replace: bool) -> IfPresent:
    span = cursor.span()
    if not cursor.accept("IF", "NOT", "EXISTS"):
        return IfPresent.REPLACE if replace else IfPresent.REFUSE
    if replace:
        raise errors.syntax("OR REPLACE and IF NOT EXISTS contradict each other", span)
    return IfPresent.KEEP


def _create_stream(cursor: Cursor, present: IfPresent) -> Statement:
    name = cursor.name("stream")
    schema = cursor.parenthesised("the columns")
    if not schema:
        raise errors.syntax(f"the stream `{name}` has no columns", cursor.span())
    clauses: dict[str, str] = {}
    options: dict[str, str] = {}
    while not cursor.done:
        span = cursor.span()
        if cursor.accept("EVENT"):
            cursor.expect("TIME")
            _once(clauses, "event_time", cursor.name("column"), span)
        elif cursor.accept("WATERMARK"):
            _once(clauses, "watermark", cursor.string("a duration"), span)
        elif cursor.accept("WITH"):
            _options(cursor, options)
        else:
            raise cursor.problem("EVENT TIME, WATERMARK or WITH")
    for key in clauses.keys() & options.keys():
        raise errors.given_twice(key, cursor.span())
    clauses |= {key: options.pop(key) for key in ("event_time", "watermark") if key in options}
    return CreateStream(name, schema, clauses.get("event_time"), clauses.get("watermark"), options, present)


def _options(
    cursor: Cursor, options: dict[str, str], read: Callable[[Cursor, str], str] = Cursor.string
) -> None:
    """Read `(key = 'value', ...)` into `options`."""
    cursor.expect("(")
    while not cursor.accept(")"):
        span = cursor.span()
        key = cursor.name("option")
        while cursor.accept("."):
            key += "." + cursor.name("option")
        cursor.expect("=")
        _once(options, key.lower(), read(cursor, f"the value of {key}"), span)
        if not cursor.accept(",") and cursor.peek_word() != ")":
            raise cursor.problem("',' or ')'")


def _once(found: dict[str, str], key: str, value: str, span: tuple[int, int]) -> None:
    """Keep a value that must not be given twice."""
    if key in found:
        raise errors.given_twice(key, span)
    found[key] = value


def _drop(cursor: Cursor) -> Statement:
    if cursor.accept("QUERY"):
        if_exists = cursor.accept("IF", "EXISTS")
        return DropQuery(cursor.name("query"), if_exists)
    if cursor.accept("STREAM"):
        if_exists = cursor.accept("IF", "EXISTS")
        return DropStream(cursor.name("stream"), if_exists)
    if cursor.accept("SPLIT"):
        if_exists = cursor.accept("IF", "EXISTS")
        return DropSplit(cursor.name("split"), if_exists)
    raise cursor.problem("STREAM, QUERY or SPLIT")


def _describe(cursor: Cursor) -> Statement:
    what = None
    if cursor.sees("STREAM", "QUERY") and not cursor.at_last:
        what = cursor.take().text.lower()
    return Describe(cursor.name("stream or query"), what)


def _insert(cursor: Cursor) -> Statement:
    cursor.expect("INTO")
    stream = cursor.name("stream")
    columns: list[str] = []
    if cursor.accept("("):
        columns.append(cursor.name("column"))
        while cursor.accept(","):
            columns.append(cursor.name("column"))
        cursor.expect(")")
    if not cursor.sees("VALUES"):
        raise cursor.problem("VALUES")
    return Insert(stream, tuple(columns), cursor.rest())


def _show(cursor: Cursor) -> Statement:
    if cursor.accept("STREAMS"):
        return ShowStreams()
    if cursor.accept("QUERIES"):
        return ShowQueries()
    if cursor.accept("GROUPS"):
        return ShowGroups()
    if cursor.accept("SPLITS"):
        return ShowSplits()
    if cursor.accept("EVENTS"):
        return ShowEvents()
    if cursor.accept("PREDICTIONS"):
        return ShowPredictions()
    if cursor.accept("FUNCTIONS"):
        return ShowFunctions()
    raise cursor.problem("STREAMS, QUERIES, GROUPS, SPLITS, EVENTS, PREDICTIONS or FUNCTIONS")


def _explain(cursor: Cursor) -> Statement:
    verbose = cursor.accept("VERBOSE")
    if cursor.done:
        return Explain(None, verbose)
    if cursor.sees(*_QUERY_STARTS):
        return Explain(cursor.rest(), verbose, is_text=True)
    return Explain(cursor.name("query"), verbose)
