"""Records on disk: JSON that names its format and version, with a checksum over the value.

    {"format":"epoch","version":2,"checksum":"1c291ca3","value":{...}}

Records of version 1 have no checksum; they are read, never written.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from headrace.model import codec
from headrace.model.errors import StorageError

RECORD_VERSION = 2

_VALUE = b'"value":'


def envelope(kind: str, value: Any) -> bytes:
    body = json.dumps(codec.to_json(value), separators=(",", ":")).encode()
    head = {"format": kind, "version": RECORD_VERSION, "checksum": _checksum(body)}
    return json.dumps(head, separators=(",", ":"))[:-1].encode() + b"," + _VALUE + body + b"}"


def open_envelope(data: bytes, kind: str, path: Path) -> Any:
    """The value of a record; StorageError naming the file when it is torn, changed, foreign or of another version."""
    found = parse_json(data, path)
    if not isinstance(found, dict) or found.get("format") != kind or "value" not in found:
        raise StorageError(
            "FILE_FOREIGN",
            f"{path} is not a record of kind {kind}",
            hint="restore it from a copy of the warehouse",
        )
    version = found.get("version")
    if version not in (1, RECORD_VERSION):
        raise StorageError(
            "FILE_VERSION",
            f"{path} has record version {version}; this Headrace reads 1 to {RECORD_VERSION}",
            hint="open the warehouse with the Headrace that wrote it",
        )
    if version != 1 and found.get("checksum") != _checksum(data[data.find(_VALUE) + len(_VALUE) : -1]):
        raise StorageError(
            "FILE_DAMAGED",
            f"{path} is damaged: its content is not what was written (the checksum differs)",
            hint="restore it from a copy of the warehouse",
        )
    try:
        return codec.from_json(found["value"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(
            "FILE_FOREIGN",
            f"{path} does not hold a {kind}",
            detail=repr(error),
            hint="restore it from a copy of the warehouse",
        ) from error


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
