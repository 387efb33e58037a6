"""Segments: the partial results of live slices of one operator and partition, as an immutable bundle.

A segment outlives the plan that wrote it, so it names things by what they are: windows by their numbers, lanes by kind
and domain, their entries by permanent ids.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.window import Window
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import Ints, narrow, one_chunk
from headrace.operators.windows.lanes import Parts
from headrace.operators.windows.slices import last_ends


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
    items["meta"] = np.frombuffer(json.dumps({"version": 1, "blocks": blocks}).encode(), np.uint8)
    return items


def segment_from(items: dict[str, Item]) -> Segment:
    """The inverse of `segment_items`; arrays stay views of the bundle."""
    meta = json.loads(items["meta"].tobytes())
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
