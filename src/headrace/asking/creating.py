"""Creations of queries: what a person wrote becomes durable requests, one by one or many at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headrace import sql
from headrace.asking.starting import Start, start_epoch
from headrace.looking.grouped import check_group
from headrace.model.errors import HeadraceError, SqlError
from headrace.model.query import Query, QueryPlan

if TYPE_CHECKING:
    from headrace.session import Session


def create_query(
    session: Session,
    text: str,
    name: str | None,
    *,
    replace: bool,
    if_not_exists: bool,
    group: str | None,
    start: Start | None,
) -> Query:
    """Ask for one query, durably; the live one of that name when there is one and it is to stay."""
    session._runs()
    if name is not None:
        sql.check_name(name, "query")
    home = None if group is None else check_group(group)
    if if_not_exists and name is not None and session._catalog.has_live(name):
        return session._catalog.query(name)
    plan = parse(session, text)
    with session._sealer.holding():  # the log keeps what the query starts with from here on
        first = None if start is None else _start_epoch(session, plan, start)
        return session._catalog.request_create(name, plan, replace=replace, group=home, start=first)


def create_queries(
    session: Session, queries: Iterable[str | tuple[str, str]], *, replace: bool, group: str | None
) -> list[Query]:
    """Ask for many queries with one sync: all of them, or none."""
    session._runs()
    home = None if group is None else check_group(group)
    wanted = read_many(queries, lambda text: parse(session, text))
    return session._catalog.request_creations(wanted, replace=replace, group=home)


def parse(session: Session, text: str) -> QueryPlan:
    """A text as a query over the streams of today."""
    streams = {str(stream.name): stream for stream in session._catalog.streams()}
    with session._sparks.lock:
        return sql.parse_query(text, streams, session._sparks.shapes)


def _start_epoch(session: Session, plan: QueryPlan, start: Start) -> int | None:
    """The epoch of the log that a query begins with; its streams must have had their names since."""
    since = max(session._catalog.stream_ended(stream) or 0 for stream in plan.streams)
    return start_epoch(start, session._sealer, since, time.time())


def read_many(
    queries: Iterable[str | tuple[str, str]], parse: Callable[[str], QueryPlan]
) -> list[tuple[str | None, QueryPlan]]:
    """(name or None, plan) of texts and of pairs of name and text; HeadraceError names the first that is wrong."""
    if isinstance(queries, str):
        raise SqlError("NOT_TEXT", "one text was given for a list of texts", hint="put it into a list")
    found: list[tuple[str | None, QueryPlan]] = []
    for number, given in enumerate(queries, 1):
        name, text = _pair(given, number)
        try:
            if name is not None:
                sql.check_name(name, "query")
            found.append((name, parse(text)))
        except HeadraceError as error:
            which = f"query {number}" if name is None else f"query {number} (`{name}`)"
            raise type(error)(
                error.code,
                f"{which} of the list: {error.message}",
                detail=error.detail,
                hint=error.hint,
                span=error.span,
            ) from error
    return found


def _pair(given: str | tuple[str, str], number: int) -> tuple[str | None, str]:
    match given:
        case str():
            return None, given
        case (name, text):
            return name, text
    raise SqlError(
        "NOT_TEXT",
        f"query {number} of the list is a {type(given).__name__}",
        hint="give a text, or a pair of name and text",
    )
