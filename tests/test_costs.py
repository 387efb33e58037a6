"""What queries have cost outlives the process, and nothing depends on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.costs import QueryCost
from headrace.running import costs
from headrace.running.costs import COSTS, CostBook
from log_samples import PLAN, PURCHASES, Opened, open_log


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path / "warehouse")
    opened.catalog.create_stream(PURCHASES, None)
    return opened


def test_costs_add_up_over_openings(log: Opened) -> None:
    for number in range(3):
        book = CostBook(log.warehouse, log.catalog)
        assert book.costs.get(1, QueryCost()).tuples == 10 * number
        book.add({1: QueryCost(0.5, 10, 5, 2, 7.0, 100.0 + number)})
        book.save()
    assert CostBook(log.warehouse, log.catalog).costs == {1: QueryCost(1.5, 30, 15, 6, 21.0, 102.0)}


def test_they_are_written_now_and_then(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "SAVE_EPOCHS", 3)
    book = CostBook(log.warehouse, log.catalog)
    for number in range(1, 6):
        book.add({1: QueryCost(tuples=1)})
        assert log.warehouse.exists(COSTS) == (number >= 3)
    assert CostBook(log.warehouse, log.catalog).costs[1].tuples == 3, "two more are lost with the process"


def test_queries_that_are_gone_are_forgotten_when_there_are_many(
    log: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "FORGET_COSTS", 4)
    query = log.catalog.request_create("a", PLAN)
    book = CostBook(log.warehouse, log.catalog)
    book.add({number: QueryCost(tuples=1) for number in range(1, 7)})
    assert set(book.costs) == {int(query.id)}


def test_damage_keeps_nobody_from_opening(log: Opened, caplog: pytest.LogCaptureFixture) -> None:
    book = CostBook(log.warehouse, log.catalog)
    book.add({1: QueryCost(tuples=1)})
    book.save()
    log.warehouse.path(COSTS).write_bytes(b"{")
    assert CostBook(log.warehouse, log.catalog).costs == {}
    assert COSTS in caplog.text


def test_what_could_not_be_written_is_written_later(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "SAVE_EPOCHS", 2)
    book, tried = CostBook(log.warehouse, log.catalog), []

    def full(*given: object) -> None:
        tried.append(given)
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(log.warehouse, "replace_value", full)
        for _ in range(4):
            book.add({1: QueryCost(tuples=1)})
    assert len(tried) == 2, "not after every epoch"
    book.save()
    assert CostBook(log.warehouse, log.catalog).costs[1].tuples == 4
    monkeypatch.setattr(log.warehouse, "replace_value", full)
    book.save()
    assert len(tried) == 2, "there is nothing new"
