"""A window's own slices for a block of keys: new and stored partials meet here, closed windows leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from headrace.model.window import Window
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.compiled.windows import mark_live
from headrace.operators.windows.bags import Bag, ClosedBag
from headrace.operators.windows.flat import Flat, LiveRows, PlacedRows, StoredRows
from headrace.operators.windows.folding import BLOCK_ELEMENTS, Folded, KeyBlock
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.fresh import Fresh
from headrace.operators.windows.held import HeldSegment, Old, Stored, placed_in
from headrace.operators.windows.lanes import LaneLogic, Partials
from headrace.operators.windows.lower import Closed, Places
from headrace.operators.windows.packed import PackedLane
from headrace.operators.windows.partials import shadow
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import WindowBlock
from headrace.operators.windows.slices import union_of
from headrace.operators.windows.spans import Edges, Spans, closing_spans, live_spans, union_by_window
from headrace.operators.windows.storing import store_rows

TURN_ELEMENTS = 1 << 19
"""Windows close together as long as a lane of them has no more partials than this: they stay near to the processor."""


@dataclass(slots=True)
class Grid:
    """Partials [entry, own slice, key] per lane of one window (None: all zero)."""

    starts: Ints
    lanes: list[Partials | None]


@dataclass(slots=True)
class _Step:
    """One window of a block of keys: what is new, what was stored of windows that close, and when these begin."""

    w: int
    window: Window
    fresh: Fresh | None
    old: Old | None
    closing: Ints

    def has(self, lane: int) -> bool:
        """Whether a lane is anything but zero."""
        return any(part is not None and part.has(lane) for part in (self.fresh, self.old))

    def is_plain(self, lane: int) -> bool:
        """Whether kernels know all partials of a lane: one number each, that is added or compared."""
        return all(part is None or part.is_plain(lane) for part in (self.fresh, self.old))


def grid_step(
    logic: AggregationLogic,
    block: KeyBlock,
    folded: Folded | None,
    before: Sequence[HeldSegment],
    bags: Sequence[Bag],
    closed_us: int,
    watermark_us: int,
) -> tuple[list[tuple[int, WindowBlock]], Iterator[Closed]]:
    """(what later epochs need and nobody stores yet, by window; the windows that closed) for one block of keys.

    `bags` are those of the block's keys. Windows that closed come some at a time: many short ones at once, because
    each time costs something, but a tuple may be in 100,000 windows, and their partials fit the budget. Lanes that
    `flat` cannot make of all windows at once are made of one window after the other.
    """
    stored = [StoredRows.of_keys(logic, held, block) for held in before]
    own = [_own_slices(logic.edges, folded)]
    known = [one.distinct() for one in stored]
    absorbed = [one for one in stored if one.held.absorbed]
    closing = closing_spans(logic.edges, *union_by_window(own + known), closed_us, watermark_us)
    of_absorbed = [slices for one, slices in zip(stored, known, strict=True) if one.held.absorbed]
    live = live_spans(logic.edges, *union_by_window(own + of_absorbed), watermark_us)
    flat = Flat(logic, folded, stored, block.count)
    every = range(len(logic.lanes))
    together = (
        [] if flat.overlapping(closing) or flat.overlapping(live) else list(filter(flat.is_plain, every))
    )
    work = _Work(logic, block, flat, live, closing, together, [i for i in every if i not in together])
    grids, steps = [], []
    for w in range(len(logic.operator.windows)) if work.apart else ():
        grid, step = _window_step(work, w, before, closed_us)
        grids.append(grid)
        steps.append(step)
    rests = work.live_rows(grids, absorbed)
    return rests, (work.close(turn, steps, bags) for turn in _turns(logic, closing, block.count))


def _own_slices(edges: Edges, folded: Folded | None) -> tuple[Ints, Ints]:
    """(window, start) of the slices that this epoch's tuples are in, each once."""
    if folded is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts = edges.slice_starts(np.arange(len(edges.slide_us))[:, None], folded.starts[None, :])
    first = np.ones(starts.shape, np.bool_)
    first[:, 1:] = starts[:, 1:] != starts[:, :-1]
    return np.nonzero(first)[0], starts[first]


