"""A warehouse is a directory: atomic files, numbered records, one writer.

    format.json   LOCK
    catalog/{streams,changelog}/   catalog/snapshot.json
    log/<stream>/   log/arrivals/
    epochs/
    groups/<group>/{segments,commits,plans}/
    results/<signature>/

Every write is atomic: a reader sees the whole file or none. A record is JSON in an envelope that names its
format and version. Any number of readers may look at a live warehouse; writing needs the lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from headrace.catalog.lock import WriterLock
from headrace.model import codec
from headrace.model.errors import StorageError

FORMAT = "headrace-warehouse"
VERSION = 2
RECORD_VERSION = 1

_RECORD = re.compile(r"(\d{12})\.json")
_TEMPORARY = ".tmp-"
_RESERVED = frozenset({"arrivals"})
_MAX_FILE_NAME = 240


class Warehouse:
    """A warehouse directory, created when absent unless `read_only`.

    Opening refuses a directory that holds something else, and one written by another version. It does not
    take the lock: writers call `acquire` first.
    """

    def __init__(self, root: str | Path, *, read_only: bool = False) -> None:
        self.root = local_directory(root)
        self.read_only = read_only
        self._lock = WriterLock(self.root / "LOCK")
        self._open()

    def _open(self) -> None:
        if (self.root / "format.json").exists():
            return self._check_format()
        if self.read_only:
            raise StorageError("NO_WAREHOUSE", f"there is no warehouse at {self.root}", hint="check the path")
        if self.root.exists() and not self.root.is_dir():
            raise StorageError("NOT_A_WAREHOUSE", f"{self.root} is a file", hint="name a directory")
        self.root.mkdir(parents=True, exist_ok=True)
        strangers = [
            name for name in os.listdir(self.root) if name != "LOCK" and not name.startswith(_TEMPORARY)
        ]
        if strangers and not (self.root / "format.json").exists():
            raise StorageError(
                "NOT_A_WAREHOUSE",
                f"{self.root} is not empty and not a warehouse",
                detail=f"it holds {', '.join(sorted(strangers)[:5])}",
                hint="name a new or empty directory",
            )
        content = {"format": FORMAT, "version": VERSION}
        self.put_if_absent("format.json", json.dumps(content).encode())
        return self._check_format()

    def _check_format(self) -> None:
        found = parse_json(self.read("format.json"), self.path("format.json"))
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise StorageError(
                "NOT_A_WAREHOUSE", f"{self.root} is not a warehouse", hint="name another directory"
            )
        if found.get("version") != VERSION:
            raise StorageError(
                "WAREHOUSE_VERSION",
                f"warehouse {self.root} has version {found.get('version')}; this Headrace reads {VERSION}",
                hint="open it with the Headrace that wrote it",
            )

    # the lock

    @property
    def held(self) -> bool:
        """Whether this object may write."""
        return self._lock.held

    def acquire(self, command: str | None = None) -> None:
        """Become the writer, or raise WAREHOUSE_HELD naming the process that is."""
        if self.read_only:
            raise StorageError(
                "READ_ONLY", f"warehouse {self.root} was opened to read", hint="open it to write"
            )
        if self.held:
            return
        self._lock.acquire(command)
        for pattern in ("", "catalog/", "catalog/*/", "log/*/", "log/*/files/", "epochs/", "groups/*/*/"):
            for left_behind in self.root.glob(f"{pattern}{_TEMPORARY}*"):
                left_behind.unlink(missing_ok=True)

    def release(self) -> None:
        self._lock.release()

    def holder(self) -> dict[str, object]:
        """Who writes to it now: pid, host, since, command; empty when nobody does."""
        return self._lock.holder()

    # files

    def path(self, rel: str | Path) -> Path:
        """The absolute path of a file of the warehouse; an absolute path (an adopted chunk) stays itself."""
        return self.root / rel

    def exists(self, rel: str) -> bool:
        return self.path(rel).exists()

    def put_if_absent(self, rel: str, data: bytes) -> bool:
        """Write a file that must not exist yet, durably; False, changing nothing, when it does."""
        final = self.path(rel)
        temporary = self._write_temporary(final, data)
        try:
            os.link(temporary, final)
        except FileExistsError:
            return False
        except OSError as error:
            raise _unwritable(final, error) from error
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(final.parent)
        return True

    def replace(self, rel: str, data: bytes) -> None:
        """Write a file over whatever is there, durably."""
        final = self.path(rel)
        os.replace(self._write_temporary(final, data), final)
        sync_directory(final.parent)

    def read(self, rel: str) -> bytes:
        path = self.path(rel)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise StorageError(
                "FILE_MISSING",
                f"{path} is missing",
                hint="restore it from a copy of the warehouse; Headrace never deletes a file it still needs",
            ) from None
        except OSError as error:
            raise StorageError("FILE_UNREADABLE", f"cannot read {path}", detail=str(error)) from error

    def delete(self, rel: str | Path) -> None:
        """Remove a file; a missing one is fine."""
        self.path(rel).unlink(missing_ok=True)

    def _write_temporary(self, final: Path, data: bytes) -> Path:
        if self.read_only:
            raise StorageError(
                "READ_ONLY", f"warehouse {self.root} was opened to read", hint="open it to write"
            )
        temporary = final.parent / f"{_TEMPORARY}{uuid.uuid4().hex}"
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise _unwritable(final, error) from error
        return temporary

    # records

    def records(self, rel_dir: str) -> list[int]:
        """Numbers of the records in a directory, ascending; none when there is no directory."""
        try:
            names = os.listdir(self.path(rel_dir))
        except FileNotFoundError:
            return []
        return sorted(int(match.group(1)) for name in names if (match := _RECORD.fullmatch(name)))

    def put_record(self, rel_dir: str, number: int, value: Any, *, kind: str | None = None) -> bool:
        """Write record `number` of a directory, of any value `model.codec` knows; False when it exists."""
        return self.put_if_absent(record_name(rel_dir, number), envelope(kind or rel_dir, value))

    def read_record(self, rel_dir: str, number: int, *, kind: str | None = None) -> Any:
        return self.read_value(record_name(rel_dir, number), kind or rel_dir)

    def delete_record(self, rel_dir: str, number: int) -> None:
        self.delete(record_name(rel_dir, number))

    def replace_value(self, rel: str, kind: str, value: Any) -> None:
        """Write one enveloped value over whatever is there."""
        self.replace(rel, envelope(kind, value))

    def read_value(self, rel: str, kind: str) -> Any:
        """The value in an enveloped file; a torn, foreign or newer one gives a StorageError that names it."""
        return open_envelope(self.read(rel), kind, self.path(rel))

    def stream_dir(self, stream: str) -> str:
        """Where a stream's chunks live, relative to the root."""
        return f"log/{safe_name(stream)}"


