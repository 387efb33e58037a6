"""Folder ingest: files of a local directory, taken as they appear; Parquet without Spark where it fits as it is.

A file that cannot be read is set aside, or stops the source, as the source says; one that was written a moment ago is
tried again first, because somebody may still be writing it. Texts of JSON and CSV are readable while they are being
written, so the background leaves them alone until nobody has written to them for a moment. Structured Streaming would
need half a second per batch to tell which files are new, and would fail as a whole.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.log.append import arrive, discard
from headrace.log.arrivals import Arrivals
from headrace.log.books import AsideFile, AsideList, FolderBooks
from headrace.log.chunks import DEFAULT_MAX_CHUNK_ROWS
from headrace.log.listing import Found, list_files, look_at, source_missing
from headrace.log.reading import FileReader, Reading
from headrace.log.report import InputReport
from headrace.log.sources import FileFormat, FileSource, OnBadFile, Source
from headrace.log.spark_write import job_cancelled
from headrace.model.errors import LogError
from headrace.model.query import Stream
from headrace.storage import faults
from headrace.storage.clock import Clock, SystemClock
from headrace.storage.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLE_SECONDS = 5.0
"""A file that cannot be read and was written to so recently may still be being written."""

QUIET_SECONDS = 1.0
"""For so long after a JSON or CSV file was written to, the background leaves it alone: more may come."""

MAX_FILES = 1000
"""So many files become one batch at most."""

SUSPICIOUS_AFTER = 3
"""After so many failures in a row that seem to be nobody's fault, files are tried one by one and blamed."""

_STREAMING_OPTIONS = frozenset(
    (
        *("maxfilespertrigger", "maxbytespertrigger", "maxcachedfiles", "discardcachedinputratio"),
        *("latestfirst", "filenameonly", "maxfileage", "modifiedbefore", "modifiedafter"),
        *("cleansource", "sourcearchivedir", "pathglobfilter", "recursivefilelookup"),
    )
)
"""What only Spark's file stream does; sources that ask for it stay with it."""


def watches(source: Source) -> bool:
    """Whether a source is a plain local directory; anything else is Structured Streaming's."""
    if not isinstance(source, FileSource) or not os.path.isabs(source.path) or source.pattern:
        return False
    if source.format is FileFormat.PARQUET:
        return not source.options
    return not any(key.lower() in _STREAMING_OPTIONS for key, _ in source.options)


def reads_folder(warehouse: Warehouse, stream: Stream, source: Source) -> bool:
    """Whether files are taken here; a directory that Structured Streaming has begun with stays with it."""
    begun = warehouse.path(f"{warehouse.stream_dir(stream.name)}/checkpoint").exists()
    return watches(source) and not begun


