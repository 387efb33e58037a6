"""Which stored segments an epoch reads: those of which a window closes. The others are carried on as they are.

A small epoch of a long window would otherwise pay for all keys of the window, and nobody asks for them yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.operators.common.encode import Bools, Ints, positions
from headrace.operators.compiled.spans import place_rows
from headrace.operators.windows.pool import Pool
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment, WindowBlock
from headrace.operators.windows.spans import closing_spans


@dataclass(frozen=True, slots=True)
class Idle:
    """What is known of segments that are not read: the most keys that one of them has, and whether one has tuples."""

    keys: int
    pooled: bool


def needed_segments(
    logic: AggregationLogic, kept: Sequence[Segment], closed_us: int, watermark_us: int
) -> tuple[list[Segment], Idle]:
    """(the segments that hold something of a window that ends in (closed, watermark], what is known of the others).

    Bags are asked for where a window has a row, and rows are in blocks. So bags need no look of their own.
    """
    needed, others = list[Segment](), list[Segment]()
    for segment in kept:
        into = needed if _closes(logic, segment, closed_us, watermark_us) else others
        into.append(segment)
    keys = max((segment.keys.num_rows for segment in others), default=0)
    return needed, Idle(keys, any(segment.pool is not None for segment in others))


def _closes(logic: AggregationLogic, segment: Segment, closed_us: int, watermark_us: int) -> bool:
    if _blocks_close(logic, segment.blocks, closed_us, watermark_us):
        return True
    return segment.pool is not None and bool(
        closing_slots(logic, segment.pool, closed_us, watermark_us).any()
    )


def _blocks_close(
    logic: AggregationLogic, blocks: Sequence[WindowBlock], closed_us: int, watermark_us: int
) -> bool:
    """Whether a window closes that holds a slice of its block."""
    of_window = {block.window: block.distinct_slices for block in blocks}
    found = [(w, of_window[one]) for w, one in enumerate(logic.operator.windows) if one in of_window]
    if not found:
        return False
    numbers = np.repeat([w for w, _ in found], [len(slices) for _, slices in found])
    starts = np.concatenate([slices for _, slices in found])
    return len(closing_spans(logic.edges, numbers, starts, closed_us, watermark_us).low) > 0


def closing_slots(logic: AggregationLogic, pool: Pool, closed_us: int, watermark_us: int) -> Bools:
    """Which fine slices of a pool are in a window that closes, of a query that tuples were kept for."""
    known = positions(pool.ids, logic.column_ids) >= 0
    asked = np.bincount(logic.column_windows[known], minlength=len(logic.operator.windows)) > 0
    slots = slots_of_windows(logic, pool.starts, closed_us, watermark_us)
    found: Bools = np.logical_or.reduce(slots[asked], axis=0)
    return found


def slots_of_windows(logic: AggregationLogic, starts: Ints, closed_us: int, watermark_us: int) -> Bools:
    """[window, slot]: whether a fine slice, of which these are the ascending starts, is in a window that closes."""
    windows, count = len(logic.operator.windows), len(starts)
    numbers = np.repeat(np.arange(windows), count)
    own = logic.edges.slice_starts(numbers, np.tile(starts, windows))
    spans = closing_spans(logic.edges, numbers, own, closed_us, watermark_us)
    first, last = np.empty(len(own), np.int32), np.empty(len(own), np.int32)
    place_rows(own, np.arange(windows + 1) * count, spans.low, spans.high, spans.of, first, last)
    found: Bools = (first < last).reshape(windows, count)
    return found
