"""The Flink side of `flink.py`: runs in Flink's own virtual environment, on pyflink alone, and is told what to do.

It says `ready` when the JVM is up, takes the statements as a line of JSON, says `deployed`, then how many rows are done
and at the line `stop` ends the job and says `stopped`: lines of JSON on standard output. Flink, with all its tasks, is
in the JVM that pyflink starts.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

POLL_S = 0.02
CHECK_S = 1.0
TASKS = 2

PARALLELISM = "table.exec.resource.default-parallelism"
METRICS = "org.apache.flink.taskmanager.job.task.operator"
WRITER = "StreamingFileWriter"
SOURCE = "Source"
BEFORE_ALL = -(2**63)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def main(feed: Path, work: Path) -> None:
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm
    (work / "in").mkdir()
    say(ready=True)
    told = json.loads(sys.stdin.readline())
    for stream in told["streams"]:
        (work / "in" / stream).mkdir()
    job = Job(jvm, told)
    say(deployed=True)
    progress = [Progress(job, stream, feed / stream, work / "in" / stream) for stream in told["streams"]]
    checked = time.monotonic()
    while not select.select([sys.stdin], [], [], POLL_S)[0]:
        moved = [one.advance() for one in progress]
        if any(moved):
            say(done=len(progress) * min(one.done for one in progress))
        if time.monotonic() - checked > CHECK_S:
            job.check()
            checked = time.monotonic()
    if sys.stdin.readline():
        job.stop(work / "savepoint")
        say(stopped=True)


def say(**news: Any) -> None:
    print(json.dumps(news), flush=True)


class Job:
    """All queries as one Flink job, running when the constructor returns.

    One task reads a stream's files and tells the time; everything after it runs in two. SQL has no way to say so for
    files, so a table of files becomes a stream of Flink's internal rows, without conversion, and a table again.
    """

    def __init__(self, jvm: Any, told: dict[str, Any]) -> None:
        from pyflink.common import Configuration
        from pyflink.datastream import StreamExecutionEnvironment
        from pyflink.table import StreamTableEnvironment

        self._jvm = jvm
        settings = Configuration()
        for name, value in told["settings"].items():
            settings.set_string(name, value)
        tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(settings))
        for statement in told["tables"]:
            tables.execute_sql(statement)
        for stream, source in told["streams"].items():
            self._spread(tables, source, stream, told["event_time"])
        statements = tables.create_statement_set()
        for statement in told["inserts"]:
            statements.add_insert_sql(statement)
        self._client = statements.execute().get_job_client()
        management = self._jvm.java.lang.management.ManagementFactory
        self._beans = management.getPlatformMBeanServer()
        self._await_tasks(len(told["inserts"]), told["files"])

    def _spread(self, tables: Any, source: str, name: str, event_time: str) -> None:
        """Translate `source` into one task, and let `name` be its rows, which go to all tasks in turn."""
        tables.get_config().set(PARALLELISM, "1")
        table = tables.sql_query(source)._j_table
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        internal = loader.loadClass("org.apache.flink.table.data.RowData")
        schema = table.getResolvedSchema()
        stream = tables._j_tenv.toDataStream(table, schema.toSourceRowDataType().bridgedTo(internal))
        tables.get_config().set(PARALLELISM, str(TASKS))
        stream = stream.rebalance()
        stream.getTransformation().setParallelism(TASKS)  # what follows takes it from here
        builder = self._jvm.org.apache.flink.table.api.Schema.newBuilder()
        for column in schema.getColumns():
            kind = "TIMESTAMP(3)" if column.getName() == event_time else column.getDataType()
            builder = builder.column(column.getName(), kind)
        builder = builder.watermark(event_time, "SOURCE_WATERMARK()")
        tables._j_tenv.createTemporaryView(name, stream, builder.build())

    def _await_tasks(self, queries: int, files: dict[str, str]) -> None:
        while True:
            readers = self._named("numRecordsIn", SOURCE)
            self.writers = self._named("currentInputWatermark", WRITER)
            if len(readers) == len(files) and len(self.writers) == TASKS * queries:
                break
            self.check()
            time.sleep(10 * POLL_S)
        self._readers = {
            stream: next(r for r in readers if table in r.getKeyProperty("operator_name"))
            for stream, table in files.items()
        }

    def _named(self, metric: str, operator: str) -> list[Any]:
        pattern = self._jvm.javax.management.ObjectName(f"{METRICS}.{metric}:*")
        found = self._beans.queryNames(pattern, None)
        return [name for name in found if name.getKeyProperty("operator_name").startswith(operator)]

    def rows_read(self, stream: str) -> int:
        return int(self._beans.getAttribute(self._readers[stream], "Count"))

    def watermark(self, writer: Any) -> int:
        """Milliseconds since 1970: all windows that end by then are with the writer."""
        return int(self._beans.getAttribute(writer, "Value"))

    def check(self) -> None:
        """Raises what ended the job, if anything did."""
        if self._client.get_job_status().result().name in ("FAILED", "CANCELED", "FINISHED"):
            self._client.get_job_execution_result().result()
            raise RuntimeError("the job has ended by itself")

    def stop(self, savepoint: Path) -> None:
        """End the job with its files complete: a writer finishes them when Flink takes a savepoint."""
        formats = self._jvm.org.apache.flink.core.execution.SavepointFormatType
        stopped = self._client._j_job_client.stopWithSavepoint(False, savepoint.as_uri(), formats.NATIVE)
        stopped.get()


@dataclass(frozen=True)
class Fed:
    """A file before Flink: `rows` with those of all files before it, and the time of its last row."""

    rows: int
    last_ms: int


class Progress:
    """Lets Flink see one file of a stream at a time, and tells how far the slowest writer is.

    A file is shown to Flink when it has begun to read the one before: there is always one more to read, and never two
    to choose from. A file is done when all writers' watermarks have passed its last row's millisecond.
    """

    def __init__(self, job: Job, stream: str, feed: Path, shown: Path) -> None:
        self._job, self._stream, self._feed, self._shown = job, stream, feed, shown
        self._files: list[Fed] = []
        self._passed = 0
        self._at = [BEFORE_ALL] * len(job.writers)
        self.done = 0

    def advance(self) -> bool:
        """Whether `done` has changed."""
        self._show_next()
        before = self.done
        while self._passed < len(self._files):
            file = self._files[self._passed]
            lagging = self._lagging(file.last_ms - 1)
            if lagging is not None:
                break
            self._passed += 1
            self.done = file.rows
        return self.done > before

    def _lagging(self, target_ms: int) -> int | None:
        """A writer that is not there yet. Asks one after the other and stops at the first: asking costs Flink time."""
        for number, at in enumerate(self._at):
            if at < target_ms:
                self._at[number] = self._job.watermark(self._job.writers[number])
                if self._at[number] < target_ms:
                    return number
        return None

    def _show_next(self) -> None:
        begun = self._files[-2].rows if len(self._files) > 1 else 0
        if self._files and self._job.rows_read(self._stream) <= begun:
            return
        names = sorted(os.listdir(self._feed))
        if len(names) > len(self._files):
            name = names[len(self._files)]
            before = self._files[-1].rows if self._files else 0
            self._files.append(examine(self._feed / name, before))
            (self._shown / name).hardlink_to(self._feed / name)


def examine(path: Path, rows_before: int) -> Fed:
    """From a Parquet file's footer; its last column is the event time."""
    import pyarrow.parquet as pq

    footer = pq.read_metadata(path)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    last = max(group.column(footer.num_columns - 1).statistics.max for group in groups)
    return Fed(rows_before + footer.num_rows, (last - EPOCH) // timedelta(milliseconds=1))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:
        say(error=f"{type(error).__name__}: {error}")
        raise
