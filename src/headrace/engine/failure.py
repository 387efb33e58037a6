"""What kind of failure an epoch met, from the exception alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from headrace.engine.errors import query_caused, spark_reason


class FailureKind(Enum):
    """Why an epoch, or a trial of one, did not end well. The value is how a person says it."""

    ERROR = "it failed"
    MACHINE = "no fault of any query"
    MEMORY = "out of memory"
    WORKER = "lost worker"
    SPARK = "Spark died"
    TIME = "time limit"


_MACHINE = re.compile(
    r"(?:OSError|IOException|PermissionError|FileSystemException|FileNotFoundException)\b.*"
    r"(?:No space left on device|Disk quota exceeded|Read-only file system|Input/output error"
    r"|Permission denied|Too many open files)"
)
_MEMORY = re.compile(
    r"[\w.$]*(?:OutOfMemoryError|MemoryError|OUT_OF_MEMORY|NegativeArraySizeException).*|Cannot allocate memory.*"
)
_WORKER = re.compile(r"(?:Python worker (?:exited unexpectedly|failed)|ExecutorLostFailure|Lost executor).*")


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure: its kind and one line about it."""

    kind: FailureKind
    reason: str

    @property
    def by_resources(self) -> bool:
        """Whether it may be the sum of many queries that are each in order: too much memory or time together."""
        return self.kind in (FailureKind.MEMORY, FailureKind.WORKER, FailureKind.SPARK, FailureKind.TIME)

    def __str__(self) -> str:
        return self.reason if self.kind is FailureKind.ERROR else f"{self.kind.value}: {self.reason}"


class EpochTrouble(Exception):
    """An epoch could not be run, and the failure names no query. Never leaves the engine."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def failure_of(error: BaseException) -> Failure:
    """What an exception of Spark, py4j or Python says.

    >>> failure_of(RuntimeError("Job aborted: java.lang.OutOfMemoryError: Java heap space"))
    Failure(kind=<FailureKind.MEMORY: 'out of memory'>, reason='java.lang.OutOfMemoryError: Java heap space')
    >>> failure_of(UnicodeEncodeError("utf-8", chr(0xD800), 0, 1, "surrogates not allowed")).kind
    <FailureKind.ERROR: 'it failed'>
    """
    text = f"{type(error).__name__}: {error}"
    reason = (spark_reason(error) if isinstance(error, Exception) else text) or type(error).__name__
    if isinstance(error, Exception) and query_caused(error) and error.getCondition() != "PYTHON_EXCEPTION":  # type: ignore[attr-defined]
        return Failure(FailureKind.ERROR, reason)  # its text may hold tuples, which may say anything
    marks = ((FailureKind.MEMORY, _MEMORY), (FailureKind.WORKER, _WORKER), (FailureKind.MACHINE, _MACHINE))
    for kind, mark in marks:
        if found := mark.search(text):
            return Failure(kind, found.group().strip()[:300])
    return Failure(FailureKind.ERROR, reason)


def out_of_time(seconds: float) -> Failure:
    return Failure(FailureKind.TIME, f"it did not end within {seconds:,.0f} s")


def spark_died() -> Failure:
    return Failure(FailureKind.SPARK, "the process of Spark ended or stopped answering while it ran")
