"""Samples of what tuples look like, for statistics: cheap enough to be taken of every batch."""

from __future__ import annotations

import numpy as np

from headrace.model.statistics import KeyStatistics
from headrace.operators.common.arrays import Ints

SAMPLED = 1 << 14
"""So many tuples of a batch are looked at: about a millisecond."""


def sample_keys(input_: str, codes: Ints, read: int, most: int = SAMPLED) -> KeyStatistics:
    """How often the first of a batch's tuples have the same key. Equal keys have equal codes: hashes or numbers.

    `codes` are those of the tuples that some query wants, of `read` that were read.

    >>> sample_keys("orders by user", np.array([7, 7, 3, 9]), 8)
    KeyStatistics(input='orders by user', batches=1, tuples=4, keys=3, pairs=12, equal=2, read=8.0)
    >>> sample_keys("orders by user", np.array([7, 7, 3, 9]), 8, most=2).read
    4.0
    """
    if len(codes) == 0:
        return KeyStatistics.of_counts(input_, [], read)
    sampled = codes[:most]
    counts = np.unique(sampled, return_counts=True)[1]
    return KeyStatistics.of_counts(input_, counts.tolist(), read * len(sampled) / len(codes))
