"""Files that commits and epochs name: are they there, and as long as they were written?

Spark reads an emptied Parquet file as no rows and reports a missing one as a page of Java; a look at the directory
before a job gives the person a message that names the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.records import ResultFile, SegmentFile
from headrace.model.epoch import Chunk
from headrace.model.errors import EngineError, LogError, StorageError


def check_results(root: Path, files: Iterable[ResultFile]) -> None:
    """StorageError naming the first result file that is missing or has another length. One look-up per file."""
    for file in files:
        if found := _amiss(root / file.path, file.bytes):
            raise StorageError(
                "RESULT_DAMAGED",
                f"result file {root / file.path} is {found}",
                detail=f"it holds {file.rows} rows of epochs {file.first_epoch} to {file.last_epoch}",
                hint="restore it from a copy of the warehouse; queries without rows in it are not affected",
            )


def check_segments(root: Path, files: Iterable[SegmentFile]) -> None:
    """EngineError naming the first segment that is missing or has another length."""
    for file in files:
        if found := _amiss(root / file.path, file.bytes):
            raise segment_damaged(root / file.path, found)


def check_chunks(root: Path, chunks: Iterable[Chunk]) -> None:
    """LogError naming the first chunk that is missing or not the file that was sealed."""
    for chunk in chunks:
        if found := _amiss(root / chunk.path, chunk.bytes):
            raise LogError(
                "CHUNK_DAMAGED",
                f"chunk {root / chunk.path} is {found}",
                hint="restore the file; the log is what everything is rebuilt from",
            )


def find_damaged(root: Path, chunks: Iterable[Chunk]) -> None:
    """LogError naming the first chunk that cannot be read to its end. Reads all of them: only after a failure."""
    for chunk in chunks:
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
        "SEGMENT_DAMAGED",
        f"segment {path} is {found}",
        hint="open the warehouse with rebuild=True to rebuild the state from the log",
    )


def _amiss(path: Path, size: int) -> str | None:
    try:
        found = path.stat().st_size
    except OSError:
        return "missing"
    return None if found == size else f"damaged: it has {found} bytes instead of {size}"
