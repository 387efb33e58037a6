"""Bundles: named numpy arrays and Arrow tables as one run of bytes, for shuffle blobs and segments alike.

A line of JSON says what lies where; arrays begin at multiples of 64 bytes, so a memory-mapped bundle is read without
copying. The same array under several names is written once, and read as the same array.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

Blob = bytes | memoryview
"""A bundle in memory, or in a file that is mapped."""

Item = Any
"""A numpy array or an Arrow table (pyarrow has no types that mypy knows)."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Several arrays as one item of bytes: one after the other, each from a multiple of 8 on. They are not copied."""

    arrays: Sequence[Any]


_MAGIC = b"HEADRACE-BUNDLE2"
_TABLE = "arrow"
_ALIGN, _PIECE = 64, 8
_SMALL, _TOGETHER = 1 << 18, 64
"""Items of fewer bytes than this are written up to so many at a time."""


def write_bundle(items: Mapping[str, Item], sink: pa.NativeFile) -> None:
    """Write the items to an open Arrow output file: small ones together, since asking the system takes time."""
    small = list[Any]()
    for piece in _pieces(items):
        if len(piece) < _SMALL and len(small) < _TOGETHER:
            small.append(piece)
            continue
        sink.write(b"".join(small))
        sink.write(piece)
        small = []
    sink.write(b"".join(small))


def pack_bundle(items: Mapping[str, Item]) -> bytes:
    """The items as bytes."""
    return b"".join(_pieces(items))


def _pieces(items: Mapping[str, Item]) -> list[Any]:
    contents: list[list[Any]] = []
    pieces: list[Any] = []
    placed: dict[int, list[Any]] = {}
    at = 0
    for name, item in items.items():
        if id(item) not in placed:
            dtype, shape, data = _encoded(item)
            length = sum(map(len, data))
            placed[id(item)] = [dtype, shape, at, length]
            padding = -length % _ALIGN
            pieces += [*data, bytes(padding)]
            at += length + padding
        contents.append([name, *placed[id(item)]])
    header = json.dumps({"bytes": at, "items": contents}).encode()
    header += b" " * (-(len(_MAGIC) + 8 + len(header)) % _ALIGN)
    return [_MAGIC, len(header).to_bytes(8, "little"), header, *pieces]


def _encoded(item: Item) -> tuple[str, list[int], list[memoryview | bytes]]:
    if isinstance(item, pa.Table):
        return _TABLE, [], [memoryview(_table_bytes(item))]
    if isinstance(item, Pieces):
        found = list[memoryview | bytes]()
        for array in item.arrays:
            data = _bytes_of(array)
            found += [data, bytes(-len(data) % _PIECE)] if len(data) % _PIECE else [data]
        return np.dtype(np.uint8).str, [sum(map(len, found))], found
    array = np.ascontiguousarray(item)
    return array.dtype.str, list(array.shape), [_bytes_of(array)]


def _bytes_of(array: Any) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def read_bundle(source: pa.NativeFile | pa.Buffer | Blob) -> dict[str, Item]:
    """The items of a bundle; arrays are views of the source where it is in memory or memory-mapped.

    Raises ValueError for anything that is not a whole bundle.
    """
    whole = source.read_buffer() if isinstance(source, pa.NativeFile) else pa.py_buffer(source)
    view = memoryview(whole)
    start = len(_MAGIC) + 8
    if bytes(view[: len(_MAGIC)]) != _MAGIC or len(view) < start:
        raise ValueError("not a bundle, or one of another version")
    first = start + int.from_bytes(view[len(_MAGIC) : start], "little")
    header = json.loads(bytes(view[start:first]))
    if len(view) != first + header["bytes"]:
        raise ValueError(f"a bundle of {first + header['bytes']} bytes, of which {len(view)} are here")
    items: dict[str, Item] = {}
    placed: dict[tuple[int, int], Item] = {}
    for name, dtype, shape, at, length in header["items"]:
        if length == 0 or (at, length) not in placed:
            placed[at, length] = _decoded(whole, dtype, shape, first + at, length)
        items[name] = placed[at, length]
    return items


def _decoded(whole: pa.Buffer, dtype: str, shape: list[int], at: int, length: int) -> Item:
    if dtype == _TABLE:
        return pa.ipc.open_stream(whole.slice(at, length)).read_all()
    if length == 0:
        return np.empty(shape, np.dtype(dtype))
    kind = np.dtype(dtype)
    return np.frombuffer(whole, kind, length // kind.itemsize, at).reshape(shape)


def _table_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
