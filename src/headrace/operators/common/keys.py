"""Grouping keys as small integers: any atomic types, NULL and NaN groups included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import key_column
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import given_ints
from headrace.operators.common.encode import canonical_floats, one_chunk
from headrace.operators.compiled.keys import number_far, number_near


@dataclass(frozen=True, slots=True)
class Keys:
    """`ids[i]` is the row of `table` that holds tuple i's keys; rows of `table` are distinct and all occur."""

    ids: Ints
    table: pa.Table

    @property
    def count(self) -> int:
        return int(self.table.num_rows)


def empty_key(rows: int) -> pa.Table:
    """A key table without columns still needs its row count: it carries one constant column."""
    return pa.table({"all": pa.array(np.zeros(rows, np.int8))})


def is_empty_key(table: pa.Table) -> bool:
    """Whether this is a key table without columns."""
    return bool(table.column_names == ["all"])


def encode_keys(columns: Sequence[pa.ChunkedArray | pa.Array], rows: int) -> Keys:
    """Distinct key combinations in order of first occurrence of their codes. Hashing only; no sort.

    >>> keys = encode_keys([pa.array([1, None, 1]), pa.array(["a", "b", "a"])], 3)
    >>> keys.ids.tolist(), keys.table.num_rows
    ([0, 1, 0], 2)
    """
    if not columns:
        return Keys(np.zeros(rows, np.int64), empty_key(min(rows, 1)))
    encoded = [_codes(one_chunk(column)) for column in columns]
    codes, first = encoded[0][0], None
    if len(encoded) == 1:
        return Keys(codes, pa.table({key_column(0): encoded[0][1]}))
    for part, values in encoded[1:]:
        codes = codes * max(len(values), 1) + part
        codes, first = _number(codes)
    assert first is not None
    arrays = {key_column(i): values.take(pa.array(part[first])) for i, (part, values) in enumerate(encoded)}
    return Keys(codes, pa.table(arrays))


def _codes(array: pa.Array) -> tuple[Ints, pa.Array]:
    if pa.types.is_floating(array.type):
        clean = (
            canonical_floats(array.fill_null(0).to_numpy(zero_copy_only=False)) if len(array) else np.empty(0)
        )
        mask = np.asarray(array.is_null()) if array.null_count else None
        # NaN keys are hashed by their bits: Arrow's own hashing of floats is not asked about NaN
        bits = pa.array(clean.astype(np.float64, copy=False).view(np.int64), mask=mask)
        codes, distinct = _codes(bits)
        return codes, distinct.view(pa.float64()).cast(array.type)
    if pa.types.is_dictionary(array.type):  # not all of its values need occur
        codes, used = _codes(array.indices)
        return codes, array.dictionary.take(used)
    if pa.types.is_integer(array.type) or pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        codes, first = _number(_numbers(array))
        if array.null_count:
            codes, first = _number(2 * codes + np.asarray(array.is_null()))
        return codes, array.take(pa.array(first))
    encoded = pc.dictionary_encode(array, null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def _numbers(array: pa.Array) -> Ints:
    """Whole numbers, moments and days as int64; 0 where they are NULL."""
    if not pa.types.is_integer(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return given_ints(array.fill_null(0).to_numpy(zero_copy_only=False))


NEAR = 4
"""Values that span so many times their number are looked up in an array, and others in a hash table."""


def _number(values: Ints) -> tuple[Ints, Ints]:
    """(the number of each value, where the values occur first): distinct values are numbered in this order.

    >>> [found.tolist() for found in _number(np.array([7, -(2**62), 7]))]
    [[0, 1, 0], [0, 1]]
    """
    rows = len(values)
    if rows == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ids, first, count = np.empty(rows, np.int64), np.empty(rows, np.int64), np.zeros(1, np.int64)
    least, greatest = int(values.min()), int(values.max())
    if greatest - least < NEAR * rows:
        number_near(values, least, np.full(greatest - least + 1, -1), ids, first, count)
    else:
        table = np.full((1 << (2 * rows).bit_length(), 2), -1)
        number_far(values, table, ids, first, count)
    return ids, first[: count[0]]


def unify_keys(tables: Sequence[pa.Table]) -> tuple[pa.Table, list[Ints]]:
    """One table of all distinct keys, and for each given table the position of its rows in it."""
    merged = pa.concat_tables([t for t in tables if t.num_rows] or list(tables[:1]))
    if is_empty_key(merged):
        return merged.slice(0, 1), [np.zeros(t.num_rows, np.int64) for t in tables]
    keys = encode_keys(merged.columns, merged.num_rows)
    bounds = np.cumsum([0] + [t.num_rows for t in tables])
    return keys.table, [keys.ids[a:b] for a, b in pairwise(bounds)]
