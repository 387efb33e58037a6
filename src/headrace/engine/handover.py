"""What map tasks hand to reduce tasks: small blobs through Spark's shuffle, large ones through files of the warehouse.

A blob in the shuffle is pickled, copied to the JVM, compressed, written, and all of that backwards; a file is written
once and mapped. A job has a directory of its own for its files and removes it. What a killed job left goes when the
warehouse is opened.
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.storage.private import create_file

LARGE_BYTES = 1 << 18
"""Blobs from this size on are files, if nothing else is said."""

Shipped = tuple[int, tuple[str, str, bytes]]
"""(reduce partition, (kind, name, blob)): what map tasks send."""


@dataclass(frozen=True, slots=True)
class Handover:
    """Where a job's large blobs go: a directory of the warehouse, relative to its root."""

    root: str
    folder: str


def hand_over(to: Handover, large_bytes: int, partition: int, operator: str, blob: bytes) -> Shipped:
    """Tuples of an operator for a reduce partition; blobs from `large_bytes` on become files."""
    if len(blob) < large_bytes:
        return partition, ("tuples", operator, blob)
    rel = f"{to.folder}/{operator}-p{partition}-{uuid.uuid4().hex}"
    path = Path(to.root, rel)
    create_file(path)
    path.write_bytes(blob)
    return partition, ("file", operator, json.dumps([rel, len(blob)]).encode())


def shipped_bytes(shipped: Shipped) -> int:
    """How much a reduce task gets, by whatever way."""
    _, (kind, _, blob) = shipped
    return int(json.loads(blob)[1]) if kind == "file" else len(blob)


def take_over(root: str, blob: bytes) -> memoryview:
    """The blob in a file."""
    rel, size = json.loads(blob)
    with pa.memory_map(str(Path(root, rel))) as source:
        found = source.read_buffer()
    if found.size != size:
        raise OSError(f"{rel} has {found.size} bytes of {size}")
    return memoryview(found)


def clear_handover(root: Path, folder: str) -> None:
    """Remove the files of one job, or of all jobs of a group."""
    shutil.rmtree(root / folder, ignore_errors=True)
