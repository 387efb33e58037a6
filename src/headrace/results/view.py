"""A query's view: its rows in the shared result tables, selected, named and finished with Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.catalog.queries import QueryEntry
from headrace.engine.finish import finish_rows, window_rows
from headrace.engine.joined import finish_joined, joined_rows
from headrace.engine.records import ResultFile
from headrace.engine.stored import read_results
from headrace.model.epoch import NEVER_US
from headrace.model.query import Aggregation, Fallback, Join, Projection, Query, Stream
from headrace.model.types import Column, Kind, SqlType
from headrace.operators.common.bitrows import WORD
from headrace.planner.signatures import output_column


def query_frame(
    spark: SparkSession,
    root: Path,
    streams: dict[str, Stream],
    entry: QueryEntry,
    files: Sequence[ResultFile],
    *,
    until_us: int,
    after_us: int | None = None,
    first_epoch: int | None = None,
    began_us: int = NEVER_US,
    newest_first: bool = False,
) -> DataFrame:
    """The query's result rows with the columns its SQL names.

    `until_us` is the watermark up to which its windows have closed: joined rows are stored before that. `after_us`
    keeps only windows that end later, and for the audit `began_us` only those that start later and `first_epoch` only
    rows delivered from that epoch on. With `newest_first`, rows of windows that end later come first; rows without a
    window come by the epoch that delivered them.
    """
    query, stream = entry.query, streams[entry.query.plan.stream]
    if not files:
        return spark.createDataFrame([], _ddl(query.plan.columns))
    match query.plan.body:
        case Aggregation() as body:
            rows = _windows(spark, root, stream, query, body, files, after_us, began_us)
            frame = finish_rows(_sorted(rows, "window_end", newest_first), body)
        case Projection() as body:
            rows = _sorted(_tuples(spark, root, entry, body, files, first_epoch), "epoch", newest_first)
            frame = rows.select(*(F.col(output_column(o)).alias(f"c{i}") for i, o in enumerate(body.outputs)))
        case Join() as body if isinstance(body.then, Aggregation):
            rows = _windows(spark, root, stream, query, body.then, files, after_us, began_us)
            frame = finish_rows(_sorted(rows, "window_end", newest_first), body.then)
        case Join() as body:
            after = NEVER_US if after_us is None else after_us
            rows = joined_rows(spark, root, streams, entry, files, after, until_us)
            frame = finish_joined(rows, body, newest_first=newest_first)
        case Fallback():
            rows = _sorted(_plain(spark, root, query, files, first_epoch), "epoch", newest_first)
            frame = rows.drop("query", "epoch")
    return frame.toDF(*(column.name for column in query.plan.columns))


def readable(frame: DataFrame) -> DataFrame:
    """`frame` with intervals of months, for which Python has no type, as Spark prints them."""
    types = [SqlType(field.dataType.simpleString()) for field in frame.schema.fields]
    if all(type_.kind is not Kind.MONTHS for type_ in types):
        return frame
    numbered = frame.toDF(*(f"c{i}" for i in range(len(types))))
    texts = [f"CAST(c{i} AS STRING)" if t.kind is Kind.MONTHS else f"c{i}" for i, t in enumerate(types)]
    return numbered.selectExpr(*texts).toDF(*frame.columns)


def _ddl(columns: Sequence[Column]) -> str:
    return ", ".join(f"`{c.name.replace('`', '``')}` {c.type.ddl}" for c in columns)


def _sorted(rows: DataFrame, by: str, newest_first: bool) -> DataFrame:
    return rows.orderBy(F.col(by).desc()) if newest_first else rows


def _windows(
    spark: SparkSession,
    root: Path,
    stream: Stream,
    query: Query,
    body: Aggregation,
    files: Sequence[ResultFile],
    after_us: int | None,
    began_us: int,
) -> DataFrame:
    frame = window_rows(spark, root, stream, body, files).where(F.col("query") == int(query.id))
    if after_us is not None:
        frame = frame.where(F.unix_micros(F.col("window_end").cast("timestamp")) > after_us)
    if began_us != NEVER_US:
        frame = frame.where(F.unix_micros(F.col("window_start").cast("timestamp")) > began_us)
    return frame


def _tuples(
    spark: SparkSession,
    root: Path,
    entry: QueryEntry,
    body: Projection,
    files: Sequence[ResultFile],
    first_epoch: int | None,
) -> DataFrame:
    assert entry.slot is not None and entry.first_epoch is not None
    word, bit = divmod(entry.slot, WORD)
    columns = {output_column(o): o.type.ddl for o in body.outputs}
    stored = [f"{name} {type_}" for name, type_ in columns.items()]
    ddl = ", ".join([*stored, "epoch BIGINT", f"qs{word} BIGINT"])
    frame = read_results(spark, root, ddl, files).where(F.getbit(f"qs{word}", F.lit(bit)) == 1)
    frame = frame.where(F.col("epoch") >= max(entry.first_epoch, first_epoch or 0))
    if entry.last_epoch is not None:
        frame = frame.where(F.col("epoch") < int(entry.last_epoch))
    return frame


def _plain(
    spark: SparkSession, root: Path, query: Query, files: Sequence[ResultFile], first_epoch: int | None
) -> DataFrame:
    stored = [f"c{i} {column.type.ddl}" for i, column in enumerate(query.plan.columns)]
    frame = read_results(spark, root, ", ".join([*stored, "query BIGINT", "epoch BIGINT"]), files)
    if first_epoch is not None:
        frame = frame.where(F.col("epoch") >= first_epoch)
    return frame.where(F.col("query") == int(query.id))
