"""Lanes: partial aggregates in Scotty's vocabulary. Lift tuples, combine partials, fold cells; `lower` is in results.

A lane's partials are a dict of equally shaped arrays ("parts"). Rows of no tuple hold the lane's zero.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from headrace.model.plan import LaneKind
from headrace.model.types import Kind, SqlType
from headrace.operators.common.bitrows import Matches, as_given
from headrace.operators.common.encode import Array, Ints, Physical, to_ordered
from headrace.operators.compiled.matches import add_values, keep_extremes, merge_moments_of
from headrace.operators.windows.folds import (
    Fold,
    accumulate,
    fold_extremes,
    fold_floats,
    fold_ints,
    fold_moments,
    merge_moments,
)

Parts = dict[str, Array]

WIDE = 2**31
"""Integer inputs from this magnitude on carry a float shadow of their sum, which tells overflow from wrap-around."""


_LIMB_ROWS = 2**20
"""So many 32-bit limbs add up exactly in a double."""


class LaneLogic(Protocol):
    """What every kind of partial aggregate can do. Shapes: tuples [n], cells [cell, row], columns [column, row]."""

    def lift(self, column: Physical | None, rows: int) -> Parts:
        """One partial per tuple."""

    def zeros(self, shape: tuple[int, ...]) -> Parts:
        """Partials of no tuple."""

    def group(self, parts: Parts, bins: Ints, size: int) -> Parts:
        """Combine the partials that share a bin."""

    def fold(self, parts: Parts, fold: Fold) -> Parts:
        """Combine each column's cells."""

    def update(self, into: Parts, parts: Parts, matches: Matches) -> None:
        """Combine each tuple's partial into those of the queries it matches, in place; both have the same parts."""

    def combine(self, left: Parts, right: Parts) -> Parts:
        """Combine partials pairwise."""

    def total(self, parts: Parts, axis: int) -> Parts:
        """Combine partials along an axis."""

    def runs(self, parts: Parts, starts: Ints) -> Parts:
        """Combine consecutive rows: run i is rows starts[i] up to starts[i+1]."""

    def ranges(self, parts: Parts, lows: Ints, highs: Ints) -> Parts:
        """Combine ranges of the middle axis: [column, slice, key] to [column, range, key]."""


def each_range(one: LaneLogic, parts: Parts, lows: Ints, highs: Ints) -> Parts:
    """`ranges` for every lane, also where partials cannot be subtracted: one after the other, or many at once."""
    first = next(iter(parts.values()))
    found = one.zeros((first.shape[0], len(lows), first.shape[2]))
    for name in parts.keys() - found.keys():
        found[name] = np.zeros(found["v"].shape)
    sizes = highs - lows
    steps = int(sizes.max(initial=0)).bit_length()
    if len(lows) > MANY_RANGES and int(sizes.sum()) > steps * (first.shape[1] + len(lows)):
        return _by_doubling(one, parts, found, lows, sizes)
    for i, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        if high - low == 1:
            piece = {name: part[:, low] for name, part in parts.items()}
        elif high > low:
            piece = one.total({name: part[:, low:high] for name, part in parts.items()}, 1)
        else:
            continue
        for name, part in piece.items():
            found[name][:, i] = part
    return found


MANY_RANGES = 32
"""From so many ranges on, each costs the logarithm of its length: dense windows overlap almost entirely."""


def _by_doubling(one: LaneLogic, parts: Parts, found: Parts, lows: Ints, sizes: Ints) -> Parts:
    """Put every range together from runs of 1, 2, 4, ... slices, each run made of two of half its length."""
    runs, length, at = parts, 1, lows.copy()
    while True:
        begun = (sizes & (length - 1)) > 0
        for more in (False, True):  # the first run of a range is taken as it is: 0.0 + -0.0 would be 0.0
            here = np.flatnonzero((sizes & length > 0) & (begun == more))
            pieces = {name: part[:, at[here]] for name, part in runs.items()}
            if more:
                pieces = one.combine({name: part[:, here] for name, part in found.items()}, pieces)
            for name, part in pieces.items():
                found[name][:, here] = part
            at[here] += length
        if not (sizes >= 2 * length).any():
            return found
        half = {name: part[:, length:] for name, part in runs.items()}
        runs = one.combine({name: part[:, :-length] for name, part in runs.items()}, half)
        length *= 2


