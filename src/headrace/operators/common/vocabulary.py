"""Vocabularies: the sorted values of an input that have no numbers of their own, strings or rows of several values.

Such a value is known by its rank in the vocabulary, so ranks compare as the values do. NULL is the least value of
a row's part. Parts that Spark takes for equal are equal here: 0.0 and -0.0, and all NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.model.predicate import Operand
from headrace.model.types import SqlType
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.encode import (
    OrderedStrings,
    Physical,
    canonical_floats,
    one_chunk,
    to_ordered,
    to_physical,
)


class Vocabulary(Protocol):
    """The distinct values of an input, in order."""

    @property
    def values(self) -> pa.Array: ...

    def ranks(self, array: pa.Array) -> Physical:
        """The rank of each value, all of which are in the vocabulary; a NULL is not valid."""


def vocabulary_of(operand: Operand, *arrays: pa.Array) -> Vocabulary:
    """The vocabulary of an input's values in these arrays."""
    return OrderedRows.of(operand, *arrays) if operand.parts else OrderedStrings.of(*arrays)


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """A vocabulary of rows, which are Arrow structs."""

    types: tuple[SqlType, ...]
    values: pa.StructArray

    @staticmethod
    def of(operand: Operand, *arrays: pa.Array) -> OrderedRows:
        types = tuple(part.type for part in operand.parts)
        rows = pa.concat_arrays(arrays)
        order, first, _ = _sorted(types, rows)
        return OrderedRows(types, rows.take(pa.array(order[first])))

    def ranks(self, array: pa.Array) -> Physical:
        known = len(self.values)
        order, first, group = _sorted(self.types, pa.concat_arrays([self.values, array]))
        place = np.zeros(len(first), np.int64)
        here = order < known
        place[group[here]] = order[here]
        found = np.empty(known + len(array), np.int64)
        found[order] = place[group]
        return Physical(found[known:], None)


def _sorted(types: tuple[SqlType, ...], rows: pa.StructArray) -> tuple[Ints, Ints, Ints]:
    """(rows in order, where each distinct one begins in that order, which of these each position belongs to)."""
    columns = [codes for i, type_ in enumerate(types) for codes in _codes(rows.field(i), type_)]
    order = np.lexsort(columns[::-1])
    changes = np.zeros(len(order), bool)
    changes[:1] = True
    for codes in columns:
        ordered = codes[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(changes), np.cumsum(changes) - 1


def _codes(part: pa.Array, type_: SqlType) -> list[Array]:
    """Numbers in the order of a part's values; where there are NULLs, first whether it is one."""
    if pa.types.is_string(part.type) or pa.types.is_large_string(part.type):
        found = OrderedStrings.of(part).ranks(part)
    else:
        found = to_physical(part, type_)
        if found.values.dtype == np.float64:
            found = Physical(to_ordered(Physical(canonical_floats(found.values), None), type_), found.valid)
    if found.valid is None:
        return [found.values]
    return [found.valid, np.where(found.valid, found.values, 0)]


def input_column(operand: Operand, columns: Mapping[Operand, pa.ChunkedArray]) -> pa.Array:
    """An input's values as one array; those of a row are put together from its parts."""
    if not operand.parts:
        return one_chunk(columns[operand])
    names = [f"p{i}" for i in range(len(operand.parts))]
    arrays = [one_chunk(columns[part]).cast(part.type.arrow) for part in operand.parts]
    return pa.StructArray.from_arrays(arrays, names=names)


def known_rows(rows: pa.StructArray, parts: int) -> Bools | None:
    """Where the first `parts` parts of a row are all known; None: everywhere."""
    nulls = [rows.field(i) for i in range(parts) if rows.field(i).null_count]
    if not nulls:
        return None
    valid: Bools = np.logical_and.reduce([np.asarray(part.is_valid()) for part in nulls])
    return valid