@dataclass(frozen=True, slots=True)
class _Work:
    """What there is to do for a block of keys: lanes are made `together`, for all windows, or `apart`."""

    logic: AggregationLogic
    block: KeyBlock
    flat: Flat
    live: Spans
    closing: Spans
    together: Sequence[int]
    apart: Sequence[int]

    def live_rows(
        self, grids: Sequence[Grid | None], absorbed: Sequence[StoredRows]
    ) -> list[tuple[int, WindowBlock]]:
        """What later epochs still need, by window; `grids` have the lanes that are made apart."""
        if 0 in self.apart:
            every = ((w, live_rows(self.logic, w, grid, self.block)) for w, grid in enumerate(grids) if grid)
            return [(w, found) for w, found in every if found is not None]
        found: list[tuple[int, WindowBlock]] = []
        for live in _whole_windows(self.logic, self.live, self.block.count):
            rows, packed = self._live_lanes(live, [PlacedRows.among(one, live) for one in absorbed])
            found += [
                (w, self._window_block(w, live, rows, packed, grids[w] if grids else None))
                for w in (live.first + np.flatnonzero(np.diff(rows.of))).tolist()
            ]
        return found

    def _live_lanes(
        self, live: Spans, placed: Sequence[PlacedRows]
    ) -> tuple[LiveRows, dict[int, PackedLane]]:
        """(the rows that have a tuple, what is stored of them) of some windows, in the lanes that are made together."""
        logic, count, flat = self.logic, self.block.count, self.flat
        counts = flat.partials(0, live, placed)
        rows = LiveRows.among(logic, live, count, counts)
        packed = {0: rows.stored(logic, 0, live, count, counts)}
        for i in self.together[1:]:
            if flat.has(i, placed):
                packed[i] = rows.stored(logic, i, live, count, flat.partials(i, live, placed))
        return rows, packed

    def _window_block(
        self, w: int, live: Spans, rows: LiveRows, packed: Mapping[int, PackedLane], grid: Grid | None
    ) -> WindowBlock:
        logic, at = self.logic, w - live.first
        starts = live.low[live.of[at] : live.of[at + 1]]
        low, high = int(rows.of[at]), int(rows.of[at + 1])
        keys, slots = rows.keys[low:high], rows.places[low:high] // self.block.count
        lanes = {}
        for i, text in enumerate(logic.names):
            lane = packed[i].block(at, high - low) if i in packed else None
            partials = None if grid is None else grid.lanes[i]
            ids = logic.ids[i][logic.window_entries(i, w)]
            if lane is not None:
                lanes[text] = lane
            elif len(ids) and partials is not None:
                lanes[text] = LaneBlock(ids, store_rows(logic.lanes[i], partials, slots, keys))
        present = np.zeros(len(starts), np.bool_)
        present[slots] = True
        window = logic.operator.windows[w]
        return WindowBlock(window, keys + self.block.first, starts[slots], lanes, starts[present])

    def close(self, spans: Spans, steps: Sequence[_Step], bags: Sequence[Bag]) -> Closed:
        """Combine each closed window's slices, from new and old partials, into [entry, window, key]."""
        logic, keys, first = self.logic, self.block.count, spans.first
        last = first + len(spans.of) - 1
        each = [
            (w, spans.low[low:high])
            for w, (low, high) in enumerate(pairwise(spans.of.tolist()), first)
            if low < high and (steps or bags)
        ]
        turn = [replace(steps[w], closing=closing) for w, closing in each] if steps else []
        placed = [PlacedRows.among(one, spans) for one in self.flat.stored] if self.together else []
        lanes: dict[int, Partials] = {}
        for i in self.together:
            if i == 0 or self.flat.has(i, placed):
                lanes[i] = {"v": self.flat.partials(i, spans, placed)}
        for i in self.apart:
            found = _close_lane(logic, i, turn, keys)
            if found is not None:
                lanes[i] = found
        places = Places.every(first, spans.of, spans.high, keys)
        values = {
            (number, w): ClosedBag(one, w, bag, closing, logic.operator.windows[w].range_us, keys)
            for w, closing in each
            for number, (one, bag) in enumerate(zip(logic.bags, bags, strict=True))
        }
        offsets = {i: places.offsets(logic.entry_bounds(i, first, last)) for i in lanes}
        return Closed(places, lanes, offsets, values)


def _window_step(
    work: _Work, w: int, before: Sequence[HeldSegment], closed_us: int
) -> tuple[Grid | None, _Step]:
    """(new and absorbed partials that later epochs need, the windows that close) of one window, in some lanes."""
    logic, block, folded = work.logic, work.block, work.flat.folded
    window = logic.operator.windows[w]
    mine = [stored for held in before if (stored := Stored.of(held, window, block)) is not None]
    fresh = None if folded is None else Fresh(logic, w, window, folded, closed_us, block.count)
    closing = work.closing.low[work.closing.of[w] : work.closing.of[w + 1]]
    live = work.live.low[work.live.of[w] : work.live.of[w + 1]]
    rest = None
    if len(live):
        absorbed = placed_in([stored for stored in mine if stored.held.absorbed], live, block)
        rest = Grid(live, [None] * len(logic.lanes))
        for i in work.apart:  # they are copied where something will be added to them
            rest.lanes[i] = None if fresh is None else fresh.at(i, live, copy=bool(absorbed))
            for placed in absorbed:
                rest.lanes[i] = placed.added(logic, w, i, rest.lanes[i])
    old = None
    if len(closing):
        known = union_of([stored.slices for stored in mine])
        needed = known[(known >= closing[0]) & (known < closing[-1] + window.range_us)]
        if len(needed):
            old = Old(logic, w, window, needed, placed_in(mine, needed, block))
    return rest, _Step(w, window, fresh, old, closing)


