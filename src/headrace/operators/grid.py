"""A window's own slices for a block of keys: new and stored partials meet here, closed windows leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.model.window import Window
from headrace.operators.encode import Array, Ints
from headrace.operators.folding import Folded, KeyBlock, accumulate_at, shadow
from headrace.operators.lanes import LaneLogic, Parts, each_range
from headrace.operators.lower import Closed
from headrace.operators.prepared import AggregationLogic
from headrace.operators.segment import LaneBlock, Segment, WindowBlock
from headrace.operators.slices import closing_windows, last_ends, slice_starts

DENSE_SLICES = 512
"""Up to so many fine slices are added to own slices one by one; beyond that, runs of rows are reduced."""


@dataclass(slots=True)
class Source:
    """A segment with the position of its keys among the common keys."""

    segment: Segment
    ids: Ints
    absorbed: bool

    def block(self, window: Window) -> WindowBlock | None:
        return next((b for b in self.segment.blocks if b.window == window), None)


@dataclass(slots=True)
class Grid:
    """Partials [entry, own slice, key] per lane of one window (None: all zero)."""

    starts: Ints
    lanes: list[Parts | None]


def window_step(
    logic: AggregationLogic,
    w: int,
    block: KeyBlock,
    folded: Folded | None,
    sources: Sequence[Source],
    closed_us: int,
    watermark_us: int,
) -> tuple[Grid | None, Closed | None]:
    """(the grid of new and absorbed partials, the windows that closed) for one window and block of keys."""
    window = logic.operator.windows[w]
    own, alive = np.empty(0, np.int64), np.empty(0, bool)
    if folded is not None:
        own = slice_starts(window, folded.starts)
        alive = last_ends(window, own) > closed_us
    mine = [(s, b) for s in sources if (b := s.block(window)) is not None]
    starts = np.unique(np.concatenate([own[alive], *(b.slices for s, b in mine if s.absorbed)]))
    elsewhere = [b.slices for s, b in mine if not s.absorbed]
    closing = closing_windows(
        window, np.unique(np.concatenate([starts, *elsewhere])), closed_us, watermark_us
    )
    fresh = None
    if len(starts):
        fresh = Grid(starts, _fresh_lanes(logic, w, starts, folded, own, alive, block.count))
        for source, stored in mine:
            if source.absorbed:
                _add_stored(logic, w, fresh, source, stored, block)
    if len(closing) == 0:
        return fresh, None
    old = None
    if elsewhere:
        needed = np.unique(np.concatenate(elsewhere))
        needed = needed[(needed >= closing[0]) & (needed < closing[-1] + window.range_us)]
        if len(needed):
            old = Grid(needed, [None] * len(logic.lanes))
            for source, stored in mine:
                if not source.absorbed:
                    _add_stored(logic, w, old, source, stored, block)
    return fresh, _close(logic, w, window, closing, [g for g in (fresh, old) if g is not None], block.count)


def _fresh_lanes(
    logic: AggregationLogic, w: int, starts: Ints, folded: Folded | None, own: Ints, alive: Array, keys: int
) -> list[Parts | None]:
    """This epoch's partials summed into the window's own slices."""
    if folded is None:
        return [None] * len(logic.lanes)
    target = np.searchsorted(starts, own)
    lanes: list[Parts | None] = []
    for i, one in enumerate(logic.lanes):
        columns, found = logic.window_entries(i, w), folded.lanes[i]
        if columns.start == columns.stop or found is None:
            lanes.append(None)
            continue
        parts = {name: part[columns] for name, part in found.items()}
        if folded.dense and len(own) <= DENSE_SLICES:
            cube = {name: part.reshape(len(part), len(own), keys) for name, part in parts.items()}
            lows = np.searchsorted(target, np.arange(len(starts)), "left")
            highs = np.searchsorted(target, np.arange(len(starts)), "right")
            first = int(np.argmax(alive)) if alive.any() else len(own)
            lanes.append(each_range(one, cube, np.maximum(lows, first), np.maximum(highs, first)))
            continue
        grid = one.zeros((columns.stop - columns.start, len(starts), keys))
        if len(own) > DENSE_SLICES:
            _add_runs(one, grid, parts, folded, target, alive)
        else:
            _add_slices(one, grid, parts, folded, target, alive)
        lanes.append(grid)
    return lanes


def _add_slices(
    one: LaneLogic, into: Parts, parts: Parts, folded: Folded, target: Ints, alive: Array
) -> None:
    """Add fine slices to own slices one by one; a slice holds each key once at most."""
    for s in np.flatnonzero(alive):
        low, high = folded.bounds[s], folded.bounds[s + 1]
        if low < high:
            piece = {name: part[:, low:high] for name, part in parts.items()}
            accumulate_at(one, into, (slice(None), int(target[s]), folded.keys[low:high]), piece)


def _add_runs(one: LaneLogic, into: Parts, parts: Parts, folded: Folded, target: Ints, alive: Array) -> None:
    """The same for many slices: order rows by (key, slice) and reduce the runs that share an own slice."""
    live = np.flatnonzero(alive[folded.slices])
    order = live[np.lexsort((folded.slices[live], folded.keys[live]))]
    if len(order) == 0:
        return
    keys, slots = folded.keys[order], target[folded.slices[order]]
    first = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]) | (slots[1:] != slots[:-1])))
    runs = one.runs({name: part[:, order] for name, part in parts.items()}, first)
    accumulate_at(one, into, (slice(None), slots[first], keys[first]), runs)


def _add_stored(
    logic: AggregationLogic, w: int, grid: Grid, source: Source, stored: WindowBlock, block: KeyBlock
) -> None:
    keys = source.ids[stored.keys] - block.first
    slot = np.minimum(np.searchsorted(grid.starts, stored.slices), len(grid.starts) - 1)
    rows = np.flatnonzero((keys >= 0) & (keys < block.count) & (grid.starts[slot] == stored.slices))
    if len(rows) == 0:
        return
    everything = len(rows) == len(keys)
    for i, one in enumerate(logic.lanes):
        lane = stored.lanes.get(logic.names[i])
        columns = logic.window_entries(i, w)
        if lane is None or columns.start == columns.stop:
            continue
        ids = logic.ids[i][columns]
        at = np.searchsorted(ids, lane.ids)
        here = np.flatnonzero(ids[np.minimum(at, len(ids) - 1)] == lane.ids)
        if len(here) == 0:
            continue
        whole = everything and len(here) == len(lane.ids)
        parts = {n: p if whole else p[np.ix_(here, rows)] for n, p in lane.parts.items()}
        into = grid.lanes[i]
        if into is None:
            into = one.zeros((columns.stop - columns.start, len(grid.starts), block.count))
            grid.lanes[i] = into
        accumulate_at(one, into, (at[here][:, None], slot[rows][None, :], keys[rows][None, :]), parts)


def _close(
    logic: AggregationLogic, w: int, window: Window, closing: Ints, grids: Sequence[Grid], keys: int
) -> Closed:
    """Combine each closed window's slices, from new and old partials, into [entry, window, key]."""
    lanes: dict[int, Parts] = {}
    for i, one in enumerate(logic.lanes):
        for grid in grids:
            parts = grid.lanes[i]
            if parts is None:
                continue
            lows, highs = np.searchsorted(grid.starts, [closing, closing + window.range_us])
            sums = one.ranges(parts, lows, highs)
            if i in lanes:
                sums = one.combine(shadow(lanes[i], sums), shadow(sums, lanes[i]))
            lanes[i] = sums
    if 0 not in lanes:
        entries = logic.window_entries(0, w)
        lanes[0] = logic.lanes[0].zeros((entries.stop - entries.start, len(closing), keys))
    return Closed(closing, window.range_us, lanes)


def live_rows(
    logic: AggregationLogic, w: int, window: Window, grid: Grid | None, block: KeyBlock, watermark_us: int
) -> WindowBlock | None:
    """What later epochs still need: own slices of windows that have not closed, rows that hold a tuple."""
    if grid is None:
        return None
    live = np.flatnonzero(last_ends(window, grid.starts) > watermark_us)
    if len(live) == 0:
        return None
    counts = grid.lanes[0]
    if counts is None:
        return None
    slot, keys = np.nonzero((counts["v"][:, live] != 0).any(axis=0))
    if len(slot) == 0:
        return None
    slot = live[slot]
    lanes = {}
    for i, text in enumerate(logic.names):
        ids = logic.ids[i][logic.window_entries(i, w)]
        parts = grid.lanes[i]
        if len(ids) and parts is not None:
            lanes[text] = LaneBlock(ids, {n: p[:, slot, keys] for n, p in parts.items()})
    return WindowBlock(window, keys + block.first, grid.starts[slot], lanes)
