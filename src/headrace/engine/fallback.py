"""Queries that no shared operator covers: plain Spark over the log, for the windows that closed in an epoch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.engine.files import check_chunks
from headrace.engine.logview import LogIndex, log_frame
from headrace.engine.paths import RESULTS
from headrace.engine.records import ResultFile
from headrace.log.chunks import CODEC
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch
from headrace.model.query import Query, Stream, log_relation
from headrace.model.window import SessionWindow, Window
from headrace.sql.resolve.carried import carried
from headrace.storage import faults
from headrace.storage.checksums import written
from headrace.storage.private import create_file

REPORT = pa.schema([("report", pa.string())])
REPORT_DDL = "report string"


def run_log_sql(
    spark: SparkSession,
    root: Path,
    streams: Sequence[Stream],
    index: LogIndex,
    query: Query,
    epochs: tuple[int, int],
    ends: tuple[int, int],
    began: int = NEVER_US,
) -> DataFrame:
    """The query's rows by plain Spark over epochs [first, last), for windows that end in (after, until].

    `streams` are those of the query's plan, in its order. Of sessions only those that start after `began`; one may
    have started whenever, so that all epochs are read.
    """
    after, until = ends
    window = query.plan.window
    for number, stream in enumerate(streams):
        logged = index.chunks(stream.name, *epochs)
        if window is not None:
            oldest = NEVER_US
            if isinstance(window, Window) and after != NEVER_US:
                oldest = after - window.range_us
            logged = [
                item
                for item in logged
                if item.chunk.max_us is not None
                and item.chunk.min_us is not None
                and item.chunk.max_us > oldest
                and item.chunk.min_us <= until
            ]
        check_chunks(root, (item.chunk for item in logged))
        frame = log_frame(spark, root, stream, logged, query.plan.streams)
        frame.createOrReplaceTempView(log_relation(number))
    arguments = {} if window is None else {"after": after, "until": until}
    if isinstance(window, SessionWindow):
        arguments["began"] = began
    return spark.sql(query.plan.log_sql, args=arguments)


def run_fallback(
    spark: SparkSession,
    root: Path,
    streams: Sequence[Stream],
    index: LogIndex,
    query: Query,
    first_epoch: int,
    epoch: Epoch,
    signature: str,
    attempt: str,
) -> list[ResultFile]:
    """Write the rows the query gains in this epoch; raises Spark's exception when it fails."""
    closed_us = epoch.closed_us(query.plan.streams)
    watermark_us = epoch.watermark_us(query.plan.streams)
    if query.plan.window is None:
        epochs, ends = (int(epoch.id), epoch.id + 1), (NEVER_US, FOREVER_US)
        part = epoch.of(query.plan.stream)
        nothing = part is None or not part.chunks
    else:
        epochs, ends = (first_epoch, epoch.id + 1), (closed_us, watermark_us)
        nothing = watermark_us <= closed_us
    if nothing:
        return []
    frame = run_log_sql(spark, root, streams, index, query, epochs, ends)
    numbered = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    types = [column.type for column in query.plan.columns]
    numbered = numbered.selectExpr(*(f"{carried(f'c{i}', type_)} AS c{i}" for i, type_ in enumerate(types)))
    numbered = numbered.withColumns(
        {"query": F.lit(query.id).cast("bigint"), "epoch": F.lit(epoch.id).cast("bigint")}
    )
    latest = None if watermark_us in (FOREVER_US, NEVER_US) else watermark_us
    like = ResultFile(signature, "", 0, 0, epoch.id, epoch.id, query.id, query.id, latest)
    prefix = f"{RESULTS}/{signature}/e{epoch.id:012d}-q{query.id}-{attempt}"
    reports = numbered.mapInArrow(_writer(str(root), prefix, like), REPORT_DDL).collect()
    return [ResultFile(**json.loads(row["report"])) for row in reports]


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
    runs = ["query", "epoch"]
    return pq.ParquetWriter(path, schema, compression=CODEC, use_dictionary=runs, write_statistics=["query"])


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
