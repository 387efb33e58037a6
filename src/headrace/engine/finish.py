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
from headrace.engine.errors import file_caused, query_caused, spark_reason
from headrace.engine.files import check_results
from headrace.engine.joined import finish_joined, joined_rows
from headrace.engine.records import ResultFile
from headrace.engine.stored import read_results
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.errors import StorageError
from headrace.model.query import Aggregation, Join, JoinedRows, Stream
from headrace.model.types import Kind
from headrace.model.window import SessionWindow, Window
from headrace.planner.shared import query_signature


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


def accepted_rows(
    spark: SparkSession,
    root: Path,
    stream: Stream,
    bodies: dict[int, Aggregation],
    files: Sequence[ResultFile],
) -> DataFrame:
    """`(file, query, n)`: how many rows of each file, by name, the HAVING of their own query accepts.

    The queries are by id; they have one table, and windows over one stream.
    """
    ways: dict[str, list[int]] = defaultdict(list)
    ranges: dict[str, list[int]] = defaultdict(list)
    for id_, body in bodies.items():
        ways["true" if body.having is None else body.having].append(id_)
        if isinstance(body.window, Window):
            ranges[f"{body.window.range_us}L"].append(id_)
    rows = stored_rows(spark, root, next(iter(bodies.values())), files)
    rows = rows.withColumn("file", F.col("_metadata.file_name")).where(F.col("query").isin(list(bodies)))
    framed = with_window(rows, _began(_by_query(ranges)) if ranges else "window_start", stream)
    return framed.groupBy("file", "query").agg(F.count_if(F.expr(_by_query(ways))).alias("n"))


def find_unfinishable(
    spark: SparkSession,
    root: Path,
    streams: dict[str, Stream],
    entries: Iterable[QueryEntry],
    epoch: Epoch,
    files: Sequence[ResultFile],
    older: Sequence[ResultFile],
) -> dict[int, str]:
    """Which fragile queries cannot be finished over an epoch's new files, and why: one small job when all is well.

    Groups of joined rows are tried when their windows close, with what `older` files hold of them. Raises Spark's
    exception when it is not an expression that fails.
    """
    new = _Results(spark, root, streams, files)
    touched, broken = [], {}
    for entry in entries:
        match entry.query.plan.body:
            case Join(then=JoinedRows(fragile=True, groups=groups)):
                one = _fragile_join(entry, epoch, files, older, grouped=groups is not None)
            case (Aggregation(fragile=True) as body) | Join(then=Aggregation(fragile=True) as body):
                one = _Fragile(entry, body, _files_of(entry, files))
            case _:
                continue
        if one.reads_again:
            try:
                check_results(root, one.files)
            except StorageError as error:
                broken[one.id] = f"{error.code}: {error.message}"
                continue
        if one.files:
            touched.append(one)
    return broken | (_try(new, touched) if touched else {})


@dataclass(frozen=True, slots=True)
class _Results:
    """The new result files of an epoch, and what reads them."""

    spark: SparkSession
    root: Path
    streams: dict[str, Stream]
    files: Sequence[ResultFile]


@dataclass(frozen=True, slots=True)
class _Fragile:
    """A query whose rows may not be finishable: the files that hold them, and the windows of joined ones."""

    entry: QueryEntry
    body: Aggregation | None
    files: list[ResultFile]
    ends: tuple[int, int] = (NEVER_US, FOREVER_US)

    @property
    def id(self) -> int:
        return int(self.entry.query.id)

    @property
    def reads_again(self) -> bool:
        """Whether files of older epochs are among its files."""
        return self.ends != (NEVER_US, FOREVER_US)


