"""Result rows finished into a query's columns with Spark SQL: for its view, and to find queries that cannot be.

Finishing runs when results are read, long after the epoch. What may raise (`Aggregation.fragile`) is tried on the
new rows before the epoch counts, so that a query that plain Spark would fail on is quarantined in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import assert_never

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.catalog.queries import QueryEntry
from headrace.engine.errors import file_caused, query_caused, spark_reason
from headrace.engine.files import check_results
from headrace.engine.joined import ALL_ENDS, finish_joined, joined_rows
from headrace.engine.records import ResultFile
from headrace.engine.stored import ResultReader
from headrace.model.epoch import Epoch
from headrace.model.errors import StorageError
from headrace.model.query import Aggregation, Join, JoinedRows, Query, Stream
from headrace.model.tables import (
    QUERY,
    WINDOW_END,
    WINDOW_START,
    NamedRows,
    numbered_column,
    numbered_columns,
    table_of,
)
from headrace.model.types import Kind
from headrace.model.window import SessionWindow, Window
from headrace.planner.shared import query_signature


def window_rows(
    reader: ResultReader, query: Query, body: Aggregation, files: Iterable[ResultFile]
) -> DataFrame:
    """Unfinished rows `(query, window_end, k0.., a0.., window_start)` of a query, whose aggregation is `body`."""
    rows = reader.rows(table_of(body), files).where(NamedRows(int(query.id)).sql)
    stream = reader.streams[query.plan.stream]
    match body.window:
        case SessionWindow():
            return with_window(rows, WINDOW_START, stream)
        case Window(range_us):
            return with_window(rows, _began(f"{range_us}L"), stream)
        case never:
            assert_never(never)


def _began(range_us: str) -> str:
    return f"timestamp_micros(unix_micros({WINDOW_END}) - {range_us})"


def with_window(rows: DataFrame, began: str, stream: Stream) -> DataFrame:
    """Stored rows with `window_start`, and both edges of the type that the stream's event time has."""
    rows = rows.withColumn(WINDOW_START, F.expr(began))
    if stream.column(stream.event_time).type.kind is Kind.TIMESTAMP_NTZ:
        for name in (WINDOW_START, WINDOW_END):
            rows = rows.withColumn(name, F.col(name).cast("timestamp_ntz"))
    return rows


def finish_rows(frame: DataFrame, body: Aggregation) -> DataFrame:
    """The rows HAVING accepts, with the query's columns as c0.."""
    if body.having is not None:
        frame = frame.where(F.expr(body.having))
    return frame.select(*(F.expr(text).alias(numbered_column(i)) for i, text in enumerate(body.finish)))


