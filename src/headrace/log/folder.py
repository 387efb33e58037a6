"""Folder ingest: Parquet files of a local directory, taken as they appear, without Spark where they fit as they are.

    log/<stream>/files/%012d.json    the files that one batch took, written just before its arrival
    log/<stream>/files.json          the files that all batches before some number took, as far as they still exist

A batch counts when its arrival is there; files of a batch that has none are taken again. Structured Streaming would
need half a second per batch to tell which files are new.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.catalog import faults
from headrace.catalog.warehouse import Warehouse, record_name
from headrace.log.append import arrive
from headrace.log.arrivals import Arrivals, Batch
from headrace.log.chunks import DEFAULT_MAX_CHUNK_ROWS, describe_chunk, misfit
from headrace.log.sources import GLOB, FileFormat, FileSource, Source, read_files
from headrace.log.spark_write import job_cancelled, spark_error, write_dataframe
from headrace.model import codec
from headrace.model.epoch import Chunk
from headrace.model.errors import LogError
from headrace.model.query import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDENTITY = "folder"
MERGE_RECORDS = 64
"""So many records of batches are merged into one."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Paths of files that were taken; `until` is the number after the last batch's."""

    files: tuple[str, ...]
    until: int


codec.register(Taken)


def watches(source: Source) -> bool:
    """Whether a source is a plain local directory of Parquet files; anything else is Structured Streaming's."""
    return (
        isinstance(source, FileSource)
        and source.format is FileFormat.PARQUET
        and not source.options
        and os.path.isabs(source.path)
        and not any(char in source.path for char in GLOB)
    )


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
    ) -> None:
        self._spark, self._warehouse, self._arrivals = spark, warehouse, arrivals
        self._stream, self._source, self._max_chunk_rows = stream, source, max_chunk_rows
        self._lock = threading.Lock()
        self._base = f"{warehouse.stream_dir(stream.name)}/files"
        self._taken, self._next = self._recover()
        self.running = False

    def _recover(self) -> tuple[set[str], int]:
        taken: set[str] = set()
        first = 0
        if self._warehouse.exists(f"{self._base}.json"):
            merged: Taken = self._warehouse.read_value(f"{self._base}.json", "taken")
            taken, first = set(merged.files), merged.until
        for number in self._warehouse.records(self._base):
            if not self._arrivals.has(self._stream.name, Batch(IDENTITY, number)):
                self._warehouse.delete_record(self._base, number)
                continue
            if number >= first:
                record: Taken = self._warehouse.read_record(self._base, number, kind="taken")
                taken.update(record.files)
                first = record.until
        return taken, first

    def check(self) -> None:
        """LogError when there is no such directory."""
        if not os.path.isdir(self._source.path):
            raise LogError(
                "SOURCE_MISSING",
                f"the source of stream `{self._stream.name}` is no directory: {self._source.path}",
                hint="create the directory first",
            )

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
                    self._read()
            except LogError as error:
                if not job_cancelled(error):
                    raise

    def run_available(self) -> None:
        """Take every file that is there now and was not taken; LogError, and nothing arrives, when one cannot be."""
        with self._lock:
            self._read()

    def _read(self) -> None:
        if self._arrivals.closed(self._stream.name):
            return
        self.check()
        found = self._list()
        new = [path for path in found if path not in self._taken]
        if new:
            self._take(new)
        if self._next % MERGE_RECORDS == 0 and self._warehouse.records(self._base):
            self._merge(found)

    def _list(self) -> list[str]:
        """Files under the directory, oldest first."""
        try:
            return [path for _, path in sorted(_walk(self._source.path))]
        except OSError as error:
            raise LogError(
                "SOURCE_UNREADABLE",
                f"the source of stream `{self._stream.name}` cannot be listed: {error.filename}",
                detail=error.strerror,
                hint="let this user read the directory and all below it",
            ) from error

    def _take(self, paths: Sequence[str]) -> None:
        batch = Batch(IDENTITY, self._next)
        faults.reach("ingest.before")
        chunks = self._chunks(paths)
        record = Taken(tuple(paths), batch.number + 1)
        self._warehouse.replace_value(record_name(self._base, batch.number), "taken", record)
        faults.reach("ingest.written")
        try:
            if chunks:
                arrive(self._warehouse, self._arrivals, self._stream, chunks, batch)
        except BaseException:
            if self._arrivals.recorded(chunks):  # it counts, whatever failed after it was written
                self._note(paths)
            raise
        self._note(paths)
        faults.reach("ingest.after")

    def _note(self, paths: Sequence[str]) -> None:
        self._taken.update(paths)
        self._next += 1

    def _chunks(self, paths: Sequence[str]) -> list[Chunk]:
        """Files that fit as they are become chunks by reference; the others are read and written by Spark."""
        strangers = [path for path in paths if misfit(path, self._stream) is not None]
        apart = set(strangers)
        adopted = [describe_chunk(path, self._stream) for path in paths if path not in apart]
        if not strangers:
            return adopted
        number = self._arrivals.next_number
        try:
            frame = read_files(self._spark, self._stream, self._source, strangers)
            written = write_dataframe(self._warehouse, frame, self._stream, number, self._max_chunk_rows)
        except LogError:
            raise
        except Exception as error:
            raise spark_error(error, f"the source of stream `{self._stream.name}` failed") from error
        return [*adopted, *written]

    def _merge(self, found: Sequence[str]) -> None:
        """One record instead of many, without files that are gone."""
        self._taken &= set(found)
        merged = Taken(tuple(sorted(self._taken)), self._next)
        self._warehouse.replace_value(f"{self._base}.json", "taken", merged)
        for number in self._warehouse.records(self._base):
            self._warehouse.delete_record(self._base, number)


def _walk(root: str) -> Iterator[tuple[int, str]]:
    """(when it was written, path) of every file below the root; what Spark would not read is left out."""
    folders, seen = [root], {os.path.realpath(root)}
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except FileNotFoundError:
            if folder == root:
                raise
            continue  # it was moved away meanwhile, as files may be
        for entry in entries:
            if entry.name.startswith((".", "_")) and "=" not in entry.name:
                continue
            if entry.is_dir():
                target = os.path.realpath(entry.path)
                if target not in seen:  # links may lead round
                    seen.add(target)
                    folders.append(entry.path)
            elif not entry.name.endswith("._COPYING_"):
                with suppress(FileNotFoundError):
                    yield entry.stat().st_mtime_ns, entry.path
