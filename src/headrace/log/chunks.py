"""Chunks: immutable Parquet files of a stream, written here or adopted from somebody else.

A chunk's schema is exactly the stream's; timestamps are microseconds. Its name carries the number that its
arrival has at least, `<number>-<unique>.parquet`, which is how orphans are found (see `orphans`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.model.epoch import NEVER_US, Chunk
from headrace.model.errors import LogError
from headrace.model.query import Stream
from headrace.storage.checksums import amiss, written
from headrace.storage.private import make_directory, open_new
from headrace.storage.warehouse import Warehouse, sync_directory

ROW_GROUP_ROWS = 128 * 1024
DEFAULT_MAX_CHUNK_ROWS = 1_000_000

CODEC = "snappy"
"""How Parquet files that Spark reads are compressed. Not LZ4: Spark cannot look into its dictionary pages from 8 kB on
(parquet-java issue 3478). Snappy costs what LZ4 does to write; zstd is a third smaller and a third slower.
"""

_SAMPLE_ROWS = 4096
_LEGACY_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


def arrow_schema(stream: Stream) -> pa.Schema:
    """The exact schema of a stream's chunks."""
    return pa.schema([pa.field(column.name, column.type.arrow) for column in stream.columns])


def write_chunk(
    root: str | Path, directory: str, table: pa.Table, event_time: str, arrival: int, *, named: bool = True
) -> Chunk:
    """Write `table` durably as one chunk under `root/directory`; its path in the result is relative to
    `root`. Its name is durable too, unless the caller wants to call `sync_directory` once for several (`named`).
    """
    unique = uuid.uuid4().hex
    relative = f"{directory}/{arrival:012d}-{unique}.parquet"
    final = Path(root) / relative
    temporary = final.with_name(f"{arrival:012d}-{unique}.writing")
    try:
        make_directory(final.parent)
        with open(open_new(temporary), "wb") as file:
            pq.write_table(
                table,
                file,
                compression=CODEC,
                row_group_size=ROW_GROUP_ROWS,
                use_dictionary=_dictionary_columns(table),
                column_encoding=_packed_columns(table.schema) or None,
                write_statistics=True,
            )
            file.flush()
            os.fsync(file.fileno())
        size, crc = written(temporary)
        os.replace(temporary, final)
        if named:
            sync_directory(final.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise LogError(
            "CHUNK_UNWRITABLE",
            f"cannot write {final}",
            detail=str(error),
            hint="check free space and permissions; what was to be written is not in the log",
        ) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    low, high, nulls = _bounds(table.column(event_time))
    return Chunk(relative, table.num_rows, size, low, high, null_times=nulls, checksum=crc)


def cut(table: pa.Table, max_rows: int = DEFAULT_MAX_CHUNK_ROWS) -> Iterator[pa.Table]:
    """Pieces of at most `max_rows` rows, in order; none of an empty table."""
    for start in range(0, table.num_rows, max_rows):
        yield table.slice(start, max_rows)


def misfit(path: str | Path, stream: Stream) -> str | None:
    """Why a Parquet file cannot be a chunk of `stream` as it is; None when it can. Reads the footer only."""
    with open_parquet(path) as file:
        found = file.schema_arrow
        for name in found.names:
            if found.names.count(name) > 1:
                return f"column `{name}` appears twice"
        wanted = {column.name: column.type.arrow for column in stream.columns}
        if missing := [name for name in wanted if name not in found.names]:
            return f"column `{missing[0]}` is missing"
        if extra := [name for name in found.names if name not in wanted]:
            return f"column `{extra[0]}` is not of the stream"
        for name, kind in wanted.items():
            if not same_type(found.field(name).type, kind):
                return f"column `{name}` is {found.field(name).type}, not {kind}"
        metadata = file.metadata.metadata or {}
        if any(key in metadata for key in _LEGACY_CALENDAR):
            return "its dates are in Spark's legacy calendar"
    return None


def describe_chunk(path: str | Path, stream: Stream) -> Chunk:
    """The chunk that an existing Parquet file is, by its absolute path; LogError when it does not fit the
    stream.
    """
    if why := misfit(path, stream):
        raise LogError("CHUNK_MISFIT", f"{path} does not fit stream `{stream.name}`: {why}")
    with open_parquet(path) as file:
        bounds = _footer_bounds(file.metadata, stream.event_time)
        if bounds is None:
            bounds = _bounds(file.read(columns=[stream.event_time]).column(0))
        low, high, nulls = bounds
        absolute = os.path.abspath(path)
        try:
            size, crc = written(Path(absolute))
        except OSError as error:
            raise LogError("CHUNK_UNREADABLE", f"{path} cannot be read", detail=str(error)) from error
        return Chunk(absolute, file.metadata.num_rows, size, low, high, null_times=nulls, checksum=crc)


def open_chunk(warehouse: Warehouse, chunk: Chunk) -> pq.ParquetFile:
    """The chunk's file, to be closed by the caller; LogError naming it when missing, torn or changed."""
    path = warehouse.path(chunk.path)
    file = open_parquet(path)
    if found := amiss(path, chunk.bytes, chunk.checksum):
        file.close()
        raise LogError(
            "CHUNK_CHANGED",
            f"{path} is not the file that was sealed: it is {found}",
            hint="restore it; a file that was adopted must not be changed or replaced",
        )
    return file


def count_before(warehouse: Warehouse, chunk: Chunk, stream: Stream, closed_us: int) -> int:
    """How many tuples of a chunk have an event time before `closed_us`; reads nothing unless some may."""
    if closed_us == NEVER_US or chunk.min_us is None or chunk.min_us >= closed_us:
        return 0
    with open_chunk(warehouse, chunk) as file:
        times = _microseconds(file.read(columns=[stream.event_time]).column(0))
    return int(pc.sum(pc.less(times, closed_us)).as_py() or 0)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a chunk's event times go: `newest_us` up to some limit, and beyond it `ahead` tuples in `ahead_us`."""

    newest_us: int | None
    ahead: int = 0
    ahead_us: tuple[int, int] | None = None


def reach_up_to(warehouse: Warehouse, chunk: Chunk, stream: Stream, limit_us: int) -> Reach:
    """What of a chunk is up to `limit_us` and what is beyond; reads it only when something is."""
    if chunk.max_us is None or chunk.max_us <= limit_us:
        return Reach(chunk.max_us)
    with open_chunk(warehouse, chunk) as file:
        times = _microseconds(file.read(columns=[stream.event_time]).column(0)).drop_null()
    near, far = (times.filter(test(times, limit_us)) for test in (pc.less_equal, pc.greater))
    return Reach(pc.max(near).as_py(), len(far), (pc.min(far).as_py(), chunk.max_us))


def same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two Arrow types hold the same values, whatever their nested fields' nullability or list item
    names.
    """
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return same_type(found.value_type, wanted.value_type)
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        return same_type(found.key_type, wanted.key_type) and same_type(found.item_type, wanted.item_type)
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        return [f.name for f in found] == [w.name for w in wanted] and all(
            same_type(f.type, w.type) for f, w in zip(found, wanted, strict=True)
        )
    return bool(found == wanted)


def open_parquet(path: str | Path) -> pq.ParquetFile:
    """A Parquet file, to be closed by the caller; LogError when it is missing, torn or no Parquet."""
    try:
        return pq.ParquetFile(path, memory_map=True)
    except FileNotFoundError:
        raise LogError(
            "CHUNK_MISSING",
            f"{path} is missing",
            hint="restore it: tuples are kept nowhere else",
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise LogError(
            "CHUNK_TORN",
            f"{path} is torn or not Parquet",
            detail=str(error).splitlines()[0],
            hint="put the whole file there: tuples are kept nowhere else",
        ) from error


def _dictionary_columns(table: pa.Table) -> list[str]:
    """Text columns whose values repeat: there a dictionary saves both space and decoding."""
    useful = []
    for field in table.schema:
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
            column = table.column(field.name)
            sample = column.slice(0, _SAMPLE_ROWS)
            known = len(sample) - sample.null_count  # NULL is in no dictionary, so NULLs are not alike
            rows = min(len(column), ROW_GROUP_ROWS) * known // max(len(sample), 1)
            if repeats(pc.count_distinct(sample).as_py(), known, rows):
                useful.append(field.name)
    return useful


def repeats(distinct: int, sampled: int, rows: int) -> bool:
    """Whether so many rows have each value twice or more on average, given the distinct values of some of them.

    Few of 4,096 rows are alike when there are 10,000 values, but in a whole row group each value comes 13 times. How
    many rows are like an earlier one tells how many values there are, about, if all are equally frequent.

    >>> repeats(3_361, 4_096, 131_072), repeats(4_090, 4_096, 131_072), repeats(3_361, 4_096, 4_096)
    (True, False, False)
    """
    alike = sampled - distinct
    return 2 * distinct <= sampled or sampled * sampled <= alike * rows


def _packed_columns(schema: pa.Schema) -> dict[str, str]:
    """How whole numbers and moments are written: as packed differences, which are small before the codec sees them.

    Then it has next to nothing to do, and nothing to undo for each task that reads the chunk.

    >>> _packed_columns(pa.schema([("key", pa.int64()), ("price", pa.float64())]))
    {'key': 'DELTA_BINARY_PACKED'}
    """
    whole = (pa.int32(), pa.int64())
    packed = [field.name for field in schema if field.type in whole or pa.types.is_timestamp(field.type)]
    return dict.fromkeys(packed, "DELTA_BINARY_PACKED")


Bounds = tuple[int | None, int | None, int]
"""The least and the largest event time of a chunk, and how many of its tuples have none."""


def _bounds(times: pa.ChunkedArray) -> Bounds:
    found = pc.min_max(_microseconds(times)).as_py()
    return found["min"], found["max"], times.null_count


def _microseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(pa.int64())


def _footer_bounds(metadata: pq.FileMetaData, event_time: str) -> Bounds | None:
    """Bounds from row-group statistics; None when some row group lacks them."""
    index = next(i for i in range(metadata.num_columns) if metadata.schema.column(i).path == event_time)
    low: list[int] = []
    high: list[int] = []
    nulls = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        column = group.column(index)
        statistics = column.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
        if statistics.has_min_max:
            low.append(statistics.min_raw)
            high.append(statistics.max_raw)
        elif statistics.null_count < group.num_rows:
            return None
    return (min(low), max(high), nulls) if low else (None, None, nulls)
