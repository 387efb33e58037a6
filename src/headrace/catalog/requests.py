"""Requests on disk: creations and deletions of queries, each durable before its caller is told so.

    catalog/requests.log    lines `<length> <checksum> {"changelog":<number>,"change":...}`, then zeros

One durable write per request, or for those that several threads ask for at once, over zeros that are on disk already:
a full disk refuses a request and never half of it. A line counts until the changelog of its number is there. The file
starts over when it has grown and everything in it is in changelogs.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.model import codec
from headrace.model.epoch import Change
from headrace.model.errors import StorageError
from headrace.storage.private import FILE_MODE, make_directory
from headrace.storage.warehouse import Warehouse, sync_directory

REQUESTS = "catalog/requests.log"

RESERVE_BYTES = 1 << 20

_SECTOR = 512


@dataclass(frozen=True, slots=True)
class Request:
    """A change, the others that must not come without it, and the number of the changelog that will hold them.

    Older versions wrote one other change as `also`.
    """

    changelog: int
    change: Change
    also: Change | None = None
    rest: tuple[Change, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        return ((self.change,) if self.also is None else (self.change, self.also)) + self.rest


codec.register(Request)


class RequestLog:
    """The writer's end of the file. Not thread-safe; the catalog guards it."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._path = warehouse.path(REQUESTS)
        self._handle: int | None = None
        self._end = self._reserved = 0

    def add(self, request: Request, before: Callable[[], Sequence[Request]]) -> None:
        """Make a request durable, or raise a StorageError and keep it out. `before` gives those that still count."""
        try:
            if self._handle is None:
                self._start(before())
            self._append(_line(request))
        except OSError as error:
            self._give_up()
            raise StorageError(
                "REQUEST_REFUSED",
                f"the request cannot be kept: {self._path} cannot be written",
                detail=str(error),
                hint="check free space and permissions, then ask again; nothing was changed",
            ) from error

    def settled(self) -> None:
        """Everything that was added is in changelogs now. A large file starts over with the next request."""
        if self._end > RESERVE_BYTES // 2:
            self.close()

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None

    def _start(self, requests: Sequence[Request]) -> None:
        """A new file in place of the old one, with what still counts."""
        make_directory(self._path.parent)
        temporary = self._path.with_name(".tmp-requests")
        data = b"".join(map(_line, requests))
        self._handle = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, FILE_MODE)
        self._end = self._reserved = 0
        self._reserve(len(data))
        _write(self._handle, data, 0)
        self._end = len(data)
        os.fsync(self._handle)
        os.replace(temporary, self._path)
        sync_directory(self._path.parent)

    def _reserve(self, count: int) -> None:
        """Room for more bytes, written as zeros and synced.

        A line then only overwrites what is there, so its sync waits for its own bytes. In space that was reserved but
        never written, a sync also waits for the file system's journal, and with it for what others write.
        """
        assert self._handle is not None
        if self._end + count <= self._reserved:
            return
        while self._end + count > self._reserved:
            os.posix_fallocate(self._handle, self._reserved, RESERVE_BYTES)
            _write(self._handle, bytes(RESERVE_BYTES), self._reserved)
            self._reserved += RESERVE_BYTES
        os.fsync(self._handle)

    def _append(self, line: bytes) -> None:
        assert self._handle is not None
        self._reserve(len(line))
        try:
            write_durably(self._handle, line, self._end)
        except OSError:
            with contextlib.suppress(OSError):  # it was refused, so it must not be found later
                write_durably(self._handle, bytes(len(line)), self._end)
            raise
        self._end += len(line)

    def _give_up(self) -> None:
        """After a failed write nobody knows what the disk holds: the next request writes the file anew."""
        with contextlib.suppress(OSError):
            self.close()
        self._handle = None


def read_requests(path: Path) -> list[Request]:
    """The requests in the file, oldest first; StorageError when it is damaged.

    Each line is synced before the next is written. So only the last one can be half there, and then nobody was told
    that it counts: it lacks its end or its beginning, and zeros take its place.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError("FILE_UNREADABLE", f"cannot read {path}", detail=str(error)) from error
    found: list[Request] = []
    text = data.rstrip(b"\0")
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        line = text[at:] if end < 0 else text[at:end]
        body = _body(line)
        if body is None:
            if _torn(line, ended=end >= 0) and end in (-1, len(text) - 1):
                break
            raise _damaged(path, f"line {len(found) + 1} is not what was written (the checksum differs)")
        try:
            found.append(codec.from_json(json.loads(body)))
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, repr(error)) from error
        at += len(line) + 1
    return found


def _torn(line: bytes, *, ended: bool) -> bool:
    """Whether a crash in the middle of its write explains a line: a disk writes whole sectors or leaves zeros."""
    if not ended:
        return _body(line[:-1]) is None  # else only its end was changed
    return line.startswith(b"\0") or bytes(_SECTOR) in line


def _line(request: Request) -> bytes:
    body = codec.dumps(request)
    return f"{len(body)} {zlib.crc32(body):08x} ".encode() + body + b"\n"


def _body(line: bytes) -> bytes | None:
    length, _, rest = line.partition(b" ")
    checksum, _, body = rest.partition(b" ")
    whole = length == str(len(body)).encode() and checksum == f"{zlib.crc32(body):08x}".encode()
    return body if whole else None


def write_durably(handle: int, data: bytes, at: int) -> None:
    """Write bytes that are on disk when this returns, where space is reserved.

    One call does both where there is such a call: whoever returns from a call may have to wait for other threads. Some
    systems and file systems have none.
    """
    if _DURABLY is not None:
        try:
            while data:
                count = os.pwritev(handle, [data], at, _DURABLY)
                data, at = data[count:], at + count
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS):
                raise
    _write(handle, data, at)
    os.fdatasync(handle)


_DURABLY: int | None = getattr(os, "RWF_DSYNC", None)


def _write(handle: int, data: bytes, at: int) -> None:
    while data:
        count = os.pwrite(handle, data, at)
        data, at = data[count:], at + count


def _damaged(path: Path, detail: str) -> StorageError:
    return StorageError(
        "FILE_DAMAGED",
        f"{path} is damaged",
        detail=detail,
        hint="restore it from a copy of the warehouse; it holds creations and deletions of queries that no epoch has",
    )
