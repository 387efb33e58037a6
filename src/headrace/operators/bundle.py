"""Bundles: named numpy arrays and Arrow tables as one Arrow IPC file, for shuffle blobs and segments alike.

Arrays are padded to 64 bytes, so a memory-mapped bundle is read without copying. The same array under several names
is written once, and read as the same array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

Item = Any
"""A numpy array or an Arrow table (pyarrow has no types that mypy knows)."""
VERSION = "1"
_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("dtype", pa.string()),
        ("shape", pa.list_(pa.int64())),
        ("data", pa.large_binary()),
    ],
    metadata={"headrace.bundle": VERSION},
)
_TABLE = "arrow"
_SAME = "same"
_ALIGN = 64


def write_bundle(items: Mapping[str, Item], sink: pa.NativeFile) -> None:
    """Write the items to an open Arrow output file, one record batch each."""
    written: dict[int, str] = {}
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        for name, item in items.items():
            shape: list[int] = []
            same = written.setdefault(id(item), name)
            if same != name:
                dtype, data = _SAME, pa.py_buffer(same.encode())
            elif isinstance(item, pa.Table):
                dtype, data = _TABLE, _table_bytes(item)
            else:
                array = np.ascontiguousarray(item)
                dtype, shape, data = array.dtype.str, list(array.shape), pa.py_buffer(array)
            writer.write_batch(_row(name, dtype, shape, data))


def pack_bundle(items: Mapping[str, Item]) -> bytes:
    """The items as bytes."""
    sink = pa.BufferOutputStream()
    write_bundle(items, sink)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def read_bundle(source: pa.NativeFile | pa.Buffer | bytes) -> dict[str, Item]:
    """The items of a bundle; arrays are views of the source where it is in memory or memory-mapped."""
    reader = pa.ipc.open_file(pa.py_buffer(source) if isinstance(source, bytes) else source)
    version = (reader.schema.metadata or {}).get(b"headrace.bundle", b"?").decode()
    if version != VERSION:
        raise ValueError(f"bundle version {version}, expected {VERSION}")
    items: dict[str, Item] = {}
    for i in range(reader.num_record_batches):
        batch = reader.get_batch(i)
        name, dtype, shape = (batch.column(c)[0].as_py() for c in range(3))
        data = batch.column(3)[0].as_buffer()
        if dtype == _SAME:
            items[name] = items[data.to_pybytes().decode()]
        elif dtype == _TABLE:
            items[name] = pa.ipc.open_stream(data).read_all()
        else:
            count = int(np.prod(shape)) if shape else 1
            items[name] = np.frombuffer(data, np.dtype(dtype), count).reshape(shape)
    return items


def _table_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _row(name: str, dtype: str, shape: list[int], data: pa.Buffer) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.array([0, data.size], np.int64))
    column = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, data])
    return pa.RecordBatch.from_arrays(
        [pa.array([name]), pa.array([dtype]), pa.array([shape], pa.list_(pa.int64())), column], schema=_SCHEMA
    )
