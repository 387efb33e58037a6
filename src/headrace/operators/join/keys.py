"""Join keys: equal keys find each other, in whatever task and whatever segment they are.

A key of one integer-like column is its own int64. Any other key is found by a 64-bit hash of its columns and then
compared, so a collision costs time and never a row. NULL keys are no keys: they are dropped before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.partitioning import Partitioning
from headrace.model.predicate import Operand
from headrace.model.tables import key_column
from headrace.model.types import Kind
from headrace.operators.common.arrays import Ints
from headrace.operators.common.encode import one_chunk, to_arrow, to_physical
from headrace.operators.common.keys import encode_keys, unify_keys
from headrace.operators.common.placing import (
    hash_keys,
    key_groups_of,
    key_groups_of_integers,
    partitions_of,
)


@dataclass(slots=True)
class RowKeys:
    """The keys of rows in any order: `values[row]` is the key itself, or the row of `table` that holds its values.

    `hashes` are those of the table's rows, where they are known already.
    """

    values: Ints
    table: pa.Table | None
    hashes: Ints | None = None


@dataclass(slots=True)
class KeyTable:
    """Distinct keys in ascending order of `hashes`: key i owns the rows `offsets[i]` to `offsets[i + 1]`.

    `table` holds the values of keys that are not their own hash.
    """

    hashes: Ints
    offsets: Ints
    table: pa.Table | None

    @property
    def count(self) -> int:
        return len(self.hashes)

    def of_rows(self) -> Ints:
        """The key of each row."""
        return np.repeat(np.arange(self.count), np.diff(self.offsets))

    def row_keys(self) -> RowKeys:
        """The inverse of `sort_keys`."""
        if self.table is None:
            return RowKeys(np.repeat(self.hashes, np.diff(self.offsets)), None)
        return RowKeys(self.of_rows(), self.table, self.hashes)


def keys_are_exact(keys: Sequence[Operand]) -> bool:
    """Whether a key is one int64, which needs no table."""
    return len(keys) == 1 and keys[0].type.fits_int64


def encode_row_keys(columns: Sequence[pa.Array], keys: Sequence[Operand]) -> RowKeys:
    """Keys of rows without NULL in them; integers of all widths are the same keys."""
    if keys_are_exact(keys):
        return RowKeys(to_physical(columns[0], keys[0].type).values, None)
    wide = [
        c.cast(pa.int64()) if k.type.kind is Kind.INTEGER else c for c, k in zip(columns, keys, strict=True)
    ]
    encoded = encode_keys(wide, len(columns[0]))
    return RowKeys(encoded.ids, encoded.table)


def key_values(table: KeyTable, keys: Sequence[Operand], operand: Operand, index: Ints) -> pa.Array:
    """The values of one column of these keys, in the type of `operand`."""
    if operand not in keys:
        raise KeyError(f"{operand.sql} is not kept")
    if table.table is None:
        return to_arrow(table.hashes[index], None, operand.type)
    column = one_chunk(table.table.column(key_column(keys.index(operand))))
    return column.take(pa.array(index)).cast(operand.type.arrow)


def partition_rows(keys: RowKeys, partitioning: Partitioning, operator: str) -> Ints:
    """The partition of each row: the same for equal keys of all inputs."""
    if keys.table is None:
        return partitions_of(key_groups_of_integers(keys.values), partitioning)
    return partitions_of(key_groups_of(keys.table, operator), partitioning)[keys.values]


def key_groups(keys: KeyTable, operator: str) -> Ints:
    """The key group of each key."""
    if keys.table is None:
        return key_groups_of_integers(keys.hashes)
    return key_groups_of(keys.table, operator)


def concat_keys(several: Sequence[RowKeys]) -> RowKeys:
    """All rows, one after the other, with distinct keys in one table."""
    if len(several) == 1:
        return several[0]
    tables = [one.table for one in several if one.table is not None]
    if not tables:
        return RowKeys(np.concatenate([one.values for one in several]), None)
    table, ids = unify_keys(tables)
    return RowKeys(np.concatenate([i[p.values] for i, p in zip(ids, several, strict=True)]), table)


def merge_keys(several: Sequence[KeyTable]) -> RowKeys:
    """The keys of all rows, one after the other. Equal keys are found as a join finds them."""
    if any(one.table is None for one in several):
        return concat_keys([one.row_keys() for one in several])
    every, places = several[0], [np.arange(several[0].count)]
    for one in several[1:]:
        found = match_keys(one, every)
        new = np.flatnonzero(found < 0)
        found[new] = every.count + np.arange(len(new))
        hashes = np.append(every.hashes, one.hashes[new])
        order = np.argsort(hashes, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        assert one.table is not None
        table = pa.concat_tables([every.table, one.table.take(pa.array(new))]).take(pa.array(order))
        every = KeyTable(hashes[order], np.empty(0, np.int64), table)
        places = [rank[place] for place in (*places, found)]
    values = [place[one.of_rows()] for place, one in zip(places, several, strict=True)]
    return RowKeys(np.concatenate(values), every.table, every.hashes)


def sort_keys(keys: RowKeys, times: Ints, runs: bool = False) -> tuple[Ints, KeyTable]:
    """(the order of rows by key and time, the keys that occur). `runs`: the rows are a few runs in order."""
    if keys.table is None:
        order = _order(keys.values, times, runs)
        ordered = keys.values[order]
        first = _firsts(ordered)
        return order, KeyTable(ordered[first], np.append(first, len(ordered)), None)
    hashes = hash_keys(keys.table) if keys.hashes is None else keys.hashes
    by_hash = np.argsort(hashes, kind="stable")
    rank = np.empty(len(hashes), np.int64)
    rank[by_hash] = np.arange(len(hashes))
    ranks = rank[keys.values]
    order = _order(ranks, times, runs)
    ordered = ranks[order]
    first = _firsts(ordered)
    present = by_hash[ordered[first]]
    table = keys.table.take(pa.array(present))
    return order, KeyTable(hashes[present], np.append(first, len(ordered)), table)


def _order(keys: Ints, times: Ints, runs: bool) -> Ints:
    """Rows by (key, time). Where key, time and row fit into 63 bits they are sorted as one number.

    `runs` says that the rows are a few runs in order, which are merged.
    """
    rows = len(keys)
    if rows == 0:
        return np.empty(0, np.int64)
    low, high = int(keys.min()), int(keys.max())
    early, late = int(times.min()), int(times.max())
    bits, row_bits = (late - early).bit_length(), (rows - 1).bit_length()
    if (high - low).bit_length() + bits + row_bits > 63 and high - low >= rows:
        keys, low, high = np.unique(keys, return_inverse=True)[1], 0, rows - 1
    if (high - low).bit_length() + bits > 63:
        return np.lexsort((times, keys))
    both = ((keys - low) << bits) | (times - early)
    if runs or (high - low).bit_length() + bits + row_bits > 63:
        return np.argsort(both, kind="stable")
    numbered = (both << row_bits) | np.arange(rows)
    numbered.sort()
    return numbered & ((1 << row_bits) - 1)


def _firsts(ordered: Ints) -> Ints:
    """Where each run of equal values begins."""
    changes = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def match_keys(left: KeyTable, right: KeyTable) -> Ints:
    """For each key of `left` the equal key of `right`, or -1."""
    if left.table is None or right.table is None:
        return _match_exact(left.hashes, right.hashes)
    found = np.full(left.count, -1, np.int64)
    at = np.searchsorted(right.hashes, left.hashes, "left")
    counts = np.searchsorted(right.hashes, left.hashes, "right") - at
    mine = np.repeat(np.arange(left.count), counts)
    theirs = np.arange(len(mine)) + np.repeat(at - (np.cumsum(counts) - counts), counts)
    for a, b in zip(left.table.columns, right.table.columns, strict=True):
        equal = np.asarray(_same(one_chunk(a).take(pa.array(mine)), one_chunk(b).take(pa.array(theirs))))
        mine, theirs = mine[equal], theirs[equal]
    found[mine] = theirs
    return found


def _match_exact(left: Ints, right: Ints) -> Ints:
    """Where each value of `left` is in `right` (-1: nowhere), both ascending: by a table where values lie close."""
    found = np.full(len(left), -1, np.int64)
    if len(left) == 0 or len(right) == 0:
        return found
    low, high = int(right[0]), int(right[-1])
    if high - low < 4 * (len(left) + len(right)):
        first, last = np.searchsorted(left, low, "left"), np.searchsorted(left, high, "right")
        table = np.full(high - low + 1, -1, np.int32)
        table[right - low] = np.arange(len(right), dtype=np.int32)
        found[first:last] = table[left[first:last] - low]
        return found
    at = np.searchsorted(right, left, "left")
    hit = np.flatnonzero(right[np.minimum(at, len(right) - 1)] == left)
    found[hit] = at[hit]
    return found


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.types.is_floating(left.type):  # keys are canonical: NaN has one bit pattern
        bits = pa.int64() if left.type.bit_width == 64 else pa.int32()
        left, right = left.view(bits), right.view(bits)
    return pc.equal(left, right)
