"""Checksums of whole files: CRC-32. A process looks at a file once, and again when it has changed.

What a look costs is far below what reading the same rows costs, so every file is looked at before its rows count.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

_BLOCK = 1 << 20
_REMEMBERED = 100_000

_whole: dict[str, tuple[int, int, int, int]] = {}
"""Files that were found whole, by path: (inode, time of change, size, checksum)."""


def checksum(path: Path) -> int:
    """The CRC-32 of a file's bytes; OSError when it cannot be read."""
    value = 0
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value


def amiss(path: Path, size: int, expected: int | None) -> str | None:
    """What is wrong with a file, as the end of a sentence; None when it is as it was written.

    `expected` is None for files that were written before there were checksums: of these only the size is known.
    """
    try:
        found = path.stat()
    except OSError as error:
        return "missing" if isinstance(error, FileNotFoundError) else f"not readable: {error.strerror}"
    if found.st_size != size:
        return f"damaged: it has {found.st_size} bytes instead of {size}"
    if expected is None:
        return None
    key, seen = str(path), (found.st_ino, found.st_mtime_ns, size, expected)
    if _whole.get(key) == seen:
        return None
    try:
        if checksum(path) != expected:
            return "damaged: its content is not what was written (the checksum differs)"
    except OSError as error:
        return f"not readable: {error.strerror}"
    _remember(key, seen)
    return None


def note_whole(path: Path, size: int, value: int) -> None:
    """Remember a file that this process has just written with this checksum: it need not look at it again."""
    found = path.stat()
    _remember(str(path), (found.st_ino, found.st_mtime_ns, size, value))


def _remember(key: str, seen: tuple[int, int, int, int]) -> None:
    if len(_whole) >= _REMEMBERED:
        _whole.clear()
    _whole[key] = seen


def written(path: Path) -> tuple[int, int]:
    """(size, checksum) of a file that was just written."""
    return os.path.getsize(path), checksum(path)
