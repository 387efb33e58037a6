"""Where machine code is kept when the package itself is in a zip file, as Spark ships it to the workers of a cluster.

Such a file lies in another directory in every Spark session, and numba's caches go by the directory. So every session
would compile everything again. Here they go by what the module says, in a directory of the user's own.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGE = __name__.partition(".")[0]


class ShippedCacheLocator:
    """Tells numba where the code of a function is kept whose module is in a zip file."""

    def __init__(self, function: Callable[..., Any], source: bytes, home: Path) -> None:
        self._stamp = hashlib.sha256(source).hexdigest()
        self._path = home / f"{Path(function.__code__.co_filename).stem}-{self._stamp[:16]}"
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(self._path)

    def ensure_cache_path(self) -> None:
        """OSError where nothing can be written."""
        os.makedirs(self._path, exist_ok=True)
        tempfile.TemporaryFile(dir=self._path).close()

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> ShippedCacheLocator | None:
        """None, so that numba looks elsewhere, for functions of others, for files, and where nothing can be written."""
        if function.__module__.partition(".")[0] != PACKAGE or os.path.exists(path):
            return None
        source = _source_of(function)
        for home in _homes() if source is not None else ():
            found = cls(function, source or b"", home)
            with suppress(OSError):
                home.mkdir(0o700, parents=True, exist_ok=True)
                if _is_private(home):
                    found.ensure_cache_path()
                    return found
        return None


def keep_shipped() -> None:
    """Let numba know of this place. A version of numba that asks in another way finds places of its own."""
    with suppress(ImportError, AttributeError):
        from numba.core.caching import CacheImpl

        known: list[Any] = CacheImpl._locator_classes
        if ShippedCacheLocator not in known:
            known.insert(0, ShippedCacheLocator)


def _source_of(function: Callable[..., Any]) -> bytes | None:
    """What decides about a function's code: its module, and the one that says how it is compiled."""
    texts = []
    for name in (function.__module__, f"{__package__}.compiling"):
        try:
            texts.append(find_spec(name).loader.get_source(name))  # type: ignore[union-attr]
        except (AttributeError, ImportError, OSError, ValueError):
            return None
    return "".join(text or "" for text in texts).encode()


def _homes() -> list[Path]:
    """The user's cache directory; workers of a cluster may have none, so that of temporary files after it."""
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return [Path(user, f"{PACKAGE}-kernels"), Path(tempfile.gettempdir(), f"{PACKAGE}-kernels-{os.getuid()}")]


def _is_private(home: Path) -> bool:
    """Whether nobody else can write there: what is read from there is run."""
    found = home.lstat()
    alone = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and alone
