"""A window's own slices where most keys have no tuple in most of them: rows that exist, in the order of keys.

This is what `grid` does for keys that have tuples nearly everywhere. A grid costs its keys times its slices, and here a
window costs its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from headrace.model.window import Window
from headrace.operators.common.arrays import Bools, Ints
from headrace.operators.common.encode import ranges
from headrace.operators.compiled.sparse import (
    add_runs,
    count_keys,
    extremes_of_runs,
    list_keys,
    name_places,
    sort_rows,
)
from headrace.operators.windows.folding import BLOCK_ELEMENTS, Folded, KeyBlock
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.held import HeldSegment, asked_entries, put_stored
from headrace.operators.windows.lanes import (
    AddedLogic,
    ExtremeLogic,
    LaneLogic,
    Partials,
)
from headrace.operators.windows.lower import Closed, Places
from headrace.operators.windows.partials import accumulate_at
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import WindowBlock
from headrace.operators.windows.slices import closing_windows, last_ends, slice_starts
from headrace.operators.windows.storing import store_rows
from headrace.operators.windows.sums import SliceSums

MOST_OVERLAPPING = 64
"""Rows of a key are gone through for each window that they are in, so windows may not overlap more than this."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows of partials: the own slice and the key of each, and where its partials are among those of `block`.

    A slice is a position in `starts`, which ascend. Without a block these are this epoch's rows: they are in the order
    of keys and slices, and several may have the same slice and key.
    """

    starts: Ints
    slices: Ints
    keys: Ints
    rows: Ints
    block: WindowBlock | None
    own: bool
    """Whether it is not stored anywhere else, so that later epochs need it from here."""

    def among(self, starts: Ints, wanted: Bools) -> _Piece:
        """The rows whose slices are wanted, as positions in some starts that hold all of these."""
        place = np.searchsorted(starts, self.starts).astype(np.int32)
        if wanted[place].all():
            return replace(self, starts=starts, slices=place[self.slices])
        kept = np.flatnonzero(wanted[place][self.slices])
        return replace(
            self, starts=starts, slices=place[self.slices[kept]], keys=self.keys[kept], rows=self.rows[kept]
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Distinct (key, slot) by key and slot, with partials [entry, row] per lane of one window (None: all zero)."""

    starts: Ints
    keys: Ints
    slots: Ints
    lanes: list[Partials | None]


def sparse_step(
    logic: AggregationLogic,
    w: int,
    block: KeyBlock,
    folded: Folded | None,
    before: Sequence[HeldSegment],
    closed_us: int,
    watermark_us: int,
) -> tuple[WindowBlock | None, Iterator[Closed]]:
    """(what later epochs need and nobody stores yet, the windows that closed) for one window and block of keys.

    Windows that closed come some at a time, so that their partials fit the budget.
    """
    window = logic.operator.windows[w]
    pieces = [piece for piece in _pieces(window, block, folded, before, closed_us) if len(piece.rows)]
    if not pieces:
        return None, iter(())
    starts = np.unique(np.concatenate([piece.starts for piece in pieces]))
    closing = closing_windows(window, starts, closed_us, watermark_us)
    closes = np.searchsorted(closing + window.range_us, starts, "right") < np.searchsorted(
        closing, starts, "right"
    )
    live = last_ends(window, starts) > watermark_us
    mine = [piece for piece in pieces if piece.own]
    alone = len(mine) == len(pieces)  # then one gathering is for both
    rest = own = None
    if mine and live.any():
        own = _gather(logic, w, mine, starts, live | closes if alone else live, folded, block.count)
        rest = _live(logic, w, own, live, block.first)
    if not closes.any():
        return rest, iter(())
    every = own if alone and own is not None else None
    if every is None:
        every = _gather(logic, w, pieces, starts, closes, folded, block.count)
    return rest, _close(logic, w, every, closing)


