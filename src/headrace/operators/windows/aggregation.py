"""The reduce side of a shared windowed aggregation: one update per tuple and family, one fold per slice.

Partials are grouped per (cell, slice, key), folded into state columns, summed into each window's own slices, joined
with the segments of earlier epochs, and closed windows are lowered to rows. State is kept per (own slice, key, state
column) rather than per cell: see `docs/decisions/0003-state-per-query-column.md`. Where keys are many, tuples are kept
in place of partials: see `docs/decisions/0049-tuples-in-place-of-partials.md`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from headrace.model.lanes import is_least, is_ranked
from headrace.model.metrics import NOBODY, QueryCounts
from headrace.model.ways import FamilyWay
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import ordered_by_row
from headrace.operators.common.keys import empty_key, unify_keys
from headrace.operators.common.ordered import KeyOrder, order_keys, ranks_of
from headrace.operators.protocol import Emit
from headrace.operators.windows.bags import Bag, StoredBag, compact, still_needed
from headrace.operators.windows.folding import Folded, KeyBlock, fold_bags, fold_block
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.grid import grid_step
from headrace.operators.windows.held import HeldSegment
from headrace.operators.windows.lifted import Lifted
from headrace.operators.windows.lower import Closed, Lowered, lower_table
from headrace.operators.windows.needed import Needed, needed_segments
from headrace.operators.windows.pool import Pool, Pooled, later_pool
from headrace.operators.windows.pool_steps import close_pooled, closing_of_windows, expand_pooled
from headrace.operators.windows.pooling import Arrived, gather_pool, with_times
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment, WindowBlock
from headrace.operators.windows.sparse import MOST_OVERLAPPING, sparse_step
from headrace.operators.windows.stored_bags import Bags, rename_keys
from headrace.operators.windows.storing import join_rows, narrow_extremes, no_rows
from headrace.operators.windows.sums import SliceSums
from headrace.operators.windows.vocabularies import common_vocabularies, prune_vocabularies

State = TypeVar("State")


@dataclass(slots=True)
class Reduced(Generic[State]):
    """What a partition of an operator produced besides rows: its new segment (None: no state), the queries that failed
    with the reason, how many tuples queries accepted, how tuples found their queries, what was `lowered`, and the CPU
    seconds in which windows closed and rows were made and emitted.
    """

    segment: State | None = None
    failures: dict[int, str] = field(default_factory=dict)
    matched: QueryCounts = NOBODY
    ways: list[FamilyWay] = field(default_factory=list)
    lowered: list[tuple[Ints, Ints]] = field(default_factory=list)
    """(queries, how many rows each got) of each table of rows."""
    closing_seconds: float = 0.0

    def note(self, lowered: Lowered) -> None:
        self.failures.update(lowered.failures)
        self.lowered.append((lowered.queries, lowered.counts))

    @property
    def rows(self) -> QueryCounts:
        """How many rows each query got."""
        if not self.lowered:
            return NOBODY
        queries, counts = zip(*self.lowered, strict=True)
        return QueryCounts.of(np.concatenate(queries), np.concatenate(counts))


@np.errstate(invalid="ignore", over="ignore")
def reduce_aggregation(
    logic: AggregationLogic,
    lifted: Lifted | None,
    absorbed: Sequence[Segment],
    kept: Sequence[Segment],
    closed_us: int,
    watermark_us: int,
    emit: Emit,
) -> Reduced[Segment]:
    """Run one partition of one epoch. `absorbed` segments are merged into the new one. `kept` ones are only read, and
    only where a window of theirs closes.

    Result rows go to `emit` as soon as a block of keys has them, so memory does not grow with their number.
    """
    needed, idle = needed_segments(logic, kept, closed_us, watermark_us)
    kept = [one.segment for one in needed]
    vocabularies = common_vocabularies(logic.operator, [] if lifted is None else [lifted], [*absorbed, *kept])
    keys, order, tuple_keys, before = _unify(logic.operator.id, lifted, absorbed, needed)
    bags = _Bags.of(logic, lifted, tuple_keys, before)
    reduced: Reduced[Segment] = Reduced()
    gathered: dict[int, list[WindowBlock]] = {}
    matched = np.zeros(len(logic.ids[0]), np.int64)
    arrived = None
    if lifted is not None:
        arrived = Arrived(lifted, tuple_keys, keys.num_rows, idle)
    clock = (closed_us, watermark_us)
    pooled, counts, times = gather_pool(logic, arrived, before, keys.num_rows, clock, reduced.ways)
    if counts is not None:
        matched, lifted = counts, None
    held = _Held(logic, lifted, tuple_keys, keys.num_rows, before, pooled, bags.every)
    for block, rests, closing in held.steps(closed_us, watermark_us, matched, reduced.ways):
        key_rows, began = keys.slice(block.first, block.count), time.process_time()
        for closed in closing:
            for ready in logic.tables:
                lowered = lower_table(logic.operator, ready, closed, key_rows, vocabularies)
                reduced.note(lowered)
                if lowered.table is not None and lowered.table.num_rows:
                    emit(ready.signature, lowered.table, lowered.queries, lowered.latest_us)
        reduced.closing_seconds += time.process_time() - began
        for w, rest in rests:
            gathered.setdefault(w, []).append(rest)
    reduced.ways = with_times(reduced.ways, times)
    later = None if pooled is None else later_pool(logic, pooled, watermark_us)
    if gathered or later is not None:
        reduced.segment = _segment(
            logic, (keys, order), gathered, vocabularies, bags.later(logic, watermark_us), later
        )
    reduced.matched = QueryCounts.of(logic.queries, matched[logic.base])
    return reduced


_Rests = list[tuple[int, WindowBlock]]
"""What later epochs still need of a block of keys, by the numbers of windows."""

_Step = tuple[KeyBlock, _Rests, Iterator[Closed]]


@dataclass(frozen=True, slots=True)
class _Held:
    """All that windows are made of: this epoch's tuples that become partials, what segments have, and a pool."""

    logic: AggregationLogic
    lifted: Lifted | None
    tuple_keys: Ints
    keys: int
    before: Sequence[HeldSegment]
    pooled: Pooled | None
    bags: Sequence[Bag]

    def steps(
        self, closed_us: int, watermark_us: int, matched: Ints, ways: list[FamilyWay]
    ) -> Iterator[_Step]:
        """Blocks of keys, each with what later epochs still need and with the windows that closed."""
        logic, pooled = self.logic, self.pooled
        partials = self.lifted is not None or any(held.segment.blocks for held in self.before)
        if pooled is not None and not partials:
            whole = KeyBlock(0, self.keys, None, self.tuple_keys, slice(None), self.keys)
            yield whole, [], close_pooled(logic, pooled, closed_us, watermark_us)
            return
        asked = [] if pooled is None else closing_of_windows(logic, pooled, closed_us, watermark_us)
        for block in _key_blocks(logic, self.lifted, self.tuple_keys, self.keys, self.before, pooled):
            known = len(ways)
            folded = None if block.lifted is None else fold_block(logic, block, ways)
            ways[known:] = [replace(way, listed=block.sparse) for way in ways[known:]]
            if folded is not None:
                matched += _accepted(folded, len(matched))
            values = [bag.of_keys(block.first, block.count) for bag in self.bags]
            before = self.before
            if pooled is not None:
                before = [*before, expand_pooled(logic, pooled, block, self.keys, asked)]
            steps = _sparse_steps if block.sparse else _grid_steps
            for rests, closing in steps(logic, block, folded, before, values, closed_us, watermark_us):
                yield block, rests, closing


