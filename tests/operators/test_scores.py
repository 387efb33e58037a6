"""Scores of vectors against Spark's way of adding up, one number after the other."""

from __future__ import annotations

import math
import random
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.operators.common.scores import COSINE, PRODUCT, SCORES, directions, may_reach, score

VECTORS = pa.list_(pa.field("element", pa.float32()))
Vector = list[Any] | None


def reference(name: str, left: Vector, right: Vector) -> float | None:
    """Doubles, eight products first, the rest one by one; a float at the end."""
    if left is None or right is None:
        return None
    if len(left) != len(right):
        raise ValueError("different lengths")
    if None in left or None in right or (not left and name == COSINE):
        return None
    sums = [
        _added([a * b for a, b in zip(*pair, strict=True)])
        for pair in ((left, right), (left,) * 2, (right,) * 2)
    ]
    if name == PRODUCT:
        return float(np.float32(sums[0]))
    norm = math.sqrt(sums[1] * sums[2])
    return None if norm == 0.0 else float(np.float32(sums[0] / norm))


def _added(terms: list[float]) -> float:
    total, whole = 0.0, len(terms) // 8 * 8
    for first in range(0, whole, 8):
        part = terms[first]
        for term in terms[first + 1 : first + 8]:
            part += term
        total += part
    for term in terms[whole:]:
        total += term
    return total


def vector(rng: random.Random, length: int) -> Vector:
    if rng.random() < 0.1:
        return None
    size = 10.0 ** rng.choice([0, 0, 0, -20, 15])
    found: list[Any] = [float(np.float32(rng.gauss(0, size))) for _ in range(length)]
    if rng.random() < 0.1:
        found = [0.0] * length
    if found and rng.random() < 0.1:
        found[rng.randrange(length)] = None
    return found


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_sparks_to_the_last_bit(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    pairs = [(vector(rng, n), vector(rng, n)) for n in (rng.choice([0, 1, 7, 8, 9, 30]) for _ in range(300))]
    left, right = (pa.array([pair[i] for pair in pairs], VECTORS) for i in range(2))
    for name in SCORES:
        assert score(name, left, right).to_pylist() == [reference(name, *pair) for pair in pairs]
        sliced = score(name, left.slice(50), right.slice(50)).to_pylist()
        assert sliced == [reference(name, *pair) for pair in pairs[50:]]


def test_vectors_of_different_lengths_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"VECTOR_DIMENSION_MISMATCH.* 1 and 2 elements"):
        score(COSINE, pa.array([[1.0]], VECTORS), pa.array([[1.0, 2.0]], VECTORS))


@pytest.mark.parametrize("seed", range(4))
def test_no_pair_that_reaches_a_bound_is_left_out(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    left, right = ([vector(rng, 16) for _ in range(60)] for _ in range(2))
    right += [*[v for v in left if v is not None][:10], [1.0, 2.0]]
    arrays = [pa.array(vectors, VECTORS) for vectors in (left, right)]
    pruned = 0
    for name in SCORES:
        scores = {
            (i, j): reference(name, a, b)
            for i, a in enumerate(left)
            for j, b in enumerate(right)
            if a is None or b is None or len(a) == len(b)
        }
        known = [value for value in scores.values() if value is not None]
        for bound in (*rng.sample(known, 5), 0.0, -0.3, 0.9, math.inf):
            found = may_reach(name, directions(arrays[0]), directions(arrays[1]), bound)
            pruned += int((~found).sum())
            for (i, j), value in scores.items():
                assert value is None or value < bound or found[i, j], (name, i, j, value, bound)
            # lengths that differ are an error that somebody has to see
            assert all(found[i, len(right) - 1] for i, a in enumerate(left) if a is not None)
    assert pruned > 5_000


def test_products_that_become_zero_or_infinite_as_floats_are_not_left_out() -> None:
    rng = random.Random(5)
    sizes = (1e-44, 1e-30, 1e-23, 1e-22, 1e-15, 1.0, 1e10, 1e18, 1.9e19, 3e19, 1e30, 3e38)
    vectors = [[float(np.float32(rng.choice([-1, 1]) * s)), 0.0] for s in sizes for _ in range(3)]
    array = pa.array(vectors, VECTORS)
    looked = directions(array)
    with np.errstate(over="ignore"):
        exact = np.array([[reference(PRODUCT, a, b) for b in vectors] for a in vectors], np.float64)
    largest = float(np.finfo(np.float32).max)
    pruned = 0
    for bound in (0.0, -0.0, 1e-45, -1e-45, 1e-46, 1.0, largest, 1e39, math.inf, -largest, -1e39, -math.inf):
        found = may_reach(PRODUCT, looked, looked, bound)
        assert found[exact >= bound].all(), bound
        pruned += int((~found).sum())
    assert pruned > 1_000


def test_a_slice_of_vectors_costs_what_it_holds() -> None:
    vectors = pa.array(np.ones((1 << 14, 64), np.float32).tolist(), VECTORS)
    tracemalloc.start()
    try:
        assert score(PRODUCT, vectors.slice(9_000, 10), vectors.slice(100, 10)).to_pylist() == [64.0] * 10
        assert tracemalloc.get_traced_memory()[1] < 1 << 20  # all of them are 8 MB as doubles
    finally:
        tracemalloc.stop()
