"""Records on disk: JSON that names its format and version, with a checksum over the value.

    {"format":"epoch","version":2,"checksum":"1c291ca3","value":{...}}

Records of version 1 have no checksum; they are read, never written. Large ones may have the value in lines of its own
format after such a head.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.model import codec
from headrace.model.errors import StorageError

RECORD_VERSION = 2
LINES_VERSION = 3

_VALUE = b'"value":'


def envelope(kind: str, value: Any) -> bytes:
    body = json.dumps(codec.to_json(value), separators=(",", ":")).encode()
    return _head(kind, RECORD_VERSION, body)[:-1] + b"," + _VALUE + body + b"}"


def lines_envelope(kind: str, lines: bytes) -> bytes:
    """A record whose value is not JSON as a whole: its head is a line by itself, and the value comes after it."""
    return _head(kind, LINES_VERSION, lines) + b"\n" + lines


def _head(kind: str, version: int, body: bytes) -> bytes:
    head = {"format": kind, "version": version, "checksum": _checksum(body)}
    return json.dumps(head, separators=(",", ":")).encode()


def open_lines(data: bytes, kind: str, path: Path, read: Callable[[bytes], Any]) -> Any:
    """The value of such a record, made of its lines by `read`; StorageError as below."""
    head, _, lines = data.partition(b"\n")
    found = parse_json(head, path)
    if not isinstance(found, dict) or found.get("format") != kind:
        raise _foreign(kind, path)
    _check_version(found.get("version"), (LINES_VERSION,), path)
    if found.get("checksum") != _checksum(lines):
        raise _changed(path)
    return _value_of(kind, path, read, lines)


def open_envelope(data: bytes, kind: str, path: Path) -> Any:
    """The value of a record; StorageError naming the file when it is torn, changed, foreign or of another version."""
    found = parse_json(data, path)
    if not isinstance(found, dict) or found.get("format") != kind or "value" not in found:
        raise _foreign(kind, path)
    version = found.get("version")
    _check_version(version, (1, RECORD_VERSION), path)
    if version != 1 and found.get("checksum") != _checksum(data[data.find(_VALUE) + len(_VALUE) : -1]):
        raise _changed(path)
    return _value_of(kind, path, codec.from_json, found["value"])


def _value_of(kind: str, path: Path, read: Callable[[Any], Any], data: Any) -> Any:
    try:
        return read(data)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(
            "FILE_FOREIGN",
            f"{path} does not hold a {kind}",
            detail=repr(error),
            hint="restore it from a copy of the warehouse",
        ) from error


def _foreign(kind: str, path: Path) -> StorageError:
    return StorageError(
        "FILE_FOREIGN",
        f"{path} is not a record of kind {kind}",
        hint="restore it from a copy of the warehouse",
    )


def _check_version(version: object, known: tuple[int, ...], path: Path) -> None:
    if version not in known:
        raise StorageError(
            "FILE_VERSION",
            f"{path} has record version {version}; this Headrace reads {known[0]} to {known[-1]}",
            hint="open the warehouse with the Headrace that wrote it",
        )


def _changed(path: Path) -> StorageError:
    return StorageError(
        "FILE_DAMAGED",
        f"{path} is damaged: its content is not what was written (the checksum differs)",
        hint="restore it from a copy of the warehouse",
    )


def parse_json(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StorageError(
            "FILE_TORN",
            f"{path} is torn: it is not whole JSON",
            detail=str(error),
            hint="restore it from a copy of the warehouse",
        ) from error


def _checksum(body: bytes) -> str:
    return f"{zlib.crc32(body):08x}"
