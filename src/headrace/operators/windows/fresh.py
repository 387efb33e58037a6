"""What this epoch's tuples give one window: fine slices summed into its own, or into whole windows that close."""

from __future__ import annotations

import numpy as np

from headrace.model.window import Window
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.windows.folding import Folded
from headrace.operators.windows.held import has_kernel, put_stored
from headrace.operators.windows.lanes import CountLogic, ExtremeLogic, IntSumLogic, LaneLogic, Partials
from headrace.operators.windows.partials import accumulate_at
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.slices import distinct_of, last_ends, slice_starts
from headrace.operators.windows.sums import SliceSums

DENSE_SLICES = 512
"""Up to so many fine slices are added to own slices one by one; beyond that, runs of rows are reduced."""


class Fresh:
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
