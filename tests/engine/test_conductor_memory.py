"""What the conductor has learnt outlives a restart, and is learnt anew where the file is damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_conductor import Engine, conductor_of, play

from headrace.catalog.events import EventBook
from headrace.engine.conductor.memory import LEARNT, Memory
from headrace.model.grouping import MAIN, auto_group
from headrace.model.query import QueryId
from headrace.optimizer.grouping.calibration import KeptSums
from headrace.running.conducting import Conducting
from headrace.storage.warehouse import Warehouse


@pytest.fixture
def house(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "house")


def test_a_conductor_goes_on_with_what_another_has_learnt(house: Warehouse) -> None:
    engine = Engine()
    for i in range(6):
        engine.create(i, 100 * i, MAIN if i == 0 else auto_group(i))
    book = EventBook(house)
    first = conductor_of(engine, book)
    stage: object = None
    before = Conducting(first, stage, book, Memory(house))  # type: ignore[arg-type]
    play(engine, first, 40)
    before._unkept = 1
    before.keep()
    learnt = first.learnt()
    assert learnt.calibration.scans and learnt.accepted

    again = conductor_of(engine, book)
    Conducting(again, stage, book, Memory(house))  # type: ignore[arg-type]
    assert again.learnt() == learnt
    costs, known = (one._state.calibration.coefficients() for one in (first, again))
    assert costs == known
    assert again._books.matches([QueryId(0)]) == first._books.matches([QueryId(0)])


def test_what_another_version_of_the_cost_model_learnt_is_learnt_anew(house: Warehouse) -> None:
    engine, book = Engine(), EventBook(house)
    engine.create(0, 0, MAIN)
    first = conductor_of(engine, book)
    play(engine, first, 20)
    learnt = first.learnt()
    fewer = {name: KeptSums((1.0,), ((2.0,),), (3.0,)) for name in learnt.calibration.scans}
    kept = replace(learnt.calibration, scans=fewer, finish=KeptSums((1.0,), ((1.0, 2.0),), ()))
    Memory(house).keep(replace(learnt, calibration=kept))
    again = conductor_of(engine, book)
    Conducting(again, object(), book, Memory(house))  # type: ignore[arg-type]
    assert fewer and again._state.calibration.coefficients().operators
    play(engine, again, 20)


def test_costs_of_streams_from_before_plans_had_costs_of_their_own_are_learnt_anew(house: Warehouse) -> None:
    """They are for more than reading, and nothing would ever correct that: no epoch has such seconds any more."""
    memory = Memory(house)
    learnt = conductor_of(Engine(), EventBook(house)).learnt()
    memory.keep(replace(learnt, meaning=1))
    assert memory.recall() is None
    memory.keep(learnt)
    assert memory.recall() == learnt


def test_what_is_damaged_is_learnt_anew(house: Warehouse, caplog: pytest.LogCaptureFixture) -> None:
    memory = Memory(house)
    assert memory.recall() is None
    memory.keep(conductor_of(Engine(), EventBook(house)).learnt())
    assert memory.recall() is not None
    house.path(LEARNT).write_bytes(b"torn")
    assert memory.recall() is None
    assert "learnt anew" in caplog.text
