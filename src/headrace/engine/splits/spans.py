"""Which sealed epochs a split runs together. Pure.

A split that lags runs what was sealed meanwhile as one step, which costs little more than a single epoch. Rows do not
depend on it: the order of tuples follows from their times and places, and what is late is decided by each tuple's own
epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.model.epoch import Chunk, Epoch, StreamEpoch

MOST_ROWS = 2_000_000
"""Epochs are put together up to so many tuples."""


@dataclass(frozen=True, slots=True)
class Span:
    """Epochs that run as one: their tuples, and between which watermarks. `epoch` is the last one.

    `late_us` has for each chunk the time before which its tuples are late.
    """

    epoch: int
    sealed_at: float
    chunks: tuple[Chunk, ...]
    late_us: tuple[int, ...]
    closed_us: int
    watermark_us: int


def next_span(epochs: Iterable[Epoch], stream: str, most_rows: int = MOST_ROWS) -> tuple[Span | None, int]:
    """The next epochs with tuples of a stream, or in which its time passes; and the last epoch that is over with them.

    Epochs without anything for the stream are passed over.
    """
    taken: list[tuple[Epoch, StreamEpoch]] = []
    rows, last = 0, -1
    for epoch in epochs:
        inflow = epoch.of(stream)
        if inflow is not None and (inflow.chunks or inflow.watermark_us > inflow.closed_us):
            rows += sum(chunk.rows for chunk in inflow.chunks)
            if taken and rows > most_rows:
                break
            taken.append((epoch, inflow))
        last = int(epoch.id)
    if not taken:
        return None, last
    final, inflow = taken[-1]
    return (
        Span(
            epoch=int(final.id),
            sealed_at=final.sealed_at,
            chunks=tuple(chunk for _, inflow in taken for chunk in inflow.chunks),
            late_us=tuple(inflow.closed_us for _, inflow in taken for _ in inflow.chunks),
            closed_us=taken[0][1].closed_us,
            watermark_us=inflow.watermark_us,
        ),
        last,
    )
