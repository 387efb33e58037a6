"""Segments: the partial results of live slices of one operator and partition, as an immutable bundle.

A segment outlives the plan that wrote it, so it names things by what they are: windows by their numbers, lanes by kind
and domain, their entries by permanent ids. It is written in the order of key groups (see `common.ordered`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.model.plan import LaneKind
from headrace.model.window import Window
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import Ints
from headrace.operators.common.ordered import Sections
from headrace.operators.common.placing import Portion
from headrace.operators.compiled.sparse import list_distinct
from headrace.operators.windows.framing import (
    HasLanes,
    KeyedSegment,
    LaneBlock,
    frame_from,
    frame_items,
    lane_items,
    lanes_from,
    meta_of,
    portion_of,
    whole_of,
)
from headrace.operators.windows.pool import Pool
from headrace.operators.windows.slices import last_ends
from headrace.operators.windows.stored_bags import query_of_entry
from headrace.operators.windows.stored_pools import pool_from, pool_items, portion_of_pool

FEW_SLICES = 256
"""Up to so many slices are told apart without a hash table that grows."""

VERSION = 4
"""Version 1 had its keys placed by another hash. In version 2 extremes of no tuple were eight bytes wide. Version 3 had
no pools.
"""


@dataclass(slots=True)
class WindowBlock:
    """Rows (key, own slice) of one window, distinct and by ascending key, with every lane's partials [entry, row].

    Partials are as narrow as `storing` makes them.
    """

    window: Window
    keys: Ints
    slices: Ints
    lanes: dict[str, LaneBlock]
    _distinct: Ints | None = None

    @property
    def distinct_slices(self) -> Ints:
        """The slices that occur, ascending; worked out once."""
        if self._distinct is None:
            self._distinct = few_distinct(self.slices)
        return self._distinct


def few_distinct(values: Ints) -> Ints:
    """The values that occur, ascending; quick when they are few.

    >>> few_distinct(np.array([7, 3, 7])).tolist()
    [3, 7]
    """
    if len(values) == 0:
        return values
    values = as_given(values)
    found, count = np.empty(FEW_SLICES, np.int64), np.ones(1, np.int64)
    found[0] = values[0]
    list_distinct(values, np.full(4 * FEW_SLICES, values[0]), found, count)
    return np.unique(values) if count[0] < 0 else np.sort(found[: count[0]])


@dataclass(slots=True)
class Segment(KeyedSegment[WindowBlock]):
    """The live slices of windows, and the tuples that are kept in place of partials."""

    pool: Pool | None = None

    @property
    def holders(self) -> Sequence[HasLanes]:
        return self.blocks if self.pool is None else [*self.blocks, self.pool]

    @property
    def last_end_us(self) -> int:
        """When the last window that needs this segment ends."""
        ends = [int(last_ends(block.window, block.slices).max()) for block in self.blocks]
        return max(ends if self.pool is None else [*ends, self.pool.last_end_us])


def segment_items(segment: Segment) -> dict[str, Item]:
    """A segment as bundle items."""
    items: dict[str, Item] = {}
    blocks = []
    for i, block in enumerate(segment.blocks):
        items |= {f"{i}.key": block.keys.astype(np.int32), f"{i}.slice": block.slices}
        found, lanes = lane_items(str(i), block.lanes)
        items |= found
        window = [block.window.range_us, block.window.slide_us, block.window.offset_us]
        blocks.append({"window": window, "lanes": lanes})
    meta: dict[str, Any] = {"version": VERSION, "blocks": blocks}
    if segment.pool is not None:
        found, meta["pool"] = pool_items(segment.pool)
        items |= found
    return items | frame_items(segment, meta)


def segment_from(items: dict[str, Item]) -> Segment:
    """The inverse of `segment_items`; arrays stay views of the bundle, so they are as narrow as they are stored."""
    meta = meta_of(items, VERSION)
    blocks = [
        WindowBlock(
            Window(*described["window"]),
            items[f"{i}.key"],
            items[f"{i}.slice"],
            lanes_from(items, str(i), described["lanes"]),
        )
        for i, described in enumerate(meta["blocks"])
    ]
    pool = pool_from(items, meta["pool"]) if "pool" in meta else None
    return Segment(blocks=blocks, pool=pool, **frame_from(items, meta))


def portion_of_segment(segment: Segment, portion: Portion) -> Segment | None:
    """The state of some keys and queries; None when that is nothing."""
    if portion.whole:
        return whole_of(segment, lambda block: block)
    assert segment.order is not None
    pool = None
    if segment.pool is not None:
        pool = portion_of_pool(segment.pool, segment.order.sections(portion), portion)
    found = portion_of(segment, portion, _portion_of_block, more=pool is not None)
    return None if found is None else replace(found, pool=pool)


def _portion_of_block(block: WindowBlock, keys: Sections, portion: Portion) -> WindowBlock | None:
    """The rows of these keys in which a query that counts has tuples."""
    entries = {
        name: np.flatnonzero(portion.queries(query_of_entry(l.ids))) for name, l in block.lanes.items()
    }
    rows = keys.rows_of(block.keys).numbers
    if portion.chooses:
        counted = np.zeros(len(rows), bool)
        for name, lane in block.lanes.items():
            if name.startswith(f"{LaneKind.ROWS.value}:"):
                counted |= (lane.partials["v"][np.ix_(entries[name], rows)] != 0).any(axis=0)
        rows = rows[counted]
    if len(rows) == 0:
        return None
    lanes = {
        name: LaneBlock(lane.ids[mine], {n: array[np.ix_(mine, rows)] for n, array in lane.partials.items()})
        for name, lane in block.lanes.items()
        if len(mine := entries[name])
    }
    return WindowBlock(block.window, keys.renumber(block.keys[rows]), block.slices[rows], lanes)
