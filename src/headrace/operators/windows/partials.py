"""Partials that are put among others: where one side has a float shadow of its sums, the other gets one too."""

from __future__ import annotations

import numpy as np

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.windows.lanes import LaneLogic, Partials


def shadow(partials: Partials, other: Partials) -> Partials:
    """Give `partials` the float shadow that `other` has (exact sums below WIDE shadow themselves)."""
    return (
        {**partials, "f": partials["v"].astype(np.float64)}
        if "f" in other and "f" not in partials
        else partials
    )


def assign(into: Partials, at: Ints, partials: Partials) -> None:
    into.update(shadow(into, partials))
    for name, array in shadow(partials, into).items():
        into[name][at] = array


def accumulate_at(
    one: LaneLogic, into: Partials, at: tuple[Array | slice | int, ...], partials: Partials
) -> None:
    """into[at] = combine(into[at], partials); positions in `at` are distinct."""
    into.update(shadow(into, partials))
    current = {name: whole[at] for name, whole in into.items()}
    for name, array in one.combine(current, shadow(partials, into)).items():
        into[name][at] = array
