"""Segments of sessions: the open sessions of one operator and partition, written anew each epoch.

A segment outlives the plan that wrote it, so it names queries and lane entries by ids that are unique for ever. It is
written in the order of key groups (see `common.ordered`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.model.plan import SessionOperator
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import narrow, positions, ranges
from headrace.operators.common.ordered import Sections, order_keys, ranks_of
from headrace.operators.common.placing import Portion
from headrace.operators.windows.framing import (
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
from headrace.operators.windows.stored_bags import Bags, order_bags, query_of_entry, rename_keys
from headrace.operators.windows.vocabularies import prune_vocabularies

VERSION = 2
"""Version 1 had its keys placed by another hash."""


@dataclass(slots=True)
class SessionBlock:
    """Open sessions of some keys, ordered by query: `counts[i]` of them are of query `queries[i]`, by ascending key.

    A lane's partials are flat: for each of its entries one value per session of the query that the entry is of.
    """

    queries: Ints
    counts: Ints
    keys: Ints
    starts: Ints
    ends: Ints
    lanes: dict[str, LaneBlock]


@dataclass(slots=True)
class SessionSegment(KeyedSegment[SessionBlock]):
    """Open sessions."""

    @property
    def last_end_us(self) -> int:
        """When the last of these sessions ends, if nothing is added to it."""
        return max(int(block.ends.max()) for block in self.blocks)


def make_segment(
    operator: SessionOperator,
    keys: pa.Table,
    blocks: list[SessionBlock],
    vocabularies: dict[int, pa.Array],
    bags: Bags,
) -> SessionSegment:
    """The blocks and bags with only those keys, strings and rows that they use; changes them."""
    used = np.unique(np.concatenate([block.keys for block in blocks]))
    for block in blocks:
        block.keys = np.searchsorted(used, block.keys)
    places = np.zeros(keys.num_rows, np.int64)
    places[used] = np.arange(len(used))
    bags = rename_keys(bags, places)
    pruned = prune_vocabularies(operator, blocks, bags, vocabularies)
    return SessionSegment(keys.take(pa.array(used)), blocks, pruned, bags)


def _in_order(segment: SessionSegment, operator: str) -> SessionSegment:
    """The segment of an operator, by its id, now with keys and sessions in the order of key groups."""
    if segment.order is None:
        segment.order, sequence = order_keys(segment.keys, operator)
        ranks = ranks_of(sequence)
        segment.keys = segment.keys.take(pa.array(sequence))
        for i, block in enumerate(segment.blocks):
            segment.blocks[i] = _ordered_block(block, ranks)
        segment.bags = order_bags(segment.bags, ranks)
    return segment


def _ordered_block(block: SessionBlock, ranks: Ints) -> SessionBlock:
    keys = ranks[block.keys]
    of_query = np.repeat(np.arange(len(block.queries)), block.counts)
    return _some_sessions(replace(block, keys=keys), np.lexsort((keys, of_query)), block.counts)


def session_segment_items(segment: SessionSegment, operator: str) -> dict[str, Item]:
    """The segment of an operator, by its id, as bundle items."""
    segment = _in_order(segment, operator)
    items: dict[str, Item] = {}
    blocks = []
    for i, block in enumerate(segment.blocks):
        items |= {f"{i}.query": block.queries, f"{i}.count": block.counts, f"{i}.key": narrow(block.keys)}
        items |= {f"{i}.start": block.starts, f"{i}.end": block.ends}
        found, lanes = lane_items(str(i), {name: _narrow(lane) for name, lane in block.lanes.items()})
        items |= found
        blocks.append(lanes)
    return items | frame_items(segment, {"version": VERSION, "sessions": blocks})


def session_segment_from(items: dict[str, Item]) -> SessionSegment:
    """The inverse of `session_segment_items`; arrays stay views of the bundle, so they are as narrow as stored."""
    meta = meta_of(items, VERSION)
    blocks = []
    for i, described in enumerate(meta["sessions"]):
        query, count, key, start, end = (items[f"{i}.{n}"] for n in ("query", "count", "key", "start", "end"))
        lanes = lanes_from(items, str(i), described)
        blocks.append(SessionBlock(query, count, key, start, end, lanes))
    return SessionSegment(blocks=blocks, **frame_from(items, meta))


def portion_of_sessions(segment: SessionSegment, operator: str, portion: Portion) -> SessionSegment | None:
    """The open sessions of some keys and queries of an operator, by its id; None when there are none."""
    if portion.whole:
        return whole_of(segment, _wide)
    return portion_of(_in_order(segment, operator), portion, _portion_of_block)


def _portion_of_block(block: SessionBlock, keys: Sections, portion: Portion) -> SessionBlock | None:
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
            lane.ids[present[query]], {name: found[values] for name, found in lane.partials.items()}
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
        name: LaneBlock(lane.ids, {name: _wide_array(values) for name, values in lane.partials.items()})
        for name, lane in block.lanes.items()
    }
    return replace(block, keys=_wide_array(block.keys), lanes=lanes)


def _narrow(lane: LaneBlock) -> LaneBlock:
    return LaneBlock(lane.ids, {letter: narrow(values) for letter, values in lane.partials.items()})


def _wide_array(values: Array) -> Array:
    return values if values.dtype == np.float64 else values.astype(np.int64, copy=False)
