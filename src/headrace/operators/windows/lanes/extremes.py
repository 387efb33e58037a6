"""MIN and MAX; MIN_BY and MAX_BY, which are extremes of rows (ordering, value)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.model.plan import LaneKind
from headrace.model.types import Kind, SqlType
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import given_ints
from headrace.operators.common.encode import Physical, from_ordered, to_arrow, to_ordered
from headrace.operators.common.matching import Matches
from headrace.operators.compiled.bins import keep_in_bins, keep_in_cells
from headrace.operators.compiled.windows import extreme_ranges
from headrace.operators.windows.folds import Fold, fold_extremes
from headrace.operators.windows.lanes.base import Lowered, Partials, RowPartials, each_range, somewhere

LEAST, GREATEST = 2**63 - 1, -(2**63)
"""What MIN and MAX of no tuple are; no value and no rank is encoded so."""


def nothing_in(dtype: type | np.dtype, least: bool) -> int:
    """What MIN (or MAX) of no tuple is where extremes are stored in a type: its last number, which no value is.

    >>> nothing_in(np.int8, least=True), nothing_in(np.int64, least=True) == LEAST
    (127, True)
    """
    limits = np.iinfo(dtype)
    return int(limits.max if least else limits.min)


class ExtremeLogic:
    """MIN or MAX over order-preserving int64 encodings. `type_` is what is lifted; None if nothing is."""

    def __init__(self, type_: SqlType | None, ufunc: np.ufunc, nothing: int) -> None:
        self._type, self._ufunc, self.nothing = type_, ufunc, nothing
        self.least = ufunc is np.minimum

    def lift(self, column: Physical | None, rows: int) -> Partials:
        assert column is not None and self._type is not None
        ordered = to_ordered(column, self._type)
        return {"v": ordered if column.valid is None else np.where(column.valid, ordered, self.nothing)}

    def zeros(self, shape: tuple[int, ...]) -> Partials:
        return {"v": np.full(shape, self.nothing, np.int64)}

    def group(self, partials: Partials, bins: Ints, size: int) -> Partials:
        grouped = np.full(size, self.nothing, np.int64)
        keep_in_bins(given_ints(bins), given_ints(partials["v"]), self.least, grouped)
        return {"v": grouped}

    def group_cells(self, partials: Partials, cells: Ints, first: Ints, row: Ints, size: int) -> Partials:
        """The same for bins by cell and row: those of a tuple's cell begin at first[cells[i] + 1]."""
        grouped = np.full(size, self.nothing, np.int64)
        of_tuples = (given_ints(cells), first, given_ints(row), given_ints(partials["v"]))
        keep_in_cells(*of_tuples, self.least, grouped)
        return {"v": grouped}

    def fold(self, partials: Partials, fold: Fold) -> Partials:
        return {"v": fold_extremes(partials["v"], fold, self._ufunc, self.nothing)}

    def update(self, into: Partials, partials: Partials, matches: Matches) -> None:
        """All of it is whole numbers."""

    def combine(self, left: Partials, right: Partials) -> Partials:
        return {"v": self._ufunc(left["v"], right["v"])}

    def total(self, partials: Partials, axis: int) -> Partials:
        return {"v": self._ufunc.reduce(partials["v"], axis=axis, initial=self.nothing)}

    def runs(self, partials: Partials, starts: Ints) -> Partials:
        return {"v": self._ufunc.reduceat(partials["v"], starts, axis=-1)}

    def ranges(self, partials: Partials, lows: Ints, highs: Ints) -> Partials:
        array = partials["v"]
        found = np.empty((array.shape[0], len(lows), array.shape[2]), np.int64)
        self.put_ranges(array, lows, highs, found)
        return {"v": found}

    def put_ranges(self, array: Ints, lows: Ints, highs: Ints, into: Ints) -> None:
        """Make `into` [column, range, key] the extremes over ranges of the middle axis."""
        if int((highs - lows).sum()) > 4 * (array.shape[1] + len(lows)):  # they overlap a lot
            into[...] = each_range(self, {"v": array}, lows, highs)["v"]
            return
        into.fill(self.nothing)
        extreme_ranges(array, lows, highs, self.least, into)


def lower_extreme(rows: RowPartials, index: int, kind: LaneKind, vocabulary: pa.Array | None) -> Lowered:
    ordered, some = rows.lane(kind, index)["v"], somewhere(rows, index)
    type_ = rows.output.aggregates[index].type
    known = ordered if some is None else np.where(some, ordered, 0)
    if type_.kind is Kind.STRING:
        assert vocabulary is not None
        return vocabulary.take(pa.array(known, mask=None if some is None else ~some)), None
    return to_arrow(from_ordered(known, type_), some, type_), None


def lower_by(rows: RowPartials, index: int, kind: LaneKind, vocabulary: pa.Array | None) -> Lowered:
    """The value of the row (ordering, value) that came first or last; NULL where no ordering was known."""
    ranks = rows.lane(kind, index)["v"]
    none = (ranks == (LEAST if kind is LaneKind.MIN else GREATEST)) | (rows.counts(index) == 0)
    if vocabulary is None:  # nobody had an ordering in any epoch that still counts
        return pa.nulls(len(ranks), rows.output.aggregates[index].type.arrow), None
    values = vocabulary.field(1)
    return values.take(pa.array(np.where(none, 0, ranks), mask=none)), None
