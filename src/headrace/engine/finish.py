"""Result rows finished into a query's columns with Spark SQL: for its view, and to find queries that cannot be.

Finishing runs when results are read, long after the epoch. What may raise (`Aggregation.fragile`) is tried on the
new rows before the epoch counts, so that a query that plain Spark would fail on is quarantined in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.catalog.queries import QueryEntry
from headrace.engine.errors import query_caused, spark_reason
from headrace.engine.joined import joined_rows
from headrace.engine.records import ResultFile
from headrace.log.sources import literal_path
from headrace.model.query import Aggregation, Join, JoinedRows, Query, Stream
from headrace.model.types import Kind
from headrace.model.window import SessionWindow, Window
from headrace.planner.shared import query_signature


def read_results(spark: SparkSession, root: Path, ddl: str, files: Iterable[ResultFile]) -> DataFrame:
    return spark.read.schema(ddl).parquet(*(literal_path(str(root / file.path)) for file in files))


def stored_rows(spark: SparkSession, root: Path, body: Aggregation, files: Iterable[ResultFile]) -> DataFrame:
    """Rows as they are stored: `(query, window_end, k0.., a0..)`, for sessions with `window_start`."""
    stored = ["query BIGINT", "window_end TIMESTAMP"]
    stored += ["window_start TIMESTAMP"] if isinstance(body.window, SessionWindow) else []
    stored += [f"k{i} {key.type.ddl}" for i, key in enumerate(body.keys)]
    stored += [f"a{i} {aggregate.type.ddl}" for i, aggregate in enumerate(body.aggregates)]
    return read_results(spark, root, ", ".join(stored), files)


def window_rows(
    spark: SparkSession, root: Path, stream: Stream, body: Aggregation, files: Iterable[ResultFile]
) -> DataFrame:
    """Unfinished rows `(query, window_end, k0.., a0.., window_start)`; right for queries with the window of `body`."""
    rows = stored_rows(spark, root, body, files)
    match body.window:
        case SessionWindow():
            return with_window(rows, "window_start", stream)
        case Window(range_us):
            return with_window(rows, _began(f"{range_us}L"), stream)


def _began(range_us: str) -> str:
    return f"timestamp_micros(unix_micros(window_end) - {range_us})"


def with_window(rows: DataFrame, began: str, stream: Stream) -> DataFrame:
    """Stored rows with `window_start`, and both edges of the type that the stream's event time has."""
    rows = rows.withColumn("window_start", F.expr(began))
    if stream.column(stream.event_time).type.kind is Kind.TIMESTAMP_NTZ:
        for name in ("window_start", "window_end"):
            rows = rows.withColumn(name, F.col(name).cast("timestamp_ntz"))
    return rows


def finish_rows(frame: DataFrame, body: Aggregation) -> DataFrame:
    """The rows HAVING accepts, with the query's columns as c0.."""
    if body.having is not None:
        frame = frame.where(F.expr(body.having))
    return frame.select(*(F.expr(text).alias(f"c{i}") for i, text in enumerate(body.finish)))


def find_unfinishable(
    spark: SparkSession,
    root: Path,
    streams: dict[str, Stream],
    entries: Iterable[QueryEntry],
    files: Sequence[ResultFile],
) -> dict[int, str]:
    """Which fragile queries cannot be finished over these new files, and why: one small job when all is well.

    Raises Spark's exception when it is not an expression that fails.
    """
    touched = [
        _Fragile(entry.query, body, entry.slot or 0)
        for entry in entries
        if (body := _fragile_body(entry.query)) is not None and _files_of(entry.query, files)
    ]
    return _try(spark, root, streams, touched, files) if touched else {}


@dataclass(frozen=True, slots=True)
class _Fragile:
    """A query whose rows may not be finishable, with what finishes them."""

    query: Query
    body: Aggregation | Join
    slot: int


