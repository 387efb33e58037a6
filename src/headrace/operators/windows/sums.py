"""Integer sums over any run of fine slices as a few look-ups in running totals over cells and slices."""

from __future__ import annotations

import numpy as np

from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import given_ints
from headrace.operators.compiled.bins import add_to_cells, run_totals
from headrace.operators.compiled.spans import put_totals
from headrace.operators.compiled.windows import subtract_totals
from headrace.operators.windows.folds import Fold, fold_scattered

NARROW = 2**31
"""Below this, numbers take 32 bits."""


class SliceSums:
    """Sums of one lane's entries for a full grid of slices and keys, exact modulo 2**64. No sum goes beyond `most`.

    `running[row, s]` is, per key, the sum of everything before slice s over the cells up to some cell. An entry is the
    difference of two rows, a run of slices the difference of two positions: four look-ups, however many tuples, cells
    and slices lie between. Row 0 is the sum of nothing.
    """

    def __init__(self, entries: int, rows: int, slices: int, keys: int, most: int) -> None:
        self.most = most
        # the last row takes what nobody wants
        self._running = np.empty((rows + 2, slices + 1, keys), np.int32 if most < NARROW else np.int64)
        self._running[0] = self._running[-1] = 0
        self._low, self._high = np.zeros(entries, np.int64), np.zeros(entries, np.int64)
        self._used = 1

    @staticmethod
    def rows_for(fold: Fold) -> int:
        """How many rows `add_tuples` takes for a fold."""
        return fold.cells + len(fold.scattered)

    def add_tuples(
        self, values: Ints, cells: Ints, lookup: Ints, row: Ints, fold: Fold, entries: Ints
    ) -> None:
        """Take in tuples, of which a fold sums the cells into some entries.

        Tuple i is in the fold's cell lookup[cells[i] + 1] (the one behind its last: nobody's), and at row[i] of the
        grid of slices and keys.
        """
        first = self._take(fold.cells)
        wanted = np.append(np.arange(first, first + fold.cells), len(self._running) - 1)
        keys = self._running.shape[2]
        self._running[first : first + fold.cells] = 0  # now, so that it is near to the processor
        begin = wanted[lookup] * self._running[0].size + keys
        add_to_cells(given_ints(cells), begin, given_ints(row), given_ints(values), self._running.reshape(-1))
        if len(fold.scattered):
            partials = self._running[first : first + fold.cells, 1:].astype(np.int64)
            apart = fold_scattered(partials.reshape(fold.cells, -1), fold)
            after = self._take(len(apart))
            self._running[after : after + len(apart), 0] = 0
            self._running[after : after + len(apart), 1:] = apart.reshape(len(apart), *partials.shape[1:])
            for one in range(after, after + len(apart)):
                run_totals(self._running, one, one + 1)
        run_totals(self._running, first, first + fold.cells)
        self._low[entries] = np.where(fold.low > 0, first + fold.low - 1, 0)
        self._high[entries] = np.where(fold.high > 0, first + fold.high - 1, 0)
        if len(fold.scattered):
            self._low[entries[fold.scattered]] = 0
            self._high[entries[fold.scattered]] = after + np.arange(len(apart))

    def _take(self, rows: int) -> int:
        first, self._used = self._used, self._used + rows
        return first

    def totals(self) -> Ints:
        """[entry]: the sums over all slices and keys."""
        every = self._running[:, -1].sum(axis=1, dtype=np.int64)
        return every[self._high] - every[self._low]

    def ranges(self, entries: slice, lows: Ints, highs: Ints, *, wide: bool = False) -> Ints:
        """[entry, range, key]: the sums over slices [low, high) of each range, of 64 bits if they are to be `wide`."""
        shape = (entries.stop - entries.start, len(lows), self._running.shape[2])
        sums = np.empty(shape, np.int64 if wide else self._running.dtype)
        self.put_ranges(entries, lows, highs, sums)
        return sums

    def put_ranges(self, entries: slice, lows: Ints, highs: Ints, sums: Ints) -> None:
        """Make `sums` [entry, range, key] those over slices [low, high) of each range."""
        subtract_totals(self._running, self._low[entries], self._high[entries], lows, highs, sums)

    def put_spans(self, entries: Ints, spans: Ints, first: Ints, last: Ints, sums: Ints) -> None:
        """Make `sums` those of the spans of several windows, as `compiled.spans` has them."""
        put_totals(self._running, self._low, self._high, entries, spans, first, last, sums)

    @property
    def narrow(self) -> bool:
        """Whether all sums fit 32 bits."""
        return self.most < NARROW
