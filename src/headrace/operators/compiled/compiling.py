"""How kernels are compiled: ahead of their first call, and kept on disk.

The rule: a kernel is compiled when its loop depends on the data (walk the set bits of a word, merge runs), and stays
numpy where numpy runs at the speed of memory. Every kernel is compared with plain code in `tests/operators`, which is
its oracle and no second product. So are two of Linear Road's in `tests/workloads`. Its others are the rules of the road
and are compared as a whole, with `workloads/linear_road/reference.py`. What was weighed is in
`docs/decisions/0024-compiled-kernels.md`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.extending import intrinsic, register_jitable

from headrace.operators.compiled.keeping import Kept, keep_shipped

_LOGGER = logging.getLogger(__name__)

keep_shipped()

F = TypeVar("F", bound=Callable[..., Any])


def given(dtype: Any, dimensions: int = 1) -> Any:
    """The type of an array that a kernel only reads: tuples come from messages and files that cannot be written."""
    return types.Array(dtype, dimensions, "C", readonly=True)


def made(dtype: Any, dimensions: int = 1) -> Any:
    """The type of an array that a kernel writes."""
    return types.Array(dtype, dimensions, "C")


def compiled(*signatures: tuple[Any, ...], returns: Any = types.void) -> Callable[[F], F]:
    """Compile a function for exactly these lists of argument types when its module is imported.

    The machine code is kept beside the source, or in the user's cache (`keeping` has a place for one in a zip file).
    So only the first import after an installation compiles. An epoch waits for a compiler only where a worker that has
    no such files comes after the session has begun. Where no such place can be written or read, each process compiles
    anew, and says so once. One process compiles at a time, because two would write to the same files. The others wait,
    and read what is there. What is damaged there is written anew: a checksum is compared before numba reads it.
    """

    wanted = [returns(*arguments) for arguments in signatures]

    def compile_(function: F) -> F:
        kept = Kept.of(function)
        try:
            with _alone(None if kept is None else kept.folder):
                if kept is None:
                    return cast(F, njit(wanted, cache=True, nogil=True)(function))
                sound = kept.is_sound()
                if not sound:
                    kept.forget()
                try:
                    found = njit(wanted, cache=True, nogil=True)(function)
                except _DAMAGED:  # by a version of a module that pickle does not find any more
                    kept.forget()
                    found = njit(wanted, cache=True, nogil=True)(function)
                if not (sound and _was_read(found)):
                    kept.note()
                return cast(F, found)
        except (RuntimeError, OSError, *_DAMAGED) as error:
            # numba found no directory that it may write to, or the disk is full, or what is damaged stays so
            found = njit(wanted, nogil=True)(function)  # what is wrong with the kernel itself is raised here
            _say_once(f"{type(error).__name__}: {error}")
            return cast(F, found)

    return compile_


def _was_read(kernel: Any) -> bool:
    """Whether all of a kernel's code was there."""
    stats = getattr(kernel, "stats", None)
    return stats is not None and not stats.cache_misses


_DAMAGED = (EOFError, UnpicklingError, ValueError, LookupError, AttributeError, ImportError)
"""What reading a damaged file raises: pickle says that its errors are not all of one kind."""

_said: list[str] = []


def _say_once(reason: str) -> None:
    if not _said:
        _said.append(reason)
        _LOGGER.warning(
            "compiled kernels could not be read from disk or kept there, so each process compiles them anew: %s",
            reason,
        )


@contextmanager
def _alone(folder: Path | None = None) -> Iterator[None]:
    """No other process of this user compiles meanwhile; where there is no place for a lock, nobody is kept from it.

    The lock lies in the directory that the code goes to, which other machines may have, too. Where it cannot be there,
    it is among the temporary files.
    """
    lock = None if folder is None else _locked(folder)
    if lock is None:
        lock = _locked(Path(tempfile.gettempdir()))
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """A lock in a directory, which is released when it is closed.

    Others may write to that directory, too. So the lock is the user's own file, and never a link to another one.
    """
    path = folder / f"headrace-kernels-{os.getuid()}.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        os.close(lock)
        return None
    return lock


def inlined(function: F) -> F:
    """Let compiled kernels of the same module call a function: it becomes a part of each of them."""
    return register_jitable(inline="always")(function)


def called(function: F) -> F:
    """Let compiled kernels of the same module call a function. A small one becomes a part of them all the same."""
    return register_jitable(function)


def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), generate


trailing_zeros: Any = intrinsic(_trailing_zeros)
"""The position of the lowest set bit of a word that is not 0: one instruction, for compiled code only."""


def _population(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


population: Any = intrinsic(_population)
"""How many bits of a word are set: one instruction, for compiled code only."""
