"""Arrow columns to the physical numpy domains that kernels compute in, and back.

Integers, booleans, dates, times, intervals and decimals of up to 18 digits are int64; FLOAT and DOUBLE are float64.
Strings have no numpy domain: they are ranked per call (`OrderedStrings`) or hashed (`keys`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.types import Kind, SqlType
from headrace.operators.common.arrays import Array, Bools, Floats, Ints

_SIGN = np.int64(-(2**63))


@dataclass(frozen=True, slots=True)
class Physical:
    """A column's values; where `valid` is False (None: nowhere) the value is arbitrary."""

    values: Array
    valid: Bools | None


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one contiguous Arrow array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column, with one dictionary where its chunks have several: whoever uses it would unify them each time.

    >>> parts = [pa.array(some).dictionary_encode() for some in (["a", "b"], ["b", None])]
    >>> one_dictionary(pa.chunked_array(parts)).chunk(0).dictionary.to_pylist()
    ['a', 'b']
    """
    if column.num_chunks < 2 or not pa.types.is_dictionary(column.type):
        return column
    return pa.chunked_array([column.combine_chunks()])


def decoded(array: pa.Array) -> pa.Array:
    """The values themselves, where they are codes and a dictionary.

    >>> decoded(pa.array(["b", None, "b"]).dictionary_encode()).to_pylist()
    ['b', None, 'b']
    """
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def taken_from(column: pa.ChunkedArray | pa.Array, rows: pa.Array | None) -> pa.Array:
    """The values of some rows (None: all) as one array. Of codes and a dictionary these rows alone are decoded."""
    array = one_chunk(column)
    return decoded(array if rows is None else array.take(rows))


def to_physical(column: pa.ChunkedArray | pa.Array, type_: SqlType) -> Physical:
    """Values of a numeric-like column in its physical domain. Costs one pass; copies only when it must."""
    array = one_chunk(column)
    if isinstance(array, pa.ChunkedArray):  # an empty chunked array stays chunked
        array = pa.array([], array.type)
    valid = None if array.null_count == 0 else np.asarray(array.is_valid())
    match type_.kind:
        case Kind.FLOATING:
            return Physical(_numbers(array, np.float64), valid)
        case Kind.INTEGER | Kind.BOOLEAN | Kind.MONTHS:
            return Physical(_numbers(array, np.int64), valid)
        case Kind.INTERVAL | Kind.TIME:
            return Physical(_numbers(array.cast(type_.arrow).view(pa.int64()), np.int64), valid)
        case Kind.DATE:
            return Physical(_numbers(array.cast(pa.date32()).view(pa.int32()), np.int64), valid)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            micros = array if array.type.unit == "us" else array.cast(pa.timestamp("us", array.type.tz))
            return Physical(_numbers(micros.view(pa.int64()), np.int64), valid)
        case Kind.DECIMAL if type_.precision <= 18:
            return Physical(_unscaled(array.cast(type_.arrow)), valid)
    raise TypeError(f"{type_.name} has no physical domain")


def _numbers(array: pa.Array, dtype: Any) -> Array:
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    return array.to_numpy(zero_copy_only=False).astype(dtype, copy=False)


def _unscaled(array: pa.Array) -> Ints:
    """The unscaled integers of a decimal128 array whose values fit int64: its low words."""
    words = np.frombuffer(array.buffers()[1], dtype=np.int64)
    return words[2 * array.offset : 2 * (array.offset + len(array)) : 2].copy()


def to_ordered(physical: Physical, type_: SqlType) -> Ints:
    """int64 values in the order Spark's MIN and MAX use: NaN above all numbers. -0.0 comes just below 0.0.

    Spark takes -0.0 for equal to 0.0 and gives the one it met first; here it stays itself where it is alone.

    >>> x = Physical(np.array([-1.5, 0.0, float("nan"), float("inf")]), None)
    >>> bool((np.diff(to_ordered(x, SqlType("double"))[[0, 1, 3, 2]]) > 0).all())
    True
    """
    if type_.kind is not Kind.FLOATING:
        return physical.values
    bits = np.where(np.isnan(physical.values), np.nan, physical.values).view(np.int64)
    return np.where(bits < 0, ~bits ^ _SIGN, bits)


def from_ordered(ordered: Ints, type_: SqlType) -> Array:
    """The inverse of `to_ordered`."""
    if type_.kind is not Kind.FLOATING:
        return ordered
    return np.where(ordered < 0, ~(ordered ^ _SIGN), ordered).view(np.float64)


def canonical_floats(values: Floats) -> Floats:
    """One bit pattern per value Spark calls equal: 0.0 for -0.0 and one NaN."""
    clean = values + 0.0
    if np.isnan(clean).any():
        clean[np.isnan(clean)] = np.nan
    return clean


def to_arrow(values: Array, valid: Bools | None, type_: SqlType) -> pa.Array:
    """An Arrow array of `type_` from physical values."""
    mask = None if valid is None or valid.all() else ~valid
    target = type_.arrow
    match type_.kind:
        case Kind.DECIMAL:
            return decimals(values, None, mask, type_)
        case Kind.DATE:
            return pa.array(values.astype(np.int32), pa.int32(), mask=mask).view(target)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ | Kind.INTERVAL | Kind.TIME:
            return pa.array(values.astype(np.int64, copy=False), pa.int64(), mask=mask).view(target)
        case Kind.BOOLEAN:
            return pa.array(values.astype(np.bool_), target, mask=mask)
        case _:
            return pa.array(values.astype(target.to_pandas_dtype(), copy=False), target, mask=mask)


def decimals(unscaled: Ints, carry: Ints | None, mask: Bools | None, type_: SqlType) -> pa.Array:
    """A decimal128 array of `unscaled + carry * 2**64`, built word by word."""
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0] = unscaled
    words[:, 1] = (unscaled >> 63) + (0 if carry is None else carry)
    bits = None if mask is None else pa.py_buffer(np.packbits(~mask, bitorder="little"))
    return pa.Array.from_buffers(type_.arrow, len(unscaled), [bits, pa.py_buffer(words)])


@dataclass(frozen=True, slots=True)
class OrderedStrings:
    """A vocabulary of strings: ranks compare as Spark compares the strings (by UTF-8 bytes)."""

    values: pa.Array

    @staticmethod
    def of(*arrays: pa.Array) -> OrderedStrings:
        distinct = pa.concat_arrays([_distinct(a) for a in arrays]).unique().drop_null()
        return OrderedStrings(distinct.take(pc.sort_indices(distinct)))

    def ranks(self, array: pa.Array) -> Physical:
        """Rank per value; NULLs are not valid."""
        if pa.types.is_dictionary(array.type):
            places = self.ranks(array.dictionary).values
            codes = array.indices
            valid = None if codes.null_count == 0 else np.asarray(codes.is_valid())
            at = codes.fill_null(0).to_numpy(zero_copy_only=False)
            return Physical(places[at] if len(places) else np.zeros(len(at), np.int64), valid)
        index = pc.index_in(array.cast(pa.string()), self.values)
        valid = None if index.null_count == 0 else np.asarray(index.is_valid())
        return Physical(index.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), valid)


def _distinct(array: pa.Array) -> pa.Array:
    """The strings that occur, once each."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary.take(array.indices.unique().drop_null())
    return array.cast(pa.string()).unique()


