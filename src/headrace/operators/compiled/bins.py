"""Tuples that are grouped into bins: the sum, the least or the greatest of each bin, exact modulo 2**64."""

from __future__ import annotations

import numpy as np
from numba import boolean, int32, int64

from headrace.operators.common.arrays import Ints
from headrace.operators.compiled.compiling import compiled, given, made


@compiled((given(int64), given(int64), given(int64), made(int64)))
def place_in_cells(cells: Ints, first: Ints, row: Ints, bins: Ints) -> None:
    """bins[i]: row[i] among the bins of its cell, which begin at first[cells[i] + 1]. Cell -1 is nobody's."""
    for i in range(len(cells)):
        bins[i] = first[np.uint64(cells[i] + 1)] + row[i]


@compiled((given(int64), given(int64), made(int64)))
def add_to_bins(bins: Ints, values: Ints, sums: Ints) -> None:
    """sums[bins[i]] += values[i]. As no bin is negative, the processor need not ask (here and below)."""
    for i in range(len(bins)):
        sums[np.uint64(bins[i])] += values[i]


@compiled((given(int64), given(int64), boolean, made(int64)))
def keep_in_bins(bins: Ints, values: Ints, least: bool, kept: Ints) -> None:
    """kept[bins[i]] becomes the least (or greatest) of itself and values[i]."""
    if least:
        for i in range(len(bins)):
            at = np.uint64(bins[i])
            kept[at] = min(kept[at], values[i])
    else:
        for i in range(len(bins)):
            at = np.uint64(bins[i])
            kept[at] = max(kept[at], values[i])


@compiled(
    *((given(int64), given(int64), given(int64), given(int64), made(dtype)) for dtype in (int32, int64))
)
def add_to_cells(cells: Ints, first: Ints, row: Ints, values: Ints, sums: Ints) -> None:
    """The sums of values by cell and row: those of a cell begin at first[cells[i] + 1]. Cell -1 is nobody's."""
    for i in range(len(cells)):
        sums[np.uint64(first[np.uint64(cells[i] + 1)] + row[i])] += values[i]


@compiled((given(int64), given(int64), given(int64), given(int64), boolean, made(int64)))
def keep_in_cells(cells: Ints, first: Ints, row: Ints, values: Ints, least: bool, kept: Ints) -> None:
    """The same with the least, or the greatest, in place of the sum."""
    for i in range(len(cells)):
        at = np.uint64(first[np.uint64(cells[i] + 1)] + row[i])
        kept[at] = min(kept[at], values[i]) if least else max(kept[at], values[i])


@compiled(*((made(dtype, 3), int64, int64) for dtype in (int32, int64)))
def run_totals(running: Ints, low: int, high: int) -> None:
    """running[c, s] becomes the sum of running[low, 1] to running[c, s], for every c in [low, high) and s from 1 on."""
    for c in range(low, high):
        for s in range(2, running.shape[1]):
            for k in range(running.shape[2]):
                running[c, s, k] += running[c, s - 1, k]
        if c > low:
            for s in range(1, running.shape[1]):
                for k in range(running.shape[2]):
                    running[c, s, k] += running[c - 1, s, k]
