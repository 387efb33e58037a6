"""SQL statements on a session: each does what its Python call does, and says so in a sentence or a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

import pyarrow as pa

from headrace import sql
from headrace.asking.creating import WantedQuery, create_query, written_needs
from headrace.asking.inserting import insert_values
from headrace.asking.starting import EARLIEST
from headrace.looking.answers import why_empty_select
from headrace.looking.portrait import describe_query, describe_stream
from headrace.looking.selecting import select_failed
from headrace.looking.showing import count, show_duration
from headrace.model.errors import CatalogError, SqlError, did_you_mean
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
)
from headrace.notes import with_note
from headrace.results.view import readable
from headrace.sources import files

if TYPE_CHECKING:
    from headrace.session import Session


def execute(session: Session, text: str, *, allow_files: bool = False) -> str | pa.Table:
    """Run one statement; a sentence that says what was done, or a table."""
    match sql.parse_statement(text):
        case CreateStream() as statement:
            return _create_stream(session, statement)
        case CreateQuery() as statement:
            return _create_query(session, statement)
        case MoveQuery(name, group):
            return _move_query(session, name, group)
        case AlterNeeds(name, needs):
            session._runs()
            query = session._catalog.request_needs(name, lambda before: written_needs(needs, before))
            return f"query {query.name} is asked for {', '.join(needs)} from the next epoch on"
        case Repartition(partitions):
            session.repartition(partitions)
            return f"keys are spread over {count(partitions, 'partition')} from the next epoch on"
        case DropStream(name, if_exists):
            return _drop_stream(session, name, if_exists)
        case DropQuery(name, if_exists):
            return _drop_query(session, name, if_exists)
        case AlterSplit(name, q, route):
            session.alter_split(name, q, route=route)
            return f"split {name} has {count(q, 'sub-stream')} from its next epoch on"
        case DropSplit(name, if_exists):
            return _drop_split(session, name, if_exists)
        case CloseStream(name):
            session.close_stream(name)
            return f"stream {name} gets no more input; its windows close with the next epoch"
        case Insert() as statement:
            rows = insert_values(session, statement)
            return f"{count(rows, 'row')} added to stream {statement.stream}; the next epoch takes them in"
        case Describe(name, what):
            return _describe(session, name, what)
        case ShowStreams():
            return show_streams(session)
        case ShowQueries():
            return show_queries(session)
        case ShowGroups():
            return show_groups(session)
        case ShowSplits():
            return show_splits(session)
        case ShowEvents():
            return show_events(session)
        case ShowPredictions():
            return show_predictions(session)
        case ShowFunctions():
            return show_functions(session)
        case Explain(None, verbose):
            return session.explain(verbose=verbose)
        case Explain(target, verbose, is_text):
            assert target is not None
            if is_text:
                return session.explain(target, verbose=verbose)
            return session.query(target).explain(verbose=verbose)
        case Help(topic):
            return sql.help_text(topic)
        case Select(query):
            return _select(session, query, allow_files)
        case _ as never:
            assert_never(never)


def _create_stream(session: Session, statement: CreateStream) -> str:
    options = dict(statement.options)
    max_ahead = options.pop("max_ahead", "default")
    path, format_ = options.pop("path", None), options.pop("format", "parquet")
    if statement.event_time is None:
        raise SqlError(
            "NO_EVENT_TIME",
            f"stream `{statement.name}` has no event time",
            hint="add EVENT TIME and a column",
        )
    if path is None and options:
        raise SqlError(
            "BAD_OPTION", f"unknown options {', '.join(sorted(options))}", hint="give a path for a source"
        )
    if statement.if_present is IfPresent.KEEP and session._catalog.has_stream(statement.name):
        return f"stream {statement.name} exists already and stays as it is"
    session.create_stream(
        statement.name,
        statement.schema_ddl,
        event_time=statement.event_time,
        watermark=statement.watermark or "0 seconds",
        source=None if path is None else files(path, format_, **options),
        max_ahead=None if max_ahead.lower() == "none" else max_ahead,
    )
    return f"stream {statement.name} exists"


def _create_query(session: Session, statement: CreateQuery) -> str:
    name, present = statement.name, statement.if_present
    known = session._catalog.has_live(name)
    if known and present is IfPresent.KEEP:
        return f"query {name} exists already and stays as it is"
    wanted = WantedQuery(
        statement.text,
        name,
        replace=present is IfPresent.REPLACE,
        group=statement.group,
        start=statement.start,
        needs=written_needs(statement.needs),
    )
    made = create_query(session, wanted)
    query = session.query(made.name)
    said = f"query {name} is active from the next epoch on"
    if statement.start is not None:
        early = statement.start.strip().lower() == EARLIEST
        since = "the beginning of the log" if early else statement.start
        said += f", and catches up with what came since {since}"
    if statement.group is not None:
        said += f", in group {statement.group.lower()}"
    if known:
        said += ", in place of the one before"
    sharing = query.sharing
    return said if sharing.shared else f"{said}; it is {sharing}"


def _move_query(session: Session, name: str, group: str) -> str:
    session.move_query(name, group)
    entry = session._catalog.entry(name)
    if entry.group == group.lower():
        return f"query {name} lives in group {entry.group}, and stays there"
    return f"query {name} goes to group {group.lower()} when both groups have reached the same epoch"


def _drop_stream(session: Session, name: str, if_exists: bool) -> str:
    if if_exists and not session._catalog.has_stream(name):
        return f"there is no stream {name}"
    session.drop_stream(name)
    return f"stream {name} is gone; results that came of it stay"


def _drop_query(session: Session, name: str, if_exists: bool) -> str:
    if if_exists and not session._catalog.has_live(name):
        return f"there is no live query {name}"
    session.drop_query(name)
    return f"query {name} ends with the current epoch; its results stay"


def _drop_split(session: Session, name: str, if_exists: bool) -> str:
    if if_exists and session._catalog.splits.find(name) is None:
        return f"there is no split {name}"
    made = ", ".join(session.split(name).outputs.values())
    session.drop_split(name)
    return f"split {name} is gone; what it wrote stays, and gets no more input: {made}"


def _describe(session: Session, name: str, what: str | None) -> pa.Table:
    if what != "query" and session._catalog.has_stream(name):
        return _describe_stream(session, name)
    if what == "stream":
        session.stream(name)  # says that there is none, and which there are
    try:
        return _describe_query(session, name)
    except CatalogError as error:
        if what == "query":
            raise
        known = [info.name for info in session.streams()] + [info.name for info in session.queries()]
        raise CatalogError(
            error.code,
            f"there is no stream or query `{name}`",
            hint=did_you_mean(name, known),
        ) from None


def _describe_stream(session: Session, name: str) -> pa.Table:
    info = session.stream(name)
    columns = [
        (c.name, c.type.name, "event time" if c.name == info.event_time else None) for c in info.columns
    ]
    return with_note(_columns(columns), describe_stream(info, session._catalog.source(name)))


def _describe_query(session: Session, name: str) -> pa.Table:
    query = session.query(name)
    columns = [(c.name, c.type.name, None) for c in query.columns]
    return with_note(_columns(columns), describe_query(query))


def _columns(found: Sequence[tuple[str, str, str | None]]) -> pa.Table:
    names, types, notes = zip(*found, strict=True) if found else ((), (), ())
    text = pa.string()
    return pa.table(
        {"column": pa.array(names, text), "type": pa.array(types, text), "note": pa.array(notes, text)}
    )


def show_streams(session: Session) -> pa.Table:
    infos = session.streams()
    return pa.table(
        {
            "stream": [i.name for i in infos],
            "columns": [", ".join(f"{c.name} {c.type.name}" for c in i.columns) for i in infos],
            "event_time": [i.event_time for i in infos],
            "watermark": [show_duration(i.watermark // timedelta(microseconds=1)) for i in infos],
            "watermark_at": pa.array([i.watermark_time for i in infos], pa.string()),
            "rows": [i.rows for i in infos],
            "late_rows": [i.late_rows for i in infos],
            "closed": [i.closed for i in infos],
            "source": [i.source.state.value for i in infos],
            "problem": pa.array([i.source.problem for i in infos], pa.string()),
            "files_waiting": pa.array([i.source.files_waiting for i in infos], pa.int64()),
            "odd": [i.source.odd for i in infos],
        }
    )


def show_queries(session: Session) -> pa.Table:
    infos = session.queries()
    return pa.table(
        {
            "query": [i.name for i in infos],
            "state": [i.state.value for i in infos],
            "stream": [i.stream for i in infos],
            "group": [i.group for i in infos],
            "target": pa.array([i.target for i in infos], pa.string()),
            "first_epoch": pa.array([i.first_epoch for i in infos], pa.int64()),
            "last_epoch": pa.array([i.last_epoch for i in infos], pa.int64()),
            "rows": [i.rows for i in infos],
            "error": pa.array([i.error for i in infos], pa.string()),
            "trouble": pa.array([i.trouble for i in infos], pa.string()),
        }
    )


def show_functions(session: Session) -> pa.Table:
    infos = session.functions()
    return pa.table(
        {
            "function": pa.array([i.name for i in infos], pa.string()),
            "type": pa.array([i.type for i in infos], pa.string()),
            "cost": pa.array([i.cost for i in infos], pa.float64()),
            "ready": pa.array([i.ready for i in infos], pa.bool_()),
            "queries": pa.array([i.queries for i in infos], pa.list_(pa.string())),
        }
    )


def show_groups(session: Session) -> pa.Table:
    infos = session.groups()
    seconds = {
        "seconds": [i.seconds for i in infos],
        "map_seconds": [i.map_seconds for i in infos],
        "reduce_seconds": [i.reduce_seconds for i in infos],
        "plain_seconds": [i.plain_seconds for i in infos],
    }
    return pa.table(
        {
            "group": [i.name for i in infos],
            "state": [i.state.value for i in infos],
            "queries": [len(i.members) for i in infos],
            "cursor": pa.array([i.cursor if i.cursor >= 0 else None for i in infos], pa.int64()),
            "lag_epochs": [i.lag_epochs for i in infos],
            "lag_seconds": [i.lag_seconds for i in infos],
            "tasks": [i.tasks for i in infos],
            "partitions": [i.partitions for i in infos],
            "target": pa.array([i.target for i in infos], pa.string()),
            **{name: pa.array(values, pa.float64()) for name, values in seconds.items()},
            "members": pa.array([i.members for i in infos], pa.list_(pa.string())),
            "error": pa.array([i.error for i in infos], pa.string()),
            "saves_cores": pa.array([i.saves for i in infos], pa.float64()),
            "prediction_error": pa.array([i.prediction_error for i in infos], pa.float64()),
            "reason": pa.array([i.reason for i in infos], pa.string()),
        }
    )


def show_events(session: Session) -> pa.Table:
    infos = session.events()
    at = [int(info.at * 1e6) for info in infos]
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "event": pa.array([info.kind.value for info in infos], pa.string()),
            "group": pa.array([info.group for info in infos], pa.string()),
            "queries": pa.array([info.count for info in infos], pa.int64()),
            "names": pa.array([info.queries for info in infos], pa.list_(pa.string())),
            "delay_seconds": pa.array([info.delay_seconds for info in infos], pa.float64()),
            "reason": pa.array([info.reason for info in infos], pa.string()),
        }
    )


def show_predictions(session: Session) -> pa.Table:
    found = [one for group in session.sharing().groups for one in group.predictions]
    return pa.table(
        {
            "group": pa.array([one.group for one in found], pa.string()),
            "epoch": pa.array([one.epoch for one in found], pa.int64()),
            "predicted_seconds": pa.array([one.predicted_seconds for one in found], pa.float64()),
            "measured_seconds": pa.array([one.measured_seconds for one in found], pa.float64()),
            "error": pa.array([one.error for one in found], pa.float64()),
            "cost_error": pa.array([one.cost_error for one in found], pa.float64()),
        }
    )


def show_splits(session: Session) -> pa.Table:
    infos = session.splits()
    return pa.table(
        {
            "split": pa.array([i.name for i in infos], pa.string()),
            "state": pa.array([i.state.value for i in infos], pa.string()),
            "stream": pa.array([i.stream for i in infos], pa.string()),
            "sub_streams": pa.array([i.sub_streams for i in infos], pa.int64()),
            "outputs": pa.array([list(i.outputs) for i in infos], pa.list_(pa.string())),
            "epoch": pa.array([i.epoch for i in infos], pa.int64()),
            "behind": pa.array([i.behind for i in infos], pa.int64()),
            "tuples": pa.array([i.tuples.read for i in infos], pa.int64()),
            "late": pa.array([i.tuples.late for i in infos], pa.int64()),
            "rows": pa.array([i.rows for i in infos], pa.int64()),
            "error": pa.array([i.error for i in infos], pa.string()),
        }
    )


def _select(session: Session, text: str, allow_files: bool) -> pa.Table:
    """SELECT over results and recent tuples; an empty table says why."""
    frame = session.select(text, allow_files=allow_files)
    try:
        table = readable(frame).toArrow()
    except Exception as error:
        raise select_failed(error) from error
    return table if table.num_rows else with_note(table, why_empty_select(session, text))
