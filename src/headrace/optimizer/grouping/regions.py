"""From a sample of tuples to disjoint filter regions: tuples that the same queries want are one region.

Cutting by query-set is coarser than cutting by every constant of every filter, and loses nothing: the load of a group
depends on who wants a tuple, not on why.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.model.query import QueryId
from headrace.optimizer.grouping.statistics import Bits, Floats, QuerySample, RegionTable
from headrace.optimizer.grouping.values import OperatorId


def query_samples(table: RegionTable) -> dict[QueryId, QuerySample]:
    """What the regions say of each query by itself."""
    tuples = table.tuples @ table.wanted
    matches = table.matches @ table.wanted
    return {
        query: QuerySample(
            float(tuples[i] / table.sampled) if table.sampled else 0.0,
            float(matches[i] / tuples[i]) if tuples[i] else 0.0,
        )
        for i, query in enumerate(table.queries)
    }


def summarise_counts(
    operator: OperatorId,
    queries: tuple[QueryId, ...],
    wanted: Bits,
    tuples: Floats,
    matches: Floats,
    sampled: float,
) -> RegionTable:
    """The regions of a sample that is counted already, per cell say: row r stands for `tuples[r]` tuples.

    `wanted[r, i]` says that query i accepts these. They have `matches[r]` matches together. Rows with the same
    query-set become one region. Rows that nobody wants are left out, and stay in `sampled`.

    >>> table = summarise_counts(OperatorId("j"), (QueryId(1), QueryId(2)),
    ...     np.array([[1, 0], [1, 1], [0, 0], [1, 0]], dtype=bool), np.ones(4), np.array([2.0, 1.0, 9.0, 4.0]), 4)
    >>> table.wanted.tolist(), table.tuples.tolist(), table.matches.tolist(), table.sampled
    ([[True, False], [True, True]], [2.0, 1.0], [6.0, 1.0], 4)
    """
    some = wanted.any(axis=1)
    if not some.any():
        none = np.zeros(0)
        return RegionTable(operator, queries, np.zeros((0, len(queries)), dtype=bool), none, none, sampled)
    first, region = rows_alike(wanted[some])
    return RegionTable(
        operator,
        queries,
        wanted[some][first],
        np.bincount(region, tuples[some], len(first)).astype(np.float64),
        np.bincount(region, matches[some], len(first)).astype(np.float64),
        sampled,
    )


def rows_alike(rows: Bits) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """(the first of each kind of row, in the order of these; which kind each row is of).

    >>> first, kind = rows_alike(np.array([[0, 1], [1, 1], [0, 1]], dtype=bool))
    >>> first.tolist(), kind.tolist()
    ([0, 1], [0, 1, 0])
    """
    packed = np.ascontiguousarray(np.packbits(rows, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[kind.ravel()]
