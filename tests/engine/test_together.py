"""Epochs that are run together: they are as one whose windows close from the first to the last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.catalog.queries import QueryEntry
from headrace.engine.catching_up import CatchingUp
from headrace.engine.paths import together_path
from headrace.engine.together import MOST_EPOCHS, gather, last_together
from headrace.model.epoch import Chunk, Epoch, StreamEpoch
from headrace.model.grouping import Wish
from headrace.model.query import EpochId, Fallback, Query, QueryId, StreamName
from headrace.storage.warehouse import Warehouse
from log_samples import PLAN

MANY = 1_000_000
"""Tuples that may be run together."""


def epoch(number: int, tuples: int = 10, streams: str = "a") -> Epoch:
    """
    a: W(e-1) is ten times the epoch, W(e) ten more; one of its tuples is late
    """
    return Epoch(
        EpochId(number),
        tuple(
            StreamEpoch(
                StreamName(name),
                (Chunk(f"{name}{number}", tuples, 1, 0, 1),),
                10 * number,
                10 * number + 10,
                late_rows=1,
                total=(10 * number, number),
            )
            for name in streams
        ),
        sealed_at=float(number),
    )


def test_epochs_in_a_row_are_one() -> None:
    found = gather([epoch(3), epoch(4, streams="ab"), epoch(5, streams="ab")], MANY)
    a, b = found.streams
    assert found.id == 5 and found.sealed_at == 5.0
    assert [chunk.path for chunk in a.chunks] == ["a3", "a4", "a5"]
    assert (a.closed_us, a.watermark_us, a.late_rows, a.rows) == (30, 60, 3, 30)
    assert [chunk.path for chunk in b.chunks] == ["b4", "b5"] and b.closed_us == 40
    assert found.totals()["a"] == (50, 5), "counts of all epochs are those of the last"


def test_one_epoch_stays_what_it_is() -> None:
    assert gather([epoch(3)], MANY) == epoch(3)


def test_no_more_than_fit() -> None:
    assert gather((epoch(number) for number in range(99)), MANY).id == MOST_EPOCHS - 1
    assert gather([epoch(number) for number in range(8)], 30).id == 2
    assert gather([epoch(0), epoch(1)], 5).id == 0, "one is always taken"


def entry(number: int, *, plain: bool = True, first: int = 0) -> QueryEntry:
    plan = replace(PLAN, body=Fallback("nothing covers it", None)) if plain else PLAN
    return QueryEntry(Query(QueryId(number), f"q{number}", plan), first_epoch=EpochId(first))


def test_epochs_with_the_same_plain_queries_are_run_together() -> None:
    """
    epoch     3  4  5  6  7  8
    members   a  a  a  a  ab ab      b comes with epoch 7
    """
    a, b = entry(1), entry(2, first=7)

    def members(epoch: int) -> tuple[QueryEntry, ...]:
        return (a, b) if epoch >= 7 else (a,)

    assert last_together(3, 8, members) == 6
    assert last_together(3, 5, members) == 5, "no more than is sealed"
    assert last_together(7, 99, members) == 7, "b becomes active by itself"
    assert last_together(8, 99, members) == 8 + MOST_EPOCHS - 1


def test_others_take_one_epoch_at_a_time() -> None:
    shared, leaving, new = entry(1, plain=False), replace(entry(2), wish=Wish("alerts", 4)), entry(3, first=5)
    for members in ((), (shared,), (entry(4), shared), (leaving,), (new,)):
        assert last_together(5, 9, lambda epoch, found=members: found) == 5  # type: ignore[misc]


def test_epochs_that_take_the_process_with_them_are_run_one_by_one_in_the_end(tmp_path: Path) -> None:
    """Every life tries epoch 3 with those after it, and ends in it. More of them are sealed each time."""
    tried = 0
    for life in range(5):
        group = CatchingUp("plain-7", Warehouse(tmp_path))
        if group.may_try(3):
            tried += 1
            group.begins(3, 9 + life)
    assert tried == 2
    again = CatchingUp("plain-7", Warehouse(tmp_path))
    assert not again.may_try(10) and again.may_try(11), "what was never tried may be"


def test_epochs_that_fail_together_are_not_tried_again(tmp_path: Path) -> None:
    group = CatchingUp("plain-7", Warehouse(tmp_path))
    group.begins(3, 9)
    group.failed()
    assert not CatchingUp("plain-7", Warehouse(tmp_path)).may_try(4)


def test_a_torn_note_is_forgotten(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    group = CatchingUp("plain-7", warehouse)
    group.begins(3, 9)
    group.failed()
    path = warehouse.path(together_path("plain-7"))
    path.write_bytes(path.read_bytes()[:-7])
    assert CatchingUp("plain-7", warehouse).may_try(3)
