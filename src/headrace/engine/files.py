"""Files that commits and epochs name: are they there, and are they what was written?

Spark reads an emptied Parquet file as no rows, a changed one as other rows, and reports a missing one as a page of
Java. So whoever reads a file looks at its checksum first: the driver for results and for what Spark itself reads,
tasks for the chunks and segments that they read. A process looks at each file once (see `catalog.checksums`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.records import ResultFile
from headrace.model.epoch import Chunk
from headrace.model.errors import EngineError, LogError, StorageError
from headrace.model.state import SegmentFile
from headrace.storage.checksums import amiss

SEGMENT_DAMAGED = "SEGMENT_DAMAGED"


def check_results(root: Path, files: Iterable[ResultFile]) -> None:
    """StorageError naming the first result file that is missing or not what was written."""
    for file in files:
        if found := amiss(root / file.path, file.bytes, file.checksum):
            raise StorageError(
                "RESULT_DAMAGED",
                f"result file {root / file.path} is {found}",
                detail=f"it holds {file.rows} rows of epochs {file.first_epoch} to {file.last_epoch}",
                hint="restore it from a copy of the warehouse; queries without rows in it are not affected",
            )


def check_segments(root: Path, files: Iterable[SegmentFile]) -> None:
    """EngineError naming the first segment that is missing or has another length; tasks look at the content."""
    for file in files:
        if found := amiss(root / file.path, file.bytes, None):
            raise segment_damaged(root / file.path, found)


def check_chunks(root: Path, chunks: Iterable[Chunk], *, content: bool = True) -> None:
    """LogError naming the first chunk that is missing or not the file that was sealed.

    Without `content` only its length counts: tasks look at the rest.
    """
    for chunk in chunks:
        check_chunk(root, chunk.path, chunk.bytes, chunk.checksum if content else None)


def check_chunk(root: Path, path: str, size: int, checksum: int | None) -> None:
    """LogError when a chunk is not the file that was sealed."""
    if found := amiss(root / path, size, checksum):
        raise LogError(
            "CHUNK_DAMAGED",
            f"chunk {root / path} is {found}",
            hint="restore the file; the log is what everything is rebuilt from",
        )


def find_damaged(root: Path, chunks: Iterable[Chunk]) -> None:
    """LogError naming the first chunk that cannot be read to its end. Reads all of them: only after a failure."""
    for chunk in chunks:
        check_chunk(root, chunk.path, chunk.bytes, chunk.checksum)
        try:
            with pq.ParquetFile(root / chunk.path) as file:
                for group in range(file.num_row_groups):
                    file.read_row_group(group)
        except (OSError, pa.ArrowException) as error:
            raise LogError(
                "CHUNK_DAMAGED",
                f"chunk {root / chunk.path} cannot be read",
                detail=str(error).splitlines()[0],
                hint="restore the file; the log is what everything is rebuilt from",
            ) from error


def segment_damaged(path: Path, found: str) -> EngineError:
    return EngineError(
        SEGMENT_DAMAGED,
        f"segment {path} is {found}",
        hint="open the warehouse with rebuild=True to rebuild the state from the log",
    )


def read_row_groups(
    path: Path, groups: Sequence[int] | None, columns: Sequence[str], encoded: Sequence[str] = ()
) -> pa.Table:
    """Some columns of a chunk, of all row groups or of these; those that are `encoded` as codes and a dictionary.

    A missing or damaged chunk is named.
    """
    try:
        with pq.ParquetFile(path, memory_map=True, read_dictionary=list(encoded)) as file:
            wanted = range(file.num_row_groups) if groups is None else groups
            return file.read_row_groups(list(wanted), columns=list(columns), use_threads=False)
    except FileNotFoundError:
        raise LogError(
            "CHUNK_MISSING", f"chunk {path} is missing", hint="restore the file; the log is the truth"
        ) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise LogError(
            "CHUNK_DAMAGED", f"chunk {path} cannot be read", detail=str(error), hint="restore the file"
        ) from error
