"""Parquet files with timestamps in nanoseconds, as pandas writes them: Spark refuses them, so they are read here.

Nanoseconds are cut to microseconds, towards the past as Spark does for its own old nanosecond type (inside lists,
maps and structs towards 1970, which differs only before that year). Otherwise such a file is read as Spark would
read it: columns are found by name in any case of letters, one that neither the file nor a directory `name=value` has is
NULL, and others are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from headrace.log.convert import to_table
from headrace.model.query import Stream

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def has_nanoseconds(file: pq.ParquetFile) -> bool:
    """Whether some column, nested ones too, is a timestamp in nanoseconds. Reads the footer only."""
    return any(_in_nanoseconds(file.schema.column(i)) for i in range(len(file.schema.names)))


def _in_nanoseconds(column: pq.ColumnSchema) -> bool:
    if column.physical_type != "INT64" or column.logical_type.type != "TIMESTAMP":
        return False  # INT96, which Arrow also takes for nanoseconds, is Spark's own
    return bool(json.loads(column.logical_type.to_json()).get("timeUnit") == "nanoseconds")


def read_nanoseconds(
    file: pq.ParquetFile, path: str, root: str, stream: Stream, rows: int
) -> Iterator[pa.Table]:
    """The file's rows as tables of the stream's exact schema; LogError when a value does not fit."""
    names = {name.lower(): name for name in file.schema_arrow.names}
    given = _directory_values(path, root)
    wanted = {column.name: names.get(column.name.lower()) for column in stream.columns}
    columns = [name for name in wanted.values() if name is not None]
    for batch in file.iter_batches(batch_size=rows, columns=columns):
        arrays = []
        for column in stream.columns:
            found = wanted[column.name]
            if found is not None:
                arrays.append(cut_nanoseconds(batch.column(found)))
            else:
                text = pa.array([given.get(column.name.lower())] * batch.num_rows, pa.string())
                arrays.append(text.cast(column.type.arrow))
        yield to_table(pa.Table.from_arrays(arrays, list(wanted)), stream)


def cut_nanoseconds(array: pa.Array) -> pa.Array:
    """The array with every timestamp in nanoseconds cut to microseconds.

    >>> cut_nanoseconds(pa.array([-1, 1999], pa.timestamp("ns"))).cast(pa.int64()).to_pylist()
    [-1, 1]
    """
    wanted = _in_microseconds(array.type)
    if wanted == array.type:
        return array
    if pt.is_timestamp(array.type):
        array = pc.floor_temporal(array, unit="microsecond")
    return array.cast(wanted, safe=False)


def _in_microseconds(type_: pa.DataType) -> pa.DataType:
    if pt.is_timestamp(type_) and type_.unit == "ns":
        return pa.timestamp("us", type_.tz)
    if pt.is_map(type_):
        return pa.map_(_in_microseconds(type_.key_type), _in_microseconds(type_.item_type))
    if pt.is_list(type_) or pt.is_large_list(type_):
        inner = type_.value_field.with_type(_in_microseconds(type_.value_type))
        return pa.list_(inner) if pt.is_list(type_) else pa.large_list(inner)
    if pt.is_struct(type_):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in type_])
    return type_


def _directory_values(path: str, root: str) -> dict[str, str | None]:
    """The values that directories below the root name: `day=2026-01-01`."""
    try:
        parts = PurePath(path).relative_to(root).parts[:-1]
    except ValueError:
        return {}
    pairs = (part.split("=", 1) for part in parts if "=" in part)
    return {unquote(k).lower(): None if v == _NO_VALUE else unquote(v) for k, v in pairs}
