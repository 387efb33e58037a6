"""Pools: tuples that are state themselves, each once, with the set of state columns that accepted it.

Where keys are many, most queries have a tuple or two of a key in a window. Then a partial for each query costs more
than the tuple. So the tuple is kept, and partials are made of it when a window closes. A tuple has the start of its
fine slice in place of its time. No window that was asked for when it came has an edge inside of this slice, so the
start alone says which windows hold it. A set names columns by their permanent ids. A query that comes later is in no
older set, as it should be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.model.tables import WORD
from headrace.model.window import Window
from headrace.operators.common.arrays import Array, Bools, Floats, Ints
from headrace.operators.common.bitrows import pack_words
from headrace.operators.common.encode import positions
from headrace.operators.compiled.sparse import sort_rows
from headrace.operators.windows.lanes import LaneLogic, Partials
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.slices import last_ends


@dataclass(slots=True)
class PoolLane:
    """What tuples bring for one measure, one partial each."""

    partials: Partials


@dataclass(slots=True)
class Pool:
    """Tuples by ascending key, in a segment. Tuple t is in the slice that begins at `starts[slots[t]]`.

    Bit b of `sets[:, t]` says whether the state column with id `ids[b]` accepts it. `lanes` are found by the names that
    `pool_names` gives. The last window that needs a tuple ends at `last_end_us`.
    """

    ids: Ints
    keys: Ints
    starts: Ints
    slots: Ints
    sets: Array
    lanes: dict[str, PoolLane]
    last_end_us: int

    @property
    def rows(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class Source:
    """Tuples of one origin under a plan: bits are the plan's state columns, `measures` are in its order (None: nobody
    had any). `own` ones are not stored elsewhere, so that later epochs need them from here.
    """

    keys: Ints
    starts: Ints
    slots: Ints
    sets: Array
    measures: Sequence[Partials | None]
    own: bool

    def take(self, rows: Ints | Bools) -> Source:
        measures = [p and {name: array[rows] for name, array in p.items()} for p in self.measures]
        return Source(self.keys[rows], self.starts, self.slots[rows], self.sets[:, rows], measures, self.own)


def source_of(logic: AggregationLogic, pool: Pool, keys: Ints, own: bool, slots: Bools | None) -> Source:
    """A stored pool under another plan, with key `keys[k]` for k; of the tuples in some slots, or of all (None).

    Nothing is done with the other tuples.
    """
    lanes = (pool.lanes.get(name) for name in logic.pool_names)
    measures = [None if lane is None else lane.partials for lane in lanes]
    source = Source(pool.keys, pool.starts, pool.slots, pool.sets, measures, own)
    if slots is not None and not slots.all():
        source = source.take(np.flatnonzero(slots[pool.slots]))
    sets = move_bits(source.sets, pool.ids, logic.column_ids)
    return replace(source, keys=keys[source.keys], sets=sets)


def move_bits(sets: Array, before: Ints, after: Ints) -> Array:
    """[word, row]: sets whose bit b stood for id before[b], with the bits of the ids `after`. Others are left out.

    Runs of neighbours move together. The cost is a few operations for each word and run, and none per bit.

    >>> move_bits(np.array([[0b110]], np.uint64), np.array([7, 8, 9]), np.array([8, 10, 9])).tolist()
    [[5]]
    """
    if len(before) == len(after) and (before == after).all():
        return sets
    found = np.zeros((-(-len(after) // WORD), sets.shape[1]), np.uint64)
    old = positions(before, after)
    new = np.flatnonzero(old >= 0)
    old = old[new]
    edges = (np.diff(new) != 1) | (np.diff(old) != 1) | (new[1:] % WORD == 0) | (old[1:] % WORD == 0)
    first = np.flatnonzero(np.append(True, edges)) if len(new) else new
    sizes = np.diff(np.append(first, len(new)))
    for to, of, size in zip(new[first].tolist(), old[first].tolist(), sizes.tolist(), strict=True):
        bits = (sets[of // WORD] >> np.uint64(of % WORD)) & np.uint64((1 << size) - 1)
        found[to // WORD] |= bits << np.uint64(to % WORD)
    return found


@dataclass(frozen=True, slots=True)
class Pooled:
    """The tuples of some sources together, by ascending key and slice; `own` says which are stored nowhere else.

    What they bring is in a table of whole numbers and one of floats, [row, tuple]. Array `name` of measure m's partials
    is row `rows[m][name]` of that table which has its type. A measure without rows is zero for all tuples.
    """

    starts: Ints
    keys: Ints
    slots: Ints
    sets: Array
    own: Bools
    ints: Ints
    floats: Floats
    rows: Mapping[int, Mapping[str, int]]

    @property
    def size(self) -> int:
        return len(self.keys)

    def table(self, one: LaneLogic, name: str) -> Array:
        """The table that has the arrays of this name."""
        zero = one.zeros(()).get(name)
        return self.floats if zero is None or zero.dtype == np.float64 else self.ints


def merge_sources(logic: AggregationLogic, sources: Sequence[Source], keys: int) -> Pooled:
    """All tuples in order, by two passes of counting; `keys` is how many there are."""
    starts = np.unique(np.concatenate([source.starts for source in sources]))
    places = [np.searchsorted(starts, source.starts).astype(np.int32) for source in sources]
    slots = np.concatenate([place[s.slots] for place, s in zip(places, sources, strict=True)])
    of_key = np.concatenate([source.keys for source in sources]).astype(np.int32)
    by_slot, order = np.empty(len(slots), np.int32), np.empty(len(slots), np.int32)
    sort_rows(slots, np.zeros(len(starts) + 1, np.int64), np.arange(len(slots), dtype=np.int32), by_slot)
    sort_rows(of_key, np.zeros(keys + 1, np.int64), by_slot, order)
    own = np.concatenate([np.full(len(source.keys), source.own) for source in sources])
    sets = np.empty((logic.words, len(order)), np.uint64)
    for w, into in enumerate(sets):
        np.concatenate([source.sets[w] for source in sources]).take(order, out=into, mode="clip")
    tables = _Tables(sources)
    for lane in range(len(logic.lanes)):
        tables.add_lane(logic, lane)
    ints, floats = (tables.ordered(order, dtype) for dtype in (np.int64, np.float64))
    return Pooled(starts, of_key[order], slots[order], sets, own[order], ints, floats, tables.rows)


class _Tables:
    """Collects what tuples of several sources bring. Arrays that measures have in common are there once."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._number: dict[tuple[int, ...], int] = {}
        self._made: dict[tuple[int, str], Array] = {}
        self._pieces: dict[Any, list[list[Array]]] = {np.int64: [], np.float64: []}
        self.rows: dict[int, dict[str, int]] = {}

    def add_lane(self, logic: AggregationLogic, lane: int) -> None:
        """All measures of a lane, with the same arrays, where some source has any of them."""
        one, numbers = logic.lanes[lane], logic.lane_measures[lane]
        names = {name for s in self._sources for m in numbers for name in s.measures[m] or ()}
        for number in numbers if names else ():
            self.rows[number] = {
                name: self._row([self._piece(one, source, number, name) for source in self._sources])
                for name in sorted(names)
            }

    def _piece(self, one: LaneLogic, source: Source, number: int, name: str) -> Array:
        partials = source.measures[number]
        if partials is not None and name in partials:
            return partials[name]
        base = (id(source), f"{type(one).__name__}{getattr(one, 'nothing', 0)}{name}")
        known = base if partials is None else (id(partials["v"]), name)
        if known not in self._made:  # nothing, or the float shadow of sums that have none yet
            zeros = one.zeros((len(source.keys),))
            if partials is None:
                self._made[known] = zeros[name] if name in zeros else np.zeros(len(source.keys))
            else:
                self._made[known] = partials["v"].astype(np.float64)
        return self._made[known]

    def _row(self, pieces: list[Array]) -> int:
        same = tuple(map(id, pieces))
        if same not in self._number:
            every = self._pieces[np.float64 if pieces[0].dtype == np.float64 else np.int64]
            self._number[same] = len(every)
            every.append(pieces)
        return self._number[same]

    def ordered(self, order: Ints, dtype: Any) -> Array:
        """[row, tuple] of one type."""
        table: Array = np.empty((len(self._pieces[dtype]), len(order)), dtype)
        for pieces, into in zip(self._pieces[dtype], table, strict=True):
            every = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            every.astype(dtype, copy=False).take(order, out=into, mode="clip")
        return table


