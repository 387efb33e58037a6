"""A window's own slices for a block of keys: new and stored partials meet here, closed windows leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from headrace.model.window import Window
from headrace.operators.common.encode import Array, Ints
from headrace.operators.compiled.windows import mark_live
from headrace.operators.windows.bags import Bag, ClosedBag
from headrace.operators.windows.folding import BLOCK_ELEMENTS, Folded, KeyBlock
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.held import HeldSegment, Old, Stored, has_kernel, placed_in, put_stored
from headrace.operators.windows.lanes import CountLogic, ExtremeLogic, IntSumLogic, LaneLogic, Partials
from headrace.operators.windows.lower import Closed, Places
from headrace.operators.windows.partials import accumulate_at, shadow
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import WindowBlock
from headrace.operators.windows.slices import (
    closing_windows,
    distinct_of,
    last_ends,
    slice_starts,
    union_of,
)
from headrace.operators.windows.storing import store_rows
from headrace.operators.windows.sums import SliceSums

DENSE_SLICES = 512
"""Up to so many fine slices are added to own slices one by one; beyond that, runs of rows are reduced."""

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
    fresh: _Fresh | None
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
    each time costs something, but a tuple may be in 100,000 windows, and their partials fit the budget.
    """
    rests, steps = [], []
    for w in range(len(logic.operator.windows)):
        rest, step = _window_step(logic, w, block, folded, before, closed_us, watermark_us)
        if rest is not None:
            found = live_rows(logic, w, rest, block)
            rests += [] if found is None else [(w, found)]
        if len(step.closing):
            steps.append(step)
    return rests, (_close(logic, turn, bags, block.count) for turn in _turns(logic, steps, block.count))


def _window_step(
    logic: AggregationLogic,
    w: int,
    block: KeyBlock,
    folded: Folded | None,
    before: Sequence[HeldSegment],
    closed_us: int,
    watermark_us: int,
) -> tuple[Grid | None, _Step]:
    """(new and absorbed partials that later epochs need, the windows that close) for one window and block of keys."""
    window = logic.operator.windows[w]
    mine = [stored for held in before if (stored := Stored.of(held, window, block)) is not None]
    fresh = None if folded is None else _Fresh(logic, w, window, folded, closed_us, block.count)
    own = np.empty(0, np.int64) if fresh is None else fresh.starts
    known = union_of([stored.slices for stored in mine])
    closing = closing_windows(window, union_of([own, known]), closed_us, watermark_us)
    absorbed = [stored for stored in mine if stored.held.absorbed]
    live = union_of([own, *(stored.slices for stored in absorbed)])
    live = live[last_ends(window, live) > watermark_us]
    rest = None
    if len(live):
        kept = bool(absorbed)  # they will be added to
        every = range(len(logic.lanes))
        rest = Grid(live, [None if fresh is None else fresh.at(i, live, copy=kept) for i in every])
        for placed in placed_in(absorbed, live, block):
            for i in every:
                rest.lanes[i] = placed.added(logic, w, i, rest.lanes[i])
    old = None
    if len(closing):
        needed = known[(known >= closing[0]) & (known < closing[-1] + window.range_us)]
        if len(needed):
            old = Old(logic, w, window, needed, placed_in(mine, needed, block))
    return rest, _Step(w, window, fresh, old, closing)


