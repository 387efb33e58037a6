"""What is broken: the state of the run and of every source, in words that `hr.health()` and all front doors share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RunState(Enum):
    """What the session's run does: nothing yet, epochs in the background, waiting to try again, or nothing any more."""

    IDLE = "idle"
    RUNNING = "running"
    RETRYING = "retrying"
    STOPPED = "stopped"


class SourceState(Enum):
    """Where a stream's tuples come from, and whether they come. UNATTENDED is what a session says that only reads."""

    APPEND = "fed by append"
    DETACHED = "no source attached"
    UNATTENDED = "read by who runs it"
    READING = "reading"
    RETRYING = "retrying"
    STOPPED = "stopped"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """One stream's input. `error` says why it is RETRYING or STOPPED; `retry_at` is in seconds since 1970.

    `files_waiting` are in the source's folder and not taken yet (None: Spark does not tell, for patterns and other file
    systems); `files_aside` could not be read and were set aside.
    `null_times` counts tuples without event time, `corrupt_records` JSON or CSV records that Spark could not read, and
    `ahead_rows` tuples dated so far ahead that they were not let move the watermark all the way.
    """

    stream: str
    state: SourceState
    error: str | None = None
    retry_at: float | None = None
    files_taken: int = 0
    files_waiting: int | None = 0
    files_aside: int = 0
    rows_taken: int = 0
    null_times: int = 0
    corrupt_records: int = 0
    ahead_rows: int = 0

    @property
    def problem(self) -> str | None:
        """What is wrong in a few words; None when nothing is."""
        if self.error is None and self.files_aside:
            return f"{_counted(self.files_aside, 'file')} set aside"
        return self.error

    @property
    def odd(self) -> str:
        """The tuples that somebody should know of; empty without any."""
        counts = (
            (self.null_times, "row", " without event time"),
            (self.corrupt_records, "corrupt record", ""),
            (self.ahead_rows, "row", " dated too far ahead"),
        )
        return ", ".join(f"{_counted(number, thing)}{rest}" for number, thing, rest in counts if number)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        """One line: what was taken, what waits, what was set aside, and what is odd.

        >>> print(SourceHealth("s", SourceState.READING, files_taken=1, rows_taken=100, files_waiting=2))
        stream s: 100 rows and 1 file taken, 2 files waiting, 0 files set aside
        >>> print(SourceHealth("s", SourceState.READING, files_taken=1, rows_taken=100, files_waiting=None))
        stream s: 100 rows and 1 file taken, unknown how many files are waiting, 0 files set aside
        """
        parts = [f"{_counted(self.rows_taken, 'row')} taken"]
        if self.files_taken or self.files_waiting or self.files_aside:
            parts = [f"{_counted(self.rows_taken, 'row')} and {_counted(self.files_taken, 'file')} taken"]
            unknown = self.files_waiting is None
            waiting = "unknown how many files are" if unknown else _counted(self.files_waiting or 0, "file")
            parts.append(f"{waiting} waiting")
            parts.append(f"{_counted(self.files_aside, 'file')} set aside")
        return f"stream {self.stream}: {', '.join([*parts, *([self.odd] if self.odd else [])])}"


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file of a source that could not be read. It is not tried again; its rows are in no result."""

    stream: str
    path: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a person should know. `about` names it: "the run", "stream `s`", "query `q`"."""

    about: str
    message: str
    hint: str | None
    since: float


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of `hr.health()`. `ok` is whether there is no problem; `error` is what the run waits to try again."""

    ok: bool
    run: RunState
    error: str | None
    problems: tuple[Problem, ...]
    sources: tuple[SourceHealth, ...]
    aside: tuple[SetAside, ...]

    def source(self, stream: str) -> SourceHealth:
        """The input of one stream, in any case of letters; KeyError when there is no such stream."""
        for found in self.sources:
            if found.stream.lower() == stream.lower():
                return found
        raise KeyError(stream)

    def __repr__(self) -> str:
        return f"<health: {self}>"

    def __str__(self) -> str:
        head = "ok" if self.ok else f"{len(self.problems)} problem{'s' * (len(self.problems) > 1)}"
        lines = [f"{head}; the run is {self.run.value}"]
        for problem in self.problems:
            lines.append(f"- {problem.about}: {problem.message}")
            if problem.hint:
                lines.append(f"  hint: {problem.hint}")
        return "\n".join(lines)


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
