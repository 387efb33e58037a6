"""Scores of pairs of vectors, to the last bit as Spark computes them; and quick bounds of many scores at once.

Spark adds up products of doubles, eight at a time: first the eight, one after the other, then their sum to the total.
Products of two floats are exact in a double, so the order of the additions is all that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.types import SqlType
from headrace.operators.common.arrays import Array, Bools, Ints

FLOAT = SqlType("float")
COSINE, PRODUCT = "vector_cosine_similarity", "vector_inner_product"
SCORES = frozenset((COSINE, PRODUCT))
"""Spark's functions of two vectors that joins decide by themselves."""

BLOCK = 8
"""So many products are added up before their sum is added to the total."""

PAIRS = 1 << 14
"""Pairs whose vectors are in memory at a time."""

LARGEST, SMALLEST = float(np.finfo(np.float32).max), 2.0**-149
"""Of floats. A product that is larger becomes infinite, and one that is nearer to 0 becomes 0: it may reach a bound
as a float that it does not reach as a double."""

Doubles = npt.NDArray[np.float64]


def score(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """The score of each pair of vectors as a float. Vectors of different lengths raise ValueError, as in Spark.

    >>> score(COSINE, pa.array([[1.0, 0.0], None]), pa.array([[3.0, 4.0], [1.0, 0.0]])).to_pylist()
    [0.6000000238418579, None]
    """
    found = [_score(name, left.slice(i, PAIRS), right.slice(i, PAIRS)) for i in range(0, len(left), PAIRS)]
    return pa.concat_arrays(found) if found else pa.nulls(0, pa.float32())


def _score(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    lengths = [np.asarray(side.value_lengths().fill_null(-1)) for side in (left, right)]
    both = (lengths[0] >= 0) & (lengths[1] >= 0)
    wrong = np.flatnonzero(both & (lengths[0] != lengths[1]))
    if len(wrong):
        one, other = (int(some[wrong[0]]) for some in lengths)
        raise ValueError(f"[VECTOR_DIMENSION_MISMATCH] the vectors have {one} and {other} elements")
    values, null = np.zeros(len(left), np.float32), ~both
    for length in np.unique(lengths[0][both]).tolist():
        rows = np.flatnonzero(both & (lengths[0] == length))
        (a, holes), (b, others) = (_matrix(side, rows, length) for side in (left, right))
        found, missing = _scores(name, a, b)
        values[rows], null[rows] = found, missing | holes | others
    return pa.array(values, mask=null)


def _matrix(lists: pa.Array, rows: Ints, length: int) -> tuple[Doubles, Bools]:
    """(the vectors of some rows, all of one length; which of them have an element that is NULL)."""
    offsets = lists.offsets.to_numpy()
    at = (offsets[:-1][rows] - offsets[0])[:, None] + np.arange(length)
    inner = lists.values.slice(offsets[0], offsets[-1] - offsets[0])  # a slice of lists has the values of all
    holes = np.zeros(len(rows), bool)
    if inner.null_count:
        holes = ~np.asarray(inner.is_valid())[at].all(axis=1)
        inner = inner.fill_null(0.0)
    flat = inner.to_numpy(zero_copy_only=False).astype(np.float64)
    return flat[at] if length else np.zeros((len(rows), 0)), holes


def _scores(name: str, a: Doubles, b: Doubles) -> tuple[Array, Bools]:
    with np.errstate(all="ignore"):
        dots = add_up(a * b)
        if name == PRODUCT:
            return dots.astype(np.float32), np.zeros(len(a), bool)
        norms = np.sqrt(add_up(a * a) * add_up(b * b))
        return (dots / norms).astype(np.float32), (norms == 0.0) | (a.shape[1] == 0)


def add_up(terms: Doubles) -> Doubles:
    """The sum of each row in the order in which Spark adds.

    >>> add_up(np.array([[1e16, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]])).tolist()
    [1e+16]
    """
    total, whole = np.zeros(len(terms)), terms.shape[1] // BLOCK * BLOCK
    for first in range(0, whole, BLOCK):
        part = terms[:, first].copy()
        for i in range(first + 1, first + BLOCK):
            part += terms[:, i]
        total += part
    for i in range(whole, terms.shape[1]):
        total += terms[:, i]
    return total


@dataclass(frozen=True, slots=True)
class Directions:
    """Vectors as rows of length 1, for a quick look at their scores.

    `norms` are their true lengths. `odd` ones are no numbers that can be looked at like this: their scores have to be
    computed. Those that are `absent` are NULL, and so are their scores.
    """

    rows: npt.NDArray[np.float32]
    norms: Doubles
    odd: Bools
    absent: Bools

    @property
    def length(self) -> int:
        return self.rows.shape[1]

    def take(self, index: Ints | slice) -> Directions:
        return Directions(self.rows[index], self.norms[index], self.odd[index], self.absent[index])


def directions(lists: pa.Array) -> Directions:
    """The directions of vectors; those of another length than most have are odd."""
    lengths = np.asarray(lists.value_lengths().fill_null(-1))
    absent = lengths < 0
    length = int(np.bincount(lengths[~absent]).argmax()) if not absent.all() else 0
    same = np.flatnonzero(lengths == length)
    rows, norms, odd = np.zeros((len(lists), length), np.float32), np.ones(len(lists)), ~absent
    vectors, holes = _matrix(lists, same, length)
    with np.errstate(all="ignore"):
        sizes = np.sqrt((vectors * vectors).sum(axis=1))
        fit = ~holes & np.isfinite(sizes) & (sizes > 0.0)
        rows[same[fit]] = vectors[fit] / sizes[fit, None]
    norms[same[fit]] = sizes[fit]
    odd[same[fit]] = False
    return Directions(rows, norms, odd, absent)


def may_reach(name: str, left: Directions, right: Directions, bound: float) -> Bools:
    """Which pairs [left, right] may have a score of at least `bound`: none that has is left out.

    One multiplication of matrices in single precision looks at all pairs. It is off by no more than the margin.
    """
    present = ~left.absent[:, None] & ~right.absent[None, :]
    if left.length != right.length or left.length == 0:
        return present
    margin = (left.length + 16) * 2.0**-22
    cosines = left.rows @ right.rows.T
    wanted: Doubles | float = bound
    if name == PRODUCT:
        with np.errstate(all="ignore"):
            least = min(bound, LARGEST) - SMALLEST
            wanted = least / (left.norms[:, None] * right.norms[None, :])
    # of what is no number, nothing can be left out
    found = ~(cosines < np.asarray(wanted) - margin)
    found |= left.odd[:, None] | right.odd[None, :]
    found &= present
    return found


def score_of(name: str) -> partial[pa.Array]:
    return partial(score, name)
