"""Segments of sessions: the open sessions of one operator and partition, written anew each epoch.

A segment outlives the plan that wrote it, so it names queries and lane entries by ids that are unique for ever.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import Array, Ints, narrow, one_chunk
from headrace.operators.windows.segment import LaneBlock


@dataclass(slots=True)
class SessionBlock:
    """Open sessions of some keys, ordered by query: `counts[i]` of them are of query `queries[i]`.

    A lane's parts are flat: for each of its entries one value per session of the query that the entry is of.
    """

    queries: Ints
    counts: Ints
    keys: Ints
    starts: Ints
    ends: Ints
    lanes: dict[str, LaneBlock]


@dataclass(slots=True)
class SessionSegment:
    """`words` holds, per input text, the strings behind MIN and MAX ranks."""

    keys: pa.Table
    blocks: list[SessionBlock]
    words: dict[str, pa.Array]

    @property
    def last_end_us(self) -> int:
        """When the last of these sessions ends, if nothing is added to it."""
        return max(int(block.ends.max()) for block in self.blocks)


def session_segment_items(segment: SessionSegment) -> dict[str, Item]:
    """The segment as bundle items."""
    items: dict[str, Item] = {"keys": segment.keys}
    blocks = []
    for i, block in enumerate(segment.blocks):
        items |= {f"{i}.query": block.queries, f"{i}.count": block.counts, f"{i}.key": narrow(block.keys)}
        items |= {f"{i}.start": block.starts, f"{i}.end": block.ends}
        lanes = []
        for j, (name, lane) in enumerate(block.lanes.items()):
            items[f"{i}.{j}.ids"] = lane.ids
            items |= {f"{i}.{j}.{part}": narrow(values) for part, values in lane.parts.items()}
            lanes.append({"lane": name, "parts": list(lane.parts)})
        blocks.append(lanes)
    for text, words in segment.words.items():
        items[f"words.{text}"] = pa.table({"w": words})
    meta = {"version": 1, "sessions": blocks}
    items["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    return items


def session_segment_from(items: dict[str, Item]) -> SessionSegment:
    """The inverse of `session_segment_items`."""
    meta = json.loads(items["meta"].tobytes())
    blocks = []
    for i, described in enumerate(meta["sessions"]):
        lanes = {}
        for j, lane in enumerate(described):
            parts = {part: _wide(items[f"{i}.{j}.{part}"]) for part in lane["parts"]}
            lanes[lane["lane"]] = LaneBlock(items[f"{i}.{j}.ids"], parts)
        query, count, key, start, end = (items[f"{i}.{n}"] for n in ("query", "count", "key", "start", "end"))
        blocks.append(SessionBlock(query, count, key.astype(np.int64), start, end, lanes))
    words = {n[len("words.") :]: one_chunk(t.column("w")) for n, t in items.items() if n.startswith("words.")}
    return SessionSegment(items["keys"], blocks, words)


def _wide(values: Array) -> Array:
    return values if values.dtype == np.float64 else values.astype(np.int64)