class FolderIngest:
    """The ingest of one directory. It reads when asked to: by `run_available`, and by `tick` once it is started."""

    def __init__(
        self,
        spark: SparkSession,
        warehouse: Warehouse,
        arrivals: Arrivals,
        stream: Stream,
        source: FileSource,
        *,
        max_chunk_rows: int = DEFAULT_MAX_CHUNK_ROWS,
        clock: Clock | None = None,
    ) -> None:
        self._warehouse, self._arrivals, self._stream, self._source = warehouse, arrivals, stream, source
        self._reader = FileReader(spark, warehouse, arrivals, stream, source, max_chunk_rows)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._books = FolderBooks(warehouse, arrivals, stream)
        self._failures = self._waiting = 0
        self._changed: dict[str, float] = {}
        self.running = False

    @property
    def aside(self) -> AsideList:
        """The files that could not be read."""
        return self._books.aside

    def check(self) -> None:
        """LogError when there is no such directory."""
        if not os.path.isdir(self._source.path):
            raise source_missing(self._source.path, self._stream.name)

    def start(self, interval: str | float = 1.0) -> None:
        """Read at every tick from now on."""
        self.running = True

    def stop(self) -> None:
        """Read no more; what was read stays."""
        with self._lock:
            self.running = False

    def tick(self) -> None:
        """Take what is new, when started; LogError when it cannot be. A cancelled job is tried again next time."""
        with self._lock:
            try:
                if self.running:
                    self._read(patient=True)
            except LogError as error:
                if not job_cancelled(error):
                    raise

    def run_available(self) -> None:
        """Take every file that is there now and was not taken; LogError when it cannot be.

        A file that cannot be read is set aside even if it was written just now: it is tried again when it changes.
        """
        with self._lock:
            self._read(patient=False)

    def drain(self) -> None:
        """Take every file that is there now, and be stopped; LogError, and as it was, when it cannot be."""
        with self._lock:
            self._read(patient=False)
            self.running = False

    def report(self, *, look: bool = True) -> InputReport:
        """What was taken, waits and was set aside: by a look at the folder, or as of the last reading or look.

        While it is being read nobody else looks.
        """
        if look and not self.running and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        changed = tuple(sorted(self._changed.items()))
        return InputReport(self._books.files_taken, self._waiting, self._books.aside.all(), changed)

    def unread(self) -> list[str]:
        """Files that are there and were neither taken nor set aside."""
        with self._lock:
            return [file.path for file in self._books.new(self._list())]

    def _look(self) -> None:
        try:
            found = self._list()
        except LogError:
            return  # whoever reads will say so
        self._waiting = len(self._books.new(found))
        self._note_changed(found)

    def _list(self) -> list[Found]:
        return list_files(self._source.path, self._stream.name)

    def _note_changed(self, found: Sequence[Found]) -> None:
        now = self._clock.now()
        self._changed = {file.path: self._changed.get(file.path, now) for file in self._books.changed(found)}

    def _read(self, *, patient: bool) -> None:
        if self._arrivals.closed(self._stream.name):
            return
        found = self._list()
        new = self._books.new(found)
        self._waiting = len(new)
        self._note_changed(found)
        if patient and self._source.format is not FileFormat.PARQUET:
            new = [file for file in new if not self._younger(file, QUIET_SECONDS)]
        for start in range(0, len(new), MAX_FILES):
            self._waiting -= self._take(new[start : start + MAX_FILES], patient)
            self._books.tidy(found)

    def _take(self, files: Sequence[Found], patient: bool) -> int:
        """Take what can be read; how many files are dealt with, taken or set aside."""
        faults.reach("ingest.before")
        now = {
            file.path: look_at(file.path) or file for file in files
        }  # somebody may have written to it since
        reading = self._reading(list(now))
        young = [path for path in reading.bad if patient and self._younger(now[path], SETTLE_SECONDS)]
        bad = [now[path] for path in reading.bad if path not in young]
        try:
            self._set_aside(bad, reading)
        except BaseException:
            discard(self._warehouse, reading.chunks)
            raise
        left_out = {*reading.bad, *reading.gone}
        self._arrive([now[path] for path in now if path not in left_out], reading)
        return len(files) - len(young)

    def _reading(self, paths: list[str]) -> Reading:
        try:
            found = self._reader.read(paths, suspicious=self._failures >= SUSPICIOUS_AFTER)
        except LogError as error:
            self._failures += not job_cancelled(error)
            raise
        self._failures = 0
        return found

    def _younger(self, file: Found, seconds: float) -> bool:
        return 0 <= self._clock.now() - file.written_at < seconds

    def _set_aside(self, bad: Sequence[Found], reading: Reading) -> None:
        if not bad:
            return
        if self._source.on_bad_file is OnBadFile.STOP:
            raise source_stopped(self._stream, bad[0].path, reading.bad[bad[0].path])
        now = self._clock.now()
        self._books.aside.add(
            AsideFile(file.path, reading.bad[file.path], now, file.stamp, file.changed_ns) for file in bad
        )
        faults.reach("ingest.aside")

    def _arrive(self, files: Sequence[Found], reading: Reading) -> None:
        if not files:
            return
        batch = self._books.batch
        try:
            record = self._books.record(files)
        except BaseException:
            discard(self._warehouse, reading.chunks)
            raise
        faults.reach("ingest.written")
        try:
            if reading.chunks:
                arrive(self._warehouse, self._arrivals, self._stream, reading.chunks, batch)
        except BaseException:
            if self._arrivals.recorded(reading.chunks):  # it counts, whatever failed after it was written
                self._books.note(record)
            raise
        self._books.note(record)
        faults.reach("ingest.after")


def source_stopped(stream: Stream, path: str, reason: str) -> LogError:
    return LogError(
        "SOURCE_STOPPED",
        f"the source of stream `{stream.name}` stopped at a file that cannot be read: {path}",
        detail=reason,
        hint="remove or replace the file; with on_bad_file='aside' the stream would go on without it",
    )