def asked_bits(logic: AggregationLogic, starts: Ints, after_us: int) -> Array:
    """[word, slot]: the state columns whose windows hold a slice and end after a moment.

    Window by window: with 10,000 columns and 7,000 slices, an array of both would take memory that nobody has counted.
    """
    found = np.zeros((logic.words, len(starts)), np.uint64)
    for window, words, bits in _bits_of_windows(logic):
        found[words] |= np.where(last_ends(window, starts) > after_us, bits[:, None], np.uint64(0))
    return found


def _bits_of_windows(logic: AggregationLogic) -> Iterator[tuple[Window, Ints, Array]]:
    """Each window with the words in which it has state columns, and their bits in these."""
    for w, window in enumerate(logic.operator.windows):
        mine = pack_words((logic.column_windows == w)[None])[0]
        words = np.flatnonzero(mine)
        yield window, words, mine[words]


def still_asked(logic: AggregationLogic, pooled: Pooled, watermark_us: int) -> Bools:
    """The tuples that some window which ends after the watermark asks for."""
    asked, found = asked_bits(logic, pooled.starts, watermark_us), np.zeros(pooled.size, bool)
    for mine, wanted in zip(pooled.sets, asked, strict=True):
        found |= (mine & wanted[pooled.slots]) != 0
    return found


