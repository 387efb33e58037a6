"""One writer per warehouse, by an advisory lock that dies with its process.

A forked child inherits the open file, and with it the kernel's lock. It lets go of the file as soon as it runs, so that
it neither keeps the lock alive after its parent has gone nor frees it while the parent writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from weakref import WeakSet

from headrace.model.errors import StorageError


class WriterLock:
    """The right to write. The file says who holds it; the kernel frees it when the holder dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None
        _LOCKS.add(self)

    @property
    def held(self) -> bool:
        return self._handle is not None

    def acquire(self, command: str | None = None) -> None:
        """Take the lock, or raise WAREHOUSE_HELD naming who has it. Taking it twice is harmless."""
        if self._handle is not None:
            return
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageError(
                "FILE_UNWRITABLE",
                f"cannot write {self._path}",
                detail=str(error),
                hint="to write to a warehouse, this user must be allowed to; open it with read_only=True to read",
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self.holder()
            os.close(handle)
            raise _held(self._path.parent, holder) from None
        since = datetime.now(UTC).isoformat(timespec="seconds")
        who = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        text = json.dumps({**who, "command": command or " ".join(sys.argv)[:500]})
        with suppress(OSError):  # a full disk: the lock holds all the same, it only does not say whose it is
            os.ftruncate(handle, 0)
            os.write(handle, text.encode())
        self._handle = handle

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.ftruncate(handle, 0)
            # said aloud, because a process that was started from this one may still have the file open
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def _forget(self) -> None:
        """In a forked child: the lock is the parent's. Closing the file here does not free it there."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def holder(self) -> dict[str, object]:
        """What the holder wrote about itself; empty when nobody holds it or it has not written yet."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


_LOCKS: WeakSet[WriterLock] = WeakSet()


def _forget_locks() -> None:
    for lock in list(_LOCKS):
        lock._forget()


os.register_at_fork(after_in_child=_forget_locks)


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
