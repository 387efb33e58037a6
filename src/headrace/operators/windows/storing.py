"""How partials lie in segments: each lane in the narrowest whole numbers that hold all of it.

Of extremes, many are those of no tuple. These are the last number of the type that they are stored in, whatever its
width, so one query without a tuple does not make all others eight bytes wide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.compiled.windows import find_span, pick_cells
from headrace.operators.windows.lanes import ExtremeLogic, LaneLogic, Partials
from headrace.operators.windows.lanes.extremes import GREATEST, LEAST, nothing_in

_WIDTHS = (np.int8, np.int16, np.int32)


def store_rows(one: LaneLogic, partials: Partials, slots: Ints, keys: Ints) -> Partials:
    """[entry, row]: the partials [entry, slot, key] of some slots and keys, as narrow as they may be."""
    stored: Partials = {}
    for name, array in partials.items():
        nothing = instead = LEAST
        dtype: type = np.float64
        if array.dtype != np.float64:
            nothing = one.nothing if isinstance(one, ExtremeLogic) else LEAST
            dtype = _width(array, one)
            instead = nothing_in(dtype, one.least) if isinstance(one, ExtremeLogic) else LEAST
        stored[name] = np.empty((len(array), len(slots)), dtype)
        pick_cells(array, slots, keys, nothing, instead, stored[name])
    return stored


def _width(array: Ints, one: LaneLogic) -> type:
    """The narrowest type. Extremes leave its last numbers to those of no tuple."""
    span, extreme = np.zeros(2, np.int64), isinstance(one, ExtremeLogic)
    find_span(array, one.nothing if isinstance(one, ExtremeLogic) else 0, span)
    least, greatest = int(span[0]) - extreme, int(span[1]) + extreme
    for dtype in _WIDTHS:
        if np.iinfo(dtype).min <= least and greatest <= np.iinfo(dtype).max:
            return dtype
    return np.int64


def narrow_extremes(values: Ints, least: bool) -> Ints:
    """Extremes [entry, row], or [row], as they are stored; those that are narrow already stay as they are.

    >>> narrow_extremes(np.array([[3, 2**63 - 1]]), least=True)
    array([[  3, 127]], dtype=int8)
    """
    if values.dtype != np.int64:
        return values
    one = ExtremeLogic(None, np.minimum if least else np.maximum, LEAST if least else GREATEST)
    rows = np.arange(values.shape[-1])
    flat = values.reshape(-1, 1, len(rows))
    return store_rows(one, {"v": flat}, np.zeros(len(rows), np.int64), rows)["v"].reshape(values.shape)


def widen_extremes(values: Ints, least: bool) -> Ints:
    """The inverse of `narrow_extremes`.

    >>> widen_extremes(np.array([[3, 127]], np.int8), least=True).tolist()
    [[3, 9223372036854775807]]
    """
    return _as_wide(values, np.int64, least)


def _as_wide(values: Ints, dtype: type | np.dtype, least: bool) -> Ints:
    if values.dtype == dtype:
        return values
    wide = values.astype(dtype)
    wide[values == nothing_in(values.dtype, least)] = nothing_in(dtype, least)
    return wide


def no_rows(one: LaneLogic, shape: tuple[int, int]) -> Partials:
    """Stored partials [entry, row] of no tuple."""
    if isinstance(one, ExtremeLogic):
        return {"v": np.full(shape, nothing_in(np.int8, one.least), np.int8)}
    zeros = one.zeros(shape)
    return {
        name: array if array.dtype == np.float64 else array.astype(np.int8) for name, array in zeros.items()
    }


def join_rows(one: LaneLogic, pieces: Sequence[Array]) -> Array:
    """Stored partials of several blocks, one after the other."""
    if isinstance(one, ExtremeLogic):
        widest = max((piece.dtype for piece in pieces), key=lambda dtype: dtype.itemsize)
        pieces = [_as_wide(piece, widest, one.least) for piece in pieces]
    return np.concatenate(pieces, axis=1)
