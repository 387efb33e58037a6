"""What a kind of partial can do, as Scotty names it: lift tuples, combine partials; `lower` makes results of them.

A lane's partials are a dict of equally shaped arrays. Rows of no tuple hold the lane's zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.model.plan import LaneKind, Output
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.bitrows import given_ints
from headrace.operators.common.encode import Physical
from headrace.operators.common.matching import Matches
from headrace.operators.compiled.bins import add_to_bins
from headrace.operators.compiled.windows import add_ranges
from headrace.operators.windows.folds import Fold, accumulate

Partials = dict[str, Array]


class MeasureLogic(Protocol):
    """What map tasks ask of a measure. Shapes: tuples [n]."""

    def lift(self, column: Physical | None, rows: int) -> Partials:
        """One partial per tuple."""

    def group(self, partials: Partials, bins: Ints, size: int) -> Partials:
        """Combine the partials that share a bin."""


class LaneLogic(MeasureLogic, Protocol):
    """What every kind of dense partial can do. Shapes: tuples [n], cells [cell, row], columns [column, row]."""

    def zeros(self, shape: tuple[int, ...]) -> Partials:
        """Partials of no tuple."""

    def fold(self, partials: Partials, fold: Fold) -> Partials:
        """Combine each column's cells."""

    def update(self, into: Partials, partials: Partials, matches: Matches) -> None:
        """Combine each tuple's partial into those of the queries it matches, in place; `into` has the same arrays.

        Whole numbers are not among them: several measures update these together (`windows/together.py`).
        """

    def combine(self, left: Partials, right: Partials) -> Partials:
        """Combine partials pairwise."""

    def total(self, partials: Partials, axis: int) -> Partials:
        """Combine partials along an axis."""

    def runs(self, partials: Partials, starts: Ints) -> Partials:
        """Combine consecutive rows: run i is rows starts[i] up to starts[i+1]."""

    def ranges(self, partials: Partials, lows: Ints, highs: Ints) -> Partials:
        """Combine ranges of the middle axis: [column, slice, key] to [column, range, key]."""


@dataclass(frozen=True, slots=True)
class Values:
    """How often the tuples of some result rows had each value, ascending by row and value. There are `size` rows.

    Values are codes: numbers in the order of `to_ordered`, ranks where there is a vocabulary.
    """

    size: int
    rows: Ints
    values: Ints
    counts: Ints


class RowBags(Protocol):
    """The values behind result rows, for one aggregate."""

    def distinct(self) -> Ints:
        """How many values each row has."""

    def blocks(self) -> Iterator[Values]:
        """The values of all rows in their order, some rows at a time, so that memory holds one query's values."""


class RowPartials(Protocol):
    """The partials behind the result rows of one output."""

    @property
    def output(self) -> Output: ...

    @property
    def size(self) -> int:
        """How many rows there are."""

    def certain(self, aggregate: int) -> bool:
        """Whether it is known, without a look at any row, that each has a tuple whose input is not NULL."""

    def counts(self, aggregate: int) -> Ints:
        """Tuples that an aggregate's filter accepted, at every row."""

    def lane(self, kind: LaneKind, aggregate: int) -> Partials:
        """Partials of a kind at every row, from each query's own entry."""

    def bags(self, aggregate: int) -> RowBags:
        """The values of an aggregate that keeps all of them."""


Lowered = tuple[pa.Array, Bools | None]
"""One aggregate's values, and where its result does not fit (None: nowhere)."""


def present(rows: RowPartials, aggregate: int) -> Ints:
    """How many tuples had an input that is not NULL, at every row."""
    if rows.certain(aggregate):
        return rows.counts(aggregate)
    return rows.counts(aggregate) - rows.lane(LaneKind.NULLS, aggregate)["v"]


def somewhere(rows: RowPartials, aggregate: int) -> Bools | None:
    """Which rows have an input that is not NULL; None: all of them."""
    if rows.certain(aggregate):
        return None
    some = present(rows, aggregate) > 0
    return None if some.all() else some


def each_range(one: LaneLogic, partials: Partials, lows: Ints, highs: Ints) -> Partials:
    """`ranges` for every lane, also where partials cannot be subtracted: one after the other, or many at once."""
    first = next(iter(partials.values()))
    found = one.zeros((first.shape[0], len(lows), first.shape[2]))
    for name in partials.keys() - found.keys():
        found[name] = np.zeros(found["v"].shape)
    sizes = highs - lows
    steps = int(sizes.max(initial=0)).bit_length()
    if len(lows) > MANY_RANGES and int(sizes.sum()) > steps * (first.shape[1] + len(lows)):
        return _by_doubling(one, partials, found, lows, sizes)
    for i, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        if high - low == 1:
            piece = {name: array[:, low] for name, array in partials.items()}
        elif high > low:
            piece = one.total({name: array[:, low:high] for name, array in partials.items()}, 1)
        else:
            continue
        for name, array in piece.items():
            found[name][:, i] = array
    return found


MANY_RANGES = 32
"""From so many ranges on, each costs the logarithm of its length: dense windows overlap almost entirely."""


def _by_doubling(one: LaneLogic, partials: Partials, found: Partials, lows: Ints, sizes: Ints) -> Partials:
    """Put every range together from runs of 1, 2, 4, ... slices, each run made of two of half its length."""
    runs, length, at = partials, 1, lows.copy()
    while True:
        begun = (sizes & (length - 1)) > 0
        for more in (False, True):  # the first run of a range is taken as it is: 0.0 + -0.0 would be 0.0
            here = np.flatnonzero((sizes & length > 0) & (begun == more))
            pieces = {name: array[:, at[here]] for name, array in runs.items()}
            if more:
                pieces = one.combine({name: array[:, here] for name, array in found.items()}, pieces)
            for name, array in pieces.items():
                found[name][:, here] = array
            at[here] += length
        if not (sizes >= 2 * length).any():
            return found
        half = {name: array[:, length:] for name, array in runs.items()}
        runs = one.combine({name: array[:, :-length] for name, array in runs.items()}, half)
        length *= 2


def int_ranges(array: Ints, lows: Ints, highs: Ints) -> Ints:
    """Sums of ranges of the middle axis, exact for integers."""
    sums = np.empty((array.shape[0], len(lows), array.shape[2]), np.int64)
    put_int_ranges(array, lows, highs, sums)
    return sums


def put_int_ranges(array: Ints, lows: Ints, highs: Ints, into: Ints) -> None:
    """The same put into an array: slice by slice, or as differences of running sums."""
    if int((highs - lows).sum()) <= 4 * (array.shape[1] + len(lows)):  # else ranges overlap a lot
        into.fill(0)
        add_ranges(array, lows, highs, into)
        return
    running = np.zeros((array.shape[1] + 1, array.shape[0], array.shape[2]), np.int64)
    accumulate(np.add, array.swapaxes(0, 1), running[1:])
    np.subtract(running[highs].swapaxes(0, 1), running[lows].swapaxes(0, 1), out=into)


def group_ints(values: Ints, bins: Ints, size: int) -> Ints:
    """Exact sums (modulo 2**64) of integers per bin."""
    sums = np.zeros(size, np.int64)
    add_to_bins(given_ints(bins), given_ints(values), sums)
    return sums