def _pieces(
    window: Window, block: KeyBlock, folded: Folded | None, before: Sequence[HeldSegment], closed_us: int
) -> Iterator[_Piece]:
    if folded is not None:
        own = slice_starts(window, folded.starts)
        alive = last_ends(window, own) > closed_us
        rows = np.arange(len(folded.keys)) if alive.all() else np.flatnonzero(alive[folded.slices])
        starts = np.unique(own[alive])
        slices = np.searchsorted(starts, own).astype(np.int32)[folded.slices[rows]]
        yield _Piece(starts, slices, folded.keys[rows].astype(np.int32), rows, None, True)
    for held in before:
        stored = held.block(window)
        if stored is not None:
            rows = np.arange(len(stored.keys)) if block.whole else held.rows_of(stored, block)
            keys = (held.ids[stored.keys[rows]] - block.first).astype(np.int32)
            starts = stored.distinct_slices
            slices = np.searchsorted(starts, stored.slices[rows]).astype(np.int32)
            yield _Piece(starts, slices, keys, rows, stored, held.absorbed)


def _gather(
    logic: AggregationLogic,
    w: int,
    pieces: Sequence[_Piece],
    starts: Ints,
    wanted: Bools,
    folded: Folded | None,
    keys: int,
) -> _Rows:
    """All rows of some pieces in the slices that are wanted, combined where they have the same key and slice."""
    pieces = [piece.among(starts, wanted) for piece in pieces]
    slots = np.concatenate([piece.slices for piece in pieces])
    of_key = np.concatenate([piece.keys for piece in pieces])
    order = np.arange(len(slots), dtype=np.int32)
    if len(pieces) > 1 or pieces[0].block is not None:
        by_slot, by_key = order, np.empty(len(slots), np.int32)
        if len(starts) > 1:
            by_slot = np.empty(len(slots), np.int32)
            sort_rows(slots, np.zeros(len(starts) + 1, np.int64), order, by_slot)
        sort_rows(of_key, np.zeros(keys + 1, np.int64), by_slot, by_key)
        order = by_key
    places, count = np.empty(len(slots), np.int64), np.zeros(1, np.int64)
    distinct = np.empty((2, len(slots)), np.int32)
    name_places(slots, of_key, order, places, distinct, count)
    found = _Rows(starts, distinct[0, : count[0]], distinct[1, : count[0]], [None] * len(logic.lanes))
    bounds = np.cumsum([0] + [len(piece.rows) for piece in pieces])
    for piece, (low, high) in zip(pieces, pairwise(bounds), strict=True):
        for lane in range(len(logic.lanes)):
            _put(logic, w, lane, found, piece, places[low:high], folded)
    return found


def _put(
    logic: AggregationLogic,
    w: int,
    lane: int,
    rows: _Rows,
    piece: _Piece,
    places: Ints,
    folded: Folded | None,
) -> None:
    """Combine a piece's partials of a lane into those of the places that its rows have."""
    columns, one = logic.window_entries(lane, w), logic.lanes[lane]
    width = columns.stop - columns.start
    if piece.block is None:
        assert folded is not None
        partials = folded.lanes[lane]
        assert not isinstance(partials, SliceSums)
        wanted, at = np.arange(columns.start, columns.stop), np.arange(width)
    else:
        stored = piece.block.lanes.get(logic.names[lane])
        partials = None if stored is None else stored.partials
        ids = logic.ids[lane][columns]
        wanted, at = asked_entries(ids, stored.ids) if stored is not None else (ids[:0], ids[:0])
    if partials is None or len(wanted) == 0 or len(places) == 0:
        return
    into = rows.lanes[lane]
    if into is None:
        into = rows.lanes[lane] = one.zeros((width, len(rows.keys)))
    cube = {name: array[:, None] for name, array in into.items()}
    bounds, slots = np.array([0, len(places)]), np.arange(2)
    if put_stored(one, cube, partials, (wanted, piece.rows), (at, places, bounds, slots[:1], slots[1:])):
        return
    order = np.argsort(places, kind="stable")  # this epoch's fine slices can have one own slice
    first = np.flatnonzero(np.diff(places[order], prepend=-1))
    taken = np.ix_(wanted, piece.rows[order])
    runs = one.runs({name: array[taken] for name, array in partials.items()}, first)
    accumulate_at(one, into, (at[:, None], places[order][first][None, :]), runs)


