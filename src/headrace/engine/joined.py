"""Stored joined rows as a query sees them: once per window that holds all of a row's tuples and has closed.

A row is stored once, in the epoch of its last tuple, with the set of queries that want it. Which of a query's windows
hold it follows from the tuples' event times, so it is worked out when rows are read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.catalog.queries import QueryEntry
from headrace.engine.records import ResultFile
from headrace.engine.stored import ResultReader, shared_rows
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.predicate import Operand
from headrace.model.query import Join, JoinedRows, QueryId, Stream
from headrace.model.tables import (
    EPOCH,
    LATE_US,
    WINDOW_END,
    WINDOW_START,
    JoinedTable,
    joined_column,
    numbered_column,
)
from headrace.model.types import Column, Kind
from headrace.planner.joins import Joining

_TIME = "__headrace_time"

ALL_ENDS = (NEVER_US, FOREVER_US)


@dataclass(frozen=True, slots=True)
class JoinedColumns:
    """Where stored rows hold what a join asks of them: the event time of each side, and each carried value."""

    times: tuple[Column, ...]
    carried: tuple[Column, ...]


def columns_of(body: Join, streams: Mapping[str, Stream]) -> JoinedColumns:
    """The stored columns of a join over these streams."""
    leaves = Joining(QueryId(0), 0, body).leaves

    def column(side: int, operand: Operand) -> Column:
        return Column(joined_column(*leaves[side], operand), operand.type)

    event_times = (streams[side.stream].column(streams[side.stream].event_time) for side in body.sides)
    return JoinedColumns(
        tuple(column(i, Operand(time.name, time.type)) for i, time in enumerate(event_times)),
        tuple(column(carried.side, carried.operand) for carried in body.carried),
    )


def joined_rows(
    reader: ResultReader,
    entry: QueryEntry,
    files: Iterable[ResultFile],
    ends: tuple[int, int] = ALL_ENDS,
) -> DataFrame:
    """Rows `(epoch, window_start, window_end, carried..)` of a query, for windows that end in (after, until]."""
    body, mine = entry.query.plan.body, shared_rows(entry)
    assert isinstance(body, Join)
    stored = columns_of(body, reader.streams)
    rows = reader.rows(JoinedTable((*stored.times, *stored.carried), (mine.word,)), files).where(mine.sql)
    moments = [f"unix_micros(CAST({time.name} AS TIMESTAMP))" for time in stored.times]
    window_ends = F.explode(F.expr(_window_ends(body, moments, *ends)))
    named = zip(stored.carried, body.carried, strict=True)
    shown = (F.col(column.name).alias(carried.name) for column, carried in named)
    rows = rows.select(EPOCH, window_ends.alias(_TIME), *shown)
    kind = "TIMESTAMP_NTZ" if stored.times[0].type.kind is Kind.TIMESTAMP_NTZ else "TIMESTAMP"
    return rows.withColumns(
        {
            WINDOW_START: F.expr(f"CAST(timestamp_micros({_TIME} - {body.window.range_us}L) AS {kind})"),
            WINDOW_END: F.expr(f"CAST(timestamp_micros({_TIME}) AS {kind})"),
        }
    )


def _window_ends(body: Join, moments: list[str], after_us: int, until_us: int) -> str:
    """An array of the ends, in microseconds, of the windows that hold a row."""
    window = body.window
    phase = (window.offset_us + window.range_us) % window.slide_us
    low = f"greatest({', '.join(moments)}, {LATE_US}, {_long(after_us)})"
    reach = [f"{m} + {side.window.range_us}L" for m, side in zip(moments, body.sides, strict=True)]
    high = f"least({', '.join(reach)}, {_long(until_us)})"
    slide = f"{window.slide_us}L"
    first = f"({low} - pmod({low} - {phase}L, {slide}) + {slide})"
    last = f"({high} - pmod({high} - {phase}L, {slide}))"
    return f"CASE WHEN {first} <= {last} THEN sequence({first}, {last}, {slide}) END"


def _long(value: int) -> str:
    """A literal; the least BIGINT cannot be written as one."""
    return f"{max(value, NEVER_US + 1)}L"


def finish_joined(rows: DataFrame, body: Join, *, newest_first: bool = False) -> DataFrame:
    """The query's columns as c0.., of rows or of groups of them; those of later windows first when asked for."""
    then = body.then
    assert isinstance(then, JoinedRows)
    rows = rows if then.where is None else rows.where(F.expr(then.where))
    finish = [f"{text} AS {numbered_column(i)}" for i, text in enumerate(then.finish)]
    if then.groups is None:
        rows = rows.orderBy(F.col(WINDOW_END).desc()) if newest_first else rows
        return rows.selectExpr(*finish)
    relation = f"__headrace_joined_{uuid.uuid4().hex}"  # readers may be at work beside each other
    tail = "" if then.having is None else f" HAVING {then.having}"
    tail += (
        f" ORDER BY max({WINDOW_END}) DESC" if newest_first else ""
    )  # the rows of a group are of one window
    rows.createTempView(relation)
    try:
        return rows.sparkSession.sql(
            f"SELECT {', '.join(finish)} FROM {relation} GROUP BY {', '.join(then.groups)}{tail}"
        )
    finally:
        rows.sparkSession.catalog.dropTempView(relation)