def _grid_steps(
    logic: AggregationLogic,
    block: KeyBlock,
    folded: Folded | None,
    before: Sequence[HeldSegment],
    values: Sequence[Bag],
    closed_us: int,
    watermark_us: int,
) -> Iterator[tuple[_Rests, Iterator[Closed]]]:
    """All windows at once."""
    yield grid_step(logic, block, folded, before, values, closed_us, watermark_us)


def _sparse_steps(
    logic: AggregationLogic,
    block: KeyBlock,
    folded: Folded | None,
    before: Sequence[HeldSegment],
    values: Sequence[Bag],
    closed_us: int,
    watermark_us: int,
) -> Iterator[tuple[_Rests, Iterator[Closed]]]:
    """One window after the other, because the rows of each take memory."""
    for w in range(len(logic.operator.windows)):
        rest, closing = sparse_step(logic, w, block, folded, before, closed_us, watermark_us)
        yield ([] if rest is None else [(w, rest)]), closing


def _accepted(folded: Folded, entries: int) -> Ints:
    """How many tuples of this epoch each entry of the first lane, ROWS, has: one for each state column."""
    rows = folded.lanes[0]
    if rows is None:
        return np.zeros(entries, np.int64)
    return rows.totals() if isinstance(rows, SliceSums) else rows["v"].sum(axis=1)


