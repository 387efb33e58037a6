"""Joined rows as tuples of the aggregation that they feed: once per query and per window of it that holds the row.

Keys, inputs and regions are worked out once per joined row; only their numbers are repeated, in blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.model.plan import GroupingOperator, JoinedQuery
from headrace.model.plan.names import QUERY
from headrace.model.predicate import Operand
from headrace.model.tables import WORD, joined_column
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.keys import Keys, encode_keys
from headrace.operators.common.regions import Regions, regions_of
from headrace.operators.compiled.joins import repeat_rows
from headrace.operators.join import partners
from headrace.operators.join.block import JoinedBlock
from headrace.operators.join.logic import JoinLogic, Words, place_of
from headrace.operators.windows.lanes import Partials
from headrace.operators.windows.lifted import Lifted, combine_lifted, lift_measures, merge_lifted
from headrace.operators.windows.slices import fine_slices

GATHER_ROWS = 1 << 20
"""So many partials of a task wait for others of their group before they are sent."""


class _Asking:
    """What a kernel has to know of the queries that are fed, by the places of their bits.

    `queries[place]` is a query, `regions[place]` the region of its id, and `windows[place]` the number of its windows.
    """

    def __init__(self, words: Words, queries: Sequence[JoinedQuery], regions: Regions) -> None:
        places = [place_of(query.slot, words) for query in queries]
        self.queries = {place: int(query.query) for place, query in zip(places, queries, strict=True)}
        self.regions = np.zeros(len(words) * WORD, regions.dtype)
        self.regions[places] = regions
        distinct = {windows: i for i, windows in enumerate(dict.fromkeys(query.windows for query in queries))}
        self.windows = np.full(len(words) * WORD, -1)
        self.windows[places] = [distinct[query.windows] for query in queries]
        self.slides = np.array([windows[0].slide_us for windows in distinct])
        self.phases = np.array([windows[0].offset_us + windows[0].range_us for windows in distinct])
        self.ranges = np.array([[window.range_us for window in windows] for windows in distinct])

    def repeated(self, block: JoinedBlock, windowed: Counter[int]) -> Iterator[tuple[Ints, Ints, Regions]]:
        """(row, end of a window, region of a query) for all of a row's queries and their windows."""
        sets, times = (
            as_given(block.words_at_hand),
            np.stack([block.times(p) for p in range(block.positions)]),
        )
        low = np.maximum(times.max(axis=0), block.bound)
        windows = self.windows, self.slides, self.phases, self.ranges
        counts, cursor = np.zeros(len(self.windows), np.int64), np.zeros(3, np.int64)
        while cursor[0] < block.rows:
            rows, ends, places = (np.empty(partners.BLOCK_ROWS, np.int64) for _ in range(3))
            repeat_rows(sets, times, low, *windows, cursor, rows, ends, places, counts)
            count = int(cursor[2])
            if count:
                yield rows[:count], ends[:count], self.regions[places[:count]]
        windowed.update({query: int(counts[place]) for place, query in self.queries.items()})


class Feed:
    """What becomes of the rows of one chain; built once per plan."""

    def __init__(self, join: JoinLogic, chain: int, operator: GroupingOperator) -> None:
        self.operator = operator
        spec = join.operator.chains[chain]
        wanted = {*operator.scanned} - {QUERY, operator.event_time}
        self._columns: dict[Operand, tuple[int, Operand]] = {}
        for position, operand in spec.outputs:
            leaf = spec.leaves[position]
            name = joined_column(leaf.name, leaf.role, operand)
            if (named := Operand(name, operand.type)) in wanted:
                self._columns[named] = (position, operand)
        (index,) = [index for index in operator.operands if index.operand == QUERY]
        ids = pa.array([int(query.query) for query in spec.queries], pa.int64())
        self._asking = _Asking(join.words, spec.queries, regions_of(ids, index))

    def lifted(self, block: JoinedBlock, windowed: Counter[int]) -> Iterator[Lifted]:
        """The block's rows, some at a time. `windowed` counts them for each query, once for each window."""
        operator = self.operator
        columns = {name: pa.chunked_array([block.column(*place)]) for name, place in self._columns.items()}
        keys = encode_keys([columns[key] for key in operator.keys], block.rows)
        measures, vocabularies = lift_measures(operator, columns, block.rows)
        regions = [
            None if index.operand == QUERY else regions_of(columns[index.operand], index)
            for index in operator.operands
        ]
        same = {
            id(array): bool((array == array[0]).all()) for partials in measures for array in partials.values()
        }
        for rows, ends, query in self._asking.repeated(block, windowed):
            index, starts = fine_slices(ends - 1, operator.windows)
            yield Lifted(
                Keys(keys.ids[rows], keys.table),
                index,
                starts,
                [query if found is None else found[rows] for found in regions],
                _take(measures, rows, same),
                vocabularies,
            )


def _take(measures: list[Partials], rows: Ints, same: dict[int, bool]) -> list[Partials]:
    """Some rows' partials; arrays that are the same stay the same. `same` tells, by id, which hold one value."""
    taken: dict[int, Array] = {}
    for partials in measures:
        for array in partials.values():
            if id(array) not in taken:
                taken[id(array)] = np.full(len(rows), array[0]) if same[id(array)] else array[rows]
    return [{name: taken[id(array)] for name, array in partials.items()} for partials in measures]


class Gathering:
    """Partials on their way to an aggregation. They are put together as long as that makes fewer of them, so that what
    is sent, and what is in memory, grows with the groups and not with the joined rows; `most` of them wait.
    """

    def __init__(
        self, operator: GroupingOperator, send: Callable[[Lifted], None], most: int = GATHER_ROWS
    ) -> None:
        self._operator, self._send, self._most = operator, send, most
        self._waiting: list[Lifted] = []
        self._rows = 0

    def add(self, lifted: Lifted) -> None:
        self._waiting.append(combine_lifted(self._operator, lifted))
        self._rows += self._waiting[-1].rows
        if self._rows > self._most:
            whole = self._take()
            if whole.rows > self._most // 2:
                self._send(whole)
            else:
                self._waiting, self._rows = [whole], whole.rows

    def flush(self) -> None:
        """Send whatever waits."""
        if self._waiting:
            self._send(self._take())

    def _take(self) -> Lifted:
        waiting, self._waiting, self._rows = self._waiting, [], 0
        if len(waiting) == 1:
            return waiting[0]
        return combine_lifted(self._operator, merge_lifted(self._operator, waiting))
