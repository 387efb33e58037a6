"""A window's own slices for a block of keys: new and stored partials meet here, closed windows leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from headrace.model.window import Window
from headrace.operators.common.bitrows import ordered_by_row
from headrace.operators.common.encode import Array, Ints
from headrace.operators.compiled.windows import add_stored, keep_stored, mark_live
from headrace.operators.windows.bags import Bag, ClosedBag
from headrace.operators.windows.folding import BLOCK_ELEMENTS, Folded, KeyBlock
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.lanes import (
    AddedLogic,
    ExtremeLogic,
    LaneLogic,
    Partials,
)
from headrace.operators.windows.lanes.extremes import nothing_in
from headrace.operators.windows.lower import Closed, Places
from headrace.operators.windows.partials import accumulate_at, shadow
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment, WindowBlock, few_distinct
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
class HeldSegment:
    """A segment of an epoch before, with the position of its keys among the common keys."""

    segment: Segment
    ids: Ints
    absorbed: bool
    _rows: dict[Window, tuple[Ints, Ints]] = field(default_factory=dict)
    _blocks: dict[Window, WindowBlock] = field(init=False)

    def __post_init__(self) -> None:
        self._blocks = {block.window: block for block in self.segment.blocks}

    def block(self, window: Window) -> WindowBlock | None:
        return self._blocks.get(window)

    def rows_of(self, block: WindowBlock, keys: KeyBlock) -> Ints:
        """The rows of a window that have a key of a block of keys, in order; all blocks are worked out at once."""
        if block.window not in self._rows:
            home = self.ids[block.keys] // keys.size
            self._rows[block.window] = ordered_by_row(home, int(home.max(initial=0)) + 1)
        order, bounds = self._rows[block.window]
        number = keys.first // keys.size
        return order[bounds[number] : bounds[number + 1]] if number + 1 < len(bounds) else order[:0]


@dataclass(slots=True)
class _Stored:
    """What a segment holds of one window for a block of keys: some rows (None: all), in these slices."""

    held: HeldSegment
    block: WindowBlock
    rows: Ints | None
    slices: Ints

    @classmethod
    def of(cls, held: HeldSegment, window: Window, keys: KeyBlock) -> _Stored | None:
        block = held.block(window)
        if block is None:
            return None
        if keys.whole:
            return cls(held, block, None, block.distinct_slices)
        rows = held.rows_of(block, keys)
        return cls(held, block, rows, few_distinct(block.slices[rows])) if len(rows) else None


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
    old: _Old | None
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
    mine = [stored for held in before if (stored := _Stored.of(held, window, block)) is not None]
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
        for placed in _placed(absorbed, live, block):
            for i in every:
                rest.lanes[i] = placed.added(logic, w, i, rest.lanes[i])
    old = None
    if len(closing):
        needed = known[(known >= closing[0]) & (known < closing[-1] + window.range_us)]
        if len(needed):
            old = _Old(logic, w, window, needed, _placed(mine, needed, block))
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
            found.put_ranges(columns, *np.searchsorted(self._folded.starts, [closing, ends]), into)
            return True
        assert found is not None
        one, grid = self._logic.lanes[lane], self._grid(lane, found)
        lows, highs = np.searchsorted(self.starts, [closing, ends])
        if isinstance(one, ExtremeLogic):
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


def _placed(found: Sequence[_Stored], starts: Ints, block: KeyBlock) -> list[_Placed]:
    """What is stored of some own slices, which ascend."""
    return [placed for stored in found if (placed := _Placed.of(stored, starts, block)) is not None]


@dataclass(frozen=True, slots=True)
class _Placed:
    """The rows of a stored block that are in some own slices, by slice: those of slot s are [bounds[s], bounds[s + 1]),
    each with its key, which is one of `count`.
    """

    block: WindowBlock
    rows: Ints
    keys: Ints
    bounds: Ints
    count: int

    @classmethod
    def of(cls, stored: _Stored, starts: Ints, block: KeyBlock) -> _Placed | None:
        every = slice(None) if stored.rows is None else stored.rows
        slices = stored.block.slices[every]
        slots = np.minimum(np.searchsorted(starts, slices), len(starts) - 1)
        slots[starts[slots] != slices] = len(starts)
        order, bounds = ordered_by_row(slots, len(starts) + 1)
        here = order[: bounds[-2]]
        if len(here) == 0:
            return None
        rows = here if stored.rows is None else stored.rows[here]
        keys = stored.held.ids[stored.block.keys[rows]] - block.first
        return cls(stored.block, rows, keys, bounds[:-1], block.count)

    def lane(self, logic: AggregationLogic, w: int, lane: int) -> tuple[LaneBlock, Ints, Ints] | None:
        """(what is stored of a lane, its entries that somebody asks for, where each is among those of the window)."""
        found, columns = self.block.lanes.get(logic.names[lane]), logic.window_entries(lane, w)
        if found is None or columns.start == columns.stop:
            return None
        asked, at = asked_entries(logic.ids[lane][columns], found.ids)
        return (found, asked, at) if len(asked) else None

    def added(self, logic: AggregationLogic, w: int, lane: int, into: Partials | None) -> Partials | None:
        """The partials [entry, slot, key] of a lane (None: all zero), to which these rows were added."""
        mine = self.lane(logic, w, lane)
        if mine is None:
            return into
        (found, asked, at), one, columns = mine, logic.lanes[lane], logic.window_entries(lane, w)
        if into is None:
            into = one.zeros((columns.stop - columns.start, len(self.bounds) - 1, self.count))
        slots = np.arange(len(self.bounds))
        places = (at, self.keys, self.bounds, slots[:-1], slots[1:])
        if not put_stored(one, into, found.partials, (asked, self.rows), places):
            partials = {n: p[np.ix_(asked, self.rows)] for n, p in found.partials.items()}
            slot = np.repeat(slots[:-1], np.diff(self.bounds))
            accumulate_at(one, into, (at[:, None], slot[None, :], self.keys[None, :]), partials)
        return into


class _Old:
    """What epochs before this one stored of a window's own slices, as far as windows that close need it."""

    def __init__(
        self, logic: AggregationLogic, w: int, window: Window, starts: Ints, placed: Sequence[_Placed]
    ) -> None:
        self._logic, self._w, self._window, self._starts, self._placed = logic, w, window, starts, placed
        self._grids: dict[int, Partials] = {}
        self._lanes: dict[int, list[tuple[_Placed, tuple[LaneBlock, Ints, Ints]]]] = {}

    def has(self, lane: int) -> bool:
        """Whether something of a lane is stored."""
        return bool(self._of(lane))

    def is_plain(self, lane: int) -> bool:
        """Whether a lane's partials are one number each, that is added or compared."""
        stored = [found.partials for _, (found, _, _) in self._of(lane)]
        return not stored or has_kernel(self._logic.lanes[lane], *stored)

    def put(self, lane: int, closing: Ints, into: Array) -> None:
        """Combine what is stored of a lane into plain partials [entry, window, key] of windows that close."""
        found = self._of(lane)
        if not found:
            return
        one, ends = self._logic.lanes[lane], closing + self._window.range_us
        lows, highs = np.searchsorted(self._starts, [closing, ends])
        if int((highs - lows).sum()) > 4 * (len(self._starts) + len(closing)):  # they overlap a lot
            into[...] = one.combine({"v": into}, one.ranges(self._grid(lane), lows, highs))["v"]
            return
        first, last = (np.searchsorted(edges, self._starts, "right") for edges in (ends, closing))
        for placed, (stored, asked, at) in found:
            places = (at, placed.keys, placed.bounds, first, last)
            put_stored(one, {"v": into}, stored.partials, (asked, placed.rows), places)

    def added(self, lane: int, closing: Ints, into: Partials | None) -> Partials | None:
        """Partials [entry, window, key] of windows that close (None: all zero), with what is stored added."""
        if not self._of(lane):
            return into
        lows, highs = np.searchsorted(self._starts, [closing, closing + self._window.range_us])
        one = self._logic.lanes[lane]
        before = one.ranges(self._grid(lane), lows, highs)
        return before if into is None else one.combine(shadow(before, into), shadow(into, before))

    def _of(self, lane: int) -> list[tuple[_Placed, tuple[LaneBlock, Ints, Ints]]]:
        """What is stored of a lane: each time where its rows belong, and what `_Placed.lane` says."""
        if lane not in self._lanes:
            every = ((placed, placed.lane(self._logic, self._w, lane)) for placed in self._placed)
            self._lanes[lane] = [(placed, found) for placed, found in every if found is not None]
        return self._lanes[lane]

    def _grid(self, lane: int) -> Partials:
        """All that is stored of a lane, [entry, own slice, key]."""
        if lane not in self._grids:
            grid: Partials | None = None
            for placed in self._placed:
                grid = placed.added(self._logic, self._w, lane, grid)
            assert grid is not None
            self._grids[lane] = grid
        return self._grids[lane]