def accepted_rows(
    reader: ResultReader, stream: str, bodies: dict[int, Aggregation], files: Sequence[ResultFile]
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
    rows = reader.rows(table_of(next(iter(bodies.values()))), files)
    rows = rows.withColumn("file", F.col("_metadata.file_name")).where(F.col(QUERY).isin(list(bodies)))
    began = _began(_by_query(ranges)) if ranges else WINDOW_START
    framed = with_window(rows, began, reader.streams[stream])
    return framed.groupBy("file", QUERY).agg(F.count_if(F.expr(_by_query(ways))).alias("n"))


def find_unfinishable(
    reader: ResultReader,
    entries: Iterable[QueryEntry],
    epoch: Epoch,
    files: Sequence[ResultFile],
    older: Callable[[QueryEntry], Sequence[ResultFile]],
) -> dict[int, str]:
    """Which fragile queries cannot be finished over an epoch's new files, and why: one small job when all is well.

    Groups of joined rows are tried when their windows close, with what `older` files of a query hold of them. Raises
    Spark's exception when it is not an expression that fails.
    """
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
                check_results(reader.root, one.files)
            except StorageError as error:
                broken[one.id] = f"{error.code}: {error.message}"
                continue
        if one.files:
            touched.append(one)
    return broken | (_try(reader, touched) if touched else {})


@dataclass(frozen=True, slots=True)
class _Fragile:
    """A query whose rows may not be finishable: the files that hold them, and the windows of joined ones."""

    entry: QueryEntry
    body: Aggregation | None
    files: list[ResultFile]
    ends: tuple[int, int] = ALL_ENDS

    @property
    def id(self) -> int:
        return int(self.entry.query.id)

    @property
    def reads_again(self) -> bool:
        """Whether files of older epochs are among its files."""
        return self.ends != ALL_ENDS


def _fragile_join(
    entry: QueryEntry,
    epoch: Epoch,
    files: Sequence[ResultFile],
    older: Callable[[QueryEntry], Sequence[ResultFile]],
    *,
    grouped: bool,
) -> _Fragile:
    if not grouped:
        return _Fragile(entry, None, _files_of(entry, files))
    streams = entry.query.plan.streams
    closed_us, watermark_us = epoch.closed_us(streams), epoch.watermark_us(streams)
    if watermark_us <= closed_us:
        return _Fragile(entry, None, [])
    held = [f for f in _files_of(entry, [*older(entry), *files]) if f.max_us is None or f.max_us > closed_us]
    return _Fragile(entry, None, held, (closed_us, watermark_us))


def _files_of(entry: QueryEntry, files: Iterable[ResultFile]) -> list[ResultFile]:
    query, signature = entry.query, query_signature(entry.query)
    return [f for f in files if f.signature == signature and f.min_query <= query.id <= f.max_query]


def _try(reader: ResultReader, queries: Sequence[_Fragile]) -> dict[int, str]:
    """The queries that fail, found by halving."""
    tables: dict[tuple[str, str], list[_Fragile]] = defaultdict(list)
    finished: list[DataFrame] = []
    try:
        for one in queries:
            if one.body is None:
                finished.append(_finish_joined(reader, one))
            else:
                query = one.entry.query
                tables[query_signature(query), query.plan.stream].append(one)
        finished += [_finish_all(reader, stream, some) for (_, stream), some in tables.items()]
        reduce(DataFrame.unionAll, finished).write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not query_caused(error) and not file_caused(error):
            raise
        if len(queries) == 1:
            if file_caused(error) and not queries[0].reads_again:
                raise
            return {queries[0].id: spark_reason(error)}
        half = len(queries) // 2
        return _try(reader, queries[:half]) | _try(reader, queries[half:])
    return {}


def _finish_all(reader: ResultReader, stream: str, queries: Sequence[_Fragile]) -> DataFrame:
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
    files = {file.path: file for one in queries for file in one.files}.values()
    rows = reader.rows(table_of(next(iter(bodies.values()))), files)
    rows = rows.where(F.col(QUERY).isin(list(bodies)))
    began = _began(_by_query(ranges)) if ranges else WINDOW_START
    framed = with_window(rows, began, reader.streams[stream])
    return framed.selectExpr(f"{_by_query(ways)} AS finished")


def _finish_joined(reader: ResultReader, one: _Fragile) -> DataFrame:
    """The same for one query over joined rows, in every window that holds them."""
    plan = one.entry.query.plan
    assert isinstance(plan.body, Join)
    rows = finish_joined(joined_rows(reader, one.entry, one.files, one.ends), plan.body)
    names, kinds = numbered_columns(len(plan.columns)), (column.type.kind for column in plan.columns)
    hashed = map(_hashable, names, kinds)
    return rows.selectExpr(f"xxhash64({', '.join(hashed)}) AS finished")


def _hashable(text: str, kind: Kind) -> str:
    """Maps and what holds them have no hash of their own."""
    return f"CAST(({text}) AS STRING)" if kind is Kind.NESTED else f"({text})"


def _by_query(cases: dict[str, list[int]]) -> str:
    """CASE that picks an expression by the row's query."""
    branches = (f"WHEN {QUERY} IN ({', '.join(map(str, ids))}) THEN {text}" for text, ids in cases.items())
    return f"CASE {' '.join(branches)} END"
