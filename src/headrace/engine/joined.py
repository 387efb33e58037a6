"""Stored joined rows as a query sees them: once per window that holds all of a row's tuples and has closed.

A row is stored once, in the epoch of its last tuple, with the set of queries that want it. Which of a query's windows
hold it follows from the tuples' event times, so it is worked out when rows are read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.catalog.queries import QueryEntry
from headrace.engine.records import ResultFile
from headrace.engine.stored import read_results
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.predicate import Operand
from headrace.model.query import Join, JoinedRows, QueryId, Stream
from headrace.model.types import Kind
from headrace.operators.common.bitrows import WORD
from headrace.planner.joins import Joining
from headrace.planner.signatures import joined_column

_TIME = "__headrace_time"


def joined_rows(
    spark: SparkSession,
    root: Path,
    streams: dict[str, Stream],
    entry: QueryEntry,
    files: Iterable[ResultFile],
    after_us: int = NEVER_US,
    until_us: int = FOREVER_US,
) -> DataFrame:
    """Rows `(epoch, window_start, window_end, carried..)` of a query, for windows that end in (after, until]."""
    body, slot = entry.query.plan.body, entry.slot
    assert isinstance(body, Join) and slot is not None and entry.first_epoch is not None
    members = Joining(QueryId(0), slot, body).members
    times = [
        Operand(name := streams[side.stream].event_time, streams[side.stream].column(name).type)
        for side in body.sides
    ]
    stored: dict[str, str] = {"epoch": "BIGINT", "late_us": "BIGINT", f"qs{slot // WORD}": "BIGINT"}
    shown = []
    for (input_, role), time in zip(members, times, strict=True):
        stored[joined_column(input_, role, time)] = time.type.ddl
    for carried in body.carried:
        column = joined_column(*members[carried.side], carried.operand)
        stored[column] = carried.operand.type.ddl
        shown.append(F.col(column).alias(carried.name))
    ddl = ", ".join(f"{name} {type_}" for name, type_ in stored.items())
    rows = read_results(spark, root, ddl, files)
    rows = rows.where(F.getbit(f"qs{slot // WORD}", F.lit(slot % WORD)) == 1)
    rows = rows.where(F.col("epoch") >= int(entry.first_epoch))
    if entry.last_epoch is not None:
        rows = rows.where(F.col("epoch") < int(entry.last_epoch))
    moments = [
        f"unix_micros(CAST({joined_column(*member, time)} AS TIMESTAMP))"
        for member, time in zip(members, times, strict=True)
    ]
    ends = F.explode(F.expr(_window_ends(body, moments, after_us, until_us)))
    rows = rows.select("epoch", ends.alias(_TIME), *shown)
    kind = "TIMESTAMP_NTZ" if times[0].type.kind is Kind.TIMESTAMP_NTZ else "TIMESTAMP"
    return rows.withColumns(
        {
            "window_start": F.expr(f"CAST(timestamp_micros({_TIME} - {body.window.range_us}L) AS {kind})"),
            "window_end": F.expr(f"CAST(timestamp_micros({_TIME}) AS {kind})"),
        }
    )


def _window_ends(body: Join, moments: list[str], after_us: int, until_us: int) -> str:
    """An array of the ends, in microseconds, of the windows that hold a row."""
    window = body.window
    phase = (window.offset_us + window.range_us) % window.slide_us
    low = f"greatest({', '.join(moments)}, late_us, {_long(after_us)})"
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
    finish = [f"{text} AS c{i}" for i, text in enumerate(then.finish)]
    if then.groups is None:
        rows = rows.orderBy(F.col("window_end").desc()) if newest_first else rows
        return rows.selectExpr(*finish)
    relation = f"__headrace_joined_{uuid.uuid4().hex}"  # readers may be at work beside each other
    tail = "" if then.having is None else f" HAVING {then.having}"
    tail += " ORDER BY max(window_end) DESC" if newest_first else ""  # the rows of a group are of one window
    rows.createTempView(relation)
    try:
        return rows.sparkSession.sql(
            f"SELECT {', '.join(finish)} FROM {relation} GROUP BY {', '.join(then.groups)}{tail}"
        )
    finally:
        rows.sparkSession.catalog.dropTempView(relation)
