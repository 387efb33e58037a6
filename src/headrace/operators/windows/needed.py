"""Which stored segments an epoch reads: those of which a window closes. The others are carried on as they are.

A small epoch of a long window would otherwise pay for all keys of the window, and nobody asks for them yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.operators.common.arrays import Bools
from headrace.operators.common.encode import positions
from headrace.operators.windows.pool import Pool
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment
from headrace.operators.windows.slices import in_closing


@dataclass(frozen=True, slots=True)
class Idle:
    """What is known of segments that are not read: how many keys they have, one by one added up, and
    whether one has tuples."""

    keys: int
    pooled: bool


@dataclass(frozen=True, slots=True)
class Needed:
    """A segment that is read, and which fine slices of its pool are in a window that closes (None: it has no pool)."""

    segment: Segment
    closing: Bools | None


def needed_segments(
    logic: AggregationLogic, kept: Sequence[Segment], closed_us: int, watermark_us: int
) -> tuple[list[Needed], Idle]:
    """(the segments that hold something of a window that ends in (closed, watermark], what is known of the others).

    Bags are asked for where a window has a row, and rows are in blocks. So bags need no look of their own.
    """
    needed, others = list[Needed](), list[Segment]()
    for segment in kept:
        pool = segment.pool
        slots = None if pool is None else closing_slots(logic, pool, closed_us, watermark_us)
        if (slots is not None and slots.any()) or _blocks_close(logic, segment, closed_us, watermark_us):
            needed.append(Needed(segment, slots))
        else:
            others.append(segment)
    keys = sum(segment.keys.num_rows for segment in others)
    return needed, Idle(keys, any(segment.pool is not None for segment in others))


def _blocks_close(logic: AggregationLogic, segment: Segment, closed_us: int, watermark_us: int) -> bool:
    """Whether a window closes that holds a slice of its block."""
    asked = set(logic.operator.windows)
    return any(
        in_closing(block.window, block.distinct_slices, closed_us, watermark_us).any()
        for block in segment.blocks
        if block.window in asked
    )


def closing_slots(logic: AggregationLogic, pool: Pool, closed_us: int, watermark_us: int) -> Bools:
    """Which fine slices of a pool are in a window that closes, of a query that tuples were kept for."""
    known = positions(pool.ids, logic.column_ids) >= 0
    found = np.zeros(len(pool.starts), bool)
    for w in np.unique(logic.column_windows[known]).tolist():
        found |= in_closing(logic.operator.windows[w], pool.starts, closed_us, watermark_us)
    return found
