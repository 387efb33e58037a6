"""Calls of a split's own code: how long they may take, what they raise, and which one a worker was in when it ended.

Whatever the code does wrong becomes an EngineError that names the call. Only the end of the process itself does not:
before each call the worker writes down which one it is.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from headrace.engine.splits.code import Packed, SplitCode, unpack
from headrace.engine.splits.faults import raised, too_slow
from headrace.model.splits import Split
from headrace.storage.private import make_directory, open_new

LONGEST_S = 1e8
"""Three years. An alarm cannot be set for some centuries."""

OPENING_S = 60.0
"""Code may take so long to be opened, whatever one call may take: it imports modules, perhaps from a cold disk."""


@contextmanager
def calling(
    split: Split,
    what: str,
    sub_stream: int | None = None,
    rows: tuple[int, int] | None = None,
    least_s: float = 0.0,
) -> Iterator[None]:
    """Run code of a split in the block, for as long as one call may take; EngineError says what it did wrong.

    Not only an Exception is caught: sys.exit() and panics of compiled code raise others.
    """
    limit = call_limit(split)
    limit = None if limit is None else max(limit, least_s)
    try:
        with limited(limit, what, sub_stream, rows):
            yield
    except SlowCall:
        raise too_slow(split.name, what, limit or 0.0) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise raised(split.name, what, error) from error


def opened(split: Split, packed: Packed) -> SplitCode:
    """The code of a split in a worker; EngineError when it cannot be there, for want of a module, say."""
    with calling(split, "the code", least_s=OPENING_S):
        return unpack(packed)


def call_limit(split: Split) -> float | None:
    """How many seconds one call of a split's code may take."""
    return None if split.call_us is None else min(split.call_us / 1e6, LONGEST_S)


class SlowCall(BaseException):
    """A call of the user's code took too long. No Exception: the user's code may catch these."""


GRACE_S = 10.0
"""A call that hears no alarm for so long after its time is in compiled code that does not return: the worker ends."""

STUCK = "Timeout ("
"""How faulthandler begins."""

_notes: IO[bytes] | None = None
"""Where this worker writes in which call it is."""


@contextmanager
def noting(path: Path) -> Iterator[None]:
    """Write the call under way into a file, so that the driver knows it should the worker have to end."""
    global _notes
    make_directory(path.parent)
    with open(open_new(path), "wb", buffering=0) as file:
        _notes = file
        try:
            yield
        finally:
            _notes = None


@dataclass(frozen=True, slots=True)
class Noted:
    """A call that a worker did not come back from: what it was, of which sub-stream, and with which rows. `stuck` when
    it took too long, so that the worker had to end.
    """

    what: str
    sub_stream: int | None
    rows: tuple[int, int] | None
    stuck: bool


def noted_calls(folder: Path) -> list[Noted]:
    """The calls that workers were in when they ended."""
    found = []
    for path in sorted(folder.glob("call-*")):
        what, _, rest = path.read_text(errors="replace").partition("\n")
        where, _, rest = rest.partition("\n")
        if what:
            sub_stream, rows = json.loads(where or "[null, null]")
            found.append(Noted(what, sub_stream, None if rows is None else tuple(rows), STUCK in rest))
    return found


def stuck_call(folder: Path) -> str | None:
    """In which call a worker had to end; None when none had to."""
    return next((call.what for call in noted_calls(folder) if call.stuck), None)


@contextmanager
def limited(
    seconds: float | None, what: str, sub_stream: int | None = None, rows: tuple[int, int] | None = None
) -> Iterator[None]:
    """Raise SlowCall in the block when it takes too long. Only the main thread of a process can do that.

    A worker that notes its calls ends when that does not help: the job fails, and its driver reads the note.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    notes = None if _notes is None else _notes.fileno()
    if notes is not None:
        os.lseek(notes, 0, os.SEEK_SET)
        os.write(notes, f"{what}\n{json.dumps([sub_stream, rows])}\n".encode())
    try:
        with _alarm(seconds):
            yield
    finally:
        if notes is not None:
            os.ftruncate(notes, 0)


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise SlowCall

    before = signal.signal(signal.SIGALRM, ring)
    if _notes is not None:
        faulthandler.dump_traceback_later(seconds + GRACE_S, exit=True, file=_notes)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # also when the alarm rings while the call ends
        if _notes is not None:
            faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
