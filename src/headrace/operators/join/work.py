"""What a product did for each query, and what joining would have done: counted where the sides' rows are multiplied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.operators.common.encode import Ints


def product_work(sides: Sequence[Ints], met: Ints, counts: Sequence[Ints]) -> dict[int, tuple[int, float]]:
    """{query: (keys of all sides, joined rows)} of windows that closed.

    `sides` has the query of each row of each side: a row is a key in a window. `met` has the query of each group that
    all sides have, and `counts` the tuples that each side has of it. Windows are not counted here, because each
    partition has a part of their keys.

    >>> product_work([np.array([1, 1, 2]), np.array([1, 2])], np.array([1, 2]), [np.array([3, 1]), np.array([4, 5])])
    {1: (3, 12.0), 2: (2, 5.0)}
    """
    queries, at = np.unique(np.concatenate(sides), return_inverse=True)
    keys = np.bincount(at, minlength=len(queries))
    joined = np.ones(len(met))
    for count in counts:
        joined *= count  # as floats: a hot key may make more rows than an integer can count
    rows = np.bincount(np.searchsorted(queries, met), joined, minlength=len(queries))
    found = zip(queries.tolist(), keys.tolist(), rows.tolist(), strict=True)
    return {query: (count, row) for query, count, row in found}
