"""Segments: the partial results of live slices of one operator and partition, as an immutable bundle.

A segment outlives the plan that wrote it, so it names things by what they are: windows by their numbers, lanes by kind
and domain, their entries by permanent ids. It is written in the order of key groups (see `common.ordered`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headrace.model.plan import LaneKind
from headrace.model.window import Window
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import Ints, narrow, one_chunk
from headrace.operators.common.ordered import KeyOrder, Stretches, order_keys, ranks_of
from headrace.operators.common.placing import Portion
from headrace.operators.windows.lanes import Parts
from headrace.operators.windows.slices import last_ends
from headrace.operators.windows.stored_bags import (
    Bags,
    bag_items,
    bags_from,
    order_bags,
    portion_of_bags,
    query_of_entry,
    wide_bags,
)

VERSION = 2
"""Version 1 had its keys placed by another hash."""


def check_version(meta: dict[str, object], version: int) -> None:
    """ValueError for a segment of another version."""
    if meta["version"] != version:
        raise ValueError(f"a segment of version {meta['version']}; this is version {version}")


@dataclass(slots=True)
class LaneBlock:
    """Partials [entry, row] for the lane entries with these ids."""

    ids: Ints
    parts: Parts


@dataclass(slots=True)
class WindowBlock:
    """Rows (key, own slice) of one window, distinct, with every lane's partials."""

    window: Window
    keys: Ints
    slices: Ints
    lanes: dict[str, LaneBlock]
    _distinct: Ints | None = None

    @property
    def distinct_slices(self) -> Ints:
        """The slices that occur, ascending; worked out once."""
        if self._distinct is None:
            self._distinct = np.unique(self.slices)
        return self._distinct


@dataclass(slots=True)
class Segment:
    """`words` holds, per input text, the strings or rows behind ranks; `bags` the values that are kept, by lane name.

    A bag has no key that no block has. `order` says where key groups are, when keys and rows are in their order.
    """

    keys: pa.Table
    blocks: list[WindowBlock]
    words: dict[str, pa.Array]
    bags: Bags = field(default_factory=dict)
    order: KeyOrder | None = None

    @property
    def last_end_us(self) -> int:
        """When the last window that needs this segment ends."""
        return max(int(last_ends(block.window, block.slices).max()) for block in self.blocks)


def in_order(segment: Segment, operator: str) -> Segment:
    """The segment of an operator, by its id, with keys and rows in the order of key groups."""
    if segment.order is not None:
        return segment
    order, sequence = order_keys(segment.keys, operator)
    ranks = ranks_of(sequence)
    blocks = [_ordered_block(block, ranks) for block in segment.blocks]
    bags = order_bags(segment.bags, ranks)
    return Segment(segment.keys.take(pa.array(sequence)), blocks, segment.words, bags, order)


def _ordered_block(block: WindowBlock, ranks: Ints) -> WindowBlock:
    keys = ranks[block.keys]
    rows = np.argsort(keys, kind="stable")
    # narrow first: fewer bytes are moved about
    lanes = {
        name: LaneBlock(lane.ids, {n: np.take(narrow(part), rows, axis=1) for n, part in lane.parts.items()})
        for name, lane in block.lanes.items()
    }
    return WindowBlock(block.window, keys[rows], block.slices[rows], lanes)


def segment_items(segment: Segment, operator: str) -> dict[str, Item]:
    """The segment of an operator, by its id, as bundle items."""
    segment = in_order(segment, operator)
    assert segment.order is not None
    items: dict[str, Item] = {"keys": segment.keys, "first": segment.order.first}
    blocks = []
    for i, block in enumerate(segment.blocks):
        items[f"{i}.key"] = block.keys.astype(np.int32)
        items[f"{i}.slice"] = block.slices
        lanes = []
        for j, (text, lane) in enumerate(block.lanes.items()):
            items[f"{i}.{j}.ids"] = lane.ids
            for name, part in lane.parts.items():
                items[f"{i}.{j}.{name}"] = narrow(part)
            lanes.append({"lane": text, "parts": list(lane.parts)})
        window = [block.window.range_us, block.window.slide_us, block.window.offset_us]
        blocks.append({"window": window, "lanes": lanes})
    for text, words in segment.words.items():
        items[f"words.{text}"] = pa.table({"w": words})
    items |= bag_items(segment.bags)
    meta = {"version": VERSION, "blocks": blocks, "bags": list(segment.bags)}
    items["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    return items


def segment_from(items: dict[str, Item]) -> Segment:
    """The inverse of `segment_items`; arrays stay views of the bundle, so they are as narrow as they are stored."""
    meta = json.loads(items["meta"].tobytes())
    check_version(meta, VERSION)
    blocks = []
    for i, described in enumerate(meta["blocks"]):
        lanes = {
            lane["lane"]: LaneBlock(
                items[f"{i}.{j}.ids"], {name: items[f"{i}.{j}.{name}"] for name in lane["parts"]}
            )
            for j, lane in enumerate(described["lanes"])
        }
        window = Window(*described["window"])
        blocks.append(WindowBlock(window, items[f"{i}.key"], items[f"{i}.slice"], lanes))
    words = {n[len("words.") :]: one_chunk(t.column("w")) for n, t in items.items() if n.startswith("words.")}
    bags = bags_from(items, meta.get("bags", ()))
    order = KeyOrder(items["first"]) if "first" in items else None
    return Segment(items["keys"], blocks, words, bags, order)


def portion_of_segment(segment: Segment, operator: str, portion: Portion) -> Segment | None:
    """The state of some keys and queries of an operator, by its id; None when that is nothing.

    No other keys and rows of the segment are looked at.
    """
    if portion.whole:
        return replace(segment, bags=wide_bags(segment.bags))
    segment = in_order(segment, operator)  # it is, but for segments of older versions
    assert segment.order is not None
    keys = segment.order.stretches(portion)
    blocks = [found for b in segment.blocks if (found := _portion_of_block(b, keys, portion)) is not None]
    if not blocks:
        return None
    bags = portion_of_bags(segment.bags, keys, portion)
    return Segment(keys.slice_table(segment.keys), blocks, dict(segment.words), bags)


def _portion_of_block(block: WindowBlock, keys: Stretches, portion: Portion) -> WindowBlock | None:
    """The rows of these keys in which a query that counts has tuples, with the keys' new numbers."""
    entries = {
        name: np.flatnonzero(portion.queries(query_of_entry(l.ids))) for name, l in block.lanes.items()
    }
    rows = keys.rows_of(block.keys).numbers
    if portion.chooses:
        counted = np.zeros(len(rows), bool)
        for name, lane in block.lanes.items():
            if name.startswith(f"{LaneKind.ROWS.value}:"):
                counted |= (lane.parts["v"][np.ix_(entries[name], rows)] != 0).any(axis=0)
        rows = rows[counted]
    if len(rows) == 0:
        return None
    lanes = {
        name: LaneBlock(lane.ids[mine], {n: part[np.ix_(mine, rows)] for n, part in lane.parts.items()})
        for name, lane in block.lanes.items()
        if len(mine := entries[name])
    }
    return WindowBlock(block.window, keys.renumber(block.keys[rows]), block.slices[rows], lanes)
