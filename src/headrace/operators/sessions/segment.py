"""Segments of sessions: the open sessions of one operator and partition, written anew each epoch.

A segment outlives the plan that wrote it, so it names queries and lane entries by ids that are unique for ever. It is
written in the order of key groups (see `common.ordered`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import Array, Ints, narrow, one_chunk, positions, ranges
from headrace.operators.common.ordered import KeyOrder, Stretches, order_keys, ranks_of
from headrace.operators.common.placing import Portion
from headrace.operators.windows.segment import LaneBlock, check_version
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


@dataclass(slots=True)
class SessionBlock:
    """Open sessions of some keys, ordered by query: `counts[i]` of them are of query `queries[i]`, by ascending key.

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
    """`words` holds, per input text, the strings behind ranks; `bags` the values that are kept, by lane name.

    A bag has no key that no block has. `order` says where key groups are, when the keys are in their order.
    """

    keys: pa.Table
    blocks: list[SessionBlock]
    words: dict[str, pa.Array]
    bags: Bags = field(default_factory=dict)
    order: KeyOrder | None = None

    @property
    def last_end_us(self) -> int:
        """When the last of these sessions ends, if nothing is added to it."""
        return max(int(block.ends.max()) for block in self.blocks)


def in_order(segment: SessionSegment, operator: str) -> SessionSegment:
    """The segment of an operator, by its id, with keys and rows in the order of key groups."""
    if segment.order is not None:
        return segment
    order, sequence = order_keys(segment.keys, operator)
    ranks = ranks_of(sequence)
    blocks = []
    for block in segment.blocks:
        keys = ranks[block.keys]
        of_query = np.repeat(np.arange(len(block.queries)), block.counts)
        blocks.append(_some_sessions(replace(block, keys=keys), np.lexsort((keys, of_query)), block.counts))
    bags = order_bags(segment.bags, ranks)
    return SessionSegment(segment.keys.take(pa.array(sequence)), blocks, segment.words, bags, order)


def session_segment_items(segment: SessionSegment, operator: str) -> dict[str, Item]:
    """The segment of an operator, by its id, as bundle items."""
    segment = in_order(segment, operator)
    assert segment.order is not None
    items: dict[str, Item] = {"keys": segment.keys, "first": segment.order.first}
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
    items |= bag_items(segment.bags)
    meta = {"version": VERSION, "sessions": blocks, "bags": list(segment.bags)}
    items["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    return items


def session_segment_from(items: dict[str, Item]) -> SessionSegment:
    """The inverse of `session_segment_items`; arrays stay views of the bundle, so they are as narrow as stored."""
    meta = json.loads(items["meta"].tobytes())
    check_version(meta, VERSION)
    blocks = []
    for i, described in enumerate(meta["sessions"]):
        lanes = {}
        for j, lane in enumerate(described):
            parts = {part: items[f"{i}.{j}.{part}"] for part in lane["parts"]}
            lanes[lane["lane"]] = LaneBlock(items[f"{i}.{j}.ids"], parts)
        query, count, key, start, end = (items[f"{i}.{n}"] for n in ("query", "count", "key", "start", "end"))
        blocks.append(SessionBlock(query, count, key, start, end, lanes))
    words = {n[len("words.") :]: one_chunk(t.column("w")) for n, t in items.items() if n.startswith("words.")}
    order = KeyOrder(items["first"]) if "first" in items else None
    return SessionSegment(items["keys"], blocks, words, bags_from(items, meta.get("bags", ())), order)


def portion_of_sessions(segment: SessionSegment, operator: str, portion: Portion) -> SessionSegment | None:
    """The open sessions of some keys and queries of an operator, by its id; None when there are none.

    No other keys and sessions of the segment are looked at.
    """
    if portion.whole:
        return replace(
            segment, blocks=[_wide(block) for block in segment.blocks], bags=wide_bags(segment.bags)
        )
    segment = in_order(segment, operator)  # it is, but for segments of older versions
    assert segment.order is not None
    keys = segment.order.stretches(portion)
    blocks = [found for b in segment.blocks if (found := _portion_of_block(b, keys, portion)) is not None]
    if not blocks:
        return None
    bags = portion_of_bags(segment.bags, keys, portion)
    return SessionSegment(keys.slice_table(segment.keys), blocks, dict(segment.words), bags)


def _portion_of_block(block: SessionBlock, keys: Stretches, portion: Portion) -> SessionBlock | None:
    counts, kept = np.zeros(len(block.queries), np.int64), []
    first = np.cumsum(block.counts) - block.counts
    for query in np.flatnonzero(portion.queries(block.queries)).tolist():
        mine = slice(first[query], first[query] + block.counts[query])
        kept.append(first[query] + keys.rows_of(block.keys[mine]).numbers)
        counts[query] = len(kept[-1])
    if not counts.any():
        return None
    some = _some_sessions(block, np.concatenate(kept), counts)
    return _wide(replace(some, keys=keys.renumber(some.keys)))


def _some_sessions(block: SessionBlock, rows: Ints, counts: Ints) -> SessionBlock:
    """Some sessions, by their rows: `counts` of each query in turn."""
    first, present = np.cumsum(block.counts) - block.counts, counts > 0
    taken = np.cumsum(counts) - counts
    lanes = {}
    for name, lane in block.lanes.items():
        query = positions(block.queries, query_of_entry(lane.ids))
        # an entry's values lie as its query's sessions do
        shift = np.cumsum(block.counts[query]) - block.counts[query] - first[query]
        values = np.repeat(shift, counts[query]) + rows[ranges(taken[query], counts[query])]
        lanes[name] = LaneBlock(
            lane.ids[present[query]], {part: found[values] for part, found in lane.parts.items()}
        )
    return SessionBlock(
        block.queries[present],
        counts[present],
        block.keys[rows],
        block.starts[rows],
        block.ends[rows],
        lanes,
    )


def _wide(block: SessionBlock) -> SessionBlock:
    """The block with numbers that nothing overflows."""
    lanes = {
        name: LaneBlock(lane.ids, {part: _wide_array(values) for part, values in lane.parts.items()})
        for name, lane in block.lanes.items()
    }
    return replace(block, keys=_wide_array(block.keys), lanes=lanes)


def _wide_array(values: Array) -> Array:
    return values if values.dtype == np.float64 else values.astype(np.int64, copy=False)
