"""A plan's session operator made ready to run: indexes and positions, worked out once per plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from headrace.model.plan import LaneKind, Measure, Output, OutputAggregate, SessionOperator
from headrace.operators.common.arrays import Ints
from headrace.operators.common.cells import family_indexes
from headrace.operators.common.encode import positions
from headrace.operators.windows.bags import BagLogic
from headrace.operators.windows.lanes import LaneLogic
from headrace.operators.windows.lifted import lane_logics


@dataclass(frozen=True, slots=True)
class LaneEntries:
    """A lane's entries as arrays. `queries` are positions among the operator's queries."""

    name: str
    kind: LaneKind
    logic: LaneLogic
    ids: Ints
    columns: Ints
    measures: Ints
    queries: Ints

    def of_family(self, columns: Ints) -> tuple[Ints, Ints]:
        """(the entries whose column is among these, where it is among them)."""
        entries = np.flatnonzero(np.isin(self.columns, columns))
        return entries, np.searchsorted(columns, self.columns[entries])

    def find(self, ids: Ints) -> Ints:
        """The entry that has each id; -1 where none has."""
        return positions(self.ids, ids)


@dataclass(frozen=True, slots=True)
class ReadySessions:
    """An output, its queries' positions, and per aggregate the entry of each position (-1: not of the output).

    `rows[j]` are entries of ROWS; `lanes[j]` maps a kind to (lane, entries). `bags[j]` is (bag, entries) for an
    aggregate that keeps all values.
    """

    output: Output
    queries: Ints
    rows: list[Ints]
    lanes: list[dict[LaneKind, tuple[int, Ints]]]
    bags: dict[int, tuple[int, Ints]]


class SessionLogic:
    """A session operator's indexes, reused every epoch. Queries are in the order of their columns.

    `base` are the columns that say which tuples a query accepts, and `base_of` is that of each query. Its others are
    those of its aggregates' filters.
    """

    def __init__(self, operator: SessionOperator) -> None:
        self.operator = operator
        asking = np.array([column.query for column in operator.columns], np.int64)
        self.queries = np.array(list(dict.fromkeys(asking.tolist())), np.int64)
        self.query_of = positions(self.queries, asking)
        gap_of = np.array([operator.gaps[column.window].gap_us for column in operator.columns], np.int64)
        self.gap_index = np.array([column.window for column in operator.columns], np.int64)
        self.gaps = np.zeros(len(self.queries), np.int64)
        self.gaps[self.query_of] = gap_of
        self.measures = lane_logics(operator)
        self.lanes = [
            LaneEntries(
                lane.name,
                lane.kind,
                self.measures[lane.measures[0]],
                np.array(lane.ids, np.int64),
                np.array(lane.columns, np.int64),
                np.array(lane.measures, np.int64),
                self.query_of[np.array(lane.columns, np.int64)],
            )
            for lane in operator.lanes
        ]
        self.bags = [BagLogic(lane, ()) for lane in operator.bags]
        predicates = [column.predicate for column in operator.columns]
        ready = family_indexes(operator.families, operator.operands, predicates)
        self.families = [index for _, index in ready]
        self.family_columns = [np.array(family.columns, np.int64) for family, _ in ready]
        self.family_gaps = [int(gap_of[columns].min()) for columns in self.family_columns]
        self.base = np.array([column for output in operator.outputs for column in output.base], np.int64)
        self.base_of = np.full(len(self.queries), -1, np.int64)
        self.base_of[self.query_of[self.base]] = self.base
        self.outputs = [self._ready(output) for output in across_gaps(operator.outputs)]

    def family_measures(self, family: int) -> Ints:
        """The measures that some column of a family asks for."""
        asked = [lane.measures[np.isin(lane.columns, self.family_columns[family])] for lane in self.lanes]
        return np.unique(np.concatenate(asked))

    def _ready(self, output: Output) -> ReadySessions:
        number = {measure: i for i, measure in enumerate(self.operator.measures)}
        at = positions(self.queries, np.array(output.queries, np.int64))
        rows, lanes = [], []
        for aggregate, columns, inputs in zip(output.aggregates, output.columns, output.inputs, strict=True):
            rows.append(self._entries(0, at, columns, [0] * len(columns)))
            found = {}
            for lane in aggregate.lanes:
                kind = self.lanes[lane].kind
                measures = [number[Measure(kind, i)] for i in inputs]
                found[kind] = (lane, self._entries(lane, at, columns, measures))
            lanes.append(found)
        return ReadySessions(output, at, rows, lanes, self._ready_bags(output, at))

    def _ready_bags(self, output: Output, at: Ints) -> dict[int, tuple[int, Ints]]:
        found = {}
        for number, (aggregate, columns) in enumerate(zip(output.aggregates, output.columns, strict=True)):
            if aggregate.bag is not None:
                entries = np.full(len(self.queries), -1, np.int64)
                entries[at] = np.searchsorted(self.bags[aggregate.bag].columns, np.array(columns, np.int64))
                found[number] = (aggregate.bag, entries)
        return found

    def _entries(self, lane: int, at: Ints, columns: tuple[int, ...], measures: list[int]) -> Ints:
        """The lane's entry for each query's column and measure, by the query's position."""
        known = zip(self.lanes[lane].columns.tolist(), self.lanes[lane].measures.tolist(), strict=True)
        place = {pair: i for i, pair in enumerate(known)}
        entries = np.full(len(self.queries), -1, np.int64)
        entries[at] = [place[pair] for pair in zip(columns, measures, strict=True)]
        return entries


def across_gaps(outputs: Sequence[Output]) -> list[Output]:
    """Outputs whose queries differ in nothing but the gap as one: their rows are made together, however many gaps there
    are. The `window` of such an output is that of its first query.
    """
    alike: dict[tuple[str, tuple[OutputAggregate, ...]], list[Output]] = {}
    for output in outputs:
        alike.setdefault((output.signature, output.aggregates), []).append(output)
    return [
        replace(
            same[0],
            queries=tuple(query for output in same for query in output.queries),
            base=tuple(column for output in same for column in output.base),
            columns=_one_after_the_other([output.columns for output in same]),
            inputs=_one_after_the_other([output.inputs for output in same]),
        )
        for same in alike.values()
    ]


def _one_after_the_other(by_aggregate: Sequence[tuple[tuple[int, ...], ...]]) -> tuple[tuple[int, ...], ...]:
    """
    >>> _one_after_the_other([((1, 2), (3, 4)), ((5,), (6,))])
    ((1, 2, 5), (3, 4, 6))
    """
    return tuple(tuple(chain.from_iterable(parts)) for parts in zip(*by_aggregate, strict=True))
