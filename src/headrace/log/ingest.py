"""Ingest: one Structured Streaming query per stream brings its source into the log, each batch exactly once.

Plain local directories are taken without it: see `folder`. Of other files Spark tells the names. They are read here, so
that one that cannot be read is set aside and the others are taken.

Spark's checkpoint remembers what was read; the arrival record, named by the ingest's id and the batch number,
is what makes it count. A batch that Spark replays after a crash is skipped when its arrival is there, and
written anew when it is not; chunks of the first try are orphans.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from headrace.log.append import arrive, discard
from headrace.log.arrivals import Arrivals, Batch
from headrace.log.books import UNKNOWN, AsideFile, AsideList, FileCount
from headrace.log.chunks import DEFAULT_MAX_CHUNK_ROWS
from headrace.log.folder import SETTLE_SECONDS, FolderIngest, reads_folder, source_stopped
from headrace.log.listing import look_at
from headrace.log.reading import FileReader, Reading
from headrace.log.report import InputReport
from headrace.log.sources import FileSource, FrameSource, OnBadFile, Source
from headrace.log.spark_write import check_frame, job_cancelled, spark_error, write_dataframe
from headrace.model.epoch import Chunk
from headrace.model.errors import HeadraceError, LogError
from headrace.model.query import Stream
from headrace.storage import faults
from headrace.storage.private import make_directory
from headrace.storage.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


BATCH_SECONDS = 10.0
"""For so long a batch under way may go on when its source is stopped."""


class _NotOurs(logging.Filter):
    """Keeps errors of ours out of Py4J's log: whoever asks for the source's state is told, without pages of Java."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HeadraceError))


logging.getLogger("py4j.clientserver").addFilter(_NotOurs())


def open_ingest(
    spark: SparkSession, warehouse: Warehouse, arrivals: Arrivals, stream: Stream, source: Source
) -> Ingest | FolderIngest:
    """The ingest for a source."""
    if isinstance(source, FileSource) and reads_folder(warehouse, stream, source):
        return FolderIngest(spark, warehouse, arrivals, stream, source)
    return Ingest(spark, warehouse, arrivals, stream, source)