@dataclass(frozen=True, slots=True)
class _Bags:
    """Each of the operator's bags: what is new or absorbed, and everything that windows may ask for."""

    own: list[Bag]
    every: list[Bag]

    @classmethod
    def of(
        cls, logic: AggregationLogic, lifted: Lifted | None, tuple_keys: Ints, before: Sequence[HeldSegment]
    ) -> _Bags:
        if not logic.bags:
            return cls([], [])
        new = None if lifted is None else fold_bags(logic, lifted, tuple_keys)
        own, every = [], []
        for number, bag in enumerate(logic.bags):
            stored: dict[bool, list[Bag]] = {True: [], False: []}
            for held in before:
                if bag.name in held.segment.bags:
                    found = held.segment.bags[bag.name].under(bag.ids, held.ids)
                    stored[held.absorbed].append(found)
            fresh = [] if new is None else new[number]
            own.append(compact([*fresh, *stored[True]], len(bag.ids)))
            every.append(compact([own[-1], *stored[False]], len(bag.ids)) if stored[False] else own[-1])
        return cls(own, every)

    def later(self, logic: AggregationLogic, watermark_us: int) -> Bags:
        """What later epochs still need of what is not stored elsewhere."""
        return {
            one.name: StoredBag(one.ids, still_needed(one, bag, logic.operator.windows, watermark_us))
            for one, bag in zip(logic.bags, self.own, strict=True)
        }


def _unify(
    operator: str, lifted: Lifted | None, absorbed: Sequence[Segment], kept: Sequence[Needed]
) -> tuple[pa.Table, KeyOrder, Ints, list[HeldSegment]]:
    """(all keys in the order of key groups, where these begin, the key of each tuple, the segments with theirs).

    `operator` is the id of the operator that has the keys.
    """
    segments = [
        *((segment, True, None) for segment in absorbed),
        *((k.segment, False, k.closing) for k in kept),
    ]
    tables = [segment.keys for segment, _, _ in segments]
    if lifted is not None:
        tables.append(lifted.keys.table)
    if not tables:
        tables = [empty_key(0)]
    keys, ids = unify_keys(tables)
    order, sequence = order_keys(keys, operator)
    ranks = ranks_of(sequence)
    before = [
        HeldSegment(segment, ranks[i], own, closing)
        for (segment, own, closing), i in zip(segments, ids, strict=False)
    ]
    of_tuples = np.empty(0, np.int64) if lifted is None else ranks[ids[-1]][lifted.keys.ids]
    return keys.take(pa.array(sequence)), order, of_tuples, before


