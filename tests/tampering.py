"""Changing what is in a Parquet file behind everybody's back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of a Parquet file and nothing that a look at the directory shows: its size stays."""
    size = path.stat().st_size
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
            return
        assert missing > 0, "the file cannot be made as small as it was"
        padding += max(missing - 4, 1)


def set_value(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = value
    index = table.schema.get_field_index(column)
    return table.set_column(
        index, table.schema.field(index), pa.array(values, table.schema.field(index).type)
    )
