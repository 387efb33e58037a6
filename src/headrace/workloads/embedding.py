"""Functions that FunShare's workloads call: texts as vectors, and prices that are unusual for a description.

They need no model from elsewhere. The groups of three letters of a text are hashed and randomly projected. So texts
that share most of their letters point the same way.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
import pyarrow as pa

VECTOR = 64
"""The length of an embedded text."""

_HASHES = 4_096
"""Groups of letters fall into so many classes, and each has a random direction."""

_TYPICAL = 256
"""A price is compared with those of so many typical descriptions."""

_DIGITS = 9
"""Anomalies are rounded, so that they do not depend on which rows are computed together."""


def embed_text(texts: pa.Array) -> pa.Array:
    """The direction of each text, with length 1. A text without letters has the zero vector, and NULL stays NULL.

    >>> red, reds, old = np.array(embed_text(pa.array(["red bicycle", "red bicycles", "old stamps"])).to_pylist())
    >>> bool(red @ reds > 0.8), bool(abs(red @ old) < 0.5)
    (True, True)
    """
    offsets = pa.array(np.arange(len(texts) + 1, dtype=np.int32) * VECTOR)
    return pa.ListArray.from_arrays(offsets, pa.array(_vectors(texts).ravel()), mask=texts.is_null())


def price_anomaly(descriptions: pa.Array, prices: pa.Array) -> pa.Array:
    """How far a price is from what is usual for similar descriptions: 0 is usual, 1 is far away.

    It is dear on purpose: each description is compared with many typical ones. NULL where an argument is NULL.

    >>> price_anomaly(pa.array(["red bicycle", None]), pa.array([1, 2])).is_null().to_pylist()
    [False, True]
    """
    typical, usual_logs = _typical()
    likeness = np.maximum(_vectors(descriptions).astype(np.float64) @ typical.T, 0.0) + 1e-6
    usual = likeness @ usual_logs / likeness.sum(axis=1)
    logs = np.log1p(prices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64))
    distance = np.abs(logs - usual)
    missing = np.asarray(descriptions.is_null()) | np.asarray(prices.is_null())
    return pa.array(np.round(distance / (1.0 + distance), _DIGITS), mask=missing)


FUNCTIONS: dict[str, tuple[Callable[..., pa.Array], str]] = {
    "embed_text": (embed_text, "ARRAY<FLOAT>"),
    "price_anomaly": (price_anomaly, "DOUBLE"),
}
"""What a session registers before queries of W2 and W3 are created: name, function and type of the result."""


def _vectors(texts: pa.Array) -> np.ndarray:
    """A row per text; NULL has zeros."""
    coded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
    rows = np.zeros((len(coded.dictionary) + 1, VECTOR), np.float32)  # the last one is for NULL
    for number, text in enumerate(coded.dictionary.to_pylist()):
        rows[number] = _direction(text)
    chosen: np.ndarray = rows[coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)]
    return chosen


@lru_cache(maxsize=65_536)
def _direction(text: str) -> np.ndarray:
    """Sums of whole numbers and one division each, so it is the same on every machine."""
    letters = f"  {text} ".encode()
    classes = [zlib.crc32(letters[i : i + 3]) % _HASHES for i in range(len(letters) - 2)] if text else []
    summed = _directions()[classes].sum(axis=0, dtype=np.int64)
    length = np.sqrt(np.float64((summed * summed).sum()))
    direction: np.ndarray = (summed / (length or 1.0)).astype(np.float32)
    return direction


@cache
def _directions() -> np.ndarray:
    return np.random.default_rng(14).choice(np.array([-1, 1], np.int8), (_HASHES, VECTOR))


@cache
def _typical() -> tuple[np.ndarray, np.ndarray]:
    """Typical descriptions as vectors, and the logarithm of a usual price of each."""
    rng = np.random.default_rng(41)
    vectors = rng.standard_normal((_TYPICAL, VECTOR))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), rng.uniform(4.0, 18.0, _TYPICAL)
