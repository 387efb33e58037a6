"""Creations of queries: what a person wrote becomes durable requests, one by one or many at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace import sql
from headrace.asking.functions import explain_unknown
from headrace.asking.starting import Start, start_epoch
from headrace.looking.grouped import check_group
from headrace.model.errors import EngineError, HeadraceError, SqlError, did_you_mean
from headrace.model.query import NO_NEEDS, Needs, Query, QueryPlan
from headrace.options import Duration

if TYPE_CHECKING:
    from headrace.session import Session


@dataclass(frozen=True, slots=True)
class WantedQuery:
    """A query as a person asks for it; `Session.create_query` says what each field means."""

    text: str
    name: str | None = None
    replace: bool = False
    if_not_exists: bool = False
    group: str | None = None
    start: Start | None = None
    needs: Needs = NO_NEEDS


def create_query(session: Session, wanted: WantedQuery) -> Query:
    """Ask for one query, durably; the live one of that name when there is one and it is to stay."""
    session._runs()
    name, start, needs = wanted.name, wanted.start, wanted.needs
    if name is not None:
        sql.check_name(name, "query")
    home = None if wanted.group is None else check_group(wanted.group)
    if wanted.if_not_exists and name is not None and session._catalog.has_live(name):
        return session._catalog.query(name)
    plan = parse(session, wanted.text)
    if home is None and start is None:
        home = place(session, [plan], needs)[0]
    ask = partial(
        session._catalog.request_create, name, plan, replace=wanted.replace, group=home, needs=needs
    )
    if start is None:
        return ask()
    with session._sealer.holding():  # the log keeps what the query starts with from here on
        return ask(start=_start_epoch(session, plan, start))


def place(session: Session, plans: Sequence[QueryPlan], needs: Needs = NO_NEEDS) -> list[str | None]:
    """The groups that new queries start in, as the conductor sees it; None for where they start by default."""
    return session._runs().conducting.place([(plan, needs) for plan in plans])


def needs_of(min_rate: float | None, max_latency: Duration | None, priority: int) -> Needs:
    """What a person asks for a query; EngineError when it makes no sense."""
    if min_rate is not None and (type(min_rate) not in (int, float) or not 0 < min_rate < float("inf")):
        raise _bad_need("min_rate", min_rate, "give tuples per second, more than 0")
    if type(priority) is not int:
        raise _bad_need("priority", priority, "give an integer; 0 is usual")
    latency = None if max_latency is None else sql.parse_duration(max_latency) / 1e6
    if latency is not None and latency <= 0:
        raise _bad_need("max_latency", max_latency, "say '10 seconds'")
    return Needs(None if min_rate is None else float(min_rate), latency, priority)


KNOWN_NEEDS = ("min_rate", "max_latency", "priority")


def written_needs(options: Mapping[str, str], before: Needs = NO_NEEDS) -> Needs:
    """What a statement asks for, where something was asked for before. What it does not name stays.

    >>> written_needs({"min_rate": "100"}, Needs(None, 2.0, 1))
    Needs(min_rate=100.0, max_latency_s=2.0, priority=1)
    >>> written_needs({"max_latency": "none"}, Needs(5.0, 2.0))
    Needs(min_rate=5.0, max_latency_s=None, priority=0)
    """
    for name in options:
        if name not in KNOWN_NEEDS:
            hint = did_you_mean(name, KNOWN_NEEDS) or f"there are {', '.join(KNOWN_NEEDS)}"
            raise EngineError("BAD_OPTION", f"a query has no option {name}", hint=hint)
    given = {name: None if value == "none" else value for name, value in options.items()}
    new = needs_of(
        _number("min_rate", given.get("min_rate"), float, "give tuples per second, more than 0"),
        given.get("max_latency"),
        _number("priority", given.get("priority"), int, "give an integer; 0 is usual") or 0,
    )
    return Needs(
        new.min_rate if "min_rate" in given else before.min_rate,
        new.max_latency_s if "max_latency" in given else before.max_latency_s,
        new.priority if "priority" in given else before.priority,
    )


Number = TypeVar("Number", int, float)


def _number(name: str, text: str | None, kind: Callable[[str], Number], hint: str) -> Number | None:
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise _bad_need(name, text, hint) from None


def _bad_need(name: str, value: object, hint: str) -> EngineError:
    return EngineError("BAD_OPTION", f"{name} is {value!r}", hint=hint)


def create_queries(
    session: Session,
    queries: Iterable[str | tuple[str, str]],
    *,
    replace: bool,
    group: str | None,
    needs: Needs = NO_NEEDS,
) -> list[Query]:
    """Ask for many queries with one sync: all of them, or none. Each of them has these needs."""
    session._runs()
    home = None if group is None else check_group(group)
    wanted = read_many(queries, lambda text: parse(session, text))
    plans = [plan for _, plan in wanted]
    groups = [home] * len(wanted) if home is not None else place(session, plans, needs)
    return session._catalog.request_creations(wanted, replace=replace, groups=groups, needs=needs)


def parse(session: Session, text: str) -> QueryPlan:
    """A text as a query over the streams of today."""
    streams = {str(stream.name): stream for stream in session._catalog.streams()}
    try:
        with session._sparks.lock:
            return sql.parse_query(text, streams, session._sparks.shapes)
    except SqlError as error:
        raise explain_unknown(session, error) from None


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
    if not isinstance(queries, Iterable):
        raise SqlError(
            "NOT_TEXT", f"a {type(queries).__name__} was given for a list of texts", hint="give a list"
        )
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
