"""What is the same for all partials that are added up: counts and sums."""

from __future__ import annotations

import numpy as np

from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.matching import Matches
from headrace.operators.compiled.matches import add_values
from headrace.operators.windows.lanes.base import Partials


class AddedLogic:
    """Partials of which two become one by an addition, array by array."""

    def update(self, into: Partials, partials: Partials, matches: Matches) -> None:
        for name, array in partials.items():
            add_values(*matches.arguments, as_given(array), into[name])

    def combine(self, left: Partials, right: Partials) -> Partials:
        return {name: array + right[name] for name, array in left.items()}

    def total(self, partials: Partials, axis: int) -> Partials:
        return {name: array.sum(axis=axis) for name, array in partials.items()}

    def runs(self, partials: Partials, starts: Ints) -> Partials:
        return {name: np.add.reduceat(array, starts, axis=-1) for name, array in partials.items()}