def _key_blocks(
    logic: AggregationLogic,
    lifted: Lifted | None,
    tuple_keys: Ints,
    keys: int,
    before: Sequence[HeldSegment],
    pooled: Pooled | None,
) -> Iterator[KeyBlock]:
    """All keys, in blocks whose partials fit the budget."""
    stored = [len(block.distinct_slices) for held in before for block in held.segment.blocks]
    stored += [] if pooled is None else [len(pooled.starts)]
    depth = max([1, *stored, len(lifted.slice_starts) if lifted else 0])
    per_key = _rows_of_key(logic, lifted, keys, before) + (pooled.size if pooled else 0) / max(keys, 1)
    sparse = _is_sparse(logic, per_key / depth, keys)
    wanted = max(per_key, LEAST_ROWS) if sparse else depth
    size = max(1, min(keys, int(KEY_ELEMENTS / (wanted * max(len(logic.operator.columns), 64)))))
    if size >= keys:
        yield KeyBlock(0, keys, lifted, tuple_keys, slice(None), size, sparse)
        return
    home = tuple_keys // size
    order, bounds = ordered_by_row(home, -(-keys // size))
    for i, (low, high) in enumerate(pairwise(bounds)):
        rows = order[low:high]
        here = lifted if len(rows) else None
        count = min(size, keys - i * size)
        yield KeyBlock(i * size, count, here, tuple_keys[rows] - i * size, rows, size, sparse)


SPARSE_KEYS, SPARSE_SHARE = 4_096, 0.5
"""From so many keys on, rows are listed where less than this share of all keys and slices have tuples."""

KEY_ELEMENTS = 1 << 23
"""Blocks of keys are so large that partials have about so many elements. With twice as many, what tuples update lies so
far apart that updating takes nearly twice as long.
"""

LEAST_ROWS = 0.25
"""Where rows are listed, a key counts for so many at least."""


def _rows_of_key(
    logic: AggregationLogic, lifted: Lifted | None, keys: int, before: Sequence[HeldSegment]
) -> float:
    """How many rows a key has at most on average: of this epoch, and stored for one window."""
    stored = [
        sum(len(block.keys) for held in before if (block := held.block(window)) is not None)
        for window in logic.operator.windows
    ]
    return (max(stored, default=0) + (lifted.rows if lifted else 0)) / max(keys, 1)


def _is_sparse(logic: AggregationLogic, share: float, keys: int) -> bool:
    """Whether rows are listed, given the share of all keys and slices that have tuples. Bags know grids only."""
    overlapping = max(window.range_us // window.slide_us for window in logic.operator.windows)
    few = keys >= SPARSE_KEYS and share < SPARSE_SHARE
    return few and not logic.bags and overlapping <= MOST_OVERLAPPING


def _segment(
    logic: AggregationLogic,
    ordered: tuple[pa.Table, KeyOrder],
    gathered: dict[int, list[WindowBlock]],
    vocabularies: dict[int, pa.Array],
    bags: Bags,
    pool: Pool | None,
) -> Segment:
    keys, order = ordered
    # what was merged goes at once, so that memory holds no more than one window twice
    blocks = [_merge_blocks(logic, gathered.pop(window)) for window in list(gathered)]
    occurs = np.zeros(keys.num_rows, bool)
    for block in blocks:
        occurs[block.keys] = True
    if pool is not None:
        occurs[pool.keys] = True
    used, place = np.flatnonzero(occurs), np.cumsum(occurs) - 1
    for block in blocks:
        block.keys = place[block.keys]
    if pool is not None:
        pool.keys = place[pool.keys]
    bags = rename_keys(bags, place)
    order = KeyOrder(np.searchsorted(used, order.first))
    found = Segment(keys.take(pa.array(used)), blocks, {}, bags, order, pool=pool)
    found.vocabularies = prune_vocabularies(logic.operator, found.holders, bags, vocabularies)
    for block in blocks:
        for name, lane in block.lanes.items():
            if is_ranked(name):
                lane.partials = {"v": narrow_extremes(lane.partials["v"], is_least(name))}
    return found


def _merge_blocks(logic: AggregationLogic, blocks: list[WindowBlock]) -> WindowBlock:
    """Blocks of keys that ascend, one after the other; a lane that some lack is zero there."""
    if len(blocks) == 1:
        return blocks[0]
    lanes = {}
    for text, one in zip(logic.names, logic.lanes, strict=True):
        ids = next((p.lanes[text].ids for p in blocks if text in p.lanes), None)
        if ids is None:
            continue
        pieces = [
            p.lanes[text].partials if text in p.lanes else no_rows(one, (len(ids), len(p.keys)))
            for p in blocks
        ]
        names = {name for piece in pieces for name in piece}
        merged = {
            n: join_rows(one, [p[n] if n in p else p["v"].astype(np.float64) for p in pieces]) for n in names
        }
        lanes[text] = LaneBlock(ids, merged)
    keys = np.concatenate([p.keys for p in blocks])
    return WindowBlock(blocks[0].window, keys, np.concatenate([p.slices for p in blocks]), lanes)
