"""Query changes on their way to an epoch: asked for, kept as requests, then batched into changelogs.

A changelog is one record. Requests that no changelog holds, and changelogs that no epoch holds, are found again when a
warehouse is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from headrace.catalog.requests import REQUESTS, Request, RequestLog, read_requests
from headrace.catalog.snapshot import CHANGELOG, SNAPSHOT, Changelog
from headrace.model.epoch import Change, Create
from headrace.model.errors import StorageError
from headrace.storage import faults
from headrace.storage.clock import Clock, SystemClock
from headrace.storage.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Batching:
    """So many requests make a changelog at most, and so many seconds one of them waits for others at most."""

    count: int = 100
    seconds: float = 1.0


class Waiting:
    """The changes that no epoch has taken in yet. Not thread-safe; the catalog guards it."""

    def __init__(self, warehouse: Warehouse, covered: int, batching: Batching, clock: Clock | None) -> None:
        """`covered` is the last changelog that the snapshot holds; what came after it is found on disk."""
        self.clock = clock or SystemClock()
        self._warehouse, self._batching = warehouse, batching
        self._log = RequestLog(warehouse)
        self._flushed = self._changelogs_after(covered)
        self._last = self._flushed[-1].number if self._flushed else covered
        self._requests = self._kept_requests()

    def _changelogs_after(self, covered: int) -> list[Changelog]:
        try:
            numbers = self._warehouse.sequence(CHANGELOG, covered + 1)
        except StorageError as error:
            if error.code != "RECORD_MISSING" or self._warehouse.exists(SNAPSHOT):
                raise
            # changelogs go when a snapshot covers them
            raise StorageError(
                error.code,
                f"{self._warehouse.path(SNAPSHOT)} or a changelog is missing",
                detail=error.message,
                hint=error.hint,
            ) from error
        return [self._warehouse.read_record(CHANGELOG, number, kind="changelog") for number in numbers]

    def _kept_requests(self) -> list[Change]:
        found: list[Change] = []
        for request in read_requests(self._warehouse.path(REQUESTS)):
            if request.changelog > self._last + 1:
                raise self._warehouse.missing(CHANGELOG, self._last + 1)
            if request.changelog == self._last + 1:
                found += request.changes
        if not found and self._warehouse.mark(REQUESTS) > self._last:
            path = self._warehouse.path(REQUESTS)
            raise StorageError(
                "FILE_MISSING" if not path.exists() else "FILE_DAMAGED",
                f"{path} has nothing for changelog {self._last + 1}",
                detail="creations and deletions of queries were kept there until that changelog has them",
                hint="restore it from a copy of the warehouse; nothing was changed",
            )
        return found

    def __iter__(self) -> Iterator[Change]:
        """All of them, in the order they were asked for."""
        for changelog in self._flushed:
            yield from changelog.changes
        yield from self._requests

    def ask(self, change: Change, *others: Change) -> None:
        """Keep changes durably; StorageError, and nothing has changed, when they cannot be kept.

        What is asked for together is kept together, and takes effect in the same epoch.
        """
        number = self._last + 1
        faults.reach("request.before")
        self._log.add(
            Request(number, change, rest=others), lambda: [Request(number, c) for c in self._requests]
        )
        self._warehouse.note(REQUESTS, number)
        faults.reach("request.after")
        self._requests += (change, *others)

    def flush_full(self) -> None:
        """Write a changelog when there are requests enough for one."""
        if len(self._requests) >= self._batching.count:
            with suppress(StorageError):  # they are kept as requests; the next flush says what is wrong
                self.flush()

    def due(self) -> bool:
        """Whether requests have waited for as long as they may."""
        if not self._requests:
            return False
        waited = self.clock.now() - self._requests[0].requested_at
        return waited >= self._batching.seconds or waited < 0

    def flush(self) -> int | None:
        """Write the requests as one changelog, for the next epoch to take; its number, or None when there were none."""
        if not self._requests:
            return None
        changelog = Changelog(self._last + 1, tuple(self._requests))
        faults.reach("changelog.before")
        if not self._warehouse.put_record(CHANGELOG, changelog.number, changelog, kind="changelog"):
            raise StorageError(
                "CHANGELOG_EXISTS",
                f"changelog {changelog.number} of {self._warehouse.root} was written by somebody else",
                hint="make sure that one process writes to a warehouse",
            )
        faults.reach("changelog.after")
        self._requests = []
        self._log.settled()
        self._flushed.append(changelog)
        self._last = changelog.number
        return changelog.number

    @property
    def flushed(self) -> tuple[Changelog, ...]:
        """Changelogs that are durable and in no epoch yet, oldest first."""
        return tuple(self._flushed)

    @property
    def covered(self) -> int:
        """The last changelog that an epoch or the snapshot covers; -1 before any."""
        return (self._flushed[0].number - 1) if self._flushed else self._last

    def taken(self, changelog: int) -> None:
        """An epoch holds the changelogs up to this number."""
        self._flushed = [log for log in self._flushed if log.number > changelog]
        self._last = max(self._last, changelog)

    def earliest_start(self) -> int | None:
        """The first epoch of the past that one of the changes needs; the log must keep it."""
        starts = [c.start for c in self if isinstance(c, Create) and c.start is not None]
        return min(starts, default=None)

    def forget(self, covered: int) -> None:
        """Remove the changelogs that a snapshot covers from the disk."""
        for number in self._warehouse.records(CHANGELOG):
            if number <= covered:
                self._warehouse.delete_record(CHANGELOG, number)

    def close(self) -> None:
        self._log.close()
