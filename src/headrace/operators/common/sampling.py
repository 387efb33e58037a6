"""Samples of what tuples look like, for statistics: cheap enough to be taken of every batch."""

from __future__ import annotations

import numpy as np

from headrace.model.statistics import KeyStatistics
from headrace.operators.common.encode import Ints

SAMPLED = 1 << 14
"""So many tuples of a batch are looked at: about a millisecond."""


def sample_keys(input_: str, codes: Ints, most: int = SAMPLED) -> KeyStatistics:
    """How often the first tuples of a batch have the same key. Equal keys have equal codes: hashes or numbers.

    >>> sample_keys("orders by user", np.array([7, 7, 3, 9]))
    KeyStatistics(input='orders by user', batches=1, tuples=4, keys=3, pairs=12, equal=2)
    """
    counts = np.unique(codes[:most], return_counts=True)[1]
    return KeyStatistics.of_counts(input_, counts.tolist())
