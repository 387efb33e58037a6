"""COUNT: tuples, and those of them whose input is NULL."""

from __future__ import annotations

import numpy as np

from headrace.model.types import BIGINT
from headrace.operators.common.arrays import Ints
from headrace.operators.common.encode import Physical, to_arrow
from headrace.operators.windows.folds import Fold, fold_ints
from headrace.operators.windows.lanes.added import AddedLogic
from headrace.operators.windows.lanes.base import (
    Lowered,
    Partials,
    RowPartials,
    group_ints,
    int_ranges,
    present,
    put_int_ranges,
)


class CountLogic(AddedLogic):
    """Tuples, or tuples whose input is NULL."""

    def __init__(self, nulls: bool) -> None:
        self._nulls = nulls

    def lift(self, column: Physical | None, rows: int) -> Partials:
        if not self._nulls:
            return {"v": np.ones(rows, np.int64)}
        if column is None or column.valid is None:
            return {"v": np.zeros(rows, np.int64)}
        return {"v": (~column.valid).astype(np.int64)}

    def zeros(self, shape: tuple[int, ...]) -> Partials:
        return {"v": np.zeros(shape, np.int64)}

    def group(self, partials: Partials, bins: Ints, size: int) -> Partials:
        return {"v": group_ints(partials["v"], bins, size)}

    def fold(self, partials: Partials, fold: Fold) -> Partials:
        return {"v": fold_ints(partials["v"], fold)}

    def ranges(self, partials: Partials, lows: Ints, highs: Ints) -> Partials:
        return {"v": int_ranges(partials["v"], lows, highs)}

    def put_ranges(self, array: Ints, lows: Ints, highs: Ints, into: Ints) -> None:
        """Make `into` [column, range, key] the sums over ranges of the middle axis."""
        put_int_ranges(array, lows, highs, into)


def lower_count_all(rows: RowPartials, index: int) -> Lowered:
    return to_arrow(rows.counts(index), None, BIGINT), None


def lower_count(rows: RowPartials, index: int) -> Lowered:
    return to_arrow(present(rows, index), None, BIGINT), None