def int_ranges(part: Ints, lows: Ints, highs: Ints) -> Ints:
    """Sums of ranges as differences of running sums: exact for integers, whatever the ranges overlap."""
    running = np.zeros((part.shape[1] + 1, part.shape[0], part.shape[2]), np.int64)
    accumulate(np.add, part.swapaxes(0, 1), running[0], running[1:])
    return np.subtract(running[highs], running[lows]).swapaxes(0, 1)


class CountLogic:
    """Tuples, or tuples whose input is NULL."""

    def __init__(self, nulls: bool) -> None:
        self._nulls = nulls

    def lift(self, column: Physical | None, rows: int) -> Parts:
        if not self._nulls:
            return {"v": np.ones(rows, np.int64)}
        if column is None or column.valid is None:
            return {"v": np.zeros(rows, np.int64)}
        return {"v": (~column.valid).astype(np.int64)}

    def zeros(self, shape: tuple[int, ...]) -> Parts:
        return {"v": np.zeros(shape, np.int64)}

    def group(self, parts: Parts, bins: Ints, size: int) -> Parts:
        return {"v": group_ints(parts["v"], bins, size)}

    def fold(self, parts: Parts, fold: Fold) -> Parts:
        return {"v": fold_ints(parts["v"], fold)}

    def update(self, into: Parts, parts: Parts, matches: Matches) -> None:
        for name, part in parts.items():
            add_values(*matches.arguments, as_given(part), into[name])

    def combine(self, left: Parts, right: Parts) -> Parts:
        return {"v": left["v"] + right["v"]}

    def total(self, parts: Parts, axis: int) -> Parts:
        return {"v": parts["v"].sum(axis=axis)}

    def runs(self, parts: Parts, starts: Ints) -> Parts:
        return {"v": np.add.reduceat(parts["v"], starts, axis=-1)}

    def ranges(self, parts: Parts, lows: Ints, highs: Ints) -> Parts:
        return {"v": int_ranges(parts["v"], lows, highs)}


class IntSumLogic:
    """Exact sums of integers: `v` modulo 2**64 and, once inputs are WIDE, `f` close enough to tell which multiple."""

    def lift(self, column: Physical | None, rows: int) -> Parts:
        assert column is not None
        values = column.values if column.valid is None else np.where(column.valid, column.values, 0)
        parts: Parts = {"v": values}
        if len(values) and (values.max() >= WIDE or values.min() <= -WIDE):
            parts["f"] = values.astype(np.float64)
        return parts

    def zeros(self, shape: tuple[int, ...]) -> Parts:
        return {"v": np.zeros(shape, np.int64)}

    def group(self, parts: Parts, bins: Ints, size: int) -> Parts:
        grouped: Parts = {"v": group_ints(parts["v"], bins, size)}
        if "f" in parts:
            grouped["f"] = np.bincount(bins, weights=parts["f"], minlength=size)
        return grouped

    def fold(self, parts: Parts, fold: Fold) -> Parts:
        folded: Parts = {"v": fold_ints(parts["v"], fold)}
        if "f" in parts:
            folded["f"] = fold_floats(parts["f"], fold)
        return folded

    def update(self, into: Parts, parts: Parts, matches: Matches) -> None:
        for name, part in parts.items():
            add_values(*matches.arguments, as_given(part), into[name])

    def combine(self, left: Parts, right: Parts) -> Parts:
        with np.errstate(over="ignore"):
            parts: Parts = {"v": left["v"] + right["v"]}
        if "f" in left or "f" in right:
            parts["f"] = left.get("f", left["v"]) + right.get("f", right["v"])
        return parts

    def total(self, parts: Parts, axis: int) -> Parts:
        return {name: part.sum(axis=axis) for name, part in parts.items()}

    def runs(self, parts: Parts, starts: Ints) -> Parts:
        return {name: np.add.reduceat(part, starts, axis=-1) for name, part in parts.items()}

    def ranges(self, parts: Parts, lows: Ints, highs: Ints) -> Parts:
        return (
            each_range(self, parts, lows, highs)
            if "f" in parts
            else {"v": int_ranges(parts["v"], lows, highs)}
        )