def _turns(logic: AggregationLogic, steps: Sequence[_Step], keys: int) -> Iterator[list[_Step]]:
    """Windows that close together: as many as fit the budget, or a single one that does not."""
    turn: list[_Step] = []
    taken = 0
    for step in steps:
        every = (logic.window_entries(i, step.w) for i in range(len(logic.lanes)))
        widest = max(columns.stop - columns.start for columns in every) * max(keys, 1)
        few = max(1, BLOCK_ELEMENTS // max(widest, 1))
        for low in range(0, len(step.closing), few):
            some = replace(step, closing=step.closing[low : low + few])
            wanted = widest * len(some.closing)
            if turn and (turn[-1].w == step.w or taken + wanted > TURN_ELEMENTS):
                yield turn
                turn, taken = [], 0
            turn.append(some)
            taken += wanted
    if turn:
        yield turn


class _Fresh:
    """This epoch's partials of one window, for a block of keys: of its own slices, or of whole windows."""

    def __init__(
        self, logic: AggregationLogic, w: int, window: Window, folded: Folded, closed_us: int, keys: int
    ) -> None:
        self._logic, self._w, self._window, self._folded, self._keys = logic, w, window, folded, keys
        self._own = slice_starts(window, folded.starts)
        self._alive = last_ends(window, self._own) > closed_us
        self.starts = distinct_of(self._own[self._alive])
        self._grids: dict[int, Partials] = {}

    def at(self, lane: int, starts: Ints, *, copy: bool) -> Partials | None:
        """[entry, slice, key] of some own slices (not all of them need be in this epoch), perhaps not to be changed."""
        columns, found = self._logic.window_entries(lane, self._w), self._folded.lanes[lane]
        if columns.start == columns.stop or found is None:
            return None
        if isinstance(found, SliceSums):
            return {"v": found.ranges(columns, *self._positions(starts), wide=copy)}
        grid = self._grid(lane, found)
        first = int(np.searchsorted(self.starts, starts[0]))
        if np.array_equal(self.starts[first : first + len(starts)], starts):
            some = {name: array[:, first : first + len(starts)] for name, array in grid.items()}
            return {name: array.copy() for name, array in some.items()} if copy else some
        zeros = self._logic.lanes[lane].zeros((columns.stop - columns.start, len(starts), self._keys))
        here = np.isin(self.starts, starts)
        at = np.searchsorted(starts, self.starts[here])
        for name, array in grid.items():
            zeros.setdefault(name, np.zeros(zeros["v"].shape))[:, at] = array[:, here]
        return zeros

    def has(self, lane: int) -> bool:
        """Whether there are partials of a lane."""
        columns = self._logic.window_entries(lane, self._w)
        return columns.start < columns.stop and self._folded.lanes[lane] is not None

    def is_plain(self, lane: int) -> bool:
        """Whether a lane's partials are one number each, that is added or compared."""
        found, one = self._folded.lanes[lane], self._logic.lanes[lane]
        return found is None or isinstance(found, SliceSums) or has_kernel(one, found)

    def is_narrow(self, lane: int) -> bool:
        """Whether the sums of any window fit 32 bits."""
        found = self._folded.lanes[lane]
        return isinstance(found, SliceSums) and found.narrow

    def put_windows(self, lane: int, closing: Ints, into: Array) -> bool:
        """Make `into` the plain partials [entry, window, key] of some windows, as far as this epoch's tuples go.

        False, changing nothing, when there are none.
        """
        columns, found = self._logic.window_entries(lane, self._w), self._folded.lanes[lane]
        if not self.has(lane):
            return False
        ends = closing + self._window.range_us
        if isinstance(found, SliceSums):
            lows, highs = np.searchsorted(self._folded.starts, [closing, ends])
            found.put_ranges(columns, lows, highs, into)
            return True
        assert found is not None
        one, grid = self._logic.lanes[lane], self._grid(lane, found)
        lows, highs = np.searchsorted(self.starts, [closing, ends])
        if isinstance(one, CountLogic | IntSumLogic | ExtremeLogic):
            one.put_ranges(grid["v"], lows, highs, into)
        else:
            into[...] = one.ranges(grid, lows, highs)["v"]
        return True

    def windows(self, lane: int, closing: Ints) -> Partials | None:
        """[entry, window, key] of some windows, as far as this epoch's tuples go, to be changed."""
        columns, found = self._logic.window_entries(lane, self._w), self._folded.lanes[lane]
        if columns.start == columns.stop or found is None:
            return None
        ends = closing + self._window.range_us
        if isinstance(found, SliceSums):
            lows, highs = np.searchsorted(self._folded.starts, [closing, ends])
            return {"v": found.ranges(columns, lows, highs, wide=True)}
        lows, highs = np.searchsorted(self.starts, [closing, ends])
        return self._logic.lanes[lane].ranges(self._grid(lane, found), lows, highs)

    def _positions(self, starts: Ints) -> tuple[Ints, Ints]:
        """The fine slices that own slices are made of."""
        return np.searchsorted(self._own, starts, "left"), np.searchsorted(self._own, starts, "right")

    def _grid(self, lane: int, found: Partials) -> Partials:
        """Fine slices summed into the own slices of `self.starts`."""
        if lane in self._grids:
            return self._grids[lane]
        one, folded, columns = (
            self._logic.lanes[lane],
            self._folded,
            self._logic.window_entries(lane, self._w),
        )
        partials = {name: array[columns] for name, array in found.items()}
        if folded.dense and len(self._own) <= DENSE_SLICES:
            cube = {
                name: array.reshape(len(array), len(self._own), self._keys)
                for name, array in partials.items()
            }
            grid = one.ranges(cube, *self._positions(self.starts))
        else:
            target = np.searchsorted(self.starts, self._own)
            grid = one.zeros((columns.stop - columns.start, len(self.starts), self._keys))
            rows, entries = (
                np.flatnonzero(self._alive[folded.slices]),
                np.arange(columns.stop - columns.start),
            )
            slots = np.arange(len(self.starts) + 1)
            bounds = np.searchsorted(target[folded.slices[rows]], slots)
            places = (entries, folded.keys[rows], bounds, slots[:-1], slots[1:])
            if not put_stored(one, grid, partials, (entries, rows), places):
                add = _add_runs if len(self._own) > DENSE_SLICES else _add_slices
                add(one, grid, partials, folded, target, self._alive)
        self._grids[lane] = grid
        return grid


def _add_slices(
    one: LaneLogic, into: Partials, partials: Partials, folded: Folded, target: Ints, alive: Array
) -> None:
    """Add fine slices to own slices one by one; a slice holds each key once at most."""
    for s in np.flatnonzero(alive):
        low, high = folded.bounds[s], folded.bounds[s + 1]
        if low < high:
            piece = {name: array[:, low:high] for name, array in partials.items()}
            accumulate_at(one, into, (slice(None), int(target[s]), folded.keys[low:high]), piece)


def _add_runs(
    one: LaneLogic, into: Partials, partials: Partials, folded: Folded, target: Ints, alive: Array
) -> None:
    """The same for many slices: order rows by (key, slice) and reduce the runs that share an own slice."""
    live = np.flatnonzero(alive[folded.slices])
    order = live[np.lexsort((folded.slices[live], folded.keys[live]))]
    if len(order) == 0:
        return
    keys, slots = folded.keys[order], target[folded.slices[order]]
    first = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]) | (slots[1:] != slots[:-1])))
    runs = one.runs({name: array[:, order] for name, array in partials.items()}, first)
    accumulate_at(one, into, (slice(None), slots[first], keys[first]), runs)


def _close(logic: AggregationLogic, turn: Sequence[_Step], bags: Sequence[Bag], keys: int) -> Closed:
    """Combine each closed window's slices, from new and old partials, into [entry, window, key]."""
    first, last = turn[0].w, turn[-1].w + 1
    counts = np.zeros(last - first, np.int64)
    counts[[step.w - first for step in turn]] = [len(step.closing) for step in turn]
    ends = np.concatenate([step.closing + step.window.range_us for step in turn])
    places = Places.every(first, np.append(0, np.cumsum(counts)), ends, keys)
    lanes: dict[int, Partials] = {}
    for i in range(len(logic.lanes)):
        found = _close_lane(logic, i, turn, keys)
        if found is not None:
            lanes[i] = found
    values = {
        (number, step.w): ClosedBag(one, step.w, bag, step.closing, step.window.range_us, keys)
        for step in turn
        for number, (one, bag) in enumerate(zip(logic.bags, bags, strict=True))
    }
    offsets = {i: places.offsets(logic.entry_bounds(i, first, last)) for i in lanes}
    return Closed(places, lanes, offsets, values)


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
