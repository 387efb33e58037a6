"""A plan's join operator made ready to run: selection of its inputs, the orders of joining, and windows in pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headrace.model.plan import AcrossPositions, InputRole, JoinedQuery, JoinOperator, JoinStep
from headrace.model.predicate import TRUE, Operand
from headrace.model.tables import WORD
from headrace.model.types import Kind
from headrace.model.ways import FamilyWay
from headrace.model.window import Window
from headrace.operators.common.arrays import Array
from headrace.operators.common.query_sets import QuerySets
from headrace.operators.common.regions import regions_of
from headrace.operators.join.keys import keys_are_exact
from headrace.operators.join.windows import PairWindows
from headrace.operators.protocol import Columns

if TYPE_CHECKING:
    from headrace.operators.join.called import CalledConditions
    from headrace.operators.join.similar import Bound


def carried_name(operand: Operand) -> str:
    """What a carried column is called in segments, which outlive plans."""
    return f"{'plain' if operand.plain else 'expression'}:{operand.type.name}:{operand.sql}"


Words = tuple[int, ...]
"""Which words of query-sets an operator works with, ascending: those in which some query of it has its slot."""


def place_of(slot: int, words: Words) -> int:
    """The bit of a slot among the bits of these words.

    >>> place_of(130, (0, 2))
    66
    """
    return words.index(slot // WORD) * WORD + slot % WORD


def slot_mask(slots: Iterable[int], words: Words) -> Array:
    """Words with the bits of these slots.

    >>> slot_mask([0, 129], (0, 2)).tolist()
    [1, 2]
    """
    mask = np.zeros(len(words), np.uint64)
    for slot in slots:
        place = place_of(slot, words)
        mask[place // WORD] |= np.uint64(1 << place % WORD)
    return mask


class InputLogic:
    """One input: who wants its tuples in which role, for how long, and what of them."""

    def __init__(self, operator: JoinOperator, number: int, words: Words) -> None:
        self.number = number
        self.input = operator.inputs[number]
        self.words = words
        self.exact = keys_are_exact(self.input.keys)
        filters = self.input.filters
        self.roles = 1 + max((f.role for f in filters), default=0)
        self.windows: tuple[Window, ...] = tuple(
            sorted(
                {
                    query.windows[position]
                    for chain in operator.chains
                    for met, position in chain.positions.items()
                    if met.input == number
                    for query in chain.queries
                }
            )
        )
        floats = [key for key in self.input.keys if key.type.kind is Kind.FLOATING]
        self.carried = {carried_name(o): o for o in dict.fromkeys((*self.input.carried, *floats))}
        self.slots: list[dict[int, int]] = [
            {f.slot: int(f.query) for f in filters if f.role == role} for role in range(self.roles)
        ]
        predicates = [f.predicate for f in filters]
        bits = [f.role * len(words) * WORD + place_of(f.slot, words) for f in filters]
        self._sets = QuerySets(
            self.input.families,
            self.input.operands,
            predicates,
            np.array(bits, np.int64),
            self.roles * len(words),
        )

    def select(self, columns: Columns, rows: int, ways: list[FamilyWay]) -> Array:
        """The query-sets [role, word, row] of a batch of tuples; how they were found is added to `ways`."""
        regions = [regions_of(columns[index.operand], index) for index in self.input.operands]
        return self._sets.of(regions, rows, ways).reshape(self.roles, len(self.words), rows)


@dataclass(slots=True)
class Step:
    """A step of some chains, after the steps of `before`; chains whose orders begin alike share these steps.

    The first step takes new tuples only; a later one takes all tuples where its position is before the first step's,
    else only older ones: so each combination is found once. `reach` holds, for each earlier step, how far before and
    after its tuples any query's partners lie. `across` are the conditions that can be checked from here on, with the
    queries that ask; `called` are the queries whose conditions on functions can be, and `conditions` has these ready
    once they were asked, as `bounds` has the lowest scores that any query wants. Of a step with a hop, `travels` says
    what of each earlier position is needed from here on, besides event times, and `number` is its place in
    `JoinLogic.hops`.
    """

    of: JoinStep
    before: tuple[Step, ...]
    mask: Array
    queries: list[JoinedQuery] = field(default_factory=list)
    children: list[Step] = field(default_factory=list)
    chains: list[tuple[int, Array]] = field(default_factory=list)
    reach: list[tuple[int, int]] = field(default_factory=list)
    across: list[tuple[AcrossPositions, Array]] = field(default_factory=list)
    called: list[JoinedQuery] = field(default_factory=list)
    conditions: CalledConditions | None = None
    bounds: tuple[Bound, ...] | None = None
    travels: dict[int, list[Operand]] = field(default_factory=dict)
    number: int | None = None

    @property
    def position(self) -> int:
        return self.of.position

    @property
    def met(self) -> InputRole:
        return self.of.met

    @property
    def old_only(self) -> bool:
        return self.position > self.before[0].position


class JoinLogic:
    """The operator made ready; built once per plan, and the same in every task.

    `starts` are the first steps of all orders of joining, `hops` the steps that rows have to travel to.
    """

    def __init__(self, operator: JoinOperator) -> None:
        self.operator = operator
        self.words: Words = tuple(sorted({query.slot // WORD for query in operator.joined}))
        self.inputs = [InputLogic(operator, number, self.words) for number in range(len(operator.inputs))]
        self.queries = {query.slot: int(query.query) for query in operator.joined}
        self.starts: list[Step] = []
        self.hops: list[Step] = []
        for number, chain in enumerate(operator.chains):
            for first in range(len(chain.leaves)):
                self._enter(number, first)
        for start in self.starts:
            self._finish(start)
        self._pairs: dict[tuple[InputRole, InputRole], list[PairWindows]] = {}

    def _enter(self, number: int, first: int) -> None:
        """Add one order of one chain: new tuples at the position `first`, then the others."""
        chain = self.operator.chains[number]
        level = self.starts
        before: tuple[Step, ...] = ()
        mask = slot_mask([query.slot for query in chain.queries], self.words)
        step: Step | None = None
        for of in chain.order(first):
            step = next((s for s in level if s.of == of), None)
            if step is None:
                step = Step(of, before, np.zeros(len(self.words), np.uint64))
                level.append(step)
            step.mask |= mask
            step.queries.extend(chain.queries)
            level, before = step.children, (*before, step)
        assert step is not None
        step.chains.append((number, mask))

    def _finish(self, step: Step) -> set[tuple[int, Operand]]:
        """Work out a step and all that follow it; what these need of tuples, by position."""
        here = {step.position, *(earlier.position for earlier in step.before)}
        asking: dict[AcrossPositions, list[int]] = {}
        for query in step.queries:
            for condition in query.across:
                ends = {condition.left_position, condition.right_position}
                if ends <= here and (step.position in ends or not step.before):
                    asking.setdefault(condition, []).append(query.slot)
            positions = {position for position, _ in query.called_with}
            constant = not positions and query.called != TRUE  # a comparison with NULL is asked of any row
            if constant or (positions <= here and step.position in positions):
                step.called.append(query)
        step.across = [(condition, slot_mask(slots, self.words)) for condition, slots in asking.items()]
        mine = max((query.windows[step.position].range_us for query in step.queries), default=0)
        for earlier in step.before:
            theirs = max((query.windows[earlier.position].range_us for query in step.queries), default=0)
            step.reach.append((mine, theirs))
        needs = {output for number, _ in step.chains for output in self.operator.chains[number].outputs}
        for one, _ in step.across:
            needs |= {(one.left_position, one.left), (one.right_position, one.right)}
        for query in step.called:
            needs |= {*query.called_with}
        for child in step.children:
            needs |= self._finish(child)
        if step.of.hop is not None:
            step.number = len(self.hops)
            self.hops.append(step)
            for earlier in step.before:
                found = {operand for position, operand in needs if position == earlier.position}
                found.discard(self.inputs[earlier.met.input].input.event_time)
                step.travels[earlier.position] = sorted(found, key=carried_name)
            position, met = step.of.hop
            needs |= {(position, operand) for operand in self.operator.inputs[met.input].keys}
        return needs

    def pairs(self, left: InputRole, right: InputRole) -> Sequence[PairWindows]:
        """The distinct windows that queries have for two inputs, with those queries."""
        if (left, right) not in self._pairs:
            found: dict[tuple[Window, Window], list[int]] = {}
            for chain in self.operator.chains:
                at = chain.positions
                if left in at and right in at:
                    i, j = at[left], at[right]
                    for query in chain.queries:
                        found.setdefault((query.windows[i], query.windows[j]), []).append(query.slot)
            self._pairs[left, right] = [
                PairWindows(a, b, slot_mask(slots, self.words)) for (a, b), slots in found.items()
            ]
        return self._pairs[left, right]
