"""Joined rows as tuples of the aggregation that they feed: once per query and per window of it that holds the row.

Keys, inputs and regions are worked out once per joined row; only their numbers are repeated, in blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.plan import GroupingOperator
from headrace.model.plan.names import QUERY
from headrace.model.predicate import Operand
from headrace.model.tables import WORD, joined_column
from headrace.model.window import Window
from headrace.operators.common.encode import Array, Ints
from headrace.operators.common.keys import Keys, encode_keys
from headrace.operators.common.regions import Regions, regions_of
from headrace.operators.join import partners
from headrace.operators.join.block import JoinedBlock
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.partners import candidates
from headrace.operators.windows.lanes import Partials
from headrace.operators.windows.lifted import Lifted, combine_lifted, lift_measures, merge_lifted
from headrace.operators.windows.slices import fine_slices

GATHER_ROWS = 1 << 20
"""So many partials of a task wait for others of their group before they are sent."""


@dataclass(frozen=True, slots=True)
class _Asking:
    """Queries of a chain that have the same windows: (slot, region of the query's id, the id itself) of
    each.
    """

    windows: tuple[Window, ...]
    queries: list[tuple[int, int, int]]

    def ends(self, low: Ints, times: Sequence[Ints]) -> tuple[Ints, Ints]:
        """(end of the first window that holds each row and ends after `low`, how many do)."""
        slide, range_us = self.windows[0].slide_us, self.windows[0].range_us
        first = low - (low - self.windows[0].offset_us - range_us) % slide + slide
        reach = [moments + window.range_us for moments, window in zip(times, self.windows, strict=True)]
        return first, np.maximum((np.minimum.reduce(reach) - first) // slide + 1, 0)


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
        self._positions = range(len(spec.leaves))
        (index,) = [index for index in operator.operands if index.operand == QUERY]
        ids = pa.array([int(query.query) for query in spec.queries], pa.int64())
        found: dict[tuple[Window, ...], list[tuple[int, int, int]]] = {}
        regions = regions_of(ids, index)
        self._region_type = regions.dtype
        for query, region in zip(spec.queries, regions.tolist(), strict=True):
            found.setdefault(query.windows, []).append((query.slot, region, int(query.query)))
        self._asking = [_Asking(windows, queries) for windows, queries in found.items()]

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
        for rows, ends, query in self._repeated(block, windowed):
            index, starts = fine_slices(ends - 1, operator.windows)
            yield Lifted(
                Keys(keys.ids[rows], keys.table),
                index,
                starts,
                [query if found is None else found[rows] for found in regions],
                _take(measures, rows, same),
                vocabularies,
            )

    def _repeated(self, block: JoinedBlock, windowed: Counter[int]) -> Iterator[tuple[Ints, Ints, Regions]]:
        """(row, end of a window, region of a query) for all of a row's queries and their windows."""
        sets, times = block.sets, [block.times(position) for position in self._positions]
        low = np.maximum.reduce([*times, block.bound])
        ready: list[tuple[Ints, Ints, Regions]] = []
        size = 0
        for asking in self._asking:
            slide = asking.windows[0].slide_us
            for slot, region, query in asking.queries:
                mine = np.flatnonzero((sets[slot // WORD] & np.uint64(1 << slot % WORD)) != 0)
                first, counts = asking.ends(low[mine], [moments[mine] for moments in times])
                windowed[query] += int(counts.sum())
                for at, number in candidates(np.zeros(len(mine), np.int64), counts):
                    ends = first[at] + number * slide
                    ready.append((mine[at], ends, np.full(len(at), region, self._region_type)))
                    size += len(at)
                    if size >= partners.BLOCK_ROWS:
                        yield _concat(ready)
                        ready, size = [], 0
        if ready:
            yield _concat(ready)


def _concat(pieces: list[tuple[Ints, Ints, Regions]]) -> tuple[Ints, Ints, Regions]:
    rows, ends, regions = zip(*pieces, strict=True)
    return np.concatenate(rows), np.concatenate(ends), np.concatenate(regions)


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
