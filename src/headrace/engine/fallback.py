"""Queries that no shared operator covers: plain Spark over the log, for the windows that closed in an epoch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from headrace.catalog.queries import QueryEntry
from headrace.engine.files import check_chunks
from headrace.engine.logview import Logged, LogReader, LogSpan, log_frame
from headrace.engine.paths import RESULTS
from headrace.engine.records import ResultFile
from headrace.engine.result_files import parquet_options
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.query import Query, log_relation
from headrace.model.tables import PlainTable, numbered_column, numbered_columns
from headrace.model.window import AnyWindow, SessionWindow, Window
from headrace.sql.resolve.carried import carried
from headrace.storage import faults
from headrace.storage.checksums import written
from headrace.storage.private import create_file

REPORT = pa.schema([("report", pa.string())])
REPORT_DDL = "report string"


def run_log_sql(log: LogReader, query: Query, span: LogSpan) -> DataFrame:
    """The query's rows by plain Spark over a span of the log.

    A session may have started at any time, so all epochs of the span are read for sessions.
    """
    window = query.plan.window
    for number, name in enumerate(query.plan.streams):
        logged = _wanted(log.index.chunks(name, span.first, span.last), window, span)
        check_chunks(log.root, (item.chunk for item in logged))
        frame = log_frame(log.spark, log.root, log.streams[name], logged, query.plan.streams)
        frame.createOrReplaceTempView(log_relation(number))
    arguments = {} if window is None else {"after": span.after_us, "until": span.until_us}
    if isinstance(window, SessionWindow):
        arguments["began"] = span.began_us
    return log.spark.sql(query.plan.log_sql, args=arguments)


def _wanted(logged: list[Logged], window: AnyWindow | None, span: LogSpan) -> list[Logged]:
    """The chunks that may hold tuples of the span's windows; all chunks for a query without windows."""
    if window is None:
        return logged
    oldest = NEVER_US
    if isinstance(window, Window) and span.after_us != NEVER_US:
        oldest = span.after_us - window.range_us
    return [
        item
        for item in logged
        if item.chunk.max_us is not None
        and item.chunk.min_us is not None
        and item.chunk.max_us > oldest
        and item.chunk.min_us <= span.until_us
    ]


@dataclass(frozen=True, slots=True)
class PlainRun:
    """A query to be run by plain Spark for an epoch; its rows go to the table of `signature`.

    With `first`, the epoch is several that were gathered, from that one on.
    """

    entry: QueryEntry
    epoch: Epoch
    signature: str
    attempt: str
    first: int | None = None


def run_fallback(log: LogReader, asked: PlainRun) -> list[ResultFile]:
    """Write the rows the query gains; raises Spark's exception when it fails."""
    query, epoch, signature = asked.entry.query, asked.epoch, asked.signature
    closed_us = epoch.closed_us(query.plan.streams)
    watermark_us = epoch.watermark_us(query.plan.streams)
    if query.plan.window is None:
        first = int(epoch.id) if asked.first is None else asked.first
        span = LogSpan(first, epoch.id + 1)
        arrived = epoch.of(query.plan.stream)
        nothing = arrived is None or not arrived.chunks
    else:
        span = LogSpan(int(asked.entry.first_epoch or 0), epoch.id + 1, closed_us, watermark_us)
        nothing = watermark_us <= closed_us
    if nothing:
        return []
    rows = _stored(run_log_sql(log, query, span), query, epoch)
    latest = None if watermark_us in (FOREVER_US, NEVER_US) else watermark_us
    like = ResultFile(signature, "", 0, 0, epoch.id, epoch.id, query.id, query.id, latest)
    prefix = f"{RESULTS}/{signature}/e{epoch.id:012d}-q{query.id}-{asked.attempt}"
    reports = rows.mapInArrow(_writer(str(log.root), prefix, like), REPORT_DDL).collect()
    return [ResultFile(**json.loads(row["report"])) for row in reports]


def _stored(frame: DataFrame, query: Query, epoch: Epoch) -> DataFrame:
    """The rows of a query as its result table has them."""
    table = PlainTable(tuple(column.type for column in query.plan.columns))
    values = frame.toDF(*numbered_columns(len(frame.columns)))
    texts = [f"{carried(numbered_column(i), type_)}" for i, type_ in enumerate(table.types)]
    texts += [f"{query.id}L", f"{epoch.id}L"]
    return values.selectExpr(*texts).toDF(*table.names)


def _in_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times of day as Spark can read them back; it counts nanoseconds only in memory."""
    fields = [
        f.with_type(pa.time64("us")).remove_metadata() if f.type == pa.time64("ns") else f
        for f in batch.schema
    ]
    schema = pa.schema(fields)
    return batch if schema == batch.schema else batch.cast(schema)


def _open_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    create_file(path)
    return pq.ParquetWriter(path, schema, **parquet_options(schema))


def _writer(
    root: str, prefix: str, like: ResultFile
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Each task writes its rows, if any, to a file of its own and reports it."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        rel = f"{prefix}-{context.taskAttemptId() if context else 0}.parquet"
        path, rows, writer = Path(root, rel), 0, None
        for batch in map(_in_microseconds, batches):
            if batch.num_rows:
                writer = writer or _open_writer(path, batch.schema)
                writer.write_batch(batch)
                rows += batch.num_rows
        if writer is not None:
            writer.close()
            faults.reach_task("task.fallback")
            size, crc = written(path)
            fields = asdict(like) | {"path": rel, "rows": rows, "bytes": size, "checksum": crc}
            yield pa.RecordBatch.from_pydict({"report": [json.dumps(fields)]}, schema=REPORT)

    return write
