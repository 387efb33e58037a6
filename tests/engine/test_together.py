"""Epochs that are run together: they are as one whose windows close from the first to the last."""

from __future__ import annotations

from headrace.engine.together import MOST_EPOCHS, MOST_TUPLES, gather
from headrace.model.epoch import Chunk, Epoch, StreamEpoch
from headrace.model.query import EpochId, StreamName


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
    found = gather([epoch(3), epoch(4, streams="ab"), epoch(5, streams="ab")])
    a, b = found.streams
    assert found.id == 5 and found.sealed_at == 5.0
    assert [chunk.path for chunk in a.chunks] == ["a3", "a4", "a5"]
    assert (a.closed_us, a.watermark_us, a.late_rows, a.rows) == (30, 60, 3, 30)
    assert [chunk.path for chunk in b.chunks] == ["b4", "b5"] and b.closed_us == 40
    assert found.totals()["a"] == (50, 5), "counts of all epochs are those of the last"


def test_one_epoch_stays_what_it_is() -> None:
    assert gather([epoch(3)]) == epoch(3)


def test_no_more_than_fit() -> None:
    assert gather(epoch(number) for number in range(99)).id == MOST_EPOCHS - 1
    large = [epoch(number, tuples=MOST_TUPLES // 3) for number in range(8)]
    assert gather(large).id == 2
    assert gather([epoch(0, tuples=2 * MOST_TUPLES), epoch(1)]).id == 0, "one is always taken"