class FloatSumLogic:
    """Sums of FLOAT and DOUBLE inputs, in double as Spark sums them."""

    def lift(self, column: Physical | None, rows: int) -> Parts:
        assert column is not None
        return {"v": column.values if column.valid is None else np.where(column.valid, column.values, 0.0)}

    def zeros(self, shape: tuple[int, ...]) -> Parts:
        return {"v": np.zeros(shape)}

    def group(self, parts: Parts, bins: Ints, size: int) -> Parts:
        return {"v": np.bincount(bins, weights=parts["v"], minlength=size)}

    def fold(self, parts: Parts, fold: Fold) -> Parts:
        return {"v": fold_floats(parts["v"], fold)}

    def update(self, into: Parts, parts: Parts, matches: Matches) -> None:
        for name, part in parts.items():
            add_values(*matches.arguments, as_given(part), into[name])

    def combine(self, left: Parts, right: Parts) -> Parts:
        return {"v": left["v"] + right["v"]}

    def total(self, parts: Parts, axis: int) -> Parts:
        return {"v": parts["v"].sum(axis=axis)}

    def runs(self, parts: Parts, starts: Ints) -> Parts:
        return {"v": np.add.reduceat(parts["v"], starts, axis=-1)}

    def ranges(self, parts: Parts, lows: Ints, highs: Ints) -> Parts:
        return each_range(self, parts, lows, highs)


class ExtremeLogic:
    """MIN or MAX over order-preserving int64 encodings."""

    def __init__(self, type_: SqlType, ufunc: np.ufunc, nothing: int) -> None:
        self._type, self._ufunc, self._nothing = type_, ufunc, nothing

    def lift(self, column: Physical | None, rows: int) -> Parts:
        assert column is not None
        ordered = to_ordered(column, self._type)
        return {"v": ordered if column.valid is None else np.where(column.valid, ordered, self._nothing)}

    def zeros(self, shape: tuple[int, ...]) -> Parts:
        return {"v": np.full(shape, self._nothing, np.int64)}

    def group(self, parts: Parts, bins: Ints, size: int) -> Parts:
        grouped = np.full(size, self._nothing, np.int64)
        self._ufunc.at(grouped, bins, parts["v"])
        return {"v": grouped}

    def fold(self, parts: Parts, fold: Fold) -> Parts:
        return {"v": fold_extremes(parts["v"], fold, self._ufunc, self._nothing)}

    def update(self, into: Parts, parts: Parts, matches: Matches) -> None:
        least = self._ufunc is np.minimum
        keep_extremes(*matches.arguments, as_given(parts["v"]), into["v"], least)

    def combine(self, left: Parts, right: Parts) -> Parts:
        return {"v": self._ufunc(left["v"], right["v"])}

    def total(self, parts: Parts, axis: int) -> Parts:
        return {"v": self._ufunc.reduce(parts["v"], axis=axis, initial=self._nothing)}

    def runs(self, parts: Parts, starts: Ints) -> Parts:
        return {"v": self._ufunc.reduceat(parts["v"], starts, axis=-1)}

    def ranges(self, parts: Parts, lows: Ints, highs: Ints) -> Parts:
        return each_range(self, parts, lows, highs)


