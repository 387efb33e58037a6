"""Grouping keys as small integers: any atomic types, NULL and NaN groups included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import key_column
from headrace.operators.common.encode import Ints, canonical_floats, one_chunk


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
    """Distinct key combinations in order of first occurrence of their codes. Hashing only; no sort of strings.

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
        codes, first = _compact(codes)
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
    encoded = pc.dictionary_encode(array, null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def _compact(codes: Ints) -> tuple[Ints, Ints]:
    """Dense ids for sparse codes, and where each id first occurs."""
    encoded = pa.array(codes).dictionary_encode()
    ids = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # of equal indexes the last one assigned stays
    return ids, first


def unify_keys(tables: Sequence[pa.Table]) -> tuple[pa.Table, list[Ints]]:
    """One table of all distinct keys, and for each given table the position of its rows in it."""
    merged = pa.concat_tables([t for t in tables if t.num_rows] or list(tables[:1]))
    if is_empty_key(merged):
        return merged.slice(0, 1), [np.zeros(t.num_rows, np.int64) for t in tables]
    keys = encode_keys(merged.columns, merged.num_rows)
    bounds = np.cumsum([0] + [t.num_rows for t in tables])
    return keys.table, [keys.ids[a:b] for a, b in pairwise(bounds)]