def narrow(values: Array) -> Array:
    """The values in the smallest integer type that holds them; floats and what is narrow already as they are.

    >>> narrow(np.array([1, -200])).dtype, narrow(np.array([0.5])).dtype
    (dtype('int16'), dtype('float64'))
    """
    if len(values) == 0 or values.dtype not in (np.int64, np.int32):
        return values
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    for dtype, least, most in _NARROW:
        if least <= low and high <= most:
            return values.astype(dtype, copy=False)
    return values


_NARROW = tuple((dtype, np.iinfo(dtype).min, np.iinfo(dtype).max) for dtype in (np.int8, np.int16, np.int32))


def translate_ranks(old: Ints, ranks: Ints) -> Ints:
    """Ranks in another vocabulary; values that are no rank stand for nothing and stay.

    >>> translate_ranks(np.array([0, 1, 2**63 - 1]), np.array([4, 7])).tolist()
    [4, 7, 9223372036854775807]
    """
    known = (old >= 0) & (old < len(ranks))
    return np.where(known, ranks[np.where(known, old, 0)], old) if len(ranks) else old


def positions(known: Ints, wanted: Ints) -> Ints:
    """Where each wanted value is in `known`, whose values are distinct and in any order; -1 where it is not.

    >>> positions(np.array([7, 3]), np.array([3, 4, 7])).tolist()
    [1, -1, 0]
    """
    if len(known) == 0:
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(known)
    at = order[np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)]
    return np.where(known[at] == wanted, at, -1)


def ranges(starts: Ints, counts: Ints) -> Ints:
    """start, start + 1, .. for each start, as many as its count says.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - starts, counts)


def joined(pieces: Sequence[Ints]) -> Ints:
    """Whole numbers one after the other; there may be no piece at all."""
    return np.concatenate([np.empty(0, np.int64), *pieces])
