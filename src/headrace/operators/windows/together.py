"""Measures of whole numbers that the matches of a tuple update together: two sums, a minimum and a maximum at once.

To find the queries that a tuple matches takes about as long as to update them. So it is done once for all measures of
an input, and not once for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.matching import Matches
from headrace.operators.compiled.matches import FOUR, add_values, update_four
from headrace.operators.windows.lanes import CountLogic, ExtremeLogic, IntSumLogic, LaneLogic, Partials
from headrace.operators.windows.prepared import AggregationLogic, Keepers

NOBODY = np.empty((0, 0), np.int64)
"""The partials of a position that no measure has."""


def positions_of(one: LaneLogic) -> range:
    """The positions in `update_four` that a kind of partial may take: none where its values are no whole numbers.

    >>> list(positions_of(CountLogic(nulls=False)))
    [0, 1]
    """
    match one:
        case CountLogic() | IntSumLogic():
            return range(2)
        case ExtremeLogic():
            return range(2, 3) if one.least else range(3, 4)
        case _:
            return range(0)


def by_itself(one: LaneLogic, partials: Partials) -> Partials:
    """What a measure updates without others: all that is no whole number.

    >>> by_itself(CountLogic(nulls=False), {"v": NOBODY})
    {}
    """
    if not positions_of(one):
        return partials
    return {name: array for name, array in partials.items() if name == "f"}


@dataclass(slots=True)
class Four:
    """Up to four measures of one input, by position, and the values of all tuples once somebody asks for them."""

    input: int | None
    measures: dict[int, int]
    _values: Ints | None = None

    def values(self, inputs: Sequence[Partials | None], tuples: int) -> Ints:
        """[tuple, position]; what a position without a measure holds is looked at by nobody."""
        if self._values is None:
            self._values = np.empty((tuples, FOUR), np.int64)
            for position, measure in self.measures.items():
                partials = inputs[measure]
                assert partials is not None
                self._values[:, position] = partials["v"]
        return self._values


def fours_for(logic: AggregationLogic, inputs: Sequence[Partials | None]) -> list[Four]:
    """The measures of whole numbers that tuples have a value of, as few fours as there may be. Counts of tuples have no
    input and go with those of any.
    """
    found: list[Four] = []
    measures = logic.operator.measures
    for number in sorted(logic.measures, key=lambda m: -1 if (i := measures[m].input) is None else i):
        mine, wanted = measures[number].input, positions_of(logic.measures[number])
        if inputs[number] is None or not wanted:
            continue
        places = (
            (four, position)
            for four in found
            if four.input in (None, mine)
            for position in wanted
            if position not in four.measures
        )
        four, position = next(places, (None, wanted[0]))
        if four is None:
            found.append(four := Four(mine, {}))
        four.input = mine
        four.measures[position] = number
    return found


def passes_of(
    logic: AggregationLogic,
    together: Sequence[Four],
    measures: Collection[int],
    inputs: Sequence[Partials | None],
) -> list[list[int]]:
    """Which of some measures are updated at once: matches are found once for each of these lists.

    Whole numbers whose sums carry a float shadow are in two of them.
    """
    found = [[m for m in four.measures.values() if m in measures] for four in together]
    alone = [m for m in measures if by_itself(logic.measures[m], inputs[m] or {})]
    return [mine for mine in found if mine] + [[m] for m in alone]


def update_together(
    four: Four, kept: Mapping[int, Keepers], into: Mapping[int, Array], values: Ints, matches: Matches
) -> None:
    """Update the partials of the measures that a family keeps: `kept` and `into` have these by measure."""
    mine = {position: kept[measure] for position, measure in four.measures.items() if measure in kept}
    if not mine:
        return
    places = np.full((len(matches.matcher.column), FOUR), -1, np.int64)
    for position, one in mine.items():
        places[:, position] = one.entries
    mask = np.bitwise_or.reduce([one.mask for one in mine.values()])
    some = replace(matches, mask=mask, entries=places.max(axis=1, initial=-1))
    if len(mine) == 1 and (position := min(mine)) < 2:  # the other three would be updated for nothing
        add_values(*some.arguments, as_given(values[:, position]), into[mine[position].measure])
        return
    arrays = tuple(into[mine[position].measure] if position in mine else NOBODY for position in range(FOUR))
    update_four(*some.arguments, as_given(values), places, *arrays)
