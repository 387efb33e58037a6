"""The book of events: a bounded list that lasts, newest last.

    catalog/events.json    the last events

It is one small file that is replaced as a whole. Losing the newest event in a crash loses no row: what was decided is
in the list of regroupings.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections import deque
from collections.abc import Sequence

from headrace.model.errors import StorageError
from headrace.model.events import Event, EventKind
from headrace.storage.warehouse import Warehouse

_LOGGER = logging.getLogger(__name__)

EVENTS = "catalog/events.json"

KEPT = 500
"""So many events are kept."""

NAMED = 10
"""So many queries of an event are named."""


class EventBook:
    """The events of a warehouse. Thread-safe."""

    def __init__(self, warehouse: Warehouse, kept: int = KEPT) -> None:
        self._warehouse, self._lock = warehouse, threading.Lock()
        self._events: deque[Event] = deque(maxlen=kept)
        try:
            if warehouse.exists(EVENTS):
                self._events.extend(warehouse.read_value(EVENTS, "events"))
        except StorageError as error:  # nothing else needs it
            _LOGGER.warning("%s; events are noted from now on", error.message)
        self._next = 1 + max((event.number for event in self._events), default=-1)

    def all(self) -> tuple[Event, ...]:
        """What is known, oldest first."""
        with self._lock:
            return tuple(self._events)

    def add(
        self,
        at: float,
        kind: EventKind,
        group: str,
        reason: str,
        queries: Sequence[str] = (),
        figures: dict[str, float] | None = None,
        others: Sequence[str] = (),
    ) -> Event:
        """Note an event, durably."""
        with self._lock:
            named, count = tuple(queries[:NAMED]), len(queries)
            event = Event(
                self._next, at, kind, group, reason, named, count, figures, others=tuple(others[:NAMED])
            )
            self._next += 1
            self._events.append(event)
            self._write()
            return event

    def delayed(self, numbers: Sequence[int], seconds: float) -> None:
        """These decisions are in force, so many seconds after they were made."""
        with self._lock:
            wanted = set(numbers)
            changed = [
                dataclasses.replace(event, delay_s=seconds) if event.number in wanted else event
                for event in self._events
            ]
            self._events = deque(changed, maxlen=self._events.maxlen)
            self._write()

    def _write(self) -> None:
        self._warehouse.replace_value(EVENTS, "events", tuple(self._events))
