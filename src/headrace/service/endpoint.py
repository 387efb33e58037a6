"""The endpoint file: how a command finds the service of a warehouse, and the secret that lets it in.

`service.json` lies in the warehouse while `headrace run` or `headrace serve` is up. Only its owner may read it, because
it holds the token that every request must carry.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.model.errors import StorageError
from headrace.storage.warehouse import local_directory

FILE = "service.json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a service listens, who it is and what it asks for. `command` is `run` or `serve`."""

    host: str
    port: int
    pid: int
    token: str
    command: str

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"


def new_token() -> str:
    return secrets.token_urlsafe(32)


def publish(warehouse: str | Path, endpoint: Endpoint) -> None:
    """Write the file so that a reader sees all of it or none, and nobody but the owner sees anything."""
    final = local_directory(warehouse) / FILE
    temporary = final.with_name(f".tmp-{FILE}-{os.getpid()}")
    content = json.dumps({"format": "headrace-service", "version": 1, **asdict(endpoint)})
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(temporary, final)
    except OSError as error:
        raise StorageError(
            "UNWRITABLE",
            f"{final} cannot be written",
            detail=str(error),
            hint="other commands find a running service by this file; check the rights and the disk",
        ) from error


def withdraw(warehouse: str | Path, endpoint: Endpoint) -> None:
    """Remove the file, unless another service has written its own meanwhile."""
    found = _read(warehouse)
    if found is not None and found.token == endpoint.token:
        with suppress(OSError):
            (local_directory(warehouse) / FILE).unlink()


def find(warehouse: str | Path) -> Endpoint | None:
    """The service that a file names and whose process lives; None without one, or when the file is stale."""
    found = _read(warehouse)
    return found if found is not None and _alive(found.pid) else None


def _read(warehouse: str | Path) -> Endpoint | None:
    try:
        data = json.loads((local_directory(warehouse) / FILE).read_text(encoding="utf-8"))
        return Endpoint(
            str(data["host"]), int(data["port"]), int(data["pid"]), str(data["token"]), str(data["command"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
