"""A query's rows without a Spark job, where nothing is left to compute: reading a few rows takes milliseconds.

Result files hold the rows of many queries, sorted by query where they were merged, in row groups with bounds. So most
row groups need not be looked at. Queries whose select list or HAVING computes something are finished by Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headrace.catalog.queries import QueryEntry
from headrace.engine.records import ResultFile
from headrace.engine.stored import shared_rows
from headrace.model.query import Aggregation, Fallback, Join, Projection
from headrace.model.tables import (
    EPOCH,
    QUERY,
    WINDOW_END,
    WINDOW_START,
    numbered_columns,
    output_column,
    table_of,
)
from headrace.model.types import Kind
from headrace.model.window import Window

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 4_000_000
"""Tables with more rows that may be the query's are left to Spark, which reads with all cores."""

_PLAIN = frozenset(
    {
        Kind.BOOLEAN,
        Kind.INTEGER,
        Kind.FLOATING,
        Kind.DECIMAL,
        Kind.STRING,
        Kind.DATE,
        Kind.TIMESTAMP,
        Kind.TIMESTAMP_NTZ,
    }
)


def direct_frame(root: Path, entry: QueryEntry, files: Sequence[ResultFile]) -> pd.DataFrame | None:
    """The query's rows and columns; None when Spark has to make them."""
    found = direct_rows(root, entry, files)
    return None if found is None else as_pandas(found, [column.name for column in entry.query.plan.columns])


def direct_rows(root: Path, entry: QueryEntry, files: Sequence[ResultFile]) -> pa.Table | None:
    """The query's rows with its columns as c0..; None when Spark has to make them."""
    plan = entry.query.plan
    if any(column.type.kind not in _PLAIN for column in plan.columns):
        return None
    if not files:
        return pa.table(
            [pa.array([], column.type.arrow) for column in plan.columns],
            names=numbered_columns(len(plan.columns)),
        )
    try:
        match plan.body:
            case (Aggregation() as body) | Join(then=Aggregation() as body):
                return _windows(root, entry, body, files)
            case Projection() as body:
                return _tuples(root, entry, body, files)
            case Fallback():
                return _of_query(root, entry, numbered_columns(len(plan.columns)), files)
            case Join():
                return None  # its rows have to be put into windows
            case never:
                assert_never(never)
    except (OSError, pa.ArrowException, KeyError):
        return None  # a file from before there were checksums that is damaged: Spark says what is wrong


def as_pandas(table: pa.Table, names: Sequence[str]) -> pd.DataFrame:
    """The rows as Spark's own `toPandas` gives them: moments in nanoseconds, or in microseconds since pandas 3.

    Where a moment does not fit into nanoseconds, they are microseconds with every pandas; Spark would fail.
    """
    import pandas as pd

    columns = [_moments(column) for column in table.columns]
    plain = pa.table(columns, names=numbered_columns(len(columns)))
    nanoseconds = int(pd.__version__.partition(".")[0]) < 3
    try:
        found = plain.to_pandas(coerce_temporal_nanoseconds=nanoseconds, date_as_object=True)
    except pa.ArrowInvalid:
        found = plain.to_pandas(date_as_object=True)
    found.columns = list(names)
    return found


def _moments(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column


def _windows(
    root: Path, entry: QueryEntry, body: Aggregation, files: Sequence[ResultFile]
) -> pa.Table | None:
    stored = {*table_of(body).names} - {QUERY}
    if body.having is not None or not stored | {WINDOW_START} >= {*body.finish}:
        return None
    wanted = [text if text in stored else WINDOW_END for text in body.finish]
    found = _of_query(root, entry, list(dict.fromkeys(wanted)), files)
    if found is None:
        return None
    columns = [found.column(name) for name in wanted]
    for i, text in enumerate(body.finish):
        if text not in stored and isinstance(body.window, Window):
            micros = pc.subtract(columns[i].cast(pa.int64()), body.window.range_us)
            columns[i] = micros.cast(pa.timestamp("us"))
    return pa.table(columns, names=numbered_columns(len(columns)))


def _tuples(root: Path, entry: QueryEntry, body: Projection, files: Sequence[ResultFile]) -> pa.Table | None:
    if entry.slot is None or entry.first_epoch is None or sum(file.rows for file in files) > MAX_ROWS:
        return None
    names = [output_column(output) for output in body.outputs]
    kept = list(dict.fromkeys(names))
    pieces = [
        table.select(kept).filter(pa.array(mine)) for table, mine in _accepted(root, entry, kept, files)
    ]
    if not pieces:
        return None
    rows = pa.concat_tables(pieces, promote_options="default")
    return pa.table([rows.column(name) for name in names], names=numbered_columns(len(names)))


def count_tuples(root: Path, entry: QueryEntry, files: Sequence[ResultFile]) -> int:
    """How many tuples of a projection its files hold."""
    return sum(int(mine.sum()) for _, mine in _accepted(root, entry, [], files))


def _accepted(
    root: Path, entry: QueryEntry, names: Sequence[str], files: Sequence[ResultFile]
) -> Iterator[tuple[pa.Table, NDArray[np.bool_]]]:
    """(columns of a file, which of its rows are the query's)."""
    mine = shared_rows(entry)
    needed = (EPOCH, mine.set_column)
    for file in files:
        if mine.set_column not in pq.read_schema(root / file.path).names:
            continue  # written when there were fewer slots
        table = pq.read_table(root / file.path, columns=[*names, *needed])
        # rows that were merged from a file with fewer slots have NULL query-sets
        columns = {name: table.column(name).fill_null(0).to_numpy() for name in needed}
        yield table, mine.among(columns)


def _of_query(
    root: Path, entry: QueryEntry, names: list[str], files: Sequence[ResultFile]
) -> pa.Table | None:
    """Columns of the rows of one query; None when there is too much to look through."""
    query, looked = int(entry.query.id), 0
    pieces: list[pa.Table] = []
    for path in (root / file.path for file in files):
        with pq.ParquetFile(path, memory_map=True) as file:
            groups = _groups(file.metadata, query)
            looked += sum(file.metadata.row_group(i).num_rows for i in groups)
            if looked > MAX_ROWS:
                return None
            table = file.read_row_groups(groups, columns=[QUERY, *names], use_threads=False)
        pieces.append(table.filter(pc.equal(table.column(QUERY), query)).select(names))
    return pa.concat_tables(pieces, promote_options="default") if pieces else None


def _groups(metadata: pq.FileMetaData, query: int) -> list[int]:
    """The row groups that may hold rows of a query."""
    index = next(i for i in range(metadata.num_columns) if metadata.schema.column(i).path == QUERY)
    found = []
    for number in range(metadata.num_row_groups):
        bounds = metadata.row_group(number).column(index).statistics
        if bounds is None or not bounds.has_min_max or bounds.min <= query <= bounds.max:
            found.append(number)
    return found
