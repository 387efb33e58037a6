"""Bags: every value that a group's tuples had, and how often. Kept once for all queries and windows that ask for it.

An entry says that so many tuples of a key and a slice had a value and were accepted by one set of state columns. Tuples
of a cell have one such set, so there are no more entries than tuples, however many queries there are. A set names
columns by their permanent ids. A query that comes later is in none of the older sets, as it should be: it sees only the
tuples that arrive while it is active.

The slices are those of the epoch in which the tuples came. No window that was asked for then has an edge inside of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import pyarrow as pa

from headrace.model.plan import Lane
from headrace.model.window import Window
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.cells import Cells, merge_cells
from headrace.operators.windows.lanes.base import Values
from headrace.operators.windows.slices import last_ends

WORD = 64

SMALL = 1 << 16
"""Up to so many pairs of a set and a key are counted, however few of them occur."""

REMEMBERED = 1 << 22
"""So many values of closed windows are remembered for the next aggregate that asks for them."""


@dataclass(frozen=True, slots=True)
class Bag:
    """Entries, distinct and ascending by (key, value, slice, set); `membership[set, entry]` says what sets are."""

    keys: Ints
    values: Ints
    slices: Ints
    sets: Ints
    counts: Ints
    membership: Bools

    @property
    def rows(self) -> int:
        return len(self.keys)

    def of_keys(self, first: int, count: int) -> Bag:
        """The entries of keys [first, first + count), whose numbers then begin at 0."""
        low, high = np.searchsorted(self.keys, [first, first + count])
        some = slice(low, high)
        keys = self.keys[some] - first
        return Bag(
            keys, self.values[some], self.slices[some], self.sets[some], self.counts[some], self.membership
        )

    def renamed(self, places: Ints) -> Bag:
        """With key `places[k]` for k; places ascend."""
        return replace(self, keys=places[self.keys])

    def revalued(self, places: Ints) -> Bag:
        """With value `places[v]` for v; places ascend."""
        return replace(self, values=places[self.values])

    def take(self, rows: Ints | Bools) -> Bag:
        """Some of the entries, in the same order."""
        return Bag(
            self.keys[rows],
            self.values[rows],
            self.slices[rows],
            self.sets[rows],
            self.counts[rows],
            self.membership,
        )


@dataclass(slots=True)
class StoredBag:
    """A bag in a segment: columns of `membership` are lane entries, by their permanent ids."""

    ids: Ints
    bag: Bag

    def under(self, ids: Ints, keys: Ints) -> Bag:
        """The bag with other keys, `keys[k]` for k, and for the entries with these ids. Nobody else's are left.

        A stored bag's columns are as narrow as they were written. Those of this one are wide, so that times can be
        added to them.
        """
        membership = np.zeros((len(self.bag.membership), len(ids)), bool)
        _, now, before = np.intersect1d(ids, self.ids, assume_unique=True, return_indices=True)
        membership[:, now] = self.bag.membership[:, before]
        asked = np.logical_or.reduce(membership, axis=1)
        bag = self.bag.take(asked[self.bag.sets])
        values, slices, sets, counts = (
            column.astype(np.int64, copy=False) for column in (bag.values, bag.slices, bag.sets, bag.counts)
        )
        return Bag(keys[bag.keys], values, slices, sets, counts, membership)


class BagLogic:
    """One bag of a plan made ready to run. `windows[w]` are the entries of window w."""

    def __init__(self, lane: Lane, windows: Sequence[slice]) -> None:
        self.name = lane.name
        (self.measure,) = set(lane.measures)
        self.ids = np.array(lane.ids, np.int64)
        self.columns = np.array(lane.columns, np.int64)
        self.windows = windows

    def asked(self, columns: Ints) -> tuple[Ints, Ints]:
        """(entries whose column is among these, where it is among them)."""
        entries = np.flatnonzero(np.isin(self.columns, columns))
        return entries, np.searchsorted(columns, self.columns[entries])


@dataclass(slots=True)
class BagBuilder:
    """Collects the entries of a batch of tuples, family by family."""

    logic: BagLogic
    entries: int
    bags: list[Bag] = field(default_factory=list)

    def add(
        self, cells: Cells, asked: tuple[Ints, Ints], keys: Ints, slices: Ints, partials: dict[str, Array]
    ) -> None:
        """Some tuples of a family, by their cells."""
        mine, at = asked
        if cells.count == 0 or len(mine) == 0:
            return
        lookup, merged = merge_cells(cells.membership[:, at])
        sets = np.append(lookup, -1)[cells.ids]
        hit = np.flatnonzero((sets >= 0) & (partials["n"] > 0))
        membership = np.zeros((len(merged), self.entries), bool)
        membership[:, mine] = merged
        found = Bag(keys[hit], partials["v"][hit], slices[hit], sets[hit], partials["n"][hit], membership)
        self.bags.append(found)


def compact(bags: Sequence[Bag], entries: int) -> Bag:
    """The bags as one. Costs one sort of their entries."""
    bags = [bag for bag in bags if bag.rows]
    if not bags:
        nothing = np.empty(0, np.int64)
        return Bag(nothing, nothing, nothing, nothing, nothing, np.zeros((0, entries), bool))
    membership, sets = _common_sets(bags)
    keys, values, slices, counts = (
        np.concatenate([getattr(bag, name) for bag in bags])
        for name in ("keys", "values", "slices", "counts")
    )
    order, changes = _ordered([keys, values, slices, sets])
    first = np.flatnonzero(changes)
    heads = order[first]
    return Bag(
        keys[heads],
        values[heads],
        slices[heads],
        sets[heads],
        np.add.reduceat(counts[order], first),
        membership,
    )


def _common_sets(bags: Sequence[Bag]) -> tuple[Bools, Ints]:
    """(the distinct sets that entries have, the set of each entry among them)."""
    used = [np.flatnonzero(np.bincount(bag.sets, minlength=len(bag.membership))) for bag in bags]
    every = np.concatenate([bag.membership[some] for bag, some in zip(bags, used, strict=True)])
    packed = np.packbits(every, axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    sets, begin = [], 0
    for bag, some in zip(bags, used, strict=True):
        place = np.zeros(len(bag.membership), np.int64)
        place[some] = inverse[begin : begin + len(some)]
        begin += len(some)
        sets.append(place[bag.sets])
    return every[first], np.concatenate(sets)


def _ordered(columns: Sequence[Ints]) -> tuple[Ints, Bools]:
    """(an order by the columns, where in this order a new combination begins).

    Columns are packed into one number where they fit, because one sort is cheaper than four.
    """
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    dense = list(columns)
    for i, (column, span) in enumerate(zip(columns, spans, strict=True)):
        if span > 4 * len(column) + 1024:
            dense[i], spans[i] = _ranked(column)
            lows[i] = 0
    if prod(spans) < 2**62:
        codes = np.zeros(len(columns[0]), np.int64)
        for column, low, span in zip(dense, lows, spans, strict=True):
            codes *= span
            codes += column - low
        order = np.argsort(codes)
        ordered = codes[order]
        return order, np.append(True, ordered[1:] != ordered[:-1])
    order = np.lexsort(dense[::-1])
    changes = np.zeros(len(order), bool)
    changes[0] = True
    for column in dense:
        changes[1:] |= column[order[1:]] != column[order[:-1]]
    return order, changes


def _ranked(column: Ints) -> tuple[Ints, int]:
    """(the rank of each value among those that occur, how many these are). Costs a sort of these alone."""
    encoded = pa.array(column).dictionary_encode()
    values = encoded.dictionary.to_numpy()
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values)] = np.arange(len(values))
    return ranks[encoded.indices.to_numpy()], len(values)


def still_needed(logic: BagLogic, bag: Bag, windows: Sequence[Window], watermark_us: int) -> Bag:
    """The entries that some window which ends after the watermark may ask for."""
    alive = np.zeros(bag.rows, bool)
    for window, entries in zip(windows, logic.windows, strict=True):
        asks = np.logical_or.reduce(bag.membership[:, entries], axis=1)
        if asks.any():
            alive |= asks[bag.sets] & (last_ends(window, bag.slices) > watermark_us)
    return bag.take(alive)


class ClosedBag:
    """The values behind closed windows of one `Window` for a block of keys: entry e, window w and key k have some."""

    def __init__(self, logic: BagLogic, w: int, bag: Bag, starts: Ints, range_us: int, keys: int) -> None:
        self._starts, self._range_us, self._keys = starts, range_us, keys
        self._bag = bag
        self._membership = bag.membership[:, logic.windows[w]]
        self._distinct: Ints | None = None
        self._inside: dict[int, Ints] = {}
        self._found: dict[tuple[int, int], tuple[Ints, Ints, Ints]] = {}
        self._remembered = 0

    def distinct(self) -> Ints:
        """How many values there are, [entry, window, key]. Worked out for all entries at once."""
        if self._distinct is None:
            shape = (self._membership.shape[1], len(self._starts), self._keys)
            self._distinct = np.zeros(shape, np.int64)
            for w in range(len(self._starts)):
                self._distinct[:, w] = self._distinct_in(w)
        return self._distinct

    def _distinct_in(self, w: int) -> Ints:
        """[entry, key]: the sets of a value's entries are put together as bits. Values of one key that end up with the
        same set are counted together where there are few sets, so that queries cost next to nothing.
        """
        inside = self._window(w)
        if len(inside) == 0:
            return np.zeros((self._membership.shape[1], self._keys), np.int64)
        keys, first = self._keys_and_runs(inside)
        bits = np.bitwise_or.reduceat(_as_words(self._membership)[self._bag.sets[inside]], first, axis=0)
        one, union = _distinct_rows(bits)
        keys = keys[first]
        membership = _from_words(bits[one], self._membership.shape[1])
        if len(one) * self._keys <= 4 * len(keys) + SMALL:
            counts = np.bincount(union * self._keys + keys, minlength=len(one) * self._keys)
            found = membership.T.astype(np.float64) @ counts.reshape(len(one), self._keys)
            return np.rint(found).astype(np.int64)
        hits = (keys[column[union]] for column in membership.T)
        return np.stack([np.bincount(hit, minlength=self._keys) for hit in hits])

    def values(self, entry: int, w: int) -> tuple[Ints, Ints, Ints]:
        """(key, value, how many tuples) of one entry in one window, ascending."""
        if (entry, w) in self._found:
            return self._found[entry, w]
        inside = self._window(w)
        mine = inside[self._membership[:, entry][self._bag.sets[inside]]]
        if len(mine) == 0:
            return mine, mine, mine
        keys, first = self._keys_and_runs(mine)
        counts = np.add.reduceat(self._bag.counts[mine], first)
        found = keys[first], self._bag.values[mine[first]], counts
        if self._remembered + len(first) <= REMEMBERED:
            self._found[entry, w] = found
            self._remembered += len(first)
        return found

    def _window(self, w: int) -> Ints:
        """The entries of the bag that are in a window, in order."""
        if w not in self._inside:
            start = int(self._starts[w])
            slices = self._bag.slices
            self._inside[w] = np.flatnonzero((slices >= start) & (slices < start + self._range_us))
        return self._inside[w]

    def _keys_and_runs(self, some: Ints) -> tuple[Ints, Ints]:
        """(the key of each, where a new key or value begins)."""
        keys, values = self._bag.keys[some], self._bag.values[some]
        changes = np.ones(len(some), bool)
        changes[1:] = (keys[1:] != keys[:-1]) | (values[1:] != values[:-1])
        return keys, np.flatnonzero(changes)


def _distinct_rows(words: Array) -> tuple[Ints, Ints]:
    """(a row of each kind, the kind of each row)."""
    kinds = np.zeros(len(words), np.int64)
    for word in words.T:
        encoded = pa.array(word).dictionary_encode()
        kinds = kinds * len(encoded.dictionary) + encoded.indices.to_numpy()
        kinds = pa.array(kinds).dictionary_encode().indices.to_numpy().astype(np.int64)
    one = np.empty(int(kinds.max(initial=-1)) + 1, np.int64)
    one[kinds[::-1]] = np.arange(len(words))[::-1]
    return one, kinds


def _as_words(membership: Bools) -> Array:
    """[set, word]: the columns of a membership as bits of 64-bit words."""
    padded = np.zeros((len(membership), -(-max(membership.shape[1], 1) // WORD) * WORD), bool)
    padded[:, : membership.shape[1]] = membership
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def _from_words(words: Array, columns: int) -> Bools:
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little")
    return bits[:, :columns].astype(bool)


@dataclass(frozen=True, slots=True)
class PickedBags:
    """The values behind some rows (entry `positions[i]`, window, key) of closed windows: `rows` of them, at `flat`."""

    closed: ClosedBag | None
    positions: Ints
    shape: tuple[int, int]
    flat: Ints
    rows: int

    def distinct(self) -> Ints:
        if self.closed is None:
            return np.zeros(self.rows, np.int64)
        return self.closed.distinct()[self.positions].ravel()[self.flat]

    def blocks(self) -> Iterator[Values]:
        """The values of all rows in their order, one query's at a time."""
        windows, keys = self.shape
        stride = windows * keys
        for i, entry in enumerate(self.positions.tolist()):
            places, values, counts = self._of_query(entry)
            low, high = np.searchsorted(self.flat, [i * stride, (i + 1) * stride])
            rows = np.searchsorted(self.flat[low:high], places + i * stride)
            yield Values(int(high - low), rows, values, counts)

    def _of_query(self, entry: int) -> tuple[Ints, Ints, Ints]:
        """(window and key as one number, value, count) of one entry, ascending."""
        nothing = np.empty(0, np.int64)
        found: list[tuple[Ints, Ints, Ints]] = [(nothing, nothing, nothing)]
        for w in range(self.shape[0]) if self.closed is not None else ():
            assert self.closed is not None
            of, values, counts = self.closed.values(entry, w)
            found.append((w * self.shape[1] + of, values, counts))
        places, values, counts = (np.concatenate(column) for column in zip(*found, strict=True))
        return places, values, counts
