"""SQL statements on a session: CREATE STREAM, CREATE QUERY, DROP QUERY, SHOW, EXPLAIN, SELECT."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import pyarrow as pa

from headrace import sql
from headrace.engine.errors import spark_reason
from headrace.model.errors import CatalogError, SqlError
from headrace.results.view import readable
from headrace.sources import files
from headrace.sql.statements import (
    CreateQuery,
    CreateStream,
    DropQuery,
    Explain,
    Select,
    ShowQueries,
    ShowStreams,
)

if TYPE_CHECKING:
    from headrace.session import Session


def execute(session: Session, text: str) -> str | pa.Table:
    """Run one statement; a sentence that says what was done, or a table."""
    match sql.parse_statement(text):
        case CreateStream() as statement:
            return _create_stream(session, statement)
        case CreateQuery(name, query):
            session.create_query(query, name=name)
            return f"query {name} is active from the next epoch on"
        case DropQuery(name):
            session.drop_query(name)
            return f"query {name} ends with the current epoch; its results stay"
        case ShowStreams():
            return show_streams(session)
        case ShowQueries():
            return show_queries(session)
        case Explain(target):
            return session.explain() if target is None else _explain(session, target)
        case Select(query):
            return _select(session, query)
        case _ as never:
            assert_never(never)


def _create_stream(session: Session, statement: CreateStream) -> str:
    options = dict(statement.options)
    path, format_ = options.pop("path", None), options.pop("format", "parquet")
    source = None if path is None else files(path, format_, **options)
    if source is None and options:
        raise SqlError(
            "BAD_OPTION", f"unknown options {', '.join(sorted(options))}", hint="give a path for a source"
        )
    if statement.event_time is None:
        raise SqlError(
            "NO_EVENT_TIME",
            f"stream `{statement.name}` has no event time",
            hint="add EVENT TIME and a column",
        )
    session.create_stream(
        statement.name,
        statement.schema_ddl,
        event_time=statement.event_time,
        watermark=statement.watermark or "0 seconds",
        source=source,
    )
    return f"stream {statement.name} exists"


def show_streams(session: Session) -> pa.Table:
    infos = session.streams()
    return pa.table(
        {
            "stream": [i.name for i in infos],
            "columns": [", ".join(f"{c.name} {c.type.name}" for c in i.columns) for i in infos],
            "event_time": [i.event_time for i in infos],
            "watermark": [str(i.watermark) for i in infos],
            "rows": [i.rows for i in infos],
            "late_rows": [i.late_rows for i in infos],
            "closed": [i.closed for i in infos],
        }
    )


def show_queries(session: Session) -> pa.Table:
    infos = session.queries()
    return pa.table(
        {
            "query": [i.name for i in infos],
            "state": [i.state.value for i in infos],
            "stream": [i.stream for i in infos],
            "first_epoch": pa.array([i.first_epoch for i in infos], pa.int64()),
            "last_epoch": pa.array([i.last_epoch for i in infos], pa.int64()),
            "rows": [i.rows for i in infos],
            "error": pa.array([i.error for i in infos], pa.string()),
        }
    )


def _explain(session: Session, target: str) -> str:
    try:
        return session.query(target).explain()
    except CatalogError:
        if " " not in target.strip():
            raise
    return session.explain(target)


def _select(session: Session, text: str) -> pa.Table:
    """SELECT over results: every query is visible as a table of its own name."""
    frame = session.select(text)
    try:
        return readable(frame).toArrow()
    except Exception as error:
        raise select_failed(error) from error


def select_failed(error: Exception) -> SqlError:
    reason = spark_reason(error)
    hint = "SHOW QUERIES lists the tables" if "TABLE_OR_VIEW_NOT_FOUND" in reason else None
    return SqlError("SELECT_FAILED", reason, hint=hint)
