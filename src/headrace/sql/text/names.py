"""Names: which ones streams and queries may have, and how a name is written in SQL."""

from __future__ import annotations

from headrace.model.errors import CatalogError
from headrace.sql.text.dialect import is_keyword

MAX_NAME = 128
RESERVED_PREFIX = "__headrace"

_FORBIDDEN = frozenset("'\"`/\\")


def check_name(name: str, what: str) -> None:
    """Raise CatalogError unless `name` can name a stream or a query; `what` says which, for the message.

    >>> check_name("spend per user", "query")
    >>> check_name("../spend", "query")
    Traceback (most recent call last):
    ...
    headrace.model.errors.CatalogError: BAD_NAME: the query name '../spend' contains '/'
      hint: use letters, digits, spaces, '_' and '-'
      see: docs/sql.md#names
    """
    problem = _problem(name)
    if problem:
        shown = name[:40] + "..." if isinstance(name, str) and len(name) > 40 else name
        hint = "use letters, digits, spaces, '_' and '-'"
        raise CatalogError("BAD_NAME", f"the {what} name {shown!r} {problem}", hint=hint)


def name_key(name: str, what: str) -> str:
    """What names are compared by: Spark ignores the case of letters. Raises CatalogError when it is no text."""
    if not isinstance(name, str):
        check_name(name, what)
    return name.lower()


def _problem(name: str) -> str | None:
    if not isinstance(name, str):
        return "is not text"
    if not name.strip():
        return "is empty"
    if len(name) > MAX_NAME:
        return f"is longer than {MAX_NAME} characters"
    bad = next((char for char in name if char in _FORBIDDEN or not char.isprintable()), None)
    if bad is not None:
        return f"contains {bad!r}"
    if name.startswith("."):
        return "begins with a dot"
    if name.lower().startswith(RESERVED_PREFIX):
        return f"begins with {RESERVED_PREFIX}, which is reserved"
    return None


def quote_name(name: str) -> str:
    """`name` as an SQL identifier, in backquotes only where they are needed.

    >>> quote_name("price"), quote_name("unit price"), quote_name("select")
    ('price', '`unit price`', '`select`')
    """
    if needs_quotes(name):
        return "`" + name.replace("`", "``") + "`"
    return name


def needs_quotes(name: str) -> bool:
    return not (name.isascii() and name.isidentifier()) or is_keyword(name)
