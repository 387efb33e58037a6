"""COUNT: tuples, and those of them whose input is NULL."""

from __future__ import annotations

import numpy as np

from headrace.model.types import BIGINT
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.encode import Ints, Physical, to_arrow
from headrace.operators.common.matching import Matches
from headrace.operators.compiled.matches import add_values
from headrace.operators.windows.folds import Fold, fold_ints
from headrace.operators.windows.lanes.base import Lowered, Parts, RowParts, group_ints, int_ranges, present


class CountLogic:
    """Tuples, or tuples whose input is NULL."""

    def __init__(self, nulls: bool) -> None:
        self._nulls = nulls

    def lift(self, column: Physical | None, rows: int) -> Parts:
        if not self._nulls:
            return {"v": np.ones(rows, np.int64)}
        if column is None or column.valid is None:
            return {"v": np.zeros(rows, np.int64)}
        return {"v": (~column.valid).astype(np.int64)}

    def zeros(self, shape: tuple[int, ...]) -> Parts:
        return {"v": np.zeros(shape, np.int64)}

    def group(self, parts: Parts, bins: Ints, size: int) -> Parts:
        return {"v": group_ints(parts["v"], bins, size)}

    def fold(self, parts: Parts, fold: Fold) -> Parts:
        return {"v": fold_ints(parts["v"], fold)}

    def update(self, into: Parts, parts: Parts, matches: Matches) -> None:
        for name, part in parts.items():
            add_values(*matches.arguments, as_given(part), into[name])

    def combine(self, left: Parts, right: Parts) -> Parts:
        return {"v": left["v"] + right["v"]}

    def total(self, parts: Parts, axis: int) -> Parts:
        return {"v": parts["v"].sum(axis=axis)}

    def runs(self, parts: Parts, starts: Ints) -> Parts:
        return {"v": np.add.reduceat(parts["v"], starts, axis=-1)}

    def ranges(self, parts: Parts, lows: Ints, highs: Ints) -> Parts:
        return {"v": int_ranges(parts["v"], lows, highs)}


def lower_count_all(part: RowParts, index: int) -> Lowered:
    return to_arrow(part.counts(index), None, BIGINT), None


def lower_count(part: RowParts, index: int) -> Lowered:
    return to_arrow(present(part, index), None, BIGINT), None
