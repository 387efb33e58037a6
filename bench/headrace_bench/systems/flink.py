"""Flink SQL: all queries in one STATEMENT SET, one job of a Flink that has a virtual environment of its own.

How the same rows come out, and what was done for Flink's sake:

* Flink reads the same Parquet files. Its Parquet format comes from Maven Central, the Hadoop classes that it needs are
  those that come with pyspark. `ts` has microseconds, a time attribute of Flink's has milliseconds: it is cut, which
  moves no row to another window of whole seconds. 50 rows share a millisecond, so the watermark is one behind `ts`.
* Flink hands out files that it finds together in no order, and a late row is dropped. So there is one reader, and it
  gets to see the next file when it has begun the one before: it never waits for a file and never has a choice. It
  assigns the watermark; its rows then go in turn to two tasks that do all the rest. With two readers one without a file
  holds the watermark back, and declaring it idle makes rows late when it is only slow.
* A HOP table function whose range is not a multiple of its slide is refused. Such a query aggregates slices, as long as
  the greatest common divisor, by TUMBLE, and these by the older HOP group window, which takes any slide. That was
  faster than the group window over all rows. TUMBLE and HOP aggregate before the shuffle and after it.
* A join is a window join: of HOP or TUMBLE on both sides, with the predicates before it. Where HOP refuses a slide, it
  gets the greatest common divisor, and windows that are not the query's are left out before the join. Every stream has
  a reader of its own.
* The job runs from the first file to the last, so state spans warm-up and measurement. A file is done when every
  writer's watermark has passed it: its results are written, though to files that are open until the job stops.
* There are no checkpoints, state is on the heap, objects are reused, and the files are read once for all queries.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyspark

from headrace_bench import astream
from headrace_bench.systems.flink_install import (
    INSTALLED,
    JARS,
    FlinkError,
    install_flink,
    pyflink_of,
    python_of,
)
from headrace_bench.systems.flink_sql import (
    files_of,
    render_files,
    render_query,
    render_results,
    render_stream,
)
from headrace_bench.workload import Query

HEAP = "3g"
DEPLOY_S = 1_800.0
END_S = 60.0

JOB = Path(__file__).with_name("flink_job.py")
HADOOP_JARS = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "zstd-jni-*.jar")
EXPORTS = "--add-exports=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED"

LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.file.ref = file
appender.file.name = file
appender.file.type = File
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %-5p %c - %m%n
"""


