"""The conductor's thread: its trouble is told, and stops nobody."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.catalog.events import EventBook
from headrace.model.events import EventKind
from headrace.model.query import NO_NEEDS
from headrace.running.conducting import Conducting
from headrace.storage.warehouse import Warehouse


class Troubled:
    """A conductor that fails as long as it is `broken`."""

    due, decides, interval_s = True, True, 1.0

    def __init__(self) -> None:
        self.broken, self.looks = True, 0
        self.idle = False
        self.looked = threading.Event()

    def look(self, *, early: bool = False) -> str | None:
        self.looks += 1
        self.looked.set()
        if self.idle:
            return None
        if self.broken:
            raise ZeroDivisionError("a group without tuples")
        return "what was decided"

    place = measured = lambda self, given: self.look()


@pytest.fixture
def book(tmp_path: Path) -> EventBook:
    return EventBook(Warehouse(tmp_path / "house"))


def conducting_of(conductor: Any, book: EventBook) -> Conducting:
    stage: Any = SimpleNamespace(measured=lambda group, commit: None)
    return Conducting(conductor, stage, book)


def test_trouble_is_told_once_and_tried_again(book: EventBook) -> None:
    conductor = Troubled()
    conducting = conducting_of(conductor, book)
    group: Any = SimpleNamespace(name="main")
    conducting.look()
    conducting.committed(group, group)
    assert conducting.trouble.error is not None
    [event] = book.all()
    assert event.kind is EventKind.ERROR
    assert "a group without tuples" in event.reason
    before = conductor.looks
    conducting.look()
    assert conductor.looks == before, "it rests for a while"
    conductor.idle, conducting.trouble.retry_at = True, 0.0
    conducting.look()
    assert conducting.trouble.error is not None, "nothing was due, so nothing is known to work"
    conductor.idle = conductor.broken = False
    conducting.look()
    assert conducting.trouble.error is None


def test_trouble_of_placing_is_told_once_and_puts_no_look_off(book: EventBook) -> None:
    conductor = Troubled()
    conducting = conducting_of(conductor, book)
    plan: Any = None
    for _ in range(3):
        assert conducting.place([(plan, NO_NEEDS)] * 2) == [None, None], (
            "people are not kept from creating queries"
        )
    assert [event.kind for event in book.all()] == [EventKind.ERROR]
    assert conducting.trouble.error is None, "it is not the trouble of looks"
    conductor.broken = False
    before = conductor.looks
    conducting.look()
    assert conductor.looks == before + 1, "looks go on"
    conducting.place([(plan, NO_NEEDS)])
    conductor.broken = True
    conducting.place([(plan, NO_NEEDS)])
    assert len(book.all()) == 2, "it had worked in between"


def test_the_thread_looks_on_until_it_is_stopped(book: EventBook) -> None:
    conductor = Troubled()
    conducting = conducting_of(conductor, book)
    conducting.start(2.5)
    assert conductor.looked.wait(20)
    conducting.stop()
    assert conductor.interval_s == 2.5
    assert conducting.trouble.error is not None
    seen = conductor.looks
    conducting.stop()
    assert conductor.looks == seen
