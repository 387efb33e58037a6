"""Files of a source into chunks: by reference where they fit, else read and written anew; bad ones are told apart.

What may pass (no space left, a cancelled job, Spark in trouble) is raised and nothing is left behind. What is the fault
of a file is reported with the file, and the others are read.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.log.append import discard
from headrace.log.arrivals import Arrivals
from headrace.log.chunks import DEFAULT_MAX_CHUNK_ROWS, describe_chunk, misfit, open_parquet, write_chunk
from headrace.log.nanos import has_nanoseconds, read_nanoseconds
from headrace.log.sources import FileFormat, FileSource
from headrace.log.spark_write import job_cancelled, spark_error, write_dataframe
from headrace.model.epoch import Chunk
from headrace.model.errors import LogError
from headrace.model.query import Stream
from headrace.storage.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class Reading:
    """What some files gave: chunks, and the files that cannot be read with the reason. `gone` ones were moved away."""

    chunks: list[Chunk] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FileReader:
    """Reads files of one source. `suspicious` blames a file for whatever fails while Spark itself works."""

    spark: SparkSession
    warehouse: Warehouse
    arrivals: Arrivals
    stream: Stream
    source: FileSource
    max_chunk_rows: int = DEFAULT_MAX_CHUNK_ROWS

    def read(self, paths: Sequence[str], *, suspicious: bool = False) -> Reading:
        """Chunks of these files, for the next arrival; LogError when it is no file's fault.

        Files of this machine are named by their paths, others by their addresses.
        """
        found = Reading()
        try:
            strangers = list(paths)
            if self.source.format is FileFormat.PARQUET:
                strangers = [path for path in paths if _remote(path) or self._as_parquet(path, found)]
            self._by_spark(strangers, found, suspicious)
        except BaseException:
            discard(self.warehouse, found.chunks)
            raise
        return found

    def _as_parquet(self, path: str, found: Reading) -> bool:
        """Take a Parquet file without Spark where that is possible; whether Spark has to read it."""
        try:
            if misfit(path, self.stream) is None:
                found.chunks.append(describe_chunk(path, self.stream))
                return False
            with open_parquet(path) as file:
                if not has_nanoseconds(file):
                    return True
                found.chunks += self._rewritten(file, path)
        except LogError as error:
            if error.code == "CHUNK_MISSING":
                found.gone.append(path)
            elif may_pass(error):
                raise
            else:
                found.bad[path] = reason_of(error, path)
        except (pa.ArrowException, OSError, ValueError) as error:
            if _exhausted(error):
                raise
            found.bad[path] = str(error).partition("\n")[0][:500]
        return False

    def _rewritten(self, file: pq.ParquetFile, path: str) -> list[Chunk]:
        """A file with nanoseconds as chunks of ours; none is left behind when that fails."""
        directory, number = self.warehouse.stream_dir(self.stream.name), self.arrivals.next_number
        root, event_time = self.warehouse.root, self.stream.event_time
        written: list[Chunk] = []
        try:
            tables = read_nanoseconds(file, path, self.source.path, self.stream, self.max_chunk_rows)
            for table in tables:
                if table.num_rows:
                    written.append(write_chunk(root, directory, table, event_time, number))
        except BaseException:
            discard(self.warehouse, written)
            raise
        return written

    def _by_spark(self, paths: Sequence[str], found: Reading, suspicious: bool) -> None:
        """Let Spark read files, all at once; when that fails, halves of them, until the bad ones are found."""
        if not paths:
            return
        try:
            found.chunks += self._written(paths)
        except LogError as error:
            if may_pass(error) and not (suspicious and self._spark_works(error)):
                raise
            if len(paths) == 1:
                if _gone(paths[0], error):
                    found.gone.append(paths[0])
                else:
                    found.bad[paths[0]] = self._why(error, paths[0])
                return
            middle = len(paths) // 2
            self._by_spark(paths[:middle], found, suspicious)
            self._by_spark(paths[middle:], found, suspicious)

    def _why(self, error: LogError, path: str) -> str:
        """Why Spark could not read a file: what Spark says, or what does not fit if Spark has no words for it."""
        if self.source.format is FileFormat.PARQUET and not _remote(path) and _unconvertible(error):
            return misfit(path, self.stream) or reason_of(error, path)
        return reason_of(error, path)

    def _written(self, paths: Sequence[str]) -> Sequence[Chunk]:
        number = self.arrivals.next_number
        try:
            frame = self.source.load_files(self.spark, self.stream, paths)
            return write_dataframe(self.warehouse, frame, self.stream, number, self.max_chunk_rows)
        except LogError:
            raise
        except Exception as error:
            raise spark_error(error, f"the source of stream `{self.stream.name}` failed") from error

    def _spark_works(self, error: LogError) -> bool:
        if error.code != "SPARK_FAILED" or job_cancelled(error) or _exhausted(error):
            return False
        try:
            return bool(self.spark.range(1).count() == 1)
        except Exception:
            return False


def _remote(path: str) -> bool:
    return not os.path.isabs(path)


def _gone(path: str, error: LogError) -> bool:
    """Whether a file could not be read because it is not there any more."""
    if not _remote(path):
        return not os.path.exists(path)
    found = _CONDITION.search(str(error.__cause__ or error.detail))
    return found is not None and found.group(1).endswith(("PATH_NOT_FOUND", "FILE_NOT_EXIST"))


_EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_CONDITION = re.compile(r"\[([A-Z][A-Z_]+(?:\.[A-Z_]+)*)\]")
_CONVERTING = re.compile(
    r"java\.lang\.(UnsupportedOperation|Arithmetic|ClassCast|NumberFormat|IndexOutOfBounds)Exception\b"
)
_NOBODYS_FAULT = ("PYTHON_EXCEPTION", "INTERNAL_ERROR", "SPARK_JOB_CANCELLED")


def may_pass(error: LogError) -> bool:
    """Whether a failure to read a file is likely nobody's fault but that of the disk or of Spark.

    What a file can cause has an error condition of Spark's; a lost worker, a full disk or a job that was killed comes
    as some bare exception of Java's or Python's.
    """
    if error.code in ("CHUNK_UNWRITABLE", "FILE_UNWRITABLE") or job_cancelled(error) or _exhausted(error):
        return True
    if error.code != "SPARK_FAILED":
        return False
    if _unconvertible(error):
        return False
    found = _CONDITION.search(str(error.__cause__ or error.detail))
    return found is None or found.group(1).startswith(_NOBODYS_FAULT)


def _unconvertible(error: LogError) -> bool:
    """Whether a value cannot become one of its column: Java says so of some types of Parquet, such as UINT64."""
    return _CONVERTING.search(str(error.__cause__ or error.detail)) is not None


def _exhausted(error: BaseException) -> bool:
    """Whether the machine has run out of something: space, open files, memory."""
    chain = (error, error.__cause__)
    told = any(text in str(e) for e in chain for text in ("No space left on device", "Too many open files"))
    return told or any(isinstance(e, OSError) and e.errno in _EXHAUSTED for e in chain)


def reason_of(error: LogError, path: str) -> str:
    """One line for a list of files that were set aside, which names the file already."""
    parts = [part for part in (error.message if error.code != "SPARK_FAILED" else None, error.detail) if part]
    text = "; ".join(" ".join(part.split()) for part in parts)
    for name in (f"file://{path}", f"file:{path}", path):
        text = text.replace(name, "the file")
    return text[:500]
