"""Integer sums over any run of fine slices as a few look-ups in running totals over cells and slices."""

from __future__ import annotations

import numpy as np

from headrace.operators.common.bitrows import given_ints
from headrace.operators.common.encode import Ints
from headrace.operators.compiled.bins import run_totals
from headrace.operators.compiled.windows import subtract_totals
from headrace.operators.windows.folds import Fold, fold_scattered


class SliceSums:
    """Sums of one lane's entries for a full grid of slices and keys, exact modulo 2**64. No sum goes beyond `most`.

    `running[row, s]` is, per key, the sum of everything before slice s over the cells up to some cell. An entry is the
    difference of two rows, a run of slices the difference of two positions: four look-ups, however many tuples, cells
    and slices lie between. Row 0 is the sum of nothing.
    """

    def __init__(self, entries: int, rows: int, slices: int, keys: int, most: int) -> None:
        self._running = np.zeros((rows + 1, slices + 1, keys), np.int32 if most < 2**31 else np.int64)
        self._low, self._high = np.zeros(entries, np.int64), np.zeros(entries, np.int64)
        self._used = 1

    @staticmethod
    def rows_for(fold: Fold) -> int:
        """How many rows `add_cells` takes for a fold."""
        return fold.cells + len(fold.scattered)

    def add_cells(self, partials: Ints, fold: Fold, entries: Ints) -> None:
        """Take in the partials [cell, slice and key] that a fold sums into some entries."""
        first = self._take(fold.cells)
        shape = (len(partials), *self._running[0, 1:].shape)
        run_totals(given_ints(partials.reshape(shape)), self._running, first)
        self._low[entries] = np.where(fold.low > 0, first + fold.low - 1, 0)
        self._high[entries] = np.where(fold.high > 0, first + fold.high - 1, 0)
        if len(fold.scattered):
            apart = fold_scattered(partials, fold)
            first = self._take(len(apart))
            self._running[first : first + len(apart), 1:] = apart.reshape(len(apart), *shape[1:])
            self._low[entries[fold.scattered]] = 0
            self._high[entries[fold.scattered]] = first + np.arange(len(apart))

    def _take(self, rows: int) -> int:
        first, self._used = self._used, self._used + rows
        return first

    def finish(self) -> None:
        """Run the totals over the slices, once everything is taken in."""
        for s in range(2, self._running.shape[1]):
            self._running[:, s] += self._running[:, s - 1]

    def totals(self) -> Ints:
        """[entry]: the sums over all slices and keys."""
        every = self._running[:, -1].sum(axis=1, dtype=np.int64)
        return every[self._high] - every[self._low]

    def ranges(self, entries: slice, lows: Ints, highs: Ints, *, wide: bool = False) -> Ints:
        """[entry, range, key]: the sums over slices [low, high) of each range, of 64 bits if they are to be `wide`."""
        low, high = self._low[entries], self._high[entries]
        sums = np.empty(
            (len(low), len(lows), self._running.shape[2]), np.int64 if wide else self._running.dtype
        )
        subtract_totals(self._running, low, high, lows, highs, sums)
        return sums
