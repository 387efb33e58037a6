"""Segments of sessions: the open sessions of one operator and partition, written anew each epoch.

A segment outlives the plan that wrote it, so it names queries and lane entries by ids that are unique for ever.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import Array, Bools, Ints, narrow, one_chunk, positions, ranges
from headrace.operators.common.placing import Portion, key_groups_of
from headrace.operators.windows.segment import LaneBlock, check_version, query_of_entry

VERSION = 2
"""Version 1 had its keys placed by another hash."""


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
    meta = {"version": VERSION, "sessions": blocks}
    items["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    return items


def session_segment_from(items: dict[str, Item]) -> SessionSegment:
    """The inverse of `session_segment_items`."""
    meta = json.loads(items["meta"].tobytes())
    check_version(meta, VERSION)
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


def portion_of_sessions(segment: SessionSegment, operator: str, portion: Portion) -> SessionSegment | None:
    """The open sessions of some keys and queries of an operator, by its id; None when there are none."""
    if portion.whole:
        return segment
    keys = portion.keys(key_groups_of(segment.keys, operator))
    blocks = [found for b in segment.blocks if (found := _portion_of_block(b, keys, portion)) is not None]
    if not blocks:
        return None
    used, place = np.flatnonzero(keys), np.cumsum(keys) - 1
    for block in blocks:
        block.keys = place[block.keys]
    return SessionSegment(segment.keys.take(pa.array(used)), blocks, dict(segment.words))


def _portion_of_block(block: SessionBlock, keys: Bools, portion: Portion) -> SessionBlock | None:
    of_query = np.repeat(np.arange(len(block.queries)), block.counts)
    kept = keys[block.keys] & portion.queries(block.queries)[of_query]
    if not kept.any():
        return None
    counts = np.bincount(of_query[kept], minlength=len(block.queries))
    first, present = np.cumsum(block.counts) - block.counts, counts > 0
    lanes = {}
    for name, lane in block.lanes.items():
        query = positions(block.queries, query_of_entry(lane.ids))
        values = kept[ranges(first[query], block.counts[query])]
        lanes[name] = LaneBlock(
            lane.ids[present[query]], {part: found[values] for part, found in lane.parts.items()}
        )
    return SessionBlock(
        block.queries[present],
        counts[present],
        block.keys[kept],
        block.starts[kept],
        block.ends[kept],
        lanes,
    )
