"""Segments: the partial results of live slices of one operator and partition, as an immutable bundle.

A segment outlives the plan that wrote it, so it names things by what they are: windows by their numbers, lanes by kind
and domain, their entries by permanent ids.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.plan import LaneKind
from headrace.model.window import Window
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import Bools, Ints, narrow, one_chunk
from headrace.operators.common.placing import Portion, key_groups_of
from headrace.operators.windows.lanes import Parts
from headrace.operators.windows.slices import last_ends
from headrace.planner.shared import COLUMNS_PER_QUERY, ENTRIES_PER_COLUMN

VERSION = 2
"""Version 1 had its keys placed by another hash."""


def query_of_entry(ids: Ints) -> Ints:
    """The query that each lane entry is of, by the way its id is made."""
    return ids // (ENTRIES_PER_COLUMN * COLUMNS_PER_QUERY)


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
    """`words` holds, per input text, the strings behind MIN and MAX ranks."""

    keys: pa.Table
    blocks: list[WindowBlock]
    words: dict[str, pa.Array]

    @property
    def last_end_us(self) -> int:
        """When the last window that needs this segment ends."""
        return max(int(last_ends(block.window, block.slices).max()) for block in self.blocks)


def segment_items(segment: Segment) -> dict[str, Item]:
    """The segment as bundle items."""
    items: dict[str, Item] = {"keys": segment.keys}
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
    items["meta"] = np.frombuffer(json.dumps({"version": VERSION, "blocks": blocks}).encode(), np.uint8)
    return items


def segment_from(items: dict[str, Item]) -> Segment:
    """The inverse of `segment_items`; arrays stay views of the bundle."""
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
        blocks.append(WindowBlock(window, items[f"{i}.key"].astype(np.int64), items[f"{i}.slice"], lanes))
    words = {n[len("words.") :]: one_chunk(t.column("w")) for n, t in items.items() if n.startswith("words.")}
    return Segment(items["keys"], blocks, words)


def portion_of_segment(segment: Segment, operator: str, portion: Portion) -> Segment | None:
    """The state of some keys and queries of an operator, by its id; None when that is nothing."""
    if portion.whole:
        return segment
    keys = portion.keys(key_groups_of(segment.keys, operator))
    blocks = [found for b in segment.blocks if (found := _portion_of_block(b, keys, portion)) is not None]
    if not blocks:
        return None
    used, place = np.flatnonzero(keys), np.cumsum(keys) - 1
    for block in blocks:
        block.keys = place[block.keys]
    return Segment(segment.keys.take(pa.array(used)), blocks, dict(segment.words))


def _portion_of_block(block: WindowBlock, keys: Bools, portion: Portion) -> WindowBlock | None:
    """The rows of these keys in which a query that counts has tuples."""
    entries = {
        name: np.flatnonzero(portion.queries(query_of_entry(l.ids))) for name, l in block.lanes.items()
    }
    rows = keys[block.keys]
    if portion.chooses:
        counted = np.zeros(len(rows), bool)
        for name, lane in block.lanes.items():
            if name.startswith(f"{LaneKind.ROWS.value}:"):
                counted |= (lane.parts["v"][entries[name]] != 0).any(axis=0)
        rows = rows & counted
    kept = np.flatnonzero(rows)
    if len(kept) == 0:
        return None
    lanes = {
        name: LaneBlock(lane.ids[mine], {n: part[np.ix_(mine, kept)] for n, part in lane.parts.items()})
        for name, lane in block.lanes.items()
        if len(mine := entries[name])
    }
    return WindowBlock(block.window, block.keys[kept], block.slices[kept], lanes)
