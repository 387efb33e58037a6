"""What a shared join keeps of tuples, column by column, and in which slice each tuple is.

A tuple's code names its slice and its bound (windows that end by it do not count the tuple): few combinations occur, so
they are kept once and a tuple holds a small number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.window import Window
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import narrow, one_chunk
from headrace.operators.join.keys import KeyTable, RowKeys, merge_keys, sort_keys
from headrace.operators.windows.slices import last_ends


@dataclass(slots=True)
class Codes:
    """What each code stands for: the start of a slice, and a bound."""

    start: Ints
    bound: Ints

    @property
    def count(self) -> int:
        return len(self.start)

    def take(self, index: Ints) -> Codes:
        return Codes(self.start[index], self.bound[index])


def concat_codes(several: Sequence[Codes]) -> Codes:
    """All codes, one after the other."""
    return Codes(np.concatenate([p.start for p in several]), np.concatenate([p.bound for p in several]))


def distinct_rows(*columns: Ints) -> tuple[Ints, Ints]:
    """(where each distinct combination first is, the combination of each row), in ascending order.

    >>> [column.tolist() for column in distinct_rows(np.array([2, 1, 2]), np.array([5, 5, 5]))]
    [[1, 0], [1, 0, 1]]
    """
    order = np.lexsort(columns[::-1])
    changes = np.zeros(len(order), bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[order[1:]] != column[order[:-1]]
    of_row = np.empty(len(order), np.int64)
    of_row[order] = np.cumsum(changes) - 1
    return order[changes], of_row


def last_end(windows: Sequence[Window], times: Ints) -> Ints:
    """When the last of all windows that contain each time ends."""
    return np.maximum.reduce([last_ends(w, times) for w in windows])


@dataclass(slots=True)
class Content:
    """Columns of an input's tuples: `sets[role, word, row]` are query-sets, `carried` what queries want of them.

    Event times are `base + time`; of a query-set, only bits that `mask[role, word]` has count (None: all).
    """

    base: int
    time: Ints
    code: Ints
    codes: Codes
    sets: Array
    carried: dict[str, pa.Array]
    mask: Array | None = None

    @property
    def rows(self) -> int:
        return len(self.time)

    @property
    def times(self) -> Ints:
        return self.time + np.int64(self.base)

    def times_of(self, rows: Ints) -> Ints:
        return self.time[rows] + np.int64(self.base)

    def take(self, index: Ints) -> Content:
        taken = pa.array(index)
        carried = {name: column.take(taken) for name, column in self.carried.items()}
        sets = np.take(self.sets, index, axis=2)
        if self.mask is not None:
            sets &= self.mask[:, :, None]
        return Content(self.base, self.time[index], self.code[index], self.codes, sets, carried)

    def wanted(self) -> Bools:
        """The rows that some query wants."""
        sets = self.sets if self.mask is None else self.sets & self.mask[:, :, None]
        return np.logical_or.reduce(sets, axis=(0, 1))


def concat_contents(contents: Sequence[Content]) -> Content:
    """The rows of all contents (without masks), one after the other, with one code per combination that occurs."""
    if len(contents) == 1:
        return contents[0]
    every = concat_codes([content.codes for content in contents])
    first, lookup = distinct_rows(every.start, every.bound)
    bases = np.cumsum([0, *(content.codes.count for content in contents)])
    return Content(
        0,
        np.concatenate([content.times for content in contents]),
        np.concatenate([lookup[base:][content.code] for base, content in zip(bases, contents, strict=False)]),
        every.take(first),
        np.concatenate([content.sets for content in contents], axis=2),
        {
            name: pa.concat_arrays([content.carried[name] for content in contents])
            for name in contents[0].carried
        },
    )


def content_items(content: Content) -> dict[str, Item]:
    """The columns in few bytes, as bundle items."""
    times = content.times
    base = int(times.min()) if content.rows else 0
    items: dict[str, Item] = {
        "base": np.array([base], np.int64),
        "time": narrow(times - base),
        "code": narrow(content.code),
        "codes": np.stack([content.codes.start, content.codes.bound]),
        "sets": content.sets,
    }
    if content.carried:
        items["carried"] = pa.table(content.carried)
    return items


def content_from(items: dict[str, Item]) -> Content:
    """The inverse of `content_items`; all columns are views of the bundle."""
    carried = items.get("carried")
    columns = {} if carried is None else {n: _array(carried.column(n)) for n in carried.column_names}
    return Content(
        int(items["base"][0]), items["time"], items["code"], Codes(*items["codes"]), items["sets"], columns
    )


def _array(column: pa.ChunkedArray) -> pa.Array:
    array = one_chunk(column)
    return pa.array([], column.type) if isinstance(array, pa.ChunkedArray) else array


@dataclass(slots=True)
class JoinTuples:
    """Tuples of one input (by its number in the plan) in any order, as map tasks send them."""

    input: int
    keys: RowKeys
    content: Content

    @property
    def rows(self) -> int:
        return self.content.rows


@dataclass(slots=True)
class KeyedRows:
    """Tuples of one input in the order of key and time."""

    keys: KeyTable
    content: Content


def keyed(keys: RowKeys, content: Content, runs: bool = False) -> KeyedRows:
    """The rows in the order of key and time; `runs` says that they are a few runs in that order."""
    order, table = sort_keys(keys, content.times, runs)
    return KeyedRows(table, content.take(order))


def merge_keyed(several: Sequence[KeyedRows]) -> KeyedRows:
    """All rows as one; merges runs that are in order already."""
    if len(several) == 1:
        return several[0]
    keys = merge_keys([rows.keys for rows in several])
    return keyed(keys, concat_contents([rows.content for rows in several]), runs=True)
