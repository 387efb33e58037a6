"""append(): rows that a program holds become chunks and one arrival, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.log.arrivals import Arrivals, Batch
from headrace.log.chunks import DEFAULT_MAX_CHUNK_ROWS, cut, write_chunk
from headrace.log.convert import to_table
from headrace.model.epoch import Chunk
from headrace.model.errors import LogError
from headrace.model.query import Stream
from headrace.storage.interrupts import uninterrupted
from headrace.storage.warehouse import Warehouse


def append(
    warehouse: Warehouse,
    arrivals: Arrivals,
    stream: Stream,
    data: Any,
    *,
    max_chunk_rows: int = DEFAULT_MAX_CHUNK_ROWS,
) -> int:
    """Add rows to a stream's log durably; how many. LogError, and nothing changed, when one does not fit.

    Takes what `to_table` takes, and Spark DataFrames, whose rows never pass through this process.
    """
    if arrivals.closed(stream.name):
        raise LogError(
            "STREAM_CLOSED", f"stream `{stream.name}` is closed", hint="create another stream for more input"
        )
    if _is_spark(data):
        from headrace.log.spark_write import write_dataframe

        chunks: Sequence[Chunk] = write_dataframe(
            warehouse, data, stream, arrivals.next_number, max_chunk_rows
        )
    else:
        chunks = _write(warehouse, arrivals, stream, to_table(data, stream), max_chunk_rows)
    if not chunks:
        return 0
    with uninterrupted():
        arrive(warehouse, arrivals, stream, chunks)
    return sum(chunk.rows for chunk in chunks)


def arrive(
    warehouse: Warehouse,
    arrivals: Arrivals,
    stream: Stream,
    chunks: Sequence[Chunk],
    batch: Batch | None = None,
) -> None:
    """Let chunks count. When that fails they are removed, unless it failed after the arrival was written."""
    try:
        arrivals.add(stream.name, chunks, batch=batch)
    except BaseException:
        if not arrivals.recorded(chunks):
            discard(warehouse, chunks)
        raise


def discard(warehouse: Warehouse, chunks: Sequence[Chunk]) -> None:
    """Remove chunk files of ours that no arrival will name."""
    for chunk in chunks:
        if not chunk.path.startswith("/"):
            warehouse.delete(chunk.path)


def _write(
    warehouse: Warehouse, arrivals: Arrivals, stream: Stream, table: Any, max_chunk_rows: int
) -> list[Chunk]:
    directory, number = warehouse.stream_dir(stream.name), arrivals.next_number
    chunks: list[Chunk] = []
    try:
        for piece in cut(table, max_chunk_rows):
            chunks.append(write_chunk(warehouse.root, directory, piece, stream.event_time, number))
    except BaseException:
        discard(warehouse, chunks)
        raise
    return chunks


def _is_spark(data: Any) -> bool:
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "sparkSession")
