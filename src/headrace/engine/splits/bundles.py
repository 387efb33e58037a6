"""Bundles: one file with entries of many sub-streams, so that a thousand sub-streams do not make a thousand files.

    magic, the entries one after the other, an index (JSON: number -> offset, bytes, rows), the index's size, magic

An entry is tuples as an Arrow stream, or an instance's state. A bundle that must outlive the epoch is synced.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.model.errors import StorageError
from headrace.model.splits import BundleFile
from headrace.storage.checksums import amiss, note_whole
from headrace.storage.private import make_directory, open_new
from headrace.storage.warehouse import sync_directory

_MAGIC = b"HRBUNDL1"

Entry = tuple[bytes | pa.Buffer, int]
"""The bytes of an entry, and how many rows are in it."""


def write_bundle(
    root: Path,
    path: str,
    epoch: int,
    entries: Mapping[int, Entry],
    *,
    durable: bool,
    span_us: tuple[int, int] | None = None,
) -> BundleFile:
    """Write entries as a new file. One that is not durable has no checksum: nobody reads it after a crash."""
    full = root / path
    make_directory(full.parent)
    index: dict[str, tuple[int, int, int]] = {}
    size = len(_MAGIC)
    for key, (blob, rows) in entries.items():
        index[str(key)] = (size, len(blob), rows)
        size += len(blob)
    footer = json.dumps(index, separators=(",", ":")).encode()
    pieces = [
        _MAGIC,
        *(blob for blob, _ in entries.values()),
        footer,
        len(footer).to_bytes(8, "little"),
        _MAGIC,
    ]
    size, crc = size + len(footer) + 8 + len(_MAGIC), 0
    with open(open_new(full), "wb") as file:
        for piece in pieces:
            file.write(piece)
            crc = zlib.crc32(piece, crc) if durable else 0
        file.flush()
        if durable:
            os.fsync(file.fileno())
    if durable:
        note_whole(full, size, crc)
        sync_directory(full.parent)
    low, high = span_us or (0, 0)
    return BundleFile(path, epoch, size, crc, sum(rows for _, rows in entries.values()), low, high)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that is open to read: mapped into memory, so that only what is used is read."""

    data: memoryview
    index: dict[str, tuple[int, int, int]]

    def entry(self, key: int) -> memoryview | None:
        """The bytes of an entry; None when there is none."""
        found = self.index.get(str(key))
        return None if found is None else self.data[found[0] : found[0] + found[1]]


def open_bundle(root: Path, file: BundleFile, *, durable: bool) -> Bundle:
    """A bundle as it was written; StorageError naming it when it is missing or damaged."""
    path = root / file.path
    wrong = amiss(path, file.bytes, file.checksum if durable else None)
    if wrong is not None:
        raise StorageError(
            "SPLIT_STATE_DAMAGED",
            f"{path} is {wrong}",
            hint="restore it from a copy of the warehouse: a split's state is kept nowhere else",
        )
    with pa.memory_map(str(path)) as source:
        data = memoryview(source.read_buffer())
    size = int.from_bytes(data[-16:-8], "little")
    return Bundle(data, json.loads(bytes(data[-16 - size : -16])))


def to_stream(table: pa.Table) -> pa.Buffer:
    """A table as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def from_stream(blob: memoryview) -> pa.Table:
    """The table of an Arrow stream; its columns stay where the bytes are."""
    with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
        return reader.read_all()