class Flink:
    """Every query is an INSERT into Parquet files of its own; all are planned and run as one job."""

    name = "flink"
    ddl = astream.DDL

    def open(self, feed: Path, work: Path, streams: Sequence[str]) -> None:
        self._work, self._streams = work, tuple(streams)
        self._venv = install_flink()
        work.mkdir(parents=True, exist_ok=True)
        (work / "log4j.properties").write_text(LOGGING)
        with (work / "job.log").open("w") as log:
            self._job = subprocess.Popen(
                [str(python_of(self._venv)), "-I", str(JOB), str(feed), str(work)],
                env=environment(self._venv, work),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._done = 0
        self._news: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, name="flink", daemon=True).start()
        self._await("ready", END_S)

    def create(self, queries: Sequence[Query]) -> None:
        self._columns = [query.columns for query in queries]
        results, pause = self._work / "results", pause_ms(len(queries))
        self._tell(
            {
                "settings": settings(sum(len(query.streams) for query in queries)),
                "tables": [
                    *(
                        render_files(stream, self._work / "in" / stream, pause, self.ddl)
                        for stream in self._streams
                    ),
                    *(render_results(n, query, results / f"q{n}") for n, query in enumerate(queries)),
                ],
                "streams": {stream: render_stream(stream, self.ddl) for stream in self._streams},
                "files": {stream: files_of(stream) for stream in self._streams},
                "event_time": astream.EVENT_TIME,
                "inserts": [f"INSERT INTO q{n} {render_query(query)}" for n, query in enumerate(queries)],
            }
        )
        self._await("deployed", DEPLOY_S)

    def done(self) -> int:
        while not self._news.empty():
            self._take(self._news.get())
        return self._done

    def stop(self) -> None:
        self._tell("stop")
        self._await("stopped", DEPLOY_S)

    def rows(self, number: int) -> list[tuple[Any, ...]]:
        files = self._written(number)
        if not files:
            return []
        found = ds.dataset(files, format="parquet").to_table()
        ends = found["end"].cast("timestamp[us]").cast("int64")
        columns = [ends, *(found[name] for name in self._columns[number])]
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    def facts(self) -> dict[str, Any]:
        files = [path for number in range(len(self._columns)) for path in self._written(number)]
        return {
            "result_rows": sum(pq.read_metadata(path).num_rows for path in files),
            "bytes_written": sum(path.stat().st_size for path in files),
            "versions": {"flink": (self._venv / INSTALLED).read_text().strip()},
        }

    def close(self) -> None:
        """The job's process ends when its standard input does, and the JVM with it."""
        assert self._job.stdin is not None
        try:
            with suppress(BrokenPipeError):
                self._job.stdin.close()
            self._job.wait(END_S)
        except subprocess.TimeoutExpired:
            self._job.kill()

    def _written(self, number: int) -> list[Path]:
        return sorted((self._work / "results" / f"q{number}").glob("part-*"))

    def _tell(self, what: Any) -> None:
        assert self._job.stdin is not None
        try:
            self._job.stdin.write(json.dumps(what) + "\n")
            self._job.stdin.flush()
        except BrokenPipeError:
            self._await("an answer", END_S)

    def _listen(self) -> None:
        """What is no JSON object is the JVM's talk."""
        assert self._job.stdout is not None
        for line in self._job.stdout:
            if line.startswith("{"):
                self._news.put(json.loads(line))
        self._news.put({"error": f"its process has ended with code {self._job.wait()}"})

    def _await(self, what: str, seconds: float) -> None:
        try:
            while what not in (news := self._news.get(timeout=seconds)):
                self._take(news)
        except queue.Empty:
            raise FlinkError("FLINK_SILENT", f"Flink has not said `{what}` in {seconds:,.0f} s") from None

    def _take(self, news: dict[str, Any]) -> None:
        if "error" in news:
            raise FlinkError(
                "FLINK_FAILED", str(news["error"]).splitlines()[0], detail=tail(self._work / "job.log")
            )
        self._done = news.get("done", self._done)


def pause_ms(queries: int) -> int:
    """How long buffers and new files wait to be looked at: with many queries, looking is what costs."""
    return min(1_000, 10 + 5 * queries)


def settings(inputs: int) -> dict[str, str]:
    """Of the job: two slots, and memory for as many inputs: one of an aggregation, one per stream of a join."""
    network = f"{max(256, 4 * inputs)}m"
    return {
        "parallelism.default": "2",
        "taskmanager.numberOfTaskSlots": "2",
        "taskmanager.memory.managed.size": "2g",
        "taskmanager.memory.network.min": network,
        "taskmanager.memory.network.max": network,
        "pipeline.object-reuse": "true",
        "pipeline.auto-watermark-interval": "50ms",
        "execution.buffer-timeout.interval": f"{pause_ms(inputs)}ms",
        "table.local-time-zone": "UTC",
        "metrics.reporters": "jmx",
        "metrics.reporter.jmx.factory.class": "org.apache.flink.metrics.jmx.JMXReporterFactory",
        "metrics.reporter.jmx.filter.includes": "*:currentInputWatermark,numRecordsIn",
    }


def environment(venv: Path, work: Path) -> dict[str, str]:
    """What pyflink makes its JVM from. What it does not bring is on the path for Hadoop's classes.

    Another Flink that somebody works with here is no concern of ours.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FLINK_")}
    spark = Path(pyspark.__file__).parent / "jars"
    flink = pyflink_of(venv)
    jars = [
        *sorted((venv / JARS).glob("*.jar")),
        *sorted(flink.glob("plugins/metrics-jmx/*.jar")),
        *(jar for pattern in HADOOP_JARS for jar in sorted(spark.glob(pattern))),
    ]
    return ours | {
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, jars)),
        "JVM_ARGS": f"-Xms{HEAP} -Xmx{HEAP} {EXPORTS}",
        "FLINK_LOG_DIR": str(work),
        "LOG4J_PROPERTIES": str(work / "log4j.properties"),
    }


def tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])
