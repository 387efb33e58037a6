"""A query's view: its rows in the shared result tables, selected, named and finished with Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.catalog.queries import QueryEntry
from headrace.engine.delivered import QueryView
from headrace.engine.finish import finish_rows, window_rows
from headrace.engine.joined import finish_joined, joined_rows
from headrace.engine.records import ResultFile
from headrace.engine.stored import ResultReader, shared_rows
from headrace.model.epoch import NEVER_US
from headrace.model.query import Aggregation, Fallback, Join, Projection, Query
from headrace.model.tables import (
    EPOCH,
    QUERY,
    WINDOW_END,
    WINDOW_START,
    NamedRows,
    PlainTable,
    TupleTable,
    numbered_column,
    numbered_columns,
    output_column,
)
from headrace.model.types import Column, Kind, SqlType


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Which rows of a query are wanted, and in which order.

    Windows end after `after_us` and begin after `began_us`. Rows without a window were delivered in `first_epoch` or
    later. With `newest_first`, rows of windows that end later come first. Rows without a window then come by the epoch
    that delivered them.
    """

    after_us: int | None = None
    began_us: int = NEVER_US
    first_epoch: int | None = None
    newest_first: bool = False


def query_frame(
    reader: ResultReader, entry: QueryEntry, view: QueryView, excerpt: Excerpt | None = None
) -> DataFrame:
    """The query's result rows with the columns its SQL names: all that can be shown, or an excerpt.

    Joined rows are stored before their windows close, and shown for windows that end by `view.until_us`.
    """
    query, only = entry.query, excerpt or Excerpt(after_us=view.after_us)
    if not view.files:
        return reader.spark.createDataFrame([], _ddl(query.plan.columns))
    match query.plan.body:
        case (Aggregation() as body) | Join(then=Aggregation() as body):
            rows = _windows(window_rows(reader, query, body, view.files), only)
            frame = finish_rows(_sorted(rows, WINDOW_END, only), body)
        case Projection() as body:
            rows = _sorted(_tuples(reader, entry, body, view.files, only), EPOCH, only)
            outputs = (F.col(output_column(o)).alias(numbered_column(i)) for i, o in enumerate(body.outputs))
            frame = rows.select(*outputs)
        case Join() as body:
            after_us = NEVER_US if only.after_us is None else only.after_us
            rows = joined_rows(reader, entry, view.files, (after_us, view.until_us))
            frame = finish_joined(rows, body, newest_first=only.newest_first)
        case Fallback():
            rows = _sorted(_plain(reader, query, view.files, only), EPOCH, only)
            frame = rows.drop(QUERY, EPOCH)
        case never:
            assert_never(never)
    return frame.toDF(*(column.name for column in query.plan.columns))


def readable(frame: DataFrame) -> DataFrame:
    """`frame` with intervals of months, for which Python has no type, as Spark prints them."""
    types = [SqlType(field.dataType.simpleString()) for field in frame.schema.fields]
    if all(type_.kind is not Kind.MONTHS for type_ in types):
        return frame
    names = numbered_columns(len(types))
    texts = [
        f"CAST({n} AS STRING)" if t.kind is Kind.MONTHS else n for n, t in zip(names, types, strict=True)
    ]
    return frame.toDF(*names).selectExpr(*texts).toDF(*frame.columns)


def _ddl(columns: Sequence[Column]) -> str:
    return ", ".join(f"`{c.name.replace('`', '``')}` {c.type.ddl}" for c in columns)


def _sorted(rows: DataFrame, by: str, only: Excerpt) -> DataFrame:
    return rows.orderBy(F.col(by).desc()) if only.newest_first else rows


def _windows(rows: DataFrame, only: Excerpt) -> DataFrame:
    if only.after_us is not None:
        rows = rows.where(F.unix_micros(F.col(WINDOW_END).cast("timestamp")) > only.after_us)
    if only.began_us != NEVER_US:
        rows = rows.where(F.unix_micros(F.col(WINDOW_START).cast("timestamp")) > only.began_us)
    return rows


def _tuples(
    reader: ResultReader, entry: QueryEntry, body: Projection, files: Sequence[ResultFile], only: Excerpt
) -> DataFrame:
    mine = shared_rows(entry).since(only.first_epoch or 0)
    return reader.rows(TupleTable(body.outputs, (mine.word,)), files).where(mine.sql)


def _plain(reader: ResultReader, query: Query, files: Sequence[ResultFile], only: Excerpt) -> DataFrame:
    table = PlainTable(tuple(column.type for column in query.plan.columns))
    rows = reader.rows(table, files).where(NamedRows(int(query.id)).sql)
    return rows if only.first_epoch is None else rows.where(F.col(EPOCH) >= only.first_epoch)
