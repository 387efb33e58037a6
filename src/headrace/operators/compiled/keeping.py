"""Where machine code is kept when the package itself is in a zip file, as Spark ships it to the workers of a cluster.

Such a file lies in another directory in every Spark session, and numba's caches go by the directory. So every session
would compile everything again. Here they go by what the module says and by the processor, in a directory of the user's
own. Machines with other processors may share it, as home directories on a network are.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import llvmlite.binding as llvm

PACKAGE = __name__.partition(".")[0]
_COMPILING = f"{__package__}.compiling"
_SUM = ".sha256"


class ShippedCacheLocator:
    """Tells numba where the code of a function is kept whose module is in a zip file."""

    def __init__(self, function: Callable[..., Any], source: bytes, home: Path) -> None:
        self._stamp = hashlib.sha256(source).hexdigest()
        name = Path(function.__code__.co_filename).stem
        self._path = home / f"{name}-{self._stamp[:16]}-{_processor()[:8]}"
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(self._path)

    def ensure_cache_path(self) -> None:
        """OSError where nothing can be written, or others can write, too."""
        self._path.mkdir(0o700, exist_ok=True)
        if not _is_private(self._path):
            raise PermissionError(f"others can write to {self._path}")
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


@dataclass(frozen=True, slots=True)
class Kept:
    """Where numba keeps the machine code of a function, in a zip file or not: a directory, and how its files begin.

    A checksum lies beside them. LLVM ends the process when it is given damaged code, so numba may read only what was
    compared with it. The checksum is also of the module `compiling`, whose functions are parts of kernels.
    """

    folder: Path
    base: str

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Kept | None:
        """None where it finds no place, or where a version of numba does not say so."""
        with suppress(ImportError, AttributeError, RuntimeError, OSError):
            from numba.core import caching

            found = cast(Any, caching).CompileResultCacheImpl(function)
            folder = Path(found.locator.get_cache_path())
            return cls(folder, found.filename_base)
        return None

    def is_sound(self) -> bool:
        """Whether the files are as they were written."""
        try:
            return (self.folder / f"{self.base}{_SUM}").read_text() == self._sum()
        except (OSError, UnicodeDecodeError):
            return False

    def note(self) -> None:
        """Keep the checksum of the files. Where that cannot be written, the next process compiles anew."""
        place = self.folder / f"{self.base}{_SUM}"
        written = place.with_name(f"{place.name}.{os.getpid()}")
        try:
            written.write_text(self._sum())
            written.replace(place)
        except OSError:
            with suppress(OSError):
                written.unlink(missing_ok=True)

    def forget(self) -> None:
        """Let numba compile the function anew, and write over what is there."""
        for ending in (".nbi", _SUM):
            with suppress(OSError):
                (self.folder / f"{self.base}{ending}").unlink(missing_ok=True)

    def _sum(self) -> str:
        names = sorted(name for name in os.listdir(self.folder) if name.startswith(f"{self.base}."))
        found = hashlib.sha256((_text_of(_COMPILING) or "").encode())
        for name in names:
            if name.endswith((".nbi", ".nbc")):
                code = (self.folder / name).read_bytes()
                found.update(f"{name} {len(code)} ".encode() + code)
        return found.hexdigest()


def keep_shipped() -> None:
    """Let numba know of this place. A version of numba that asks in another way finds places of its own."""
    with suppress(ImportError, AttributeError):
        from numba.core.caching import CacheImpl

        known: list[Any] = CacheImpl._locator_classes
        if ShippedCacheLocator not in known:
            known.insert(0, ShippedCacheLocator)


def _source_of(function: Callable[..., Any]) -> bytes | None:
    """What decides about a function's code: its module, and the one that says how it is compiled. None without text."""
    texts = [_text_of(name) for name in (function.__module__, _COMPILING)]
    if None in texts:  # an empty one would be the same after every change
        return None
    return "".join(text or "" for text in texts).encode()


def _text_of(module: str) -> str | None:
    """The text of a module, if there is one."""
    try:
        text: str | None = find_spec(module).loader.get_source(module)  # type: ignore[union-attr]
    except (AttributeError, ImportError, OSError, ValueError):
        return None
    return text


@cache
def _processor() -> str:
    """A hash of what machine code is made for: the name of the processor and what it can do."""
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM does not know; numba makes code for any processor of this name then
        features = ""
    return hashlib.sha256(f"{llvm.get_host_cpu_name()} {features}".encode()).hexdigest()


def _homes() -> list[Path]:
    """The user's cache directory; workers of a cluster may have none, so that of temporary files after it."""
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    homes = [
        Path(user, f"{PACKAGE}-kernels"),
        Path(tempfile.gettempdir(), f"{PACKAGE}-kernels-{os.getuid()}"),
    ]
    return [home for home in homes if home.is_absolute()]  # a user that nobody knows has "~" for a home


def _is_private(home: Path) -> bool:
    """Whether nobody else can write there: what is read from there is run."""
    found = home.lstat()
    alone = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and alone
