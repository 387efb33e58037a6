"""One writer per warehouse, by an advisory lock that dies with its process."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from headrace.model.errors import StorageError


class WriterLock:
    """The right to write. The file says who holds it; the kernel frees it when the holder dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    @property
    def held(self) -> bool:
        return self._file is not None

    def acquire(self, command: str | None = None) -> None:
        """Take the lock, or raise WAREHOUSE_HELD naming who has it. Taking it twice is harmless."""
        if self._file is not None:
            return
        file = open(self._path, "a+", encoding="utf-8")  # noqa: SIM115 - lives as long as the lock
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self.holder()
            file.close()
            raise _held(self._path.parent, holder) from None
        file.truncate(0)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        who = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        json.dump({**who, "command": command or " ".join(sys.argv)[:500]}, file)
        file.flush()
        self._file = file

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None

    def holder(self) -> dict[str, object]:
        """What the holder wrote about itself; empty when nobody holds it or it has not written yet."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _held(root: Path, holder: dict[str, object]) -> StorageError:
    who = (
        f"process {holder.get('pid')} on {holder.get('host')}, since {holder.get('since')}"
        if holder
        else "another process"
    )
    command = holder.get("command")
    return StorageError(
        "WAREHOUSE_HELD",
        f"warehouse {root} is held by {who}",
        detail=f"command: {command}" if command else None,
        hint="close the other session, or open another warehouse",
    )
