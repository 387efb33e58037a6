"""Variances and standard deviations, from counts, means and squared deviations."""

from __future__ import annotations

import numpy as np

from headrace.model.plan import LaneKind
from headrace.model.types import DOUBLE
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.encode import Physical, to_arrow
from headrace.operators.common.matching import Matches
from headrace.operators.compiled.matches import merge_moments_of
from headrace.operators.windows.folds import Fold, fold_moments, merge_moments
from headrace.operators.windows.lanes.base import Lowered, Partials, RowPartials, each_range, group_ints


class MomentsLogic:
    """Count, mean and M2 of the inputs that are not NULL, merged by deviations (never by sums of squares)."""

    def __init__(self, scale: int) -> None:
        self._unit = 10.0**scale

    def lift(self, column: Physical | None, rows: int) -> Partials:
        assert column is not None
        values = column.values / self._unit
        count = np.ones(rows, np.int64) if column.valid is None else column.valid.astype(np.int64)
        known = values if column.valid is None else np.where(column.valid, values, 0.0)
        return {"n": count, "v": known, "q": np.zeros(rows)}

    def zeros(self, shape: tuple[int, ...]) -> Partials:
        return {"n": np.zeros(shape, np.int64), "v": np.zeros(shape), "q": np.zeros(shape)}

    def group(self, partials: Partials, bins: Ints, size: int) -> Partials:
        count = group_ints(partials["n"], bins, size)
        pivot = np.zeros(size)
        known = partials["n"] > 0
        pivot[bins[known]] = partials["v"][
            known
        ]  # any of a bin's values: equal ones then deviate by exactly 0
        beside = np.where(known, (partials["v"] - pivot[bins]) * partials["n"], 0.0)
        mean = pivot + np.bincount(bins, weights=beside, minlength=size) / np.maximum(count, 1)
        apart = partials["v"] - mean[bins]
        spread = np.where(partials["n"] > 0, partials["q"] + partials["n"] * apart * apart, 0.0)
        return {"n": count, "v": mean, "q": np.bincount(bins, weights=spread, minlength=size)}

    def fold(self, partials: Partials, fold: Fold) -> Partials:
        return _moments(*fold_moments((partials["n"], partials["v"], partials["q"]), fold))

    def update(self, into: Partials, partials: Partials, matches: Matches) -> None:
        n, v, q = (as_given(partials[name]) for name in ("n", "v", "q"))
        merge_moments_of(*matches.arguments, n, v, q, into["n"], into["v"], into["q"])

    def combine(self, left: Partials, right: Partials) -> Partials:
        both = {name: np.stack([left[name], right[name]]) for name in left}
        return self.total(both, 0)

    def total(self, partials: Partials, axis: int) -> Partials:
        return _moments(*merge_moments(partials["n"], partials["v"], partials["q"], axis))

    def runs(self, partials: Partials, starts: Ints) -> Partials:
        count = np.add.reduceat(partials["n"], starts, axis=-1)
        lengths = np.diff(np.append(starts, partials["n"].shape[-1]))
        highest = np.maximum.reduceat(np.where(partials["n"] > 0, partials["v"], -np.inf), starts, axis=-1)
        pivot = np.where(count > 0, highest, 0.0)
        beside = np.where(
            partials["n"] > 0, (partials["v"] - np.repeat(pivot, lengths, axis=-1)) * partials["n"], 0.0
        )
        mean = pivot + np.add.reduceat(beside, starts, axis=-1) / np.maximum(count, 1)
        apart = partials["v"] - np.repeat(mean, lengths, axis=-1)
        spread = np.where(partials["n"] > 0, partials["q"] + partials["n"] * apart * apart, 0.0)
        return {"n": count, "v": mean, "q": np.add.reduceat(spread, starts, axis=-1)}

    def ranges(self, partials: Partials, lows: Ints, highs: Ints) -> Partials:
        return each_range(self, partials, lows, highs)


def _moments(count: Array, mean: Array, m2: Array) -> Partials:
    return {"n": count, "v": mean, "q": m2}


def lower_variance(rows: RowPartials, index: int, *, sample: bool, root: bool) -> Lowered:
    partials = rows.lane(LaneKind.MOMENTS, index)
    count, spread = partials["n"], partials["q"]
    value = spread / np.maximum(count - 1 if sample else count, 1)
    return to_arrow(np.sqrt(value) if root else value, count > (1 if sample else 0), DOUBLE), None