def asked_entries(ids: Ints, stored: Ints) -> tuple[Ints, Ints]:
    """(the stored entries that somebody asks for, where each is among the ids, which ascend).

    >>> [found.tolist() for found in asked_entries(np.array([3, 5]), np.array([4, 5]))]
    [[1], [1]]
    """
    if len(ids) == 0:
        return ids, ids
    if len(ids) == len(stored) and (ids == stored).all():
        return np.arange(len(ids)), np.arange(len(ids))
    at = np.searchsorted(ids, stored)
    asked = np.flatnonzero(ids[np.minimum(at, len(ids) - 1)] == stored)
    return asked, at[asked]


def has_kernel(one: LaneLogic, *partials: Partials) -> bool:
    """Whether partials of this kind can be combined by `put_stored`: there are no shadows, and no moments."""
    return isinstance(one, AddedLogic | ExtremeLogic) and all(len(some) == 1 for some in partials)


def put_stored(
    one: LaneLogic,
    into: Partials,
    partials: Partials,
    taken: tuple[Ints, Ints],
    places: tuple[Ints, Ints, Ints, Ints, Ints],
) -> bool:
    """Combine (entries, rows) of stored partials into a grid [entry, slot, key], in one pass.

    Places are (entries, keys, bounds, first, last): rows [bounds[g], bounds[g + 1]) go to slots [first[g], last[g]).
    Several rows may have one place. False, changing nothing, when no kernel knows this kind of partial.
    """
    if not has_kernel(one, into, partials):
        return False
    if isinstance(one, ExtremeLogic):
        nothing = nothing_in(partials["v"].dtype, one.least)
        keep_stored(partials["v"], *taken, *places, one.least, nothing, into["v"])
    else:
        add_stored(partials["v"], *taken, *places, into["v"])
    return True


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
    one: LaneLogic, lane: int, turn: Sequence[_Step], shapes: Sequence[tuple[int, ...]]
) -> Array:
    """The same for partials that kernels know: they are put where they belong at once."""
    ends = np.cumsum([prod(shape) for shape in shapes]).tolist()
    narrow = all(step.old is None and step.fresh is not None and step.fresh.is_narrow(lane) for step in turn)
    every = np.empty(ends[-1], np.int32) if narrow else np.empty(ends[-1], one.zeros(())["v"].dtype)
    for step, shape, end in zip(turn, shapes, ends, strict=True):
        into = every[end - prod(shape) : end].reshape(shape)
        if step.fresh is None or not step.fresh.put_windows(lane, step.closing, into):
            into[...] = one.zeros(())["v"]
        if step.old is not None and prod(shape):
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