def last_end_of(logic: AggregationLogic, pooled: Pooled, rows: Ints) -> int:
    """When the last window ends that asks for one of some tuples."""
    every = np.zeros((logic.words, len(pooled.starts)), np.uint64)
    for into, words in zip(every, pooled.sets, strict=True):
        np.bitwise_or.at(into, pooled.slots[rows], words[rows])
    latest = [
        last_ends(window, pooled.starts)[(every[words] & bits[:, None]).any(axis=0)]
        for window, words, bits in _bits_of_windows(logic)
    ]
    return int(np.concatenate(latest).max())


def later_pool(logic: AggregationLogic, pooled: Pooled, watermark_us: int) -> Pool | None:
    """What later epochs still need of what is not stored elsewhere."""
    rows = np.flatnonzero(pooled.own & still_asked(logic, pooled, watermark_us))
    if len(rows) == 0:
        return None
    lanes = {}
    taken: dict[tuple[bool, int], Array] = {}
    for number, of_names in pooled.rows.items():
        partials: Partials = {}
        for name, row in of_names.items():
            table = pooled.table(logic.measures[number], name)
            if (table is pooled.ints, row) not in taken:
                taken[table is pooled.ints, row] = table[row, rows]
            partials[name] = taken[table is pooled.ints, row]
        lanes[logic.pool_names[number]] = PoolLane(partials)
    end = last_end_of(logic, pooled, rows)
    occurs = np.bincount(pooled.slots[rows], minlength=len(pooled.starts)) > 0
    slots = (np.cumsum(occurs) - 1)[pooled.slots[rows]]
    return Pool(
        logic.column_ids,
        pooled.keys[rows].astype(np.int64),
        pooled.starts[occurs],
        slots,
        pooled.sets[:, rows],
        lanes,
        end,
    )