def _fragile_body(query: Query) -> Aggregation | Join | None:
    match query.plan.body:
        case Join(then=Aggregation() as then) if then.fragile:
            return then
        case Join(then=JoinedRows(fragile=True)) as body:
            return body
        case Aggregation(fragile=True) as body:
            return body
    return None


def _files_of(query: Query, files: Iterable[ResultFile]) -> list[ResultFile]:
    signature = query_signature(query)
    return [f for f in files if f.signature == signature and f.min_query <= query.id <= f.max_query]


def _try(
    spark: SparkSession,
    root: Path,
    streams: dict[str, Stream],
    queries: Sequence[_Fragile],
    files: Sequence[ResultFile],
) -> dict[int, str]:
    """The queries that fail, found by halving."""
    tables: dict[tuple[str, str], list[_Fragile]] = defaultdict(list)
    finished: list[DataFrame] = []
    try:
        for one in queries:
            if isinstance(one.body, Join):
                mine = _files_of(one.query, files)
                finished.append(_finish_joined(spark, root, streams, one, mine))
            else:
                tables[query_signature(one.query), one.query.plan.stream].append(one)
        finished += [
            _finish_all(spark, root, streams[stream], members, [f for f in files if f.signature == signature])
            for (signature, stream), members in tables.items()
        ]
        reduce(DataFrame.unionAll, finished).write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not query_caused(error):
            raise
        if len(queries) == 1:
            return {int(queries[0].query.id): spark_reason(error)}
        half = len(queries) // 2
        left = _try(spark, root, streams, queries[:half], files)
        return left | _try(spark, root, streams, queries[half:], files)
    return {}


def _finish_all(
    spark: SparkSession, root: Path, stream: Stream, queries: Sequence[_Fragile], files: Sequence[ResultFile]
) -> DataFrame:
    """One number per row that cannot be had without finishing it: each row the way of its own query.

    CASE evaluates a branch only for the rows that take it, so a query meets its own expressions only.
    """
    ways: dict[str, list[int]] = defaultdict(list)
    ranges: dict[str, list[int]] = defaultdict(list)
    bodies = {int(one.query.id): body for one in queries if isinstance(body := one.body, Aggregation)}
    types = {int(one.query.id): [column.type.kind for column in one.query.plan.columns] for one in queries}
    for id_, body in bodies.items():
        finished = f"xxhash64({', '.join(map(_hashable, body.finish, types[id_]))})"
        ways[finished if body.having is None else f"CASE WHEN {body.having} THEN {finished} END"].append(id_)
        if isinstance(body.window, Window):
            ranges[f"{body.window.range_us}L"].append(id_)
    rows = stored_rows(spark, root, next(iter(bodies.values())), files)
    rows = rows.where(F.col("query").isin(list(bodies)))
    framed = with_window(rows, _began(_by_query(ranges)) if ranges else "window_start", stream)
    return framed.selectExpr(f"{_by_query(ways)} AS finished")


def _finish_joined(
    spark: SparkSession, root: Path, streams: dict[str, Stream], one: _Fragile, files: Sequence[ResultFile]
) -> DataFrame:
    """The same for one query over joined rows, in every window that holds them."""
    assert isinstance(one.body, Join) and isinstance(one.body.then, JoinedRows)
    kinds = [column.type.kind for column in one.query.plan.columns]
    rows = joined_rows(spark, root, streams, one.body, one.slot, files)
    return rows.selectExpr(f"xxhash64({', '.join(map(_hashable, one.body.then.finish, kinds))}) AS finished")


def _hashable(text: str, kind: Kind) -> str:
    """Maps and what holds them have no hash of their own."""
    return f"CAST(({text}) AS STRING)" if kind is Kind.NESTED else f"({text})"


def _by_query(cases: dict[str, list[int]]) -> str:
    """CASE that picks an expression by the row's query."""
    branches = (f"WHEN query IN ({', '.join(map(str, ids))}) THEN {text}" for text, ids in cases.items())
    return f"CASE {' '.join(branches)} END"
