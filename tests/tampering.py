"""Changing what is in a file behind everybody's back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.storage import checksums
from headrace.storage.checksums import written


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of a Parquet file and nothing that this process notices: its size stays, and its checksum counts
    as looked at.
    """
    size, before = written(path)
    if str(path) in checksums._whole:  # it was changed before: what counts is what the record says
        before = checksums._whole[str(path)][3]
    table = change(pq.read_table(path)).replace_schema_metadata(None)
    padding = 0
    while True:
        with pq.ParquetWriter(
            path, table.schema, compression="zstd", store_schema=False, write_statistics=False
        ) as out:
            out.write_table(table)
            out.add_key_value_metadata({"padding": "x" * padding})
        missing = size - path.stat().st_size
        if missing == 0:
            seen = path.stat()
            checksums._whole[str(path)] = (seen.st_ino, seen.st_mtime_ns, size, before)
            return
        assert missing > 0, "the file cannot be made as small as it was"
        padding += max(missing - 4, 1)


def flip(path: Path, place: float = 0.5) -> None:
    """Change one bit of a file, somewhere between its beginning (0) and its end (1)."""
    data = bytearray(path.read_bytes())
    data[int(place * (len(data) - 1))] ^= 16
    path.write_bytes(bytes(data))


def set_value(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = value
    index = table.schema.get_field_index(column)
    return table.set_column(
        index, table.schema.field(index), pa.array(values, table.schema.field(index).type)
    )
