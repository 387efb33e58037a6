"""Predicate indexes: all constants an operand is compared with cut its domain into regions.

Inside a region no atom changes its answer, so a tuple's region id stands for the answers of every query at once
(O(log k) for k constants). Region 2j+1 is the constant c_j itself, region 2j the open interval below it, region 2k
everything above (NaN included, as Spark orders it), and region 2k+1 is NULL.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.plan import OperandIndex
from headrace.model.predicate import And, Compare, Const, IsNull, Not, Op, Operand, Or, Predicate, Value
from headrace.model.types import Kind
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.encode import one_chunk, to_physical

Regions = Array


def region_count(index: OperandIndex) -> int:
    return 2 * len(index.constants) + 2


def region_dtype(index: OperandIndex) -> type[np.unsignedinteger[Any]]:
    count = region_count(index)
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32


def regions_of(column: pa.ChunkedArray | pa.Array, index: OperandIndex) -> Regions:
    """The region id of every value of `column`."""
    null_region = region_count(index) - 1
    dtype = region_dtype(index)
    kind = index.operand.type.kind
    if not index.constants:  # only IS NULL is asked, of any type
        valid = np.asarray(one_chunk(column).is_valid())
        return np.where(valid, 0, null_region).astype(dtype)
    if kind is Kind.STRING:
        return _string_regions(one_chunk(column), index)
    physical = to_physical(column, index.operand.type)
    constants = np.array(index.constants, np.float64 if kind is Kind.FLOATING else np.int64)
    regions = _number_regions(physical.values, constants).astype(dtype, copy=False)
    if physical.valid is not None:
        regions[~physical.valid] = null_region
    return regions


def _number_regions(values: Ints, constants: Ints) -> Ints:
    """searchsorted from both sides gives 2j below c_j and 2j+1 on it; small integer domains use a table."""
    if values.dtype == np.int64 and len(values) > 4096:
        low, high = int(values.min()), int(values.max())
        if high - low <= 2**16:
            domain = np.arange(low, high + 1)
            table = np.searchsorted(constants, domain, "left") + np.searchsorted(constants, domain, "right")
            return table.astype(np.uint32)[values - low]
    below = np.searchsorted(constants, values, "left")
    clipped = np.minimum(below, len(constants) - 1)
    hit = constants[clipped] == values
    if values.dtype == np.float64 and np.isnan(constants[-1]):
        hit |= np.isnan(values) & np.isnan(constants[clipped])
    hit &= below < len(constants)
    return 2 * below + hit


def _string_regions(array: pa.Array, index: OperandIndex) -> Regions:
    """Ranges are searched once per distinct value, in UTF-8 byte order."""
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    known, constants = encoded.dictionary.cast(pa.string()), pa.array(index.constants, pa.string())
    table = np.empty(len(known) + 1, region_dtype(index))
    table[-1] = region_count(index) - 1
    hit = pc.index_in(known, constants)
    table[:-1] = 2 * pc.fill_null(hit, 0).to_numpy() + 1
    others = np.flatnonzero(np.asarray(hit.is_null()))
    if len(others):
        table[others] = 2 * _passed(known.take(pa.array(others)), constants)
    if known.null_count:
        table[:-1][np.asarray(known.is_null())] = table[-1]
    codes = pc.fill_null(encoded.indices, len(table) - 1) if encoded.indices.null_count else encoded.indices
    return table[codes.to_numpy(zero_copy_only=False)]


def _passed(strings: pa.Array, constants: pa.Array) -> Ints:
    """How many constants are below each string."""
    order = pc.sort_indices(pa.concat_arrays([strings, constants])).to_numpy()
    passed, value = np.cumsum(order >= len(strings)), order < len(strings)
    found = np.empty(len(strings), np.int64)
    found[order[value]] = passed[value]
    return found


def _position(constants: tuple[Value, ...], value: Value) -> int:
    """Index of a constant that is known to be in the sorted tuple (NaN sorts last)."""
    if isinstance(value, float) and value != value:
        return len(constants) - 1
    if isinstance(value, str):
        return bisect_left([str(c).encode() for c in constants], value.encode())
    return bisect_left(constants, value)  # type: ignore[type-var]


class Truth:
    """Kleene logic over cells: `yes` and `no` say where a predicate is TRUE and FALSE; elsewhere it is NULL.

    `cells[i]` holds, for each cell, its region of operand `i`; the answer of an atom is one table look-up.
    """

    def __init__(self, indexes: tuple[OperandIndex, ...], cells: tuple[Ints, ...], count: int) -> None:
        self._indexes = {index.operand: index for index in indexes}
        self._cells = {index.operand: regions for index, regions in zip(indexes, cells, strict=True)}
        self._count = count
        self._cache: dict[Predicate, tuple[Bools, Bools]] = {}

    def of(self, predicate: Predicate) -> Bools:
        """Where the predicate is TRUE: what WHERE accepts."""
        return self._eval(predicate)[0]

    def _eval(self, predicate: Predicate) -> tuple[Bools, Bools]:
        if predicate not in self._cache:
            self._cache[predicate] = self._compute(predicate)
        return self._cache[predicate]

    def _compute(self, predicate: Predicate) -> tuple[Bools, Bools]:
        match predicate:
            case Const(value):
                return np.full(self._count, value is True), np.full(self._count, value is False)
            case Not(child):
                yes, no = self._eval(child)
                return no, yes
            case And(children):
                parts = [self._eval(child) for child in children]
                return np.logical_and.reduce([p[0] for p in parts]), np.logical_or.reduce(
                    [p[1] for p in parts]
                )
            case Or(children):
                parts = [self._eval(child) for child in children]
                return np.logical_or.reduce([p[0] for p in parts]), np.logical_and.reduce(
                    [p[1] for p in parts]
                )
            case IsNull(operand):
                yes = self._cells[operand] == region_count(self._indexes[operand]) - 1
                return yes, ~yes
            case Compare(operand, op, value):
                return self._compare(operand, op, value)

    def _compare(self, operand: Operand, op: Op, value: Value) -> tuple[Bools, Bools]:
        index, regions = self._indexes[operand], self._cells[operand]
        at = 2 * _position(index.constants, value) + 1
        known = regions != region_count(index) - 1
        match op:
            case Op.EQ:
                yes = regions == at
            case Op.LT:
                yes = regions < at
            case Op.LE:
                yes = regions <= at
            case Op.GT:
                yes = regions > at
            case Op.GE:
                yes = regions >= at
        return yes & known, ~yes & known