class MomentsLogic:
    """Count, mean and M2 of the inputs that are not NULL, merged by deviations (never by sums of squares)."""

    def __init__(self, scale: int) -> None:
        self._unit = 10.0**scale

    def lift(self, column: Physical | None, rows: int) -> Parts:
        assert column is not None
        values = column.values / self._unit
        count = np.ones(rows, np.int64) if column.valid is None else column.valid.astype(np.int64)
        known = values if column.valid is None else np.where(column.valid, values, 0.0)
        return {"n": count, "v": known, "q": np.zeros(rows)}

    def zeros(self, shape: tuple[int, ...]) -> Parts:
        return {"n": np.zeros(shape, np.int64), "v": np.zeros(shape), "q": np.zeros(shape)}

    def group(self, parts: Parts, bins: Ints, size: int) -> Parts:
        count = group_ints(parts["n"], bins, size)
        pivot = np.zeros(size)
        known = parts["n"] > 0
        pivot[bins[known]] = parts["v"][known]  # any of a bin's values: equal ones then deviate by exactly 0
        beside = np.where(known, (parts["v"] - pivot[bins]) * parts["n"], 0.0)
        mean = pivot + np.bincount(bins, weights=beside, minlength=size) / np.maximum(count, 1)
        apart = parts["v"] - mean[bins]
        spread = np.where(parts["n"] > 0, parts["q"] + parts["n"] * apart * apart, 0.0)
        return {"n": count, "v": mean, "q": np.bincount(bins, weights=spread, minlength=size)}

    def fold(self, parts: Parts, fold: Fold) -> Parts:
        return _moments(*fold_moments((parts["n"], parts["v"], parts["q"]), fold))

    def update(self, into: Parts, parts: Parts, matches: Matches) -> None:
        n, v, q = (as_given(parts[name]) for name in ("n", "v", "q"))
        merge_moments_of(*matches.arguments, n, v, q, into["n"], into["v"], into["q"])

    def combine(self, left: Parts, right: Parts) -> Parts:
        both = {name: np.stack([left[name], right[name]]) for name in left}
        return self.total(both, 0)

    def total(self, parts: Parts, axis: int) -> Parts:
        return _moments(*merge_moments(parts["n"], parts["v"], parts["q"], axis))

    def runs(self, parts: Parts, starts: Ints) -> Parts:
        count = np.add.reduceat(parts["n"], starts, axis=-1)
        lengths = np.diff(np.append(starts, parts["n"].shape[-1]))
        highest = np.maximum.reduceat(np.where(parts["n"] > 0, parts["v"], -np.inf), starts, axis=-1)
        pivot = np.where(count > 0, highest, 0.0)
        beside = np.where(parts["n"] > 0, (parts["v"] - np.repeat(pivot, lengths, axis=-1)) * parts["n"], 0.0)
        mean = pivot + np.add.reduceat(beside, starts, axis=-1) / np.maximum(count, 1)
        apart = parts["v"] - np.repeat(mean, lengths, axis=-1)
        spread = np.where(parts["n"] > 0, parts["q"] + parts["n"] * apart * apart, 0.0)
        return {"n": count, "v": mean, "q": np.add.reduceat(spread, starts, axis=-1)}

    def ranges(self, parts: Parts, lows: Ints, highs: Ints) -> Parts:
        return each_range(self, parts, lows, highs)


def _moments(count: Array, mean: Array, m2: Array) -> Parts:
    return {"n": count, "v": mean, "q": m2}


def group_ints(values: Ints, bins: Ints, size: int) -> Ints:
    """Exact sums (modulo 2**64) of integers per bin."""
    if len(values) == 0:
        return np.zeros(size, np.int64)
    low, high = int(values.min()), int(values.max())
    if low == high == 1:
        return np.bincount(bins, minlength=size)
    if max(-low, high) * len(values) < 2**53:
        return np.bincount(bins, weights=values, minlength=size).astype(np.int64)
    if len(values) > _LIMB_ROWS:
        with np.errstate(over="ignore"):
            head, tail = (group_ints(values[part], bins[part], size) for part in _halves(len(values)))
            return head + tail
    upper = np.bincount(bins, weights=values >> 32, minlength=size).astype(np.int64)
    lower = np.bincount(bins, weights=values & 0xFFFF_FFFF, minlength=size).astype(np.int64)
    with np.errstate(over="ignore"):
        return (upper << 32) + lower


def _halves(rows: int) -> tuple[slice, slice]:
    return slice(0, rows // 2), slice(rows // 2, rows)


def logic_for(kind: LaneKind, type_: SqlType | None) -> LaneLogic:
    """The logic of partials of a kind over inputs of `type_` (None for ROWS). Strings are given as ranks.

    Only `lift` depends on more of the type than whether its partials are integers or floats.
    """
    match kind:
        case LaneKind.ROWS:
            return CountLogic(nulls=False)
        case LaneKind.NULLS:
            return CountLogic(nulls=True)
    assert type_ is not None
    match kind:
        case LaneKind.SUM:
            return FloatSumLogic() if type_.kind is Kind.FLOATING else IntSumLogic()
        case LaneKind.MIN:
            return ExtremeLogic(type_, np.minimum, 2**63 - 1)
        case LaneKind.MAX:
            return ExtremeLogic(type_, np.maximum, -(2**63))
        case LaneKind.MOMENTS:
            return MomentsLogic(type_.scale if type_.kind is Kind.DECIMAL else 0)
