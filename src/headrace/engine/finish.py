"""Result rows finished into a query's columns with Spark SQL: for its view, and to find queries that cannot be.

Finishing runs when results are read, long after the epoch. What may raise (`Aggregation.fragile`) is tried on the
new rows before the epoch counts, so that a query that plain Spark would fail on is quarantined in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.engine.errors import query_caused, spark_reason
from headrace.engine.records import ResultFile
from headrace.log.ingest import literal_path
from headrace.model.query import Aggregation, Query, QueryId, Stream
from headrace.model.types import Kind
from headrace.planner.signatures import result_signature


def read_results(spark: SparkSession, root: Path, ddl: str, files: Iterable[ResultFile]) -> DataFrame:
    return spark.read.schema(ddl).parquet(*(literal_path(str(root / file.path)) for file in files))


def window_rows(
    spark: SparkSession, root: Path, stream: Stream, body: Aggregation, files: Iterable[ResultFile]
) -> DataFrame:
    """Unfinished rows `(query, window_end, k0.., a0.., window_start)`; right for queries with the window of `body`."""
    stored = ["query BIGINT", "window_end TIMESTAMP"]
    stored += [f"k{i} {key.type.name}" for i, key in enumerate(body.keys)]
    stored += [f"a{i} {aggregate.type.name}" for i, aggregate in enumerate(body.aggregates)]
    began = F.timestamp_micros(F.unix_micros("window_end") - F.lit(body.window.range_us))
    frame = read_results(spark, root, ", ".join(stored), files).withColumn("window_start", began)
    if stream.column(stream.event_time).type.kind is Kind.TIMESTAMP_NTZ:
        for name in ("window_start", "window_end"):
            frame = frame.withColumn(name, F.col(name).cast("timestamp_ntz"))
    return frame


def finish_rows(frame: DataFrame, body: Aggregation) -> DataFrame:
    """The rows HAVING accepts, with the query's columns as c0.."""
    if body.having is not None:
        frame = frame.where(F.expr(body.having))
    return frame.select(*(F.expr(text).alias(f"c{i}") for i, text in enumerate(body.finish)))


@dataclass(frozen=True, slots=True)
class _Finishing:
    """What queries that can be tried together have in common."""

    stream: str
    range_us: int
    signature: str
    finish: tuple[str, ...]
    having: str | None


def find_unfinishable(
    spark: SparkSession,
    root: Path,
    streams: dict[str, Stream],
    queries: Iterable[Query],
    files: Sequence[ResultFile],
) -> dict[int, str]:
    """Which fragile queries cannot be finished over these new files, and why. One small job per kind of finishing.

    Raises Spark's exception when it is not an expression that fails.
    """
    groups: dict[_Finishing, list[tuple[QueryId, Aggregation]]] = defaultdict(list)
    for query in queries:
        body = query.plan.body
        if isinstance(body, Aggregation) and body.fragile:
            signature = result_signature((k.type for k in body.keys), (a.type for a in body.aggregates))
            finishing = _Finishing(
                query.plan.stream, body.window.range_us, signature, body.finish, body.having
            )
            groups[finishing].append((query.id, body))
    broken: dict[int, str] = {}
    for finishing, members in groups.items():
        found = [file for file in files if file.signature == finishing.signature]
        ids = [id_ for id_, _ in members if any(file.min_query <= id_ <= file.max_query for file in found)]
        if ids:
            body = members[0][1]
            frame = window_rows(spark, root, streams[finishing.stream], body, found)
            broken |= _try(frame, body, ids)
    return broken


def _try(frame: DataFrame, body: Aggregation, ids: list[QueryId]) -> dict[int, str]:
    """The queries among `ids` that fail, found by halving."""
    mine = frame.where(F.col("query").isin([int(id_) for id_ in ids]))
    try:
        finish_rows(mine, body).write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not query_caused(error):
            raise
        if len(ids) == 1:
            return {int(ids[0]): spark_reason(error)}
        half = len(ids) // 2
        return _try(frame, body, ids[:half]) | _try(frame, body, ids[half:])
    return {}