def _fragile_join(
    entry: QueryEntry,
    epoch: Epoch,
    files: Sequence[ResultFile],
    older: Sequence[ResultFile],
    *,
    grouped: bool,
) -> _Fragile:
    if not grouped:
        return _Fragile(entry, None, _files_of(entry, files))
    streams = entry.query.plan.streams
    closed_us, watermark_us = epoch.closed_us(streams), epoch.watermark_us(streams)
    if watermark_us <= closed_us:
        return _Fragile(entry, None, [])
    held = [f for f in _files_of(entry, [*older, *files]) if f.max_us is None or f.max_us > closed_us]
    return _Fragile(entry, None, held, (closed_us, watermark_us))


def _files_of(entry: QueryEntry, files: Iterable[ResultFile]) -> list[ResultFile]:
    query, signature = entry.query, query_signature(entry.query)
    return [f for f in files if f.signature == signature and f.min_query <= query.id <= f.max_query]


def _try(new: _Results, queries: Sequence[_Fragile]) -> dict[int, str]:
    """The queries that fail, found by halving."""
    tables: dict[tuple[str, str], list[_Fragile]] = defaultdict(list)
    finished: list[DataFrame] = []
    try:
        for one in queries:
            if one.body is None:
                finished.append(_finish_joined(new, one))
            else:
                query = one.entry.query
                tables[query_signature(query), query.plan.stream].append(one)
        finished += [_finish_all(new, table, stream, members) for (table, stream), members in tables.items()]
        reduce(DataFrame.unionAll, finished).write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not query_caused(error) and not file_caused(error):
            raise
        if len(queries) == 1:
            if file_caused(error) and not queries[0].reads_again:
                raise
            return {queries[0].id: spark_reason(error)}
        half = len(queries) // 2
        return _try(new, queries[:half]) | _try(new, queries[half:])
    return {}


def _finish_all(new: _Results, signature: str, stream: str, queries: Sequence[_Fragile]) -> DataFrame:
    """One number per row that cannot be had without finishing it: each row the way of its own query.

    CASE evaluates a branch only for the rows that take it, so a query meets its own expressions only.
    """
    ways: dict[str, list[int]] = defaultdict(list)
    ranges: dict[str, list[int]] = defaultdict(list)
    bodies = {one.id: one.body for one in queries if one.body is not None}
    types = {one.id: [column.type.kind for column in one.entry.query.plan.columns] for one in queries}
    for id_, body in bodies.items():
        finished = f"xxhash64({', '.join(map(_hashable, body.finish, types[id_]))})"
        ways[finished if body.having is None else f"CASE WHEN {body.having} THEN {finished} END"].append(id_)
        if isinstance(body.window, Window):
            ranges[f"{body.window.range_us}L"].append(id_)
    files = [file for file in new.files if file.signature == signature]
    rows = stored_rows(new.spark, new.root, next(iter(bodies.values())), files)
    rows = rows.where(F.col("query").isin(list(bodies)))
    framed = with_window(rows, _began(_by_query(ranges)) if ranges else "window_start", new.streams[stream])
    return framed.selectExpr(f"{_by_query(ways)} AS finished")


def _finish_joined(new: _Results, one: _Fragile) -> DataFrame:
    """The same for one query over joined rows, in every window that holds them."""
    plan = one.entry.query.plan
    assert isinstance(plan.body, Join)
    rows = finish_joined(
        joined_rows(new.spark, new.root, new.streams, one.entry, one.files, *one.ends), plan.body
    )
    hashed = (_hashable(f"c{i}", column.type.kind) for i, column in enumerate(plan.columns))
    return rows.selectExpr(f"xxhash64({', '.join(hashed)}) AS finished")


def _hashable(text: str, kind: Kind) -> str:
    """Maps and what holds them have no hash of their own."""
    return f"CAST(({text}) AS STRING)" if kind is Kind.NESTED else f"({text})"


def _by_query(cases: dict[str, list[int]]) -> str:
    """CASE that picks an expression by the row's query."""
    branches = (f"WHEN query IN ({', '.join(map(str, ids))}) THEN {text}" for text, ids in cases.items())
    return f"CASE {' '.join(branches)} END"