def _whole_windows(logic: AggregationLogic, live: Spans, keys: int) -> Iterator[Spans]:
    """The spans of so many windows at a time that what is made of them stays near to the processor, or of one."""
    wanted = (logic.widest * live.counts * max(keys, 1)).tolist()
    first = taken = 0
    for w in range(len(wanted) + 1):
        if w == len(wanted) or (taken and taken + wanted[w] > TURN_ELEMENTS):
            low, high = int(live.of[first]), int(live.of[w])
            if low < high:
                yield live.some(first, w, low, high)
            first, taken = w, 0
        taken += 0 if w == len(wanted) else wanted[w]


def _turns(logic: AggregationLogic, closing: Spans, keys: int) -> Iterator[Spans]:
    """Windows that close together: as many as fit the budget, or a single one that does not."""
    begin: tuple[int, int] | None = None
    last = taken = end = 0
    counts = closing.counts
    for w in np.flatnonzero(counts).tolist():
        widest = int(logic.widest[w]) * max(keys, 1)
        few = max(1, BLOCK_ELEMENTS // max(widest, 1))
        for low in range(int(closing.of[w]), int(closing.of[w + 1]), few):
            high = min(low + few, int(closing.of[w + 1]))
            wanted = widest * (high - low)
            if begin is not None and (last == w or taken + wanted > TURN_ELEMENTS):
                yield closing.some(begin[0], last + 1, begin[1], end)
                begin, taken = None, 0
            if begin is None:
                begin = w, low
            last, end = w, high
            taken += wanted
    if begin is not None:
        yield closing.some(begin[0], last + 1, begin[1], end)


def _close_lane(logic: AggregationLogic, lane: int, turn: Sequence[_Step], keys: int) -> Partials | None:
    """A lane's partials of windows that close, one window after the other (None: all zero; only ROWS never is)."""
    if lane and not any(step.has(lane) for step in turn):
        return None
    shapes = [_shape(logic, lane, step, keys) for step in turn]
    if all(step.is_plain(lane) for step in turn):
        return {"v": _close_plain(logic.lanes[lane], lane, turn, shapes)}
    full = [
        _close_any(logic.lanes[lane], lane, step, shape) for step, shape in zip(turn, shapes, strict=True)
    ]
    if len({len(piece) for piece in full}) > 1:  # some have a float shadow
        most = max(full, key=len)
        full = [shadow(piece, most) for piece in full]
    return {name: np.concatenate([piece[name].ravel() for piece in full]) for name in full[0]}


def _close_plain(
    one: LaneLogic, lane: int, turn: Sequence[_Step], shapes: Sequence[tuple[int, int, int]]
) -> Array:
    """The same for partials that kernels know: they are put where they belong at once."""
    bounds = np.append(0, np.cumsum([entries * windows * keys for entries, windows, keys in shapes]))
    narrow = all(step.old is None and step.fresh is not None and step.fresh.is_narrow(lane) for step in turn)
    zero = one.zeros(())["v"]
    every = np.empty(bounds[-1], np.int32 if narrow else zero.dtype)
    for step, shape, (low, high) in zip(turn, shapes, pairwise(bounds.tolist()), strict=True):
        into = every[low:high].reshape(shape)
        if step.fresh is None or not step.fresh.put_windows(lane, step.closing, into):
            into[...] = zero
        if step.old is not None and low < high:
            step.old.put(lane, step.closing, into)
    return every


def _close_any(one: LaneLogic, lane: int, step: _Step, shape: tuple[int, int, int]) -> Partials:
    sums = None if step.fresh is None else step.fresh.windows(lane, step.closing)
    if step.old is not None:
        sums = step.old.added(lane, step.closing, sums)
    return sums or one.zeros(shape)


def _shape(logic: AggregationLogic, lane: int, step: _Step, keys: int) -> tuple[int, int, int]:
    columns = logic.window_entries(lane, step.w)
    return columns.stop - columns.start, len(step.closing), keys


def live_rows(logic: AggregationLogic, w: int, grid: Grid, block: KeyBlock) -> WindowBlock | None:
    """What later epochs still need, by key, without the rows that hold no tuple."""
    counts = grid.lanes[0]
    if counts is None:
        return None
    live = np.zeros((block.count, len(grid.starts)), bool)
    mark_live(counts["v"], live)
    keys, slots = np.divmod(np.flatnonzero(live), len(grid.starts))
    if len(keys) == 0:
        return None
    lanes = {}
    for i, text in enumerate(logic.names):
        ids = logic.ids[i][logic.window_entries(i, w)]
        partials = grid.lanes[i]
        if len(ids) and partials is not None:
            lanes[text] = LaneBlock(ids, store_rows(logic.lanes[i], partials, slots, keys))
    return WindowBlock(logic.operator.windows[w], keys + block.first, grid.starts[slots], lanes)
