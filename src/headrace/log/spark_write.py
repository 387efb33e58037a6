"""Spark DataFrames into the log: every task writes its own rows as chunks, through the same checks as
append().
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.log.chunks import DEFAULT_MAX_CHUNK_ROWS, write_chunk
from headrace.log.convert import castable, check_names, to_table
from headrace.log.sources import CORRUPT_COLUMN
from headrace.model.epoch import Chunk
from headrace.model.errors import LogError
from headrace.model.query import Stream
from headrace.model.types import Kind, SqlType
from headrace.sql.resolve.carried import carried
from headrace.sql.text.names import quote_name
from headrace.storage.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPORT = "part int, number int, chunk string, error string"
_MAX_BUFFERED_BYTES = 256 * 1024 * 1024


def write_dataframe(
    warehouse: Warehouse,
    frame: DataFrame,
    stream: Stream,
    arrival: int,
    max_chunk_rows: int = DEFAULT_MAX_CHUNK_ROWS,
) -> tuple[Chunk, ...]:
    """Write a batch DataFrame as chunks, in the order of its partitions; one Spark job. No arrival is
    recorded. Records that Spark could not read are counted when `frame` has CORRUPT_COLUMN.

    LogError when a column or value does not fit; then no chunk is left behind.
    """
    counted = CORRUPT_COLUMN in frame.columns
    check_frame(frame.drop(CORRUPT_COLUMN) if counted else frame, stream)
    if frame.isStreaming:
        raise LogError(
            "APPEND_STREAMING",
            f"cannot append a streaming DataFrame to stream `{stream.name}`",
            hint="pass it as the source of create_stream",
        )
    writer = _writer(str(warehouse.root), warehouse.stream_dir(stream.name), stream, arrival, max_chunk_rows)
    found = {field.name: SqlType(field.dataType.simpleString()) for field in frame.schema.fields}
    columns = [carried(quote_name(column.name), found[column.name]) for column in stream.columns]
    if counted:
        columns.append(f"{CORRUPT_COLUMN} IS NOT NULL")
    # mapInArrow looks its columns up by name, and takes dots and backticks in a name for syntax
    numbered = frame.selectExpr(*columns).toDF(*(f"c{i}" for i in range(len(columns))))
    try:
        reports = numbered.mapInArrow(writer, _REPORT).collect()
    except Exception as error:
        raise spark_error(error, f"cannot write to the log of stream `{stream.name}`") from error
    reports.sort(key=lambda row: (row.part, row.number))
    chunks = tuple(Chunk(**json.loads(row.chunk)) for row in reports if row.chunk)
    failure = next((json.loads(row.error) for row in reports if row.error), None)
    if failure is not None:
        for chunk in chunks:
            warehouse.delete(chunk.path)
        where = "rows are counted within one Arrow batch of one Spark partition"
        detail = where if failure["code"].startswith("APPEND") else failure["detail"]
        raise LogError(failure["code"], failure["message"], detail=detail, hint=failure["hint"])
    return chunks


def check_frame(frame: DataFrame, stream: Stream) -> None:
    """Refuse a DataFrame whose columns or types cannot fit the stream, before any row is looked at."""
    check_names(frame.columns, stream)
    for field in frame.schema.fields:
        declared = stream.column(field.name).type
        found = field.dataType.simpleString()
        try:
            fits = castable(SqlType(found).arrow, declared.arrow)
        except TypeError:
            fits = False
        fits = fits and (SqlType(found).kind is not Kind.MONTHS or declared.kind is Kind.MONTHS)
        if not fits:
            wanted = declared.name.upper()
            raise LogError(
                "APPEND_VALUE",
                f"column `{field.name}` is {found.upper()}; stream `{stream.name}` has {wanted}",
                hint=f"cast it: CAST(`{field.name}` AS {wanted})",
            )


_UNREADABLE = re.compile(r"\[FAILED_READ_FILE[A-Z_.]*\]")


def spark_error(error: Exception, what: str) -> LogError:
    """A Spark exception as ours: the line that tells what happened is the detail, the rest stays the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]  # Py4J's own line; the exception follows
    detail = lines[0].lstrip(": ")[:500] if lines else repr(error)
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    condition = _UNREADABLE.search(detail)
    if causes and condition:  # the line says no more than that
        detail = f"{_short(causes[-1])} {condition.group()}"
    return LogError("SPARK_FAILED", what, detail=detail)


def _short(cause: str) -> str:
    """The last of Java's causes, without the package of its class.

    >>> _short("java.util.zip.ZipException: Not in GZIP format")
    'ZipException: Not in GZIP format'
    """
    name, colon, text = cause.partition(": ")
    return f"{name.rpartition('.')[2]}{colon}{text}"[:300]


def job_cancelled(error: object) -> bool:
    """Whether an exception, ours or Spark's, says that somebody cancelled the job."""
    return "[SPARK_JOB_CANCELLED]" in str(error)


def _writer(
    root: str, directory: str, stream: Stream, arrival: int, max_chunk_rows: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task: Arrow batches in, one report per chunk out. A misfit is reported, not raised: retries are
    vain.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        names, corrupt = [column.name for column in stream.columns], 0

        def named() -> Iterator[pa.RecordBatch]:
            nonlocal corrupt
            for batch in batches:
                if batch.num_columns > len(names):
                    corrupt += batch.column(len(names)).true_count
                    batch = batch.select(range(len(names)))
                yield batch.rename_columns(names)

        try:
            for number, table in enumerate(gather(named(), stream, max_chunk_rows)):
                chunk = write_chunk(root, directory, table, stream.event_time, arrival)
                chunk, corrupt = dataclasses.replace(chunk, corrupt=corrupt), 0
                yield _report(part, number, chunk=dataclasses.asdict(chunk))
        except LogError as error:
            fields = ("code", "message", "detail", "hint")
            failure = {name: getattr(error, name) for name in fields}
            yield _report(part, -1, error=failure)

    return write


def gather(batches: Iterator[pa.RecordBatch], stream: Stream, max_rows: int) -> Iterator[pa.Table]:
    """Batches put together into tables of at most `max_rows` rows, and of bounded size."""
    held: list[pa.Table] = []
    rows = size = 0
    for batch in batches:
        table = to_table(batch, stream)
        while table.num_rows:
            piece = table.slice(0, max_rows - rows)
            table = table.slice(piece.num_rows)
            held.append(piece)
            rows, size = rows + piece.num_rows, size + piece.nbytes
            if rows >= max_rows or size >= _MAX_BUFFERED_BYTES:
                yield pa.concat_tables(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.concat_tables(held)


def _report(part: int, number: int, *, chunk: Any = None, error: Any = None) -> pa.RecordBatch:
    texts = [json.dumps(value) if value is not None else None for value in (chunk, error)]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([part], pa.int32()),
            pa.array([number], pa.int32()),
            pa.array([texts[0]], pa.string()),
            pa.array([texts[1]], pa.string()),
        ],
        names=["part", "number", "chunk", "error"],
    )
