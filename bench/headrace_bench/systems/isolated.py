"""What people do today: every query is a Structured Streaming query of its own, all in one Spark application."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from headrace.engine.spark import start_session
from headrace_bench import astream
from headrace_bench.workload import Query

CORES = 2

SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": str(CORES),
    # for a local disk Hadoop starts a process (chmod, readlink) per file and its checksum; these start the fewest
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

POLL_S = 0.01
IDLE = {"Waiting for data to arrive", "Waiting for next trigger"}


class Failed(Exception):
    """A streaming query has ended by itself."""


@dataclass(slots=True)
class _Source:
    """How far a query is with one of its streams."""

    batches: int = 0
    rows: int = 0


class Isolated:
    """Each query reads all files itself, keeps its own state, and writes Parquet files of its own.

    A join is one of streams with watermarks, on the key and the window: so Spark forgets a window's tuples when it is
    closed. It writes a pair at once, and the sums of joined tuples when their window is closed.

    State is in Spark's default store, which was faster here than RocksDB with its changelog checkpoints.
    """

    name = "spark"
    ddl = astream.DDL

    def open(self, feed: Path, work: Path, streams: Sequence[str]) -> None:
        self._spark = start_session(f"local[{CORES}]", SETTINGS)
        self._feed, self._work, self._streams = feed, work, len(streams)
        self._footers: dict[str, int] = {}
        self._queries: list[StreamingQuery] = []
        self._schemas: list[StructType] = []
        for stream in streams:
            read = self._spark.readStream.schema(self.ddl).parquet(str(feed / stream))
            read.withWatermark(astream.EVENT_TIME, "0 seconds").createOrReplaceTempView(stream)

    def create(self, queries: Sequence[Query]) -> None:
        for number, query in enumerate(queries):
            # a pool each, or the first query's tasks all go before the second's
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"q{number}")
            asked = self._spark.sql(query.spark_sql())
            self._schemas.append(asked.schema)
            writer = asked.writeStream.format("parquet").outputMode("append")
            writer = writer.option("checkpointLocation", str(self._work / f"checkpoint-{number}"))
            self._queries.append(writer.start(str(self._output(number))))
        self._sources = [[_Source() for _ in query.streams] for query in queries]
        self._columns = [query.columns for query in queries]
        self._rows = [0] * len(queries)
        for started in self._queries:
            wait_for_first_poll(started)

    def done(self) -> int:
        """Asks the slowest query only, until that is one with no news: asking all would cost them time."""
        while True:
            slowest = min(range(len(self._rows)), key=self._rows.__getitem__)
            if not self._advance(slowest):
                raise_failure(self._queries[slowest])
                return self._rows[slowest]

    def stop(self) -> None:
        for query in self._queries:
            query.processAllAvailable()
            raise_failure(query)
        self._closed = [watermark_us(query) for query in self._queries]
        for query in self._queries:
            query.stop()
        self._moved = bytes_moved(self._spark)

    def rows(self, number: int) -> list[tuple[Any, ...]]:
        columns = ("unix_micros(`end`) AS `end`", *self._columns[number])
        found = self._written(number).selectExpr(*columns).toArrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def closed_us(self, number: int) -> int:
        """Up to which end a query's windows are closed.

        Spark moves a filter below the watermark. So only tuples that a query accepts tell it the time, and its last
        windows stay open until there is one behind their end. Without any tuple, nothing is closed.
        """
        return self._closed[number]

    def facts(self) -> dict[str, Any]:
        numbers = range(len(self._queries))
        return {
            "result_rows": sum(self._written(number).count() for number in numbers),
            "bytes_written": size_of(self._work),
            "versions": {"spark": pyspark.__version__},
            **self._moved,
        }

    def close(self) -> None:
        self._spark.stop()

    def _output(self, number: int) -> Path:
        return self._work / f"output-{number}"

    def _written(self, number: int) -> DataFrame:
        return self._spark.read.schema(self._schemas[number]).parquet(str(self._output(number)))

    def _advance(self, number: int) -> bool:
        """Whether the query has ended batches that were not known yet."""
        report = self._queries[number]._jsq.lastProgress()
        if not report:
            return False
        moved = False
        for place, source in enumerate(self._sources[number]):
            offset = report.sources()[place].endOffset()
            last = json.loads(offset)["logOffset"] if offset else -1
            for batch in range(source.batches, last + 1):
                source.rows += self._rows_of(number, place, batch)
                moved = True
            source.batches = last + 1
        self._rows[number] = self._streams * min(source.rows for source in self._sources[number])
        return moved

    def _rows_of(self, number: int, place: int, batch: int) -> int:
        """Tuples in a batch's files. Spark reports what it has read of them: less, where statistics rule some out."""
        log = self._work / f"checkpoint-{number}" / "sources" / str(place)
        path = log / str(batch)
        lines = (path if path.exists() else log / f"{batch}.compact").read_text().splitlines()[1:]
        entries = (json.loads(line) for line in lines)
        names = ("/".join(e["path"].split("/")[-2:]) for e in entries if e["batchId"] == batch)
        return sum(self._rows_in(name) for name in names)

    def _rows_in(self, name: str) -> int:
        if name not in self._footers:
            self._footers[name] = pq.read_metadata(self._feed / name).num_rows
        return self._footers[name]


def wait_for_first_poll(query: StreamingQuery) -> None:
    while query.status["message"] not in IDLE:
        raise_failure(query)
        time.sleep(POLL_S)


def raise_failure(query: StreamingQuery) -> None:
    if not query.isActive:
        raise Failed(str(query.exception() or "it has stopped"))


def watermark_us(query: StreamingQuery) -> int:
    """The time of a streaming query in its last batch; 1970 when it has seen no tuple."""
    report = query._jsq.lastProgress()
    told = report.eventTime().get("watermark") if report else None
    return 0 if told is None else int(datetime.fromisoformat(told).timestamp() * 1_000_000)


def bytes_moved(spark: SparkSession) -> dict[str, int]:
    """What all tasks of a local session have shuffled so far. Of what it reads, Spark misses Parquet's vectored I/O."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    found = [executors.apply(i) for i in range(executors.size())]
    return {"bytes_shuffled": sum(executor.totalShuffleWrite() for executor in found)}


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
