"""Measures of whole numbers that the matches of a tuple update together: two sums, a minimum and a maximum at once.

To find the queries that a tuple matches takes about as long as to update them. So it is done once for all measures of
an input, and not once for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.operators.common.bitrows import as_given
from headrace.operators.common.encode import Array, Ints
from headrace.operators.common.matching import Matches
from headrace.operators.compiled.matches import SLOTS, add_values, update_slots
from headrace.operators.windows.lanes import CountLogic, ExtremeLogic, IntSumLogic, LaneLogic, Partials
from headrace.operators.windows.prepared import AggregationLogic, Keepers

NOBODY = np.empty((0, 0), np.int64)
"""The partials of a slot that nobody keeps."""


def slots_of(one: LaneLogic) -> range:
    """The slots of `update_slots` that a kind of partial may take: none where its values are no whole numbers.

    >>> list(slots_of(CountLogic(nulls=False)))
    [0, 1]
    """
    match one:
        case CountLogic() | IntSumLogic():
            return range(2)
        case ExtremeLogic():
            return range(2, 3) if one.least else range(3, 4)
        case _:
            return range(0)


@dataclass(slots=True)
class Slots:
    """Up to four measures of one input, by slot, and the values of all tuples once somebody asks for them."""

    input: int | None
    measures: dict[int, int]
    _values: Ints | None = None

    def values(self, inputs: Sequence[Partials | None], tuples: int) -> Ints:
        """[tuple, slot]; what a slot without a measure holds is looked at by nobody."""
        if self._values is None:
            self._values = np.zeros((tuples, SLOTS), np.int64)
            for slot, measure in self.measures.items():
                partials = inputs[measure]
                assert partials is not None
                self._values[:, slot] = partials["v"]
        return self._values


def slots_for(logic: AggregationLogic, inputs: Sequence[Partials | None]) -> list[Slots]:
    """The measures of whole numbers that tuples have a value of, as few slots as there may be. Counts of tuples have no
    input and go with those of any.
    """
    found: list[Slots] = []
    measures = logic.operator.measures
    for number in sorted(logic.measures, key=lambda m: -1 if (i := measures[m].input) is None else i):
        mine, wanted = measures[number].input, slots_of(logic.measures[number])
        if inputs[number] is None or not wanted:
            continue
        places = (
            (slots, slot)
            for slots in found
            if slots.input in (None, mine)
            for slot in wanted
            if slot not in slots.measures
        )
        slots, slot = next(places, (None, wanted[0]))
        if slots is None:
            found.append(slots := Slots(mine, {}))
        slots.input = mine
        slots.measures[slot] = number
    return found


def walks_of(
    logic: AggregationLogic,
    together: Sequence[Slots],
    measures: Collection[int],
    inputs: Sequence[Partials | None],
) -> list[list[int]]:
    """Which of some measures are updated at once: matches are found once for each of these lists.

    Whole numbers whose sums carry a float shadow are in two of them.
    """
    found = [[m for m in slots.measures.values() if m in measures] for slots in together]
    alone = [m for m in measures if not slots_of(logic.measures[m]) or "f" in (inputs[m] or ())]
    return [mine for mine in found if mine] + [[m] for m in alone]


def update_together(
    slots: Slots, kept: Mapping[int, Keepers], into: Mapping[int, Array], values: Ints, matches: Matches
) -> None:
    """Update the partials of the measures that a family keeps: `kept` and `into` have these by measure."""
    mine = {slot: kept[measure] for slot, measure in slots.measures.items() if measure in kept}
    if not mine:
        return
    places = np.full((len(matches.matcher.column), SLOTS), -1, np.int64)
    for slot, one in mine.items():
        places[:, slot] = one.entries
    mask = np.bitwise_or.reduce([one.mask for one in mine.values()])
    some = replace(matches, mask=mask, entries=places.max(axis=1, initial=-1))
    if len(mine) == 1 and (slot := min(mine)) < 2:  # the other slots would be updated for nothing
        add_values(*some.arguments, as_given(values[:, slot]), into[mine[slot].measure])
        return
    arrays = tuple(into[mine[slot].measure] if slot in mine else NOBODY for slot in range(SLOTS))
    update_slots(*some.arguments, as_given(values), places, *arrays)
