"""Feeding: the sources of all streams, read one after the other; the trouble of one is no trouble of the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from headrace.log.folder import FolderIngest
from headrace.log.ingest import Ingest
from headrace.model.errors import HeadraceError
from headrace.running.retries import Retry


@dataclass(slots=True)
class Feed:
    """A source that is read, and how its last reading went."""

    ingest: Ingest | FolderIngest
    retry: Retry

    def attempt(self, act: Callable[[], None]) -> HeadraceError | None:
        """Let the ingest do something; what went wrong is kept, and told."""
        try:
            act()
        except Exception as error:
            return self.retry.failed(error)
        self.retry.passed()
        return None


class Feeds:
    """Sources by stream. In the background every tick reads what is due; a failing one is read again later."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._feeds: dict[str, Feed] = {}
        self._interval: float | None = None

    def add(self, stream: str, ingest: Ingest | FolderIngest) -> None:
        feed = self._feeds[stream] = Feed(ingest, Retry(self._clock))
        if (seconds := self._interval) is not None:
            feed.attempt(partial(ingest.start, seconds))

    def get(self, stream: str) -> Feed | None:
        return self._feeds.get(stream)

    def all(self) -> dict[str, Feed]:
        return dict(self._feeds)

    def remove(self, stream: str) -> None:
        feed = self._feeds.pop(stream, None)
        if feed is not None:
            feed.ingest.stop()

    def start(self, seconds: float) -> None:
        """Read in the background from now on; one that cannot start is tried again at ticks."""
        self._interval = seconds
        for feed in list(self._feeds.values()):
            feed.attempt(partial(feed.ingest.start, seconds))

    def tick(self) -> None:
        """Read what is new, where it is time to."""
        for feed in list(self._feeds.values()):
            if feed.retry.due:
                feed.attempt(feed.ingest.tick)

    def run_available(self, interrupted: threading.Event) -> list[HeadraceError]:
        """Read everything that the sources have now; the errors of those that cannot be read."""
        errors = []
        for feed in list(self._feeds.values()):
            if not interrupted.is_set():
                errors.append(feed.attempt(feed.ingest.run_available))
        return [error for error in errors if error is not None]

    def stop(self) -> None:
        """Read no more in the background."""
        self._interval = None
        for feed in list(self._feeds.values()):
            with suppress(Exception):
                feed.ingest.stop()
