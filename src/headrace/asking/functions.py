"""Functions that people register: checked, made durable by name and type, and sent to wherever queries run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import StructType

from headrace import sql
from headrace.catalog.catalog import Catalog
from headrace.engine.errors import spark_reason
from headrace.engine.functions import pickled, write_function
from headrace.engine.spark import active
from headrace.looking.showing import Listing, show_names
from headrace.model.errors import CatalogError, SqlError, did_you_mean
from headrace.model.functions import FunctionSpec
from headrace.model.types import SqlType
from headrace.sparks import SparkSessions
from headrace.storage.warehouse import Warehouse

if TYPE_CHECKING:
    from headrace.session import Session


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """One line of `hr.functions()`. A function that is not `ready` was registered by an earlier session; its queries
    wait for it.
    """

    name: str
    type: str
    cost: float | None
    ready: bool
    queries: tuple[str, ...]

    HEADERS: ClassVar = ("function", "type", "cost", "ready", "queries")

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS."""
        return self.name, self.type, self.cost, self.ready, show_names(self.queries) or None


def add_function(
    warehouse: Warehouse,
    catalog: Catalog,
    sparks: SparkSessions,
    name: str,
    function: Callable[..., Any],
    type_: str,
    cost: float | None = None,
) -> None:
    """Let queries call a function from now on. Who only reads the warehouse keeps nothing of it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise CatalogError(
            "BAD_NAME", f"{name!r} cannot be the name of a function", hint="use letters, digits and '_'"
        )
    name = name.lower()
    if not callable(function):
        raise CatalogError(
            "BAD_FUNCTION",
            f"what was given for {name}() is a {type(function).__name__}",
            hint="give a function",
        )
    if cost is not None and not (isinstance(cost, int | float) and cost >= 0):
        raise CatalogError("BAD_FUNCTION", f"the cost of {name}() is {cost!r}", hint="give seconds per row")
    found = _type(sparks, name, type_)
    if sparks.is_built_in(name):
        raise CatalogError(
            "FUNCTION_EXISTS", f"Spark has a function {name}() itself", hint="choose another name"
        )
    code = pickled(name, function)
    if not warehouse.read_only:
        file = write_function(warehouse, name, found, code)
        catalog.functions.register(FunctionSpec(name, found, cost), file, users_of(catalog, name))
    sparks.register(name, found, code)


def register_function(
    session: Session, name: str, function: Callable[..., Any], type_: str, cost: float | None
) -> None:
    """Let queries of an open warehouse call a function from now on."""
    session._check_open()
    add_function(session._warehouse, session._catalog, session._sparks, name, function, type_, cost)


def users_of(catalog: Catalog, name: str) -> list[str]:
    """The live queries that call a function."""
    return [e.query.name for e in catalog.entries() if e.live and name in e.query.plan.functions]


def function_infos(session: Session) -> list[FunctionInfo]:
    table = session._catalog.functions
    return Listing(
        FunctionInfo(
            spec.name,
            spec.type.name.upper(),
            spec.cost,
            table.is_ready(spec.name),
            tuple(users_of(session._catalog, spec.name)),
        )
        for spec in table.specs()
    )


def _type(sparks: SparkSessions, name: str, given: str) -> SqlType:
    """The declared type; Spark reads it."""
    try:
        sql.check_text(given)
        with active(sparks.reader):
            parsed = StructType.fromDDL(f"value {given}")
        assert isinstance(parsed, StructType) and len(parsed.fields) == 1
        found = SqlType(parsed.fields[0].dataType.simpleString())
        found.arrow  # noqa: B018
    except Exception as error:
        raise CatalogError(
            "BAD_FUNCTION",
            f"the type of {name}() is not one that a function can have: {given!r}",
            detail=spark_reason(error),
            hint="write it as in a schema: 'DOUBLE', 'STRING' or 'ARRAY<FLOAT>'",
        ) from None
    return found


def explain_unknown(session: Session, error: SqlError) -> SqlError:
    """The refusal of a text, and what may have been meant where it calls a function that nobody knows."""
    called = _CALLED.search(error.message) if error.code == "UNKNOWN_FUNCTION" else None
    if called is None:
        return error
    name, table = called.group(1).lower(), session._catalog.functions
    known = {spec.name: spec for spec in table.specs()}
    if name in known:
        missing = table.not_registered(name, "an earlier session had it")
        return SqlError(error.code, missing.message, hint=missing.hint, span=error.span)
    near = did_you_mean(name, known) or did_you_mean(name, session._sparks.built_in())
    hint = near or "use one of Spark's functions, or register your own: hr.register_function(...)"
    return SqlError(error.code, f"there is no function {name}()", hint=hint, span=error.span)


_CALLED = re.compile(r"`([^`]+)`")
