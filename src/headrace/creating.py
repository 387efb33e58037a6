"""Many queries at once: what a person gave, read one after the other. An error says which of them it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace import sql
from headrace.model.errors import HeadraceError, SqlError
from headrace.model.query import QueryPlan


def read_many(
    queries: Iterable[str | tuple[str, str]], parse: Callable[[str], QueryPlan]
) -> list[tuple[str | None, QueryPlan]]:
    """(name or None, plan) of texts and of pairs of name and text; HeadraceError at the first that is wrong."""
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