class Ingest:
    """The ingest of one stream. `run_available` reads what there is; `start` and `stop` read in the
    background.
    """

    def __init__(
        self,
        spark: SparkSession,
        warehouse: Warehouse,
        arrivals: Arrivals,
        stream: Stream,
        source: Source,
        *,
        max_chunk_rows: int = DEFAULT_MAX_CHUNK_ROWS,
    ) -> None:
        if isinstance(source, FrameSource):
            check_frame(source.frame, stream)
        self._spark, self._warehouse, self._arrivals = spark, warehouse, arrivals
        self._stream, self._source, self._max_chunk_rows = stream, source, max_chunk_rows
        self._checkpoint = warehouse.path(f"{warehouse.stream_dir(stream.name)}/checkpoint")
        self._query: StreamingQuery | None = None
        self._passing: StreamingQuery | None = None
        self._period, self._started = "1 second", False
        self._error: HeadraceError | None = None
        self._met: HeadraceError | None = None
        self._lock, self._taking = threading.Lock(), threading.Lock()
        self._ending = False
        self.aside = AsideList(warehouse, stream)
        self._files = FileCount(warehouse, stream)

    def check(self) -> None:
        """LogError when the source cannot even be opened: no such directory, an option Spark does not take."""
        try:
            self._source.load(self._spark, self._stream)
        except Exception as error:
            raise self._failure(error) from error

    @property
    def running(self) -> bool:
        return self._query is not None and self._query.isActive

    def run_available(self) -> None:
        """Bring in everything the source has now; LogError when it cannot."""
        with self._lock:
            query = self._query
            background = query is not None and query.isActive
            if query is None or not background:
                query = self._passing = self._start({"availableNow": True})
        try:
            if background:
                query.processAllAvailable()
            else:
                query.awaitTermination()
        except Exception as error:
            raise self._failure(error) from error
        finally:
            self._passing = None
        if self._error is not None:
            raise self._error

    def start(self, interval: str | float = "1 second") -> None:
        """Read in the background, a batch per interval (seconds, or as Spark writes it); harmless when
        running.
        """
        self._period = (
            interval if isinstance(interval, str) else f"{max(int(interval * 1000), 0)} milliseconds"
        )
        self._started = True
        with self._lock:
            if not self.running:
                self._query = self._start({"processingTime": self._period})

    def drain(self) -> None:
        """Bring in everything the source has now, and be stopped; LogError when it cannot, and then it goes on."""
        started = self._started
        self.stop()
        try:
            self.run_available()
        except HeadraceError:
            if started:
                self.start(self._period)
            raise

    def stop(self) -> None:
        """Stop reading; what was read stays. Harmless when it is not running."""
        self._started, self._met = False, None
        passing = self._passing
        if passing is not None:
            self._end(passing)
        with self._lock:
            query, self._query = self._query, None
        if query is not None:
            if query.exception() is not None and self._error is None:
                self._error = self._failure(query.exception())
            self._end(query)

    def _end(self, query: StreamingQuery) -> None:
        """Stop a query between two batches: one that is torn from a batch prints pages of what it met there."""
        self._ending = True
        if self._taking.acquire(timeout=BATCH_SECONDS):
            self._taking.release()
        query.stop()

    def report(self, *, look: bool = True) -> InputReport:
        """How many files were taken, and what was set aside; Spark keeps to itself which files wait."""
        waiting = None if isinstance(self._source, FileSource) else 0
        return InputReport(self._files.taken, waiting, self.aside.all())

    def unread(self) -> list[str]:
        """Spark does not tell."""
        return []

    def health(self) -> HeadraceError | None:
        """Why the ingest stopped by itself; None while all is well. One whose job was cancelled is started again."""
        query = self._query
        found = None if query is None else query.exception()
        if self._error is None and found is not None:
            if job_cancelled(found):
                self.start(self._period)
            else:
                self._error = self._failure(found)
        return self._error

    def tick(self) -> None:
        """Raise why the ingest stopped by itself, if it did, and start it again; progress shows that it is well."""
        if not self._started:
            return
        trouble = self.health()
        if trouble is not None or self._query is None:
            self._met = trouble or self._met
            self.start(self._period)
        if self._met is not None:
            if self._query is None or self._query.lastProgress is None:
                raise self._met
            self._met = None

    def _failure(self, error: Any) -> HeadraceError:
        return self._error or spark_error(error, f"the source of stream `{self._stream.name}` failed")

    def _start(self, trigger: dict[str, Any]) -> StreamingQuery:
        self._error, self._ending = None, False
        make_directory(self._checkpoint)
        try:
            source = self._source
            if isinstance(source, FileSource):
                frame = source.load_names(self._spark)
            else:
                frame = source.load(self._spark, self._stream)
            writer = frame.writeStream.foreachBatch(self._take).trigger(**trigger)
            return writer.option("checkpointLocation", str(self._checkpoint)).start()
        except Exception as error:
            raise self._failure(error) from error

    def _take(self, frame: DataFrame, number: int) -> None:
        """One batch of Spark's: chunks, then the arrival that names them.

        What it raises is short and has no cause: Spark searches the text with a pattern that overflows the stack on a
        page of Java, and prints that.
        """
        with self._taking:
            try:
                if self._ending:
                    raise LogError(
                        "INGEST_STOPPED", f"the source of stream `{self._stream.name}` was stopped"
                    )
                self._take_batch(frame, number)
            except HeadraceError as error:
                short = type(error)(error.code, error.message, detail=error.detail, hint=error.hint)
            except Exception as error:
                short = spark_error(error, f"a batch of stream `{self._stream.name}` could not be taken in")
            else:
                return
            if not (self._ending or job_cancelled(short)):
                self._error = short
        raise short

    def _take_batch(self, frame: DataFrame, number: int) -> None:
        batch = Batch(self._identity(), number)
        if self._arrivals.has(self._stream.name, batch):
            return
        faults.reach("ingest.before")
        if isinstance(self._source, FileSource):
            chunks = self._read_files(frame, self._source, batch)
        else:
            number = self._arrivals.next_number
            chunks = write_dataframe(self._warehouse, frame, self._stream, number, self._max_chunk_rows)
        faults.reach("ingest.written")
        if chunks:
            arrive(self._warehouse, self._arrivals, self._stream, chunks, batch)
        faults.reach("ingest.after")

    def _identity(self) -> str:
        """The id that Spark gave this ingest; it lives and dies with the checkpoint, as batch numbers do."""
        return str(json.loads((self._checkpoint / "metadata").read_text())["id"])

    def _read_files(self, frame: DataFrame, source: FileSource, batch: Batch) -> Sequence[Chunk]:
        """Files that fit as they are become chunks by reference; the others are read and written, or set aside."""
        names = sorted(local_path(row[0]) or row[0] for row in frame.distinct().collect())
        reader = FileReader(
            frame.sparkSession, self._warehouse, self._arrivals, self._stream, source, self._max_chunk_rows
        )
        reading = reader.read(names)
        try:
            self._set_aside(reading, source)
            self._files.add(batch, len(names) - len(reading.bad) - len(reading.gone))
        except BaseException:
            discard(self._warehouse, reading.chunks)
            raise
        return reading.chunks

    def _set_aside(self, reading: Reading, source: FileSource) -> None:
        """Bad files are left out of this batch for good, unless they may still be being written."""
        found = {path: look_at(path) for path in reading.bad}
        now = time.time()
        young = [path for path, file in found.items() if file and 0 <= now - file.written_at < SETTLE_SECONDS]
        for path in young if self._started else ():
            raise LogError(
                "FILE_UNFINISHED", f"{path} cannot be read yet", detail=reading.bad[path], hint="wait"
            )
        for path in reading.bad if source.on_bad_file is OnBadFile.STOP else ():
            raise source_stopped(self._stream, path, reading.bad[path])
        self.aside.add(
            AsideFile(
                path, reading.bad[path], now, file.stamp if file else UNKNOWN, file.changed_ns if file else -1
            )
            for path, file in found.items()
        )


def local_path(name: str) -> str | None:
    """The local path a file URI names, None when it is not local.

    >>> local_path("file:/data/a%20b.parquet"), local_path("s3://bucket/a")
    ('/data/a b.parquet', None)
    """
    parts = urlsplit(name)
    return unquote(parts.path) if parts.scheme == "file" else None
