"""Segments: the partial results of live slices of one operator and partition, as an immutable bundle.

A segment outlives the plan that wrote it, so it names things by what they are: windows by their numbers, lanes by kind
and domain, their entries by permanent ids. It is written in the order of key groups (see `common.ordered`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.model.plan import LaneKind
from headrace.model.window import Window
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.bundle import Item
from headrace.operators.common.ordered import Sections
from headrace.operators.common.placing import Portion
from headrace.operators.compiled.sparse import list_distinct
from headrace.operators.windows.framing import (
    HasLanes,
    KeyedSegment,
    LaneBlock,
    frame_from,
    frame_items,
    meta_of,
    portion_of,
    whole_of,
)
from headrace.operators.windows.packed import PackedLane, lane_items
from headrace.operators.windows.pool import Pool
from headrace.operators.windows.slices import last_ends
from headrace.operators.windows.stored_bags import query_of_entry
from headrace.operators.windows.stored_pools import pool_from, pool_items, portion_of_pool

FEW_SLICES = 256
"""Up to so many slices are told apart without a hash table that grows."""

VERSION = 4
"""Version 1 had its keys placed by another hash. In version 2 extremes of no tuple were eight bytes wide. In version 3
each block had items of its own, and there were no pools.
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
    """The live slices of windows, and the tuples that are kept in place of partials.

    `packed` are the lanes of all blocks, by name, as they were read.
    """

    packed: Mapping[str, PackedLane] = field(default_factory=dict)
    pool: Pool | None = None

    @property
    def holders(self) -> Sequence[HasLanes]:
        return self.blocks if self.pool is None else [*self.blocks, self.pool]

    @property
    def last_end_us(self) -> int:
        """When the last window that needs this segment ends."""
        ends = [int(last_ends(block.window, block.distinct_slices).max()) for block in self.blocks]
        return max(ends if self.pool is None else [*ends, self.pool.last_end_us])


def pack_lane(blocks: Sequence[WindowBlock | None], name: str) -> PackedLane:
    """A lane of some blocks."""
    return PackedLane.of([None if block is None else block.lanes.get(name) for block in blocks])


def segment_items(segment: Segment) -> dict[str, Item]:
    """A segment as bundle items: what its blocks have, one after the other, and its pool."""
    blocks, none = segment.blocks, np.empty(0, np.int64)
    distinct = [block.distinct_slices for block in blocks]
    items: dict[str, Item] = {
        "key": np.concatenate([none.astype(np.int32), *(block.keys.astype(np.int32) for block in blocks)]),
        "slice": np.concatenate([none, *(block.slices for block in blocks)]),
        "rows": np.cumsum([0, *(len(block.keys) for block in blocks)]),
        "distinct": np.concatenate([none, *distinct]),
        "slices": np.cumsum([0, *map(len, distinct)]),
    }
    lanes = []
    for i, name in enumerate(dict.fromkeys(name for block in blocks for name in block.lanes)):
        found, parts = lane_items(str(i), [block.lanes.get(name) for block in blocks])
        items |= found
        lanes.append({"lane": name, "parts": parts})
    windows = [[b.window.range_us, b.window.slide_us, b.window.offset_us] for b in blocks]
    meta: dict[str, Any] = {"version": VERSION, "windows": windows, "lanes": lanes}
    if segment.pool is not None:
        found, meta["pool"] = pool_items(segment.pool)
        items |= found
    return items | frame_items(segment, meta)


def segment_from(items: dict[str, Item]) -> Segment:
    """The inverse of `segment_items`; arrays stay views of the bundle, so they are as narrow as they are stored."""
    meta = meta_of(items, VERSION)
    bounds, counts = items["rows"].tolist(), np.diff(items["rows"])
    packed = {
        lane["lane"]: PackedLane.read(items, str(i), lane["parts"], counts)
        for i, lane in enumerate(meta["lanes"])
    }
    rows, slices = pairwise(bounds), pairwise(items["slices"].tolist())
    blocks = []
    for i, (window, (low, high), (first, last)) in enumerate(zip(meta["windows"], rows, slices, strict=True)):
        every = ((name, lane.block(i, high - low)) for name, lane in packed.items())
        lanes = {name: block for name, block in every if block is not None}
        keys, distinct = items["key"][low:high], items["distinct"][first:last]
        blocks.append(WindowBlock(Window(*window), keys, items["slice"][low:high], lanes, distinct))
    pool = pool_from(items, meta["pool"]) if "pool" in meta else None
    return Segment(blocks=blocks, packed=packed, pool=pool, **frame_from(items, meta))


def portion_of_segment(segment: Segment, portion: Portion) -> Segment | None:
    """The state of some keys and queries; None when that is nothing."""
    if portion.whole:
        return whole_of(segment, lambda block: block)
    assert segment.order is not None
    pool = None
    if segment.pool is not None:
        pool = portion_of_pool(segment.pool, segment.order.sections(portion), portion)
    found = portion_of(replace(segment, packed={}), portion, _portion_of_block, more=pool is not None)
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