def record_name(rel_dir: str, number: int) -> str:
    return f"{rel_dir}/{number:012d}.json"


def envelope(kind: str, value: Any) -> bytes:
    body = {"format": kind, "version": RECORD_VERSION, "value": codec.to_json(value)}
    return json.dumps(body, separators=(",", ":")).encode()


def open_envelope(data: bytes, kind: str, path: Path) -> Any:
    found = parse_json(data, path)
    if not isinstance(found, dict) or found.get("format") != kind or "value" not in found:
        raise StorageError(
            "FILE_FOREIGN",
            f"{path} is not a record of kind {kind}",
            hint="restore it from a copy of the warehouse",
        )
    if found.get("version") != RECORD_VERSION:
        raise StorageError(
            "FILE_VERSION",
            f"{path} has record version {found.get('version')}; this Headrace reads {RECORD_VERSION}",
            hint="open the warehouse with the Headrace that wrote it",
        )
    try:
        return codec.from_json(found["value"])
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError("FILE_FOREIGN", f"{path} does not hold a {kind}", detail=repr(error)) from error


def parse_json(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise StorageError(
            "FILE_TORN",
            f"{path} is torn: it is not whole JSON",
            detail=str(error),
            hint="restore it from a copy of the warehouse",
        ) from error


def safe_name(name: str) -> str:
    """A file name for any name, one to one.

    >>> safe_name("purchases"), safe_name("../a b"), safe_name("arrivals")
    ('purchases', '%2E.%2Fa%20b', '%61rrivals')

    A name that is too long for a file system ends with its hash.
    """
    quoted = quote(name, safe="")
    if len(quoted) > _MAX_FILE_NAME:
        quoted = f"{quoted[:150]}%%{hashlib.sha256(name.encode()).hexdigest()}"
    if quoted.startswith(".") or quoted.lower() in _RESERVED:
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    return quoted


def local_directory(root: str | Path) -> Path:
    """The absolute directory a path or `file:` URI names; any other URI is refused.

    >>> str(local_directory("file:///tmp/a%20b"))
    '/tmp/a b'
    """
    text = str(root)
    parts = urlsplit(text)
    if parts.scheme == "file":
        text = unquote(parts.path)
    elif "://" in text or (parts.scheme and re.match(r"[a-z][a-z0-9+.-]+:/", text, re.IGNORECASE)):
        raise StorageError(
            "WAREHOUSE_URI",
            f"cannot open {text}: only local directories are supported so far",
            hint="give a path or a file:// URI",
        )
    if not text:
        raise StorageError("WAREHOUSE_URI", "the warehouse path is empty", hint="give a path")
    return Path(os.path.abspath(os.path.expanduser(text)))


def _unwritable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        "FILE_UNWRITABLE",
        f"cannot write {path}",
        detail=str(error),
        hint="check permissions and free space; the file system must know hard links",
    )


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
