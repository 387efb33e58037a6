"""A warehouse is a directory: atomic files, numbered records, one writer.

    format.json   LOCK   marks
    catalog/{streams,changelog,regroupings,archive}/   catalog/snapshot.json   catalog/requests.log
    log/<stream>/   log/arrivals/
    epochs/
    groups/<group>/{segments,commits,plans}/
    results/<signature>/

Every write is atomic: a reader sees the whole file or none. A record is JSON in an envelope (see `envelope`). Any
number of readers may look at a live warehouse; writing needs the lock. All files are private to their owner.
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

from headrace.model.errors import StorageError
from headrace.storage.envelope import envelope, open_envelope, parse_json
from headrace.storage.lock import WriterLock
from headrace.storage.marks import Marks
from headrace.storage.private import make_directory, open_new

FORMAT = "headrace-warehouse"
VERSION = 4
READABLE = (4,)
"""Version 4 has sharing groups, and key groups in its state. Older ones have neither, and are refused."""

_RECORD = re.compile(r"(\d{12})\.json")
_TEMPORARY = ".tmp-"
_RESERVED = frozenset({"arrivals"})
_MAX_FILE_NAME = 240

_WRITTEN = (
    *("", "catalog/", "catalog/*/", "log/*/", "log/*/files/", "epochs/"),
    *("groups/*/*/", "splits/*/", "splits/*/*/"),
)
"""The directories in which files are written by way of temporary ones."""


class Warehouse:
    """A warehouse directory, created when absent unless `read_only`.

    Opening refuses a directory that holds something else, and one written by another version. It does not
    take the lock: writers call `acquire` first.
    """

    def __init__(self, root: str | Path, *, read_only: bool = False) -> None:
        self.root = local_directory(root)
        self.read_only = read_only
        self._lock = WriterLock(self.root / "LOCK")
        self._marks = Marks(self.root / "marks")
        try:
            self._open()
        except OSError as error:
            raise StorageError(
                "WAREHOUSE_UNUSABLE",
                f"{self.root} cannot be used as a warehouse",
                detail=str(error),
                hint="name a directory that this user may read and write",
            ) from error

    def _open(self) -> None:
        if (self.root / "format.json").exists():
            return self._check_format()
        if self.read_only:
            raise StorageError("NO_WAREHOUSE", f"there is no warehouse at {self.root}", hint="check the path")
        if self.root.exists() and not self.root.is_dir():
            raise StorageError("NOT_A_WAREHOUSE", f"{self.root} is a file", hint="name a directory")
        make_directory(self.root)
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
        self._version = found.get("version")
        if self._version not in READABLE:
            raise StorageError(
                "WAREHOUSE_VERSION",
                f"warehouse {self.root} has version {self._version}; this Headrace reads {VERSION}",
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
        self._marks.load()
        for pattern in _WRITTEN:
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
        """Write a file that must not exist yet, durably; False, changing nothing, when it does.

        When it raises, the file is not there: it may be written again.
        """
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
        try:
            sync_directory(final.parent)
        except OSError as error:
            with contextlib.suppress(
                OSError
            ):  # nobody was told of it, so whoever tries again must not find it
                final.unlink()
            raise _unwritable(final, error) from error
        return True

    def replace(self, rel: str, data: bytes, *, durable: bool = True) -> None:
        """Write a file over whatever is there, durably; else a power failure may leave nothing or half of it."""
        final = self.path(rel)
        temporary = self._write_temporary(final, data, durable)
        try:
            os.replace(temporary, final)
            if durable:
                sync_directory(final.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise _unwritable(final, error) from error

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
            raise _unreadable(path, error) from error

    def delete(self, rel: str | Path) -> None:
        """Remove a file; a missing one is fine."""
        try:
            self.path(rel).unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(self.path(rel), error) from error

    def _write_temporary(self, final: Path, data: bytes, durable: bool = True) -> Path:
        if self.read_only:
            raise StorageError(
                "READ_ONLY", f"warehouse {self.root} was opened to read", hint="open it to write"
            )
        temporary = final.parent / f"{_TEMPORARY}{uuid.uuid4().hex}"
        try:
            make_directory(final.parent)
            with open(open_new(temporary), "wb") as file:
                file.write(data)
                file.flush()
                if durable:
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
        except OSError as error:
            raise _unreadable(self.path(rel_dir), error) from error
        return sorted(int(match.group(1)) for name in names if (match := _RECORD.fullmatch(name)))

    def put_record(self, rel_dir: str, number: int, value: Any, *, kind: str | None = None) -> bool:
        """Write record `number` of a directory, of any value `model.codec` knows; False when it exists."""
        written = self.put_if_absent(record_name(rel_dir, number), envelope(kind or rel_dir, value))
        if written:
            self.note(rel_dir, number)
        return written

    def note(self, sequence: str, number: int) -> None:
        """Remember how far a sequence has come, so that its end cannot vanish without a word."""
        if self.held:
            self._marks.reach(sequence, number)

    def sequence(self, rel_dir: str, first: int) -> list[int]:
        """Numbers of the records from `first` on; StorageError naming the first that is missing.

        The writer also knows how far the sequence has come, so that its end cannot be missing without a word.
        """
        found = [number for number in self.records(rel_dir) if number >= first]
        last = max([self.mark(rel_dir), *found[-1:]])
        there = set(found)
        for number in range(first, last + 1):
            if number not in there:
                raise self.missing(rel_dir, number)
        return found

    def mark(self, rel_dir: str) -> int:
        """The largest number that a record of this directory is known to have had; -1 when nothing is known."""
        return self._marks.get(rel_dir)

    def marked(self) -> list[str]:
        """The directories of which a record is known to have been written."""
        return self._marks.names()

    def unmark(self, rel_dir: str) -> None:
        """Forget that a directory had records: all of it goes."""
        self._marks.lower(rel_dir, -1)

    def go_back(self, rel_dir: str, number: int) -> None:
        """Let `number` be the last record of a directory: those after it were given up."""
        self._marks.lower(rel_dir, number)

    def missing(self, rel_dir: str, number: int) -> StorageError:
        """The error for a record that was written and is not there."""
        return StorageError(
            "RECORD_MISSING",
            f"{self.path(record_name(rel_dir, number))} is missing",
            detail="it was written, and everything after it builds on it",
            hint="restore it from a copy of the warehouse; nothing was changed",
        )

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


def unsafe_name(name: str) -> str:
    """The name that `safe_name` made a file name of, unless it was too long.

    >>> unsafe_name(safe_name("a b")), unsafe_name(safe_name("arrivals"))
    ('a b', 'arrivals')
    """
    return unquote(name)


def local_directory(root: str | Path) -> Path:
    """The absolute directory a path or `file:` URI names; any other URI is refused.

    >>> str(local_directory("file:///tmp/a%20b"))
    '/tmp/a b'
    """
    if not isinstance(root, str | os.PathLike):
        raise StorageError("WAREHOUSE_URI", f"a {type(root).__name__} is no path", hint="give a path")
    text = os.fsdecode(root)
    if "\0" in text:
        raise StorageError(
            "WAREHOUSE_URI", f"the path {text!r} contains a NUL character", hint="give another path"
        )
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


def _unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        "FILE_UNREADABLE", f"cannot read {path}", detail=str(error), hint="check permissions and the disk"
    )


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
