"""Listing a source's directory: which files are there, oldest first, and how to tell whether one has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from headrace.model.errors import LogError

Stamp = tuple[int, int]
"""Size, and when it was written in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file that a listing found. `changed_ns` also moves when the file is renamed or its permissions change."""

    path: str
    stamp: Stamp
    changed_ns: int

    @property
    def written_at(self) -> float:
        return self.stamp[1] / 1e9


def list_files(root: str, stream: str) -> list[Found]:
    """Files below the root, oldest first; LogError when there is no such directory or it cannot be read."""
    try:
        return sorted(_walk(root), key=lambda found: (found.stamp[1], found.path))
    except (FileNotFoundError, NotADirectoryError):
        raise source_missing(root, stream) from None
    except OSError as error:
        raise LogError(
            "SOURCE_UNREADABLE",
            f"the source of stream `{stream}` cannot be listed: {error.filename}",
            detail=error.strerror,
            hint="let this user read the directory and all below it",
        ) from error


def look_at(path: str) -> Found | None:
    """A file as it is now; None when it is gone."""
    try:
        return _found(path, os.stat(path))
    except OSError:
        return None


def source_missing(root: str, stream: str) -> LogError:
    return LogError(
        "SOURCE_MISSING",
        f"the source of stream `{stream}` is no directory: {root}",
        hint="create the directory first",
    )


def _found(path: str, stat: os.stat_result) -> Found:
    return Found(path, (stat.st_size, stat.st_mtime_ns), stat.st_ctime_ns)


def _walk(root: str) -> Iterator[Found]:
    """Every file below the root; what Spark would not read is left out."""
    folders, seen = [root], {os.path.realpath(root)}
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except FileNotFoundError:
            if folder == root:
                raise
            continue  # it was moved away meanwhile, as files may be
        for entry in entries:
            if entry.name.startswith((".", "_")) and "=" not in entry.name:
                continue
            if entry.is_dir():
                target = os.path.realpath(entry.path)
                if target not in seen:  # links may lead round
                    seen.add(target)
                    folders.append(entry.path)
            elif not entry.name.endswith("._COPYING_"):
                with suppress(FileNotFoundError):
                    yield _found(entry.path, entry.stat())
