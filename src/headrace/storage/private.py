"""Files of a warehouse are private to their owner: directories 0700, files 0600, whatever the umask says."""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600


def make_directory(path: Path) -> None:
    """Create a directory and those above it that are missing, all private. One that exists stays as it is."""
    if path.is_dir():
        return
    missing = [path]
    while not (parent := missing[-1].parent).is_dir():
        missing.append(parent)
    for directory in reversed(missing):
        directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


def create_file(path: Path) -> None:
    """An empty private file in a private directory, for a writer that opens it by its name."""
    make_directory(path.parent)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, FILE_MODE))


def open_new(path: Path) -> int:
    """A handle to write a private file that must not exist yet."""
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE)
