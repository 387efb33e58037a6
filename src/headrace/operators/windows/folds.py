"""Cells into queries: sum, extreme or moments of the cells that each state column wants.

A column whose cells are neighbours is two look-ups in a running total; any other is a matrix product or, where
that would not be exact, a gather. Floats are never subtracted and never multiplied by zero, so a huge or non-finite
value in one cell cannot spoil a query that does not want it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.operators.common.arrays import Array, Bools, Floats, Ints

_EXACT = 2.0**53


class Fold:
    """How cells fold into columns, worked out once for a membership matrix `membership[cell, column]`."""

    def __init__(self, membership: Bools) -> None:
        self.cells, self.columns = membership.shape
        self.membership = membership
        counts = membership.sum(axis=0)
        self.low = membership.argmax(axis=0) if self.cells else np.zeros(self.columns, np.int64)
        self.high = self.low + counts
        ends = self.cells - membership[::-1].argmax(axis=0) if self.cells else self.high
        self.run: Bools = (counts > 0) & (ends == self.high)
        self.high = np.where(counts > 0, self.high, self.low)
        self.scattered = np.flatnonzero((counts > 0) & ~self.run)
        inside = self.run & (self.low > 0) & (self.high < self.cells)
        self.steps = int(counts[inside].max(initial=0)).bit_length()
        """How many steps of doubling the longest run takes that begins and ends somewhere inside."""

    def wanted(self, column: int | np.integer[Any]) -> Ints:
        return np.flatnonzero(self.membership[:, column])


NARROW = 128
"""Arrays of so many rows or fewer are accumulated by numpy itself."""


def accumulate(ufunc: np.ufunc, partials: Array, out: Array) -> None:
    """`ufunc.accumulate` along the first axis, a whole row at a time where rows are wide: numpy's own goes down
    columns, which misses the cache at every step (measured: a seventh of the speed for 100 x 10,000).
    """
    if partials[:1].size <= NARROW:
        ufunc.accumulate(partials, axis=0, out=out, dtype=out.dtype)
        return
    out[0] = partials[0]
    before = out[0]
    for row, after in zip(partials[1:], out[1:], strict=True):
        ufunc(before, row, out=after, casting="same_kind")
        before = after


def fold_ints(partials: Ints, fold: Fold) -> Ints:
    """Exact integer sums (modulo 2**64) per column: `partials` is [cell, row], the result [column, row]."""
    running = np.zeros((fold.cells + 1, partials.shape[1]), np.int64)
    accumulate(np.add, partials, running[1:])
    folded = running[fold.high]
    folded -= running[fold.low]
    if len(fold.scattered):
        folded[fold.scattered] = fold_scattered(partials, fold)
    return folded


def fold_scattered(partials: Ints, fold: Fold) -> Ints:
    """The same for the columns whose cells are no neighbours only."""
    top = max(int(partials.max(initial=0)), -int(partials.min(initial=0))) * fold.cells
    if top < _EXACT:
        weights = fold.membership[:, fold.scattered].T.astype(np.float64)
        return np.rint(weights @ partials.astype(np.float64)).astype(np.int64)
    return np.stack([partials[fold.wanted(column)].sum(axis=0) for column in fold.scattered])


def _running(ufunc: np.ufunc, partials: Array) -> Array:
    out = np.empty_like(partials)
    accumulate(ufunc, partials, out)
    return out


def fold_floats(partials: Floats, fold: Fold) -> Floats:
    """Float sums per column, each over its own cells only."""
    folded = np.zeros((fold.columns, partials.shape[1]))
    if not np.isfinite(partials).all():
        for column in np.flatnonzero(fold.run | fold.membership.any(axis=0)):
            folded[column] = partials[fold.wanted(column)].sum(axis=0)
        return folded
    left = fold.run & (fold.low == 0)
    right = fold.run & (fold.high == fold.cells) & ~left
    single = fold.run & (fold.high - fold.low == 1) & ~left & ~right
    if left.any():
        folded[left] = _running(np.add, partials)[fold.high[left] - 1]
    if right.any():
        folded[right] = _running(np.add, partials[::-1])[fold.cells - 1 - fold.low[right]]
    folded[single] = partials[fold.low[single]]
    rest = np.flatnonzero(fold.membership.any(axis=0) & ~left & ~right & ~single)
    if len(rest):
        folded[rest] = fold.membership[:, rest].T.astype(np.float64) @ partials
    return folded


def fold_extremes(partials: Ints, fold: Fold, ufunc: np.ufunc, nothing: int) -> Ints:
    """Minima or maxima per column; `nothing` stands where a column has no cell."""
    folded = np.full((fold.columns, partials.shape[1]), nothing, np.int64)
    left = fold.run & (fold.low == 0)
    right = fold.run & (fold.high == fold.cells) & ~left
    if left.any():
        folded[left] = _running(ufunc, partials[: fold.high[left].max()])[fold.high[left] - 1]
    if right.any():
        folded[right] = _running(ufunc, partials[::-1])[fold.cells - 1 - fold.low[right]]
    _fold_runs(partials, fold, np.flatnonzero(fold.run & ~left & ~right), ufunc, folded)
    for column in fold.scattered:
        folded[column] = ufunc.reduce(partials[fold.wanted(column)], axis=0)
    return folded


NEAR = 1 << 18
"""So many numbers are near to the processor, together with what is made of them."""


def _fold_runs(partials: Ints, fold: Fold, columns: Ints, ufunc: np.ufunc, folded: Ints) -> None:
    """Extremes of runs anywhere: two overlapping runs of 1, 2, 4, ... cells make up any, and those of twice the length
    are made of them. Rows know nothing of each other, and some at a time are up to three times as fast as all at once.
    """
    if len(columns) == 0:
        return
    rows = partials.shape[1]
    width = max(NARROW, NEAR // len(partials))
    for at in range(0, rows, width):
        some = slice(at, min(at + width, rows))
        _fold_near_runs(partials[:, some], fold, columns, ufunc, folded[:, some])


def _fold_near_runs(partials: Ints, fold: Fold, columns: Ints, ufunc: np.ufunc, folded: Ints) -> None:
    sizes = fold.high[columns] - fold.low[columns]
    length, runs = 1, partials
    while len(columns):
        mine = sizes < 2 * length
        some = columns[mine]
        folded[some] = ufunc(runs[fold.low[some]], runs[fold.high[some] - length])
        columns, sizes = columns[~mine], sizes[~mine]
        if len(columns):
            runs = ufunc(runs[:-length], runs[length:])
            length *= 2


Moments = tuple[Ints, Floats, Floats]


def merge_moments(count: Ints, mean: Floats, m2: Floats, axis: int) -> Moments:
    """(count, mean, M2) of the union along an axis, from the deviations of the partials' means: stable.

    The mean is found from one of the partials' means, so that equal values have an M2 of exactly 0, as in Spark.
    """
    total = count.sum(axis=axis)
    some = np.expand_dims(np.argmax(count > 0, axis=axis), axis)
    pivot = np.take_along_axis(mean, some, axis)
    beside = np.where(count > 0, (mean - pivot) * count, 0.0).sum(axis=axis) / np.maximum(total, 1)
    center = np.squeeze(pivot, axis) + beside
    apart = mean - np.expand_dims(center, axis)
    spread = np.where(count > 0, m2 + count * apart * apart, 0.0)
    return total, center, spread.sum(axis=axis)


def fold_moments(partials: Moments, fold: Fold) -> Moments:
    """Moments per column, merged from its own cells."""
    rows = partials[0].shape[1]
    shape = (fold.columns, rows)
    count, mean, m2 = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
    for column in np.flatnonzero(fold.membership.any(axis=0)):
        cells = fold.wanted(column)
        merged = merge_moments(partials[0][cells], partials[1][cells], partials[2][cells], 0)
        count[column], mean[column], m2[column] = merged
    return count, mean, m2