def _live(logic: AggregationLogic, w: int, rows: _Rows, live: Ints, first_key: int) -> WindowBlock | None:
    """The rows of slices that are live and hold a tuple of some query."""
    counts = rows.lanes[0]
    if counts is None:
        return None
    kept = np.flatnonzero(live[rows.slots] & (counts["v"] != 0).any(axis=0))
    if len(kept) == 0:
        return None
    lanes = {}
    for i, text in enumerate(logic.names):
        partials = rows.lanes[i]
        if partials is not None:
            flat = {name: array[:, None] for name, array in partials.items()}
            taken = store_rows(logic.lanes[i], flat, np.zeros(len(kept), np.int64), kept)
            lanes[text] = LaneBlock(logic.ids[i][logic.window_entries(i, w)], taken)
    keys = rows.keys[kept].astype(np.int64) + first_key
    return WindowBlock(logic.operator.windows[w], keys, rows.starts[rows.slots[kept]], lanes)


def _close(logic: AggregationLogic, w: int, rows: _Rows, closing: Ints) -> Iterator[Closed]:
    """Combine each closed window's rows into [entry, place]; nothing when no query of this window has a tuple."""
    if rows.lanes[0] is None:  # partials of a query that was dropped, say
        return
    window = logic.operator.windows[w]
    first = np.searchsorted(closing + window.range_us, rows.starts, "right")
    last = np.searchsorted(closing, rows.starts, "right")
    counts = np.zeros(len(closing), np.int64)
    count_keys(rows.keys, rows.slots, first, last, counts)
    widest = max(
        array.shape[0] for partials in rows.lanes if partials is not None for array in partials.values()
    )
    for low, high in window_runs(counts, BLOCK_ELEMENTS // widest):
        bounds = np.append(0, np.cumsum(counts[low:high]))
        keys, runs = np.empty(bounds[-1], np.int32), np.empty((2, bounds[-1]), np.int64)
        ends = np.searchsorted(rows.starts, closing[low:high] + window.range_us)
        some = (np.clip(first, low, high) - low, np.clip(last, low, high) - low)
        list_keys(rows.keys, rows.slots, *some, ends, bounds[:-1].copy(), keys, runs)
        lanes = {
            i: _combine(logic.lanes[i], partials, runs)
            for i, partials in enumerate(rows.lanes)
            if partials is not None
        }
        of = np.array([0, high - low])
        places = Places(w, of, closing[low:high] + window.range_us, bounds, keys)
        offsets = {i: places.offsets(logic.entry_bounds(i, w, w + 1)) for i in lanes}
        flat = {i: {name: array.ravel() for name, array in partials.items()} for i, partials in lanes.items()}
        yield Closed(places, flat, offsets)


def window_runs(counts: Ints, budget: int) -> Iterator[tuple[int, int]]:
    """Runs of windows whose keys are within a budget, or a single one that is not; none without any key.

    >>> list(window_runs(np.array([3, 3, 9, 0]), 6))
    [(0, 2), (2, 3)]
    """
    low = total = 0
    for i, count in enumerate(counts.tolist()):
        if total and total + count > budget:
            yield low, i
            low, total = i, 0
        total += count
    if total:
        yield low, len(counts)


def _combine(one: LaneLogic, partials: Partials, runs: Ints) -> Partials:
    """[entry, run]: the partials of the rows of each run; no run is empty."""
    if len(partials) == 1:
        array = partials["v"]
        found = np.empty((array.shape[0], runs.shape[1]), array.dtype)
        match one:
            case AddedLogic():
                add_runs(array, runs, found)
                return {"v": found}
            case ExtremeLogic():
                extremes_of_runs(array, runs, one.least, found)
                return {"v": found}
    sizes = runs[1] - runs[0]
    rows = ranges(runs[0], sizes)
    return one.runs({name: array[:, rows] for name, array in partials.items()}, np.cumsum(sizes) - sizes)
