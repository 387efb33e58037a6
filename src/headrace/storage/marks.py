"""High-water marks: the largest number that each sequence of records has reached, so that its end cannot vanish.

A gap inside a sequence shows by itself; without the marks, a missing last record would look as if it had never been
written. The marks are one small file that is written in place after each record, without waiting for the disk. After a
power failure they may be too low, which only means that less is noticed; they are never too high.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from pathlib import Path

from headrace.model.errors import StorageError
from headrace.storage.private import FILE_MODE

_BYTES = 4096


class Marks:
    """The marks of one warehouse. `load` before use; only the writer does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks: dict[str, int] = {}
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read what the last writer left; no marks when there is no such file, or one that was cut by a crash."""
        try:
            text, _, rest = self._path.read_bytes().rstrip(b"\0\n").rpartition(b" ")
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError("FILE_UNREADABLE", f"cannot read {self._path}", detail=str(error)) from error
        if rest == f"{zlib.crc32(text):08x}".encode():
            self._marks = {str(name): int(number) for name, number in json.loads(text).items()}

    def get(self, sequence: str) -> int:
        """The largest number that was written; -1 when none is known."""
        return self._marks.get(sequence, -1)

    def names(self) -> list[str]:
        """The sequences that something is known of."""
        return list(self._marks)

    def reach(self, sequence: str, number: int) -> None:
        """Note that a record is there."""
        with self._lock:
            if number > self.get(sequence):
                self._marks[sequence] = number
                self._write()

    def lower(self, sequence: str, number: int) -> None:
        """Somebody decided to go back to an earlier record, or to none (-1)."""
        with self._lock:
            self._marks.pop(sequence, None)
            if number >= 0:
                self._marks[sequence] = number
            self._write(durably=True)

    def _write(self, *, durably: bool = False) -> None:
        """A mark that is too low only notices less, so it need not be on disk at once; one that is too high would."""
        text = json.dumps(self._marks, sort_keys=True).encode()
        data = (text + f" {zlib.crc32(text):08x}\n".encode()).ljust(_BYTES, b"\0")
        try:
            handle = os.open(self._path, os.O_CREAT | os.O_WRONLY, FILE_MODE)
            try:
                os.pwrite(handle, data, 0)
                os.ftruncate(handle, len(data))
                if durably:
                    os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            if durably:
                raise StorageError(
                    "FILE_UNWRITABLE",
                    f"cannot write {self._path}",
                    detail=str(error),
                    hint="check free space",
                ) from error
