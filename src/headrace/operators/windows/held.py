"""What segments hold of a window for a block of keys, and how it is combined with what is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.model.lanes import is_ranked
from headrace.model.window import Window
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.bitrows import ordered_by_row
from headrace.operators.compiled.windows import add_stored, keep_stored
from headrace.operators.windows.folding import KeyBlock
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.lanes import AddedLogic, ExtremeLogic, LaneLogic, Partials
from headrace.operators.windows.lanes.extremes import nothing_in
from headrace.operators.windows.packed import PackedLane
from headrace.operators.windows.partials import accumulate_at, shadow
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment, WindowBlock, few_distinct, pack_lane


@dataclass(slots=True)
class HeldSegment:
    """A segment of an epoch before, with the position of its keys among the common keys.

    Of one that is only read, `closing` says which fine slices of its pool are in a window that closes.
    """

    segment: Segment
    ids: Ints
    absorbed: bool
    closing: Bools | None = None
    _rows: dict[Window, tuple[Ints, Ints]] = field(default_factory=dict)
    _blocks: dict[Window, WindowBlock] = field(init=False)
    _lanes: dict[str, PackedLane] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._blocks = {block.window: block for block in self.segment.blocks}

    def block(self, window: Window) -> WindowBlock | None:
        return self._blocks.get(window)

    def lane(self, name: str) -> PackedLane | None:
        """A lane of all blocks as kernels read it; None where no block has it. Worked out once for all keys."""
        if name not in self._lanes:
            known = None if is_ranked(name) else self.segment.packed.get(name)  # ranks are renamed in blocks
            self._lanes[name] = pack_lane(self.segment.blocks, name) if known is None else known
        return self._lanes[name] if len(self._lanes[name].ids) else None

    def rows_of(self, block: WindowBlock, keys: KeyBlock) -> Ints:
        """The rows of a window that have a key of a block of keys, in order; all blocks are worked out at once."""
        if block.window not in self._rows:
            home = self.ids[block.keys] // keys.size
            self._rows[block.window] = ordered_by_row(home, int(home.max(initial=0)) + 1)
        order, bounds = self._rows[block.window]
        number = keys.first // keys.size
        return order[bounds[number] : bounds[number + 1]] if number + 1 < len(bounds) else order[:0]


@dataclass(slots=True)
class Stored:
    """What a segment holds of one window for a block of keys: some rows (None: all), in these slices."""

    held: HeldSegment
    block: WindowBlock
    rows: Ints | None
    slices: Ints

    @classmethod
    def of(cls, held: HeldSegment, window: Window, keys: KeyBlock) -> Stored | None:
        block = held.block(window)
        if block is None:
            return None
        if keys.whole:
            return cls(held, block, None, block.distinct_slices)
        rows = held.rows_of(block, keys)
        return cls(held, block, rows, few_distinct(block.slices[rows])) if len(rows) else None


def placed_in(found: Sequence[Stored], starts: Ints, block: KeyBlock) -> list[Placed]:
    """What is stored of some own slices, which ascend."""
    return [placed for stored in found if (placed := Placed.of(stored, starts, block)) is not None]


@dataclass(frozen=True, slots=True)
class Placed:
    """The rows of a stored block that are in some own slices, by slice: those of slot s are [bounds[s], bounds[s + 1]),
    each with its key, which is one of `count`.
    """

    block: WindowBlock
    rows: Ints
    keys: Ints
    bounds: Ints
    count: int

    @classmethod
    def of(cls, stored: Stored, starts: Ints, block: KeyBlock) -> Placed | None:
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


class Old:
    """What epochs before this one stored of a window's own slices, as far as windows that close need it."""

    def __init__(
        self, logic: AggregationLogic, w: int, window: Window, starts: Ints, placed: Sequence[Placed]
    ) -> None:
        self._logic, self._w, self._window, self._starts, self._placed = logic, w, window, starts, placed
        self._grids: dict[int, Partials] = {}
        self._lanes: dict[int, list[tuple[Placed, tuple[LaneBlock, Ints, Ints]]]] = {}

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

    def _of(self, lane: int) -> list[tuple[Placed, tuple[LaneBlock, Ints, Ints]]]:
        """What is stored of a lane: each time where its rows belong, and what `Placed.lane` says."""
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
